// The processes of one job, each on a GPU with a dispatcher of its own. A collective kernel (NCCL) on one GPU waits for
// those of the others: once it has started, the others' must not be held, or it would keep its GPU for nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>

namespace fikit::dispatcher {

class Gang {
 public:
  // The same one for the same number, while anybody has it. nullptr for 0: belongs to none.
  static std::shared_ptr<Gang> of(std::uint64_t number);

  // The member's kernels that wait for others: the latest of them is its number `count`, and still runs; 0: none does.
  void runs(const void* member, std::uint64_t count);
  // Whether another member's kernel runs that this one, which has started `count` of them, has not got to yet.
  bool waits_for(const void* member, std::uint64_t count) const;

 private:
  mutable std::mutex mutex_; // held for a look-up, by any GPU's thread
  std::unordered_map<const void*, std::uint64_t> running_;
};

} // namespace fikit::dispatcher
