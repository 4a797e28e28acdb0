// Which memory a client's kernels touch, as its shim reports it; and what the client's profile will say of it.
#include "client_tracker.hpp"

namespace fikit::tracking {

void ClientTracker::touched(const Report& report) {
  if (report.kind == FIKIT_ENTRY_TOUCHES) {
    if (accesses_ == nullptr) {
      accesses_ = std::make_unique<predictor::Accesses>();
      accesses_->keep_within(room_);
      accesses_->expect(std::move(accesses_before_));
    }
    accesses_->scanned(report.before, identity(report.slot));
  } else if (accesses_ != nullptr && report.kind == FIKIT_ENTRY_FREED) {
    accesses_->freed(report.before, report.slot);
  } else if (accesses_ != nullptr) {
    accesses_->touched(report.before, report.slot % FIKIT_TOUCH_ALLOCATIONS, static_cast<std::uint32_t>(report.value),
                       static_cast<std::uint32_t>(report.value >> 32), report.slot / FIKIT_TOUCH_ALLOCATIONS);
  }
}

forecaster::Learnt ClientTracker::learnt() const {
  forecaster::Learnt learnt = forecaster_.learnt();
  if (accesses_ != nullptr) learnt.accesses = accesses_->learnt();
  // Timing each launch takes the host longer than many a launch itself: where such a host waits, and for how long, says nothing of
  // the same program untimed.
  if (measure_) learnt.rhythm = {};
  return learnt;
}

} // namespace fikit::tracking
