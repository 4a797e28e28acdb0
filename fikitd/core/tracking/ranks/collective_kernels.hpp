// Kernels of one client that wait for others of its job while they run (FIKIT_KIND_COOPERATIVE): which slots are such,
// how many were launched, and whether the latest still runs.
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
  // Both or none: gang, siblings.
  CollectiveKernels(std::shared_ptr<Gang> gang, std::shared_ptr<Siblings> siblings, std::int64_t lease_ns)
      : gang_(std::move(gang)), siblings_(std::move(siblings)), lease_ns_(lease_ns) {}
  ~CollectiveKernels() { // it has left: leave()
    if (gang_ != nullptr) gang_->runs(this, 0);
  }
  // Nobody waits for it from now on, and it goes unheld no more.
  void leave(std::int64_t now_ns) {
    if (gang_ != nullptr) gang_->runs(this, 0);
    if (std::exchange(unheld_, false)) siblings_->exemption.end(now_ns);
    gang_ = nullptr;
  }
  CollectiveKernels(const CollectiveKernels&) = delete;
  CollectiveKernels& operator=(const CollectiveKernels&) = delete;

  // A description may come a little after the first launches.
  void describe(std::uint32_t slot, bool exclusive) {
    if (exclusive && !is(slot)) count_ += launches_[slot];
    slots_.set(slot, exclusive);
  }
  bool is(std::uint32_t slot) const { return slot < slots_.size() && slots_[slot]; }

  // Its launch number `launch` at t_ns, through a closed gate with grant `request` or (0) an open one. under_way: so many launches
  // are not known to be complete. No stream takes as many as a liar claims.
  void launched(std::uint32_t slot, std::uint64_t launch, std::uint32_t request, std::uint64_t under_way, std::int64_t t_ns) {
    if (slot < launches_.size()) ++launches_[slot];
    if (!is(slot)) return;
    launch_ = launch;
    request_ = request;
    ++count_;
    say(under_way <= policy::QueueDepth::kFull ? count_ : 0, t_ns + lease_ns_);
  }
  // Every launch up to this one is complete.
  void drained(std::uint64_t launches) {
    if (launch_ != 0 && launches >= launch_) over();
  }
  void grant_done(std::uint32_t request) {
    if (launch_ != 0 && request == request_) over();
  }
  // Another process of the job waits, on its GPU, for what this one has yet to launch, and this one may go for its sake.
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
