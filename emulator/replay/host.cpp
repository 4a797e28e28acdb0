#include "host.hpp"

#include <algorithm>

namespace replay {

void Host::begin(int64_t now_ns) {
  index_ = 0;
  due_ns_ = now_ns;
  begun_ = false;
}

void Host::calls(int64_t now_ns) {
  const Step& now = step();
  due_ns_ += now.think_ns;
  called_ns_ = now_ns;
  if (now.event->kind == EventKind::synchronize || begun_) return;
  begun_ = true;
  due_ns_ = now_ns - now.delay_ns;  // the span begins here: catching up would shorten it
}

void Host::returns(int64_t now_ns) {
  const Step& now = step();
  if (now.waits && now.mark < 0) {
    due_ns_ = std::max(due_ns_ + now.cost_ns, now_ns) + now.tail_ns;
  } else {
    due_ns_ += std::max(now.cost_ns, now.delay_ns + now_ns - called_ns_);
  }
  ++index_;
}

}  // namespace replay
