#include "suspects.hpp"

namespace fikit::policy::budget {

void Suspects::gone(std::size_t slot) {
  recent_.set(slot, false);
  suspects_.set(slot, false);
  guilty_.set(slot, false);
  if (slot == turn_) since_ns_ = 0; // the next one's turn comes
}

void Suspects::stops(ClientId higher, const ClientSet& below, std::int64_t now_ns) {
  if (higher_ == 0) {
    suspects_ = recent_ & below;
    if (suspects_.first() != suspects_.last()) higher_ = higher;
    else suspects_ = {};
  } else if (higher_ == higher && turn_ != kMaxClients) {
    if (worked_) {
      guilty_.set(turn_, true);
      guilts_[turn_] = {.until_ns = now_ns + kGuiltyNs, .by = higher};
    } else {
      suspects_.set(turn_, true); // a debt from before its turn
    }
    turn_ = kMaxClients;
  }
  recent_ = recent_.without(below);
}

bool Suspects::goes_on(ClientId higher, std::int64_t now_ns) { return higher == higher_ && next(now_ns); }

bool Suspects::waited(ClientId higher, std::int64_t now_ns) {
  for (std::size_t slot = guilty_.first(); slot != kMaxClients; slot = guilty_.next(slot + 1))
    if (now_ns >= guilts_[slot].until_ns) guilty_.set(slot, false);
  if (higher != higher_ || turn_ == kMaxClients) return false;
  return now_ns - since_ns_ >= (worked_ ? kTurnNs : kIdleTurnNs) && next(now_ns);
}

bool Suspects::next(std::int64_t now_ns) {
  turn_ = suspects_.first();
  if (turn_ == kMaxClients) {
    end();
    return false;
  }
  suspects_.set(turn_, false);
  since_ns_ = now_ns, worked_ = false;
  return true;
}

ClientId Suspects::keeps(std::size_t slot, std::int64_t now_ns) const {
  if (guilty_.has(slot) && now_ns < guilts_[slot].until_ns) return guilts_[slot].by;
  return turn_ != kMaxClients && slot != turn_ ? higher_ : 0;
}

} // namespace fikit::policy::budget
