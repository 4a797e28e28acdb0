// Kernels of one client that wait for others of its job while they run (FIKIT_KIND_COOPERATIVE): which slots are such,
// how many were launched, and whether the latest still runs.
#pragma once

#include <bitset>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "fikit_protocol.h"
#include "gang.hpp"

namespace fikit::dispatcher {

class Exclusives {
 public:
  explicit Exclusives(std::shared_ptr<Gang> gang) : gang_(std::move(gang)) {}
  ~Exclusives() {
    if (gang_ != nullptr) gang_->runs(this, 0);
  }
  Exclusives(const Exclusives&) = delete;
  Exclusives& operator=(const Exclusives&) = delete;

  // A description may come a little after the first launches.
  void describe(std::uint32_t slot, bool exclusive) {
    if (exclusive && !is(slot)) count_ += launches_[slot];
    slots_.set(slot, exclusive);
  }
  bool is(std::uint32_t slot) const { return slot < slots_.size() && slots_[slot]; }

  // Its launch number `launch`, through a closed gate with grant `request` or (0) an open one.
  void launched(std::uint32_t slot, std::uint64_t launch, std::uint32_t request) {
    if (slot < launches_.size()) ++launches_[slot];
    if (!is(slot)) return;
    launch_ = launch;
    request_ = request;
    say(++count_);
  }
  // Every launch up to this one is complete.
  void drained(std::uint64_t launches) {
    if (launch_ != 0 && launches >= launch_) over();
  }
  void grant_done(std::uint32_t request) {
    if (launch_ != 0 && request == request_) over();
  }
  // Another process of the job waits, on its GPU, for what this one has yet to launch.
  bool awaited() const { return gang_ != nullptr && gang_->waits_for(this, count_); }

 private:
  void over() {
    launch_ = 0;
    say(0);
  }
  void say(std::uint64_t count) {
    if (gang_ != nullptr) gang_->runs(this, count);
  }

  std::shared_ptr<Gang> gang_;
  std::bitset<FIKIT_SLOTS> slots_;
  std::vector<std::uint32_t> launches_ = std::vector<std::uint32_t>(FIKIT_SLOTS);
  std::uint64_t count_ = 0;
  std::uint64_t launch_ = 0; // of the latest, while it runs
  std::uint32_t request_ = 0;
};

} // namespace fikit::dispatcher
