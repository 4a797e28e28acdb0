#include "sequence.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace fikit::residency {
namespace {

std::vector<Chunk> sorted(std::span<const Chunk> chunks) {
  std::vector<Chunk> found(chunks.begin(), chunks.end());
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

} // namespace

void Sequence::List::add(std::vector<Chunk> sorted) {
  chunks.insert(chunks.end(), sorted.begin(), sorted.end());
  ends.push_back(chunks.size());
}

std::span<const Chunk> Sequence::List::of(std::size_t kernel) const {
  const std::size_t begin = kernel == 0 ? 0 : ends[kernel - 1];
  return std::span(chunks).subspan(begin, ends[kernel] - begin);
}

void Sequence::add(std::int64_t duration_ns, std::span<const Chunk> touched, std::span<const Chunk> freed) {
  if (kernels() >= kMostKernels) throw std::invalid_argument("a sequence has too many kernels");
  if (duration_ns < 0 || duration_ns > kLongestNs - total_ns_) throw std::invalid_argument("a kernel's duration is negative, or the sequence is longer than an hour");
  if (touched.size() + freed.size() > kMostTouches - touched_.chunks.size() - freed_.chunks.size())
    throw std::invalid_argument("a sequence touches too much");
  std::vector<Chunk> now = sorted(touched), gone = sorted(freed);
  const std::size_t most = std::max(now.empty() ? 0 : std::size_t{now.back()} + 1, gone.empty() ? 0 : std::size_t{gone.back()} + 1);
  if (most > kMostChunks) throw std::invalid_argument("a chunk's number is too large");
  begins_ns_.push_back(total_ns_);
  total_ns_ += duration_ns;
  chunks_ = std::max(chunks_, most);
  touched_.add(std::move(now));
  freed_.add(std::move(gone));
}

std::span<const Chunk> Sequence::touched(std::size_t kernel) const { return touched_.of(kernel); }
std::span<const Chunk> Sequence::freed(std::size_t kernel) const { return freed_.of(kernel); }

} // namespace fikit::residency
