// The ranks of one job: processes on GPUs with a dispatcher each. A collective kernel (NCCL) on one GPU waits for those on the others.
// Once it runs, the others must not be held, or it would occupy its GPU for nothing.
//
// That a collective kernel runs is only its process's word. So each launch is believed for one lease, and all processes of a job on a GPU
// together launch unheld for at most one lease in 21 (Exemption): false reports gain a small share of that GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace fikit::tracking {

class Gang {
 public:
  // One object per number for as long as a client holds it; nullptr for 0: no job.
  static std::shared_ptr<Gang> of(std::uint64_t number);

  // The member's collective kernel number `count` runs, which is believed until until_ns; count 0: none runs.
  void runs(const void* member, std::uint64_t count, std::int64_t until_ns = 0);
  // Does a collective kernel of another member run whose number is above `count`, the number that this member has launched?
  bool waits_for(const void* member, std::uint64_t count, std::int64_t now_ns) const;

 private:
  struct Claim {
    std::uint64_t count = 0;
    std::int64_t until_ns = 0;
  };
  mutable std::mutex mutex_; // the threads of all GPUs take it, for a look-up each
  std::unordered_map<const void*, Claim> running_;
};

// Limits for how long the processes of a job may launch unheld on one GPU, all together. Used by that GPU's dispatcher thread only.
class Exemption {
 public:
  explicit Exemption(std::int64_t lease_ns) : lease_ns_(lease_ns) {}
  bool left(std::int64_t now_ns) {
    pass(now_ns);
    return now_ns >= held_until_ns_;
  }
  void begin(std::int64_t now_ns) { pass(now_ns), ++unheld_; } // one more process launches unheld
  void end(std::int64_t now_ns) { pass(now_ns), --unheld_; }
  bool forgotten(std::int64_t now_ns) { return left(now_ns) && spent_ns_ == 0; }

 private:
  static constexpr std::int64_t kRestLeases = 20;
  void pass(std::int64_t now_ns);

  std::int64_t lease_ns_;
  std::size_t unheld_ = 0;
  std::int64_t seen_ns_ = 0;
  std::int64_t spent_ns_ = 0;
  std::int64_t held_until_ns_ = 0;
};

} // namespace fikit::tracking
