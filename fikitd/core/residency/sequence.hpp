// What an iteration of a program touches: kernel by kernel, in chunks of its memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace fikit::residency {

// A piece of a job's memory that moves as a whole (2 MiB on the GPUs of today): a number below Sequence::kMostChunks.
using Chunk = std::uint32_t;

// One iteration; the next one is expected to be the same. A pause of the program is a kernel that touches nothing.
class Sequence {
 public:
  static constexpr std::size_t kMostChunks = 1 << 20;   // 2 TiB
  static constexpr std::size_t kMostKernels = 1 << 17;
  static constexpr std::size_t kMostTouches = 1 << 24;  // of all kernels together
  static constexpr std::int64_t kLongestNs = 3'600'000'000'000;

  // Adds a kernel. touched: chunks that it reads or writes, in any order. freed: chunks that the program frees behind it: their content is lost, and they need no
  // memory until another kernel touches them. Raises std::invalid_argument beyond what the constants allow: a sequence comes from a profile, which its owner may have
  // written himself.
  void add(std::int64_t duration_ns, std::span<const Chunk> touched, std::span<const Chunk> freed = {});

  std::size_t kernels() const { return begins_ns_.size(); }
  std::size_t chunks() const { return chunks_; } // the largest number of a chunk, plus 1
  std::int64_t total_ns() const { return total_ns_; }
  std::int64_t begin_ns(std::size_t kernel) const { return begins_ns_[kernel]; }
  std::int64_t end_ns(std::size_t kernel) const { return kernel + 1 < kernels() ? begins_ns_[kernel + 1] : total_ns_; }
  std::span<const Chunk> touched(std::size_t kernel) const; // ascending, each once
  std::span<const Chunk> freed(std::size_t kernel) const;   // ascending, each once

 private:
  struct List {
    std::vector<Chunk> chunks;
    std::vector<std::size_t> ends;
    void add(std::vector<Chunk> sorted);
    std::span<const Chunk> of(std::size_t kernel) const;
  };
  std::vector<std::int64_t> begins_ns_;
  std::int64_t total_ns_ = 0;
  std::size_t chunks_ = 0;
  List touched_, freed_;
};

} // namespace fikit::residency
