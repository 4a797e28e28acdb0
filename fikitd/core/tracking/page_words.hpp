// The words of a client's page, one by one: how the daemon writes them, and how it reads what the client wrote. The client may
// write anything into it at any time, so every read here is one load followed by a check, and nothing read is used as an index,
// size or time without bounds.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "client_page.hpp"
#include "fikit_rules.h"

namespace fikit::tracking {

static_assert(FIKIT_PAUSE_NS == kPauseNs, "a client rings after what its report calls a pause");

class PageWords : public ClientPage {
 public:
  // In a page of an older protocol version, words that came later are not written.
  PageWords(fikit_page& page, std::uint32_t version)
      : page_(&page),
        knows_copies_(version >= FIKIT_SINCE_COPIES),
        knows_runs_(version >= FIKIT_SINCE_RUNS),
        knows_moves_(version >= FIKIT_SINCE_MOVES) {}

  void open_gate() { page_->gate.store(FIKIT_GATE_OPEN, std::memory_order_release); }
  void close_gate(std::int64_t until_ns) {
    page_->gate_until_ns.store(until_ns, std::memory_order_release);
    page_->gate.store(FIKIT_GATE_CLOSED, std::memory_order_release);
  }
  void grant(std::uint32_t request, std::uint64_t run_until) override {
    extend_run(run_until);
    page_->grant_seq.store(request, std::memory_order_release);
  }
  void extend_run(std::uint64_t run_until) override {
    if (knows_runs_) page_->run_until.store(run_until, std::memory_order_release);
  }
  void end_run() override { extend_run(0); }
  bool knows_runs() const override { return knows_runs_; }
  void ask_copies(const policy::CopyEngines& engines) { // on these engines long copies ask at the gate from now on
    if (!knows_copies_) return;
    for (std::size_t i = 0; i < engines.size(); ++i)
      page_->copies_ask_from[i].store(engines[i] ? policy::kLongCopyBytes : 0, std::memory_order_relaxed);
  }
  bool knows_moves() const { return knows_moves_; }
  // Tells the shim how many bytes of its movable memory are to be on the GPU. Returns the number of this goal, which is never 0 nor the last
  // one's, whatever the client has written there.
  std::uint32_t set_goal(std::uint64_t bytes) {
    if (!knows_moves_) return 0;
    goal_ = goal_ + 1 == 0 ? 1 : goal_ + 1;
    page_->moves.goal_bytes.store(bytes, std::memory_order_relaxed);
    page_->moves.goal.store(goal_, std::memory_order_release);
    return goal_;
  }
  // A page that a previous fikitd made: that one's goal holds until the next.
  void resume_goal() { goal_ = knows_moves_ ? page_->moves.goal.load(std::memory_order_relaxed) : 0; }
  Moves moves() const { // all 0 in a page of an older version
    Moves moves;
    if (!knows_moves_) return moves;
    const fikit_moves& said = page_->moves;
    moves.goal = goal_;
    moves.reached = said.reached.load(std::memory_order_acquire);
    moves.movable_bytes = bounded(said.movable_bytes);
    moves.resident_bytes = std::min(bounded(said.resident_bytes), moves.movable_bytes);
    moves.in_bytes = bounded(said.in_bytes);
    moves.out_bytes = bounded(said.out_bytes);
    moves.missed_bytes = bounded(said.missed_bytes);
    moves.moving_ns = bounded(said.moving_ns);
    moves.turns = said.turns.load(std::memory_order_relaxed);
    moves.failures = said.failures.load(std::memory_order_relaxed);
    moves.most_bytes = bounded(page_->most_movable_bytes);
    moves.most_at_ns = page_->most_movable_ns.load(std::memory_order_relaxed);
    moves.in_per_s = bounded(page_->moves_per_s[0]);
    moves.out_per_s = bounded(page_->moves_per_s[1]);
    return moves;
  }
  void set_marker_interval(std::uint32_t launches) { page_->marker_interval.store(launches, std::memory_order_relaxed); } // 0: no marks
  void set_known(std::uint32_t slot, bool gap) override {
    const std::uint32_t bit = 1U << slot % 32;
    if (gap) page_->gap_slots[slot / 32].fetch_or(bit, std::memory_order_relaxed);
    else page_->gap_slots[slot / 32].fetch_and(~bit, std::memory_order_relaxed);
    page_->known_slots[slot / 32].fetch_or(bit, std::memory_order_relaxed);
  }

  std::uint64_t launches() const override { return bounded(page_->launch_seq); }
  bool reached(std::uint32_t mark) const override { return fikit_mark_reached(page_, mark); }
  Request request() const {
    Request request;
    request.waiting = page_->waiting.load(std::memory_order_acquire) == 1;
    request.sequence = page_->request_seq.load(std::memory_order_relaxed);
    request.waiting = request.waiting && request.sequence != 0;
    if (!request.waiting) return request;
    const std::uint32_t slot = page_->request_slot.load(std::memory_order_relaxed);
    request.slot = slot < FIKIT_SLOTS ? slot : 0;
    if (knows_copies_) request.engine = engine_of(page_->request_copy.load(std::memory_order_relaxed));
    request.bytes = bounded(page_->request_bytes);
    request.posted_ns = page_->request_ns.load(std::memory_order_relaxed);
    // If a field above is already a later request's, the reads after the fence see that this request was withdrawn. The next look finds
    // the later request whole.
    std::atomic_thread_fence(std::memory_order_acquire);
    request.waiting = page_->waiting.load(std::memory_order_acquire) == 1 &&
                      page_->request_seq.load(std::memory_order_relaxed) == request.sequence;
    return request;
  }

 protected:
  // No counter that a client wrote is taken for more than this, so that sums and differences of counters cannot overflow.
  static constexpr std::uint64_t kMaxCounter = std::uint64_t{1} << 53;
  static std::uint64_t bounded(const std::atomic<std::uint64_t>& counter) {
    return std::min(counter.load(std::memory_order_relaxed), kMaxCounter);
  }
  fikit_page* page_;

 private:
  bool knows_copies_;
  bool knows_runs_;
  bool knows_moves_; // by the version that the page was made for: the client could overwrite the page's own word
  std::uint32_t goal_ = 0; // number of the newest goal; kept here, because the client could overwrite the page's word
};

} // namespace fikit::tracking
