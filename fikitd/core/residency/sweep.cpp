#include "sweep.hpp"

#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <utility>

namespace fikit::residency {
namespace {

// Iterations that are played until two of them are alike; no more are tried.
constexpr int kMostTurns = 8;
constexpr std::int64_t kForEverNs = 2'000'000'000'000'000'000; // one more kernel with all its transfers does not overflow

// Which kernels touch each chunk. Kernels are numbered on through all iterations.
class Touches {
 public:
  explicit Touches(const Sequence& sequence) : kernels_(sequence.kernels()), at_(sequence.chunks()) {
    for (std::size_t kernel = 0; kernel < kernels_; ++kernel)
      for (const Chunk chunk : sequence.touched(kernel)) at_[chunk].push_back(kernel);
  }

  // The next kernel behind this one that touches the chunk, which some kernel does.
  std::size_t next(Chunk chunk, std::size_t kernel) const {
    const auto& at = at_[chunk];
    const std::size_t within = kernel % kernels_, turn = kernel - within;
    const auto found = std::upper_bound(at.begin(), at.end(), within);
    return found == at.end() ? turn + kernels_ + at.front() : turn + *found;
  }

 private:
  std::size_t kernels_;
  std::vector<std::vector<std::size_t>> at_;
};

class Player {
 public:
  Player(const Sequence& sequence, const ChunkTimes& chunk, std::int64_t capacity)
      : sequence_(sequence), touches_(sequence), chunk_(chunk), capacity_(capacity), chunks_(sequence.chunks()),
        slots_(sequence.kernels()) {
    // Kernel by kernel, how many of the chunks that are freed somewhere begin to be used, and how many are freed. Twice through: the first kernels of an iteration
    // find what the last ones left.
    std::vector<bool> dies(sequence.chunks()), live(sequence.chunks());
    for (std::size_t kernel = 0; kernel < sequence.kernels(); ++kernel)
      for (const Chunk chunk : sequence.freed(kernel)) dies[chunk] = true;
    for (std::size_t kernel = 0; kernel < 2 * sequence.kernels(); ++kernel) {
      Slots& slots = slots_[kernel % sequence.kernels()];
      slots = {};
      for (const Chunk chunk : sequence.touched(kernel % sequence.kernels()))
        if (dies[chunk] && !live[chunk]) {
          live[chunk] = true;
          ++slots.taken;
        }
      for (const Chunk chunk : sequence.freed(kernel % sequence.kernels()))
        if (live[chunk]) {
          live[chunk] = false;
          ++slots.given;
        }
    }
  }

  // Nothing: the link is so slow that it would take years.
  std::optional<Swept> play() {
    std::vector<std::int64_t> before;
    for (int turn = 0; turn < kMostTurns; ++turn) {
      found_ = {};
      found_.peak = count_;
      began_ns_ = now_ns_;
      for (std::size_t kernel = 0; kernel < sequence_.kernels(); ++kernel) {
        run(kernel);
        if (now_ns_ > kForEverNs) return std::nullopt;
      }
      found_.total_ns = now_ns_ - began_ns_;
      std::vector<std::int64_t> after{flight_ ? flight_->chunk + 1 : 0, flight_ ? free_ns_ - now_ns_ : 0};
      for (const State& each : chunks_) after.push_back(each.there);
      found_.steady = after == before;
      if (found_.steady) break;
      before = std::move(after);
    }
    return std::move(found_);
  }

 private:
  struct State {
    bool there = false;   // or on the way
    bool content = false; // somebody may still read it
    bool pinned = false;  // the kernel that runs touches it
  };
  struct Slots {
    std::int64_t taken = 0, given = 0;
  };
  struct Flight {
    Chunk chunk;
    bool in;
  };
  using Entry = std::pair<std::size_t, Chunk>; // the kernel of its next use, the chunk

  void run(std::size_t kernel) {
    const auto touched = sequence_.touched(kernel);
    for (const Chunk chunk : touched) chunks_[chunk].pinned = true;
    for (const Chunk chunk : touched)
      while (!chunks_[chunk].there || (flight_ && flight_->chunk == chunk)) bring(chunk);
    const std::int64_t end_ns = now_ns_ + sequence_.end_ns(kernel) - sequence_.begin_ns(kernel);
    link_until(end_ns);
    now_ns_ = end_ns;
    land(now_ns_);
    for (const Chunk chunk : sequence_.freed(kernel)) drop(chunk);
    for (const Chunk chunk : touched) {
      chunks_[chunk].pinned = false;
      needed_last_.emplace(touches_.next(chunk, kernel_), chunk);
    }
    ended_ns_ = now_ns_;
    ended_ = kernel;
    ++kernel_;
  }

