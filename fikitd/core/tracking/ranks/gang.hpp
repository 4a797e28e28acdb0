// The processes of one job, each on a GPU with a dispatcher of its own. A collective kernel (NCCL) on one GPU waits for
// those of the others: once it has started, the others' must not be held, or it would keep its GPU for nothing.
//
// That a kernel runs and waits is what its process says. So each launch is believed for a lease, and on a GPU all processes of a
// job together go unheld for a lease, and then not for twenty (Exemption): what a liar gains is a small share of that GPU.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace fikit::tracking {

class Gang {
 public:
  // The same one for the same number, while anybody has it. nullptr for 0: belongs to none.
  static std::shared_ptr<Gang> of(std::uint64_t number);

  // The member's kernels that wait for others: the latest of them is its number `count`, and still runs, as is believed until
  // then; 0: none does.
  void runs(const void* member, std::uint64_t count, std::int64_t until_ns = 0);
  // Whether another member's kernel runs that this one, which has started `count` of them, has not got to yet.
  bool waits_for(const void* member, std::uint64_t count, std::int64_t now_ns) const;

 private:
  struct Claim {
    std::uint64_t count = 0;
    std::int64_t until_ns = 0;
  };
  mutable std::mutex mutex_; // held for a look-up, by any GPU's thread
  std::unordered_map<const void*, Claim> running_;
};

// For how long processes of a job may go unheld on one GPU, whoever of them comes and goes. Its dispatcher's thread only.
class Exemption {
 public:
  explicit Exemption(std::int64_t lease_ns) : lease_ns_(lease_ns) {}
  bool left(std::int64_t now_ns) {
    pass(now_ns);
    return now_ns >= held_until_ns_;
  }
  void begin(std::int64_t now_ns) { pass(now_ns), ++unheld_; } // somebody goes unheld
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
