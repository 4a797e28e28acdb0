#include "plan_words.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <stdexcept>
#include <vector>

namespace fikit::dispatcher {
namespace {

constexpr std::uint64_t kMaxCounter = std::uint64_t{1} << 53;
constexpr std::uint32_t kMostChunks = 1U << 20; // of an allocation: 2 TiB

bool is_place(const fikit_plan_move& entry) {
  return entry.allocation < FIKIT_TOUCH_ALLOCATIONS && entry.chunk < kMostChunks && entry.chunks >= 1 && entry.chunks <= FIKIT_PLAN_CHUNKS;
}

bool is_move(const fikit_plan_move& move, std::uint32_t launches, std::uint32_t least_after) {
  const bool in = move.copy == FIKIT_COPY_IN;
  return move.after >= least_after && move.after < launches && (in ? move.before < launches : move.before == 0) &&
         (in || move.copy == FIKIT_COPY_OUT) && is_place(move);
}

bool is_first_use(const fikit_plan_move& use, std::uint32_t launches, std::uint32_t least_before) {
  return use.copy == FIKIT_COPY_NONE && use.after == 0 && use.before >= least_before && use.before < launches && is_place(use);
}

// How many of the entries are moves. Throws where one is neither a move nor a first use, or out of order.
std::size_t count_moves(const std::vector<fikit_plan_move>& entries, std::uint32_t launches) {
  const auto is_use = [](const fikit_plan_move& entry) { return entry.copy == FIKIT_COPY_NONE; };
  const auto moves = static_cast<std::size_t>(std::find_if(entries.begin(), entries.end(), is_use) - entries.begin());
  std::uint32_t least = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const fikit_plan_move& entry = entries[i];
    if (i == moves) least = 0;
    if (i < moves ? !is_move(entry, launches, least) : !is_first_use(entry, launches, least))
      throw std::invalid_argument("a move or first use of a plan is out of its bounds, or out of order");
    least = i < moves ? entry.after : entry.before;
  }
  return moves;
}

std::vector<fikit_plan_move> unpacked(std::uint64_t first_launch, std::uint32_t launches, std::string_view bytes) {
  if (first_launch == 0 || launches == 0 || launches > FIKIT_PLAN_LAUNCHES)
    throw std::invalid_argument("a pass of a plan begins with launch 1 or later, and has 1 to 16,384 of them");
  if (bytes.size() % sizeof(fikit_plan_move) != 0 || bytes.size() / sizeof(fikit_plan_move) > FIKIT_PLAN_MOVES)
    throw std::invalid_argument("a plan is at most 8,192 moves of 16 bytes each");
  std::vector<fikit_plan_move> entries(bytes.size() / sizeof(fikit_plan_move));
  if (!entries.empty()) std::memcpy(entries.data(), bytes.data(), bytes.size());
  return entries;
}

} // namespace

std::uint32_t PlanWords::next_number() {
  given_ = given_ + 1 == 0 ? 1 : given_ + 1;
  return given_;
}

std::uint32_t PlanWords::set(std::uint64_t first_launch, std::uint32_t launches, std::string_view bytes, std::int64_t until_ns) {
  const std::vector<fikit_plan_move> entries = unpacked(first_launch, launches, bytes);
  const std::size_t moves = count_moves(entries, launches);
  if (plan_ == nullptr) return 0;
  drop();
  plan_->launches.store(launches, std::memory_order_relaxed);
  plan_->first_launch.store(first_launch, std::memory_order_relaxed);
  plan_->until_ns.store(until_ns, std::memory_order_relaxed);
  plan_->count.store(static_cast<std::uint32_t>(moves), std::memory_order_relaxed);
  plan_->first_uses.store(static_cast<std::uint32_t>(entries.size() - moves), std::memory_order_relaxed);
  std::copy(entries.begin(), entries.end(), plan_->moves);
  has_plan_ = true;
  plan_->number.store(next_number(), std::memory_order_release);
  return given_;
}

std::uint32_t PlanWords::renew(std::optional<std::uint64_t> first_launch, std::int64_t until_ns) {
  if (first_launch == 0) throw std::invalid_argument("a pass of a plan begins with launch 1 or later");
  if (plan_ == nullptr || !has_plan_) return 0;
  plan_->until_ns.store(until_ns, std::memory_order_release);
  if (first_launch) {
    plan_->number.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    plan_->first_launch.store(*first_launch, std::memory_order_relaxed);
    plan_->number.store(next_number(), std::memory_order_release);
  }
  return given_;
}

void PlanWords::drop() {
  if (plan_ == nullptr) return;
  has_plan_ = false;
  plan_->number.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
}

void PlanWords::resume(std::int64_t now_ns) { given_ = static_cast<std::uint32_t>(now_ns / 1'000'000); }

PlanState PlanWords::state() const {
  if (plan_ == nullptr) return {};
  const auto bounded = [](const std::atomic<std::uint64_t>& word) { return std::min(word.load(std::memory_order_relaxed), kMaxCounter); };
  return {.number = has_plan_ ? given_ : 0,
          .taken = plan_->taken.load(std::memory_order_acquire),
          .refused = plan_->refused.load(std::memory_order_relaxed),
          .carried_out = bounded(plan_->carried_out),
          .skipped = bounded(plan_->skipped),
          .bytes_per_s = bounded(plan_->bytes_per_s)};
}

} // namespace fikit::dispatcher