  // One step towards a chunk that the kernel needs. There is always one: a kernel touches no more than the capacity.
  void bring(Chunk chunk) {
    State& state = chunks_[chunk];
    if (!state.there && !state.content && count_ < capacity_) {
      state.content = true;
      arrive(chunk);
    } else if (flight_) {
      now_ns_ = free_ns_;
      land(now_ns_);
    } else if (count_ < capacity_) {
      start(chunk, true, now_ns_);
    } else {
      send(kernel_, now_ns_);
    }
  }

  void link_until(std::int64_t end_ns) {
    std::int64_t at_ns = std::max(free_ns_, now_ns_);
    while (at_ns < end_ns) {
      land(at_ns);
      if (!move(at_ns)) return;
      at_ns = free_ns_;
    }
  }

  // Begins the transfer that helps most, which ends at free_ns_; false: none helps.
  bool move(std::int64_t at_ns) {
    const auto missing = first_missing();
    const std::size_t horizon = kernel_ + sequence_.kernels() - 1;
    std::int64_t free = capacity_ - count_, least = free;
    free += slots(kernel_).given;
    for (std::size_t kernel = kernel_ + 1; kernel <= std::min(missing ? missing->first : horizon, horizon); ++kernel) {
      free -= slots(kernel).taken;
      least = std::min(least, free);
      if (free < 0) return send(kernel, at_ns);
      free += slots(kernel).given;
    }
    if (!missing) return false;
    if (least < 1) return send(missing->first, at_ns);
    start(missing->second, true, at_ns);
    return true;
  }

  const Slots& slots(std::size_t kernel) const { return slots_[kernel % slots_.size()]; }

  std::optional<Entry> first_missing() {
    while (!needed_next_.empty()) {
      const auto [needed, chunk] = needed_next_.top();
      if (!chunks_[chunk].there && chunks_[chunk].content && needed > kernel_) return needed_next_.top();
      needed_next_.pop();
    }
    return std::nullopt;
  }

  // Sends away the chunk that is needed last, if that is behind this kernel.
  bool send(std::size_t behind, std::int64_t at_ns) {
    std::vector<Entry> held;
    bool sent = false;
    while (!needed_last_.empty()) {
      const auto [needed, chunk] = needed_last_.top();
      needed_last_.pop();
      if (!chunks_[chunk].there || needed != touches_.next(chunk, kernel_)) continue;
      held.emplace_back(needed, chunk);
      if (chunks_[chunk].pinned) continue;
      if (needed > behind) {
        held.pop_back();
        start(chunk, false, at_ns);
        needed_next_.emplace(needed, chunk);
        sent = true;
      }
      break;
    }
    for (const Entry& each : held) needed_last_.push(each);
    return sent;
  }

  void start(Chunk chunk, bool in, std::int64_t at_ns) {
    flight_ = {.chunk = chunk, .in = in};
    free_ns_ = at_ns + (in ? chunk_.in_ns : chunk_.out_ns);
    const std::int64_t delay_ns = std::max<std::int64_t>(at_ns - ended_ns_, 0);
    found_.transfers.push_back({.chunk = chunk, .in = in, .kernel = ended_, .delay_ns = delay_ns, .begin_ns = at_ns - began_ns_});
    if (in) arrive(chunk);
  }

  // Ends the transfer that is over by then.
  void land(std::int64_t at_ns) {
    if (!flight_ || free_ns_ > at_ns) return;
    if (!flight_->in) leave(flight_->chunk);
    if (flight_->in) needed_last_.emplace(touches_.next(flight_->chunk, kernel_), flight_->chunk);
    flight_.reset();
  }

  void arrive(Chunk chunk) {
    chunks_[chunk].there = true;
    ++count_;
    found_.peak = std::max(found_.peak, count_);
  }
  void leave(Chunk chunk) {
    chunks_[chunk].there = false;
    --count_;
  }
  void drop(Chunk chunk) {
    chunks_[chunk].content = false;
    if (chunks_[chunk].there && !(flight_ && flight_->chunk == chunk)) leave(chunk);
  }

  const Sequence& sequence_;
  Touches touches_;
  ChunkTimes chunk_;
  std::int64_t capacity_;
  std::vector<State> chunks_;
  std::vector<Slots> slots_;
  std::priority_queue<Entry> needed_last_;                                                    // on the GPU; the one that is needed last is on top
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> needed_next_; // on the host; the one that is needed next is on top
  Swept found_;
  std::int64_t count_ = 0, now_ns_ = 0, began_ns_ = 0, free_ns_ = 0, ended_ns_ = 0;
  std::optional<Flight> flight_;
  std::size_t kernel_ = 0; // that runs or waits, numbered on through all iterations
  std::size_t ended_ = 0;  // the one before it, numbered within its iteration
};

} // namespace

std::optional<Swept> sweep(const Sequence& sequence, const ChunkTimes& chunk, std::int64_t capacity) {
  for (std::size_t kernel = 0; kernel < sequence.kernels(); ++kernel)
    if (std::cmp_greater(sequence.touched(kernel).size(), capacity)) return std::nullopt;
  return Player(sequence, chunk, capacity).play();
}

} // namespace fikit::residency
