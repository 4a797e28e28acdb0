// Collective kernels of one client, which while they run wait for kernels of the job's other ranks (FIKIT_KIND_COOPERATIVE): in which
// slots they are, how many were launched, and whether the latest still runs.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "gang.hpp"
#include "policy/base/queue_depth.hpp"
#include "protocol/fikit_protocol.h"
#include "siblings.hpp"

namespace fikit::tracking {

class CollectiveKernels {
 public:
  // gang and siblings: both are set, or none is.
  CollectiveKernels(std::shared_ptr<Gang> gang, std::shared_ptr<Siblings> siblings, std::int64_t lease_ns)
      : gang_(std::move(gang)), siblings_(std::move(siblings)), lease_ns_(lease_ns) {}
  ~CollectiveKernels() { // leave() was called before
    if (gang_ != nullptr) gang_->runs(this, 0);
  }
  // The client leaves: no rank waits for it any more, and its exemption ends.
  void leave(std::int64_t now_ns) {
    if (gang_ != nullptr) gang_->runs(this, 0);
    if (std::exchange(unheld_, false)) siblings_->exemption.end(now_ns);
    gang_ = nullptr;
  }
  CollectiveKernels(const CollectiveKernels&) = delete;
  CollectiveKernels& operator=(const CollectiveKernels&) = delete;

  // A kernel's description may come after its first launches.
  void describe(std::uint32_t slot, bool exclusive) {
    if (exclusive && !is(slot)) count_ += launches_[slot];
    slots_.set(slot, exclusive);
  }
  bool is(std::uint32_t slot) const { return slot < slots_.size() && slots_[slot]; }

  // Launch number `launch` at t_ns, by grant `request` or, with 0, through an open gate. under_way: how many launches are not known to be
  // complete; more than a stream's queue holds is a false report, and is not believed.
  void launched(std::uint32_t slot, std::uint64_t launch, std::uint32_t request, std::uint64_t under_way, std::int64_t t_ns) {
    if (slot < launches_.size()) ++launches_[slot];
    if (!is(slot)) return;
    launch_ = launch;
    request_ = request;
    ++count_;
    say(under_way <= policy::QueueDepth::kFull ? count_ : 0, t_ns + lease_ns_);
  }
  // Launches up to this number are complete.
  void drained(std::uint64_t launches) {
    if (launch_ != 0 && launches >= launch_) over();
  }
  void grant_done(std::uint32_t request) {
    if (launch_ != 0 && request == request_) over();
  }
  // Does another rank wait on its GPU for what this one has yet to launch, and may this one launch unheld for that reason?
  bool awaited(std::int64_t now_ns) {
    if (gang_ == nullptr) return false;
    const bool unheld = gang_->waits_for(this, count_, now_ns) && siblings_->exemption.left(now_ns);
    if (unheld != std::exchange(unheld_, unheld)) unheld ? siblings_->exemption.begin(now_ns) : siblings_->exemption.end(now_ns);
    return unheld;
  }

 private:
  void over() {
    launch_ = 0;
    say(0, 0);
  }
  void say(std::uint64_t count, std::int64_t until_ns) {
    if (gang_ != nullptr) gang_->runs(this, count, until_ns);
  }

  std::shared_ptr<Gang> gang_;
  std::shared_ptr<Siblings> siblings_;
  std::int64_t lease_ns_;
  bool unheld_ = false;
  std::bitset<FIKIT_SLOTS> slots_;
  std::vector<std::uint32_t> launches_ = std::vector<std::uint32_t>(FIKIT_SLOTS);
  std::uint64_t count_ = 0;
  std::uint64_t launch_ = 0; // of the latest, while it runs
  std::uint32_t request_ = 0;
};

} // namespace fikit::tracking
