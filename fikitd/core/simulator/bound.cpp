#include "bound.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

namespace fikit::simulator {
namespace {

constexpr double kNo = -std::numeric_limits<double>::infinity();
// How far the device is behind when a wait is over, up to the whole tail: in so many steps, each taken for its beginning.
constexpr std::size_t kSteps = 4;
constexpr std::int64_t kSmall = 64; // one step for a tail of less than 1 / 64 of the intervals before and after it

// A place before which the low job's host pauses. It is left so long, at least, after the beginning of the interval in which
// it was reached.
class Pause {
 public:
  explicit Pause(std::int64_t length_ns) : length_ns_(length_ns) {}
  std::int64_t length_ns() const { return length_ns_; }
  void reached(std::int64_t since_ns, double value) {
    if (waiting_.empty() || value > waiting_.back().value) waiting_.push_back({since_ns, value}); // else later, and for less
  }
  // The best of those who can go on by now_ns.
  double left(std::int64_t now_ns) {
    while (next_ < waiting_.size() && waiting_[next_].since_ns + length_ns_ <= now_ns) best_ = waiting_[next_++].value;
    return best_;
  }

 private:
  struct Waiting {
    std::int64_t since_ns = 0;
    double value = 0;
  };
  std::int64_t length_ns_;
  std::vector<Waiting> waiting_;
  std::size_t next_ = 0;
  double best_ = kNo;
};

// The largest value of a window of places that only moves on.
class Window {
 public:
  void clear(std::size_t room) {
    places_.resize(std::max(places_.size(), room));
    head_ = tail_ = 0;
  }
  void add(std::size_t place, const std::vector<double>& values) {
    while (tail_ > head_ && values[places_[tail_ - 1]] <= values[place]) --tail_;
    places_[tail_++] = place;
  }
  void drop_before(std::size_t place) {
    while (head_ < tail_ && places_[head_] < place) ++head_;
  }
  double largest(const std::vector<double>& values) const { return head_ == tail_ ? kNo : values[places_[head_]]; }

 private:
  std::vector<std::size_t> places_;
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
};

// For each place in the low job's order, and each step by which the device may be late: what the delays on the way there have
// cost, negative; kNo where nobody gets.
using Values = std::vector<std::vector<double>>;

class Search {
 public:
  Search(std::span<const LowKernel> pass, double price, std::int64_t room_ns) : price_(price) {
    for (std::size_t place = 0; done_ns_.back() <= room_ns; ++place) {
      const LowKernel& kernel = pass[place % pass.size()];
      if (place > 0 && kernel.pause_ns > 0) {
        pause_at_.push_back(place);
        pauses_.emplace_back(kernel.pause_ns);
      }
      done_ns_.push_back(done_ns_.back() + kernel.length_ns);
    }
    values_.assign(1, std::vector<double>(done_ns_.size(), kNo));
    values_[0][0] = 0;
  }

  // The next interval; by its end no more than reach_ns can be done.
  void live_through(const Interval& interval, const Interval& before, std::int64_t next_length_ns, std::int64_t reach_ns) {
    const std::int64_t length_ns = interval.end_ns - before.end_ns;
    reach_ = static_cast<std::size_t>(std::upper_bound(done_ns_.begin(), done_ns_.end(), reach_ns) - done_ns_.begin()) - 1;
    const std::size_t steps = interval.tail_ns > (length_ns + next_length_ns) / kSmall ? kSteps : 1;
    next_.resize(steps);
    for (std::vector<double>& values : next_) values.assign(done_ns_.size(), kNo);
    const auto reached = static_cast<std::size_t>(std::upper_bound(pause_at_.begin(), pause_at_.end(), reach_) - pause_at_.begin());
    std::size_t from = 0;
    for (std::size_t i = 0; i < reached; ++i) {
      double& value = values_[0][pause_at_[i]];
      value = std::max(value, pauses_[i].left(interval.paying_end_ns));
    }
    for (std::size_t i = 0; i < reached; ++i) {
      if (pauses_[i].length_ns() <= interval.paying_end_ns - before.paying_end_ns) continue; // may be over within it
      advance(from, pause_at_[i], interval, before.tail_ns, length_ns);
      from = pause_at_[i];
    }
    advance(from, reach_, interval, before.tail_ns, length_ns);
    for (std::size_t i = 0; i < reached; ++i) {
      double best = kNo;
      for (std::vector<double>& values : next_) best = std::max(best, std::exchange(values[pause_at_[i]], kNo));
      if (best > kNo) pauses_[i].reached(before.paying_end_ns, best);
      next_[0][pause_at_[i]] = values_[0][pause_at_[i]]; // who may go on may stay
    }
    std::swap(values_, next_);
  }

  // With what fits between the last kernel and the end of the wait for it.
  double best(std::int64_t tail_ns) {
    double best = kNo;
    for (std::size_t late = 0; late < values_.size(); ++late) {
      const std::int64_t left_ns = tail_ns - step_ns(tail_ns, late, values_.size());
      for (std::size_t place = 0; place < done_ns_.size(); ++place)
        best = std::max(best, values_[late][place] + static_cast<double>(done_ns_[place] + left_ns));
    }
    for (std::size_t i = 0; i < pauses_.size(); ++i)
      best = std::max(best, pauses_[i].left(std::numeric_limits<std::int64_t>::max()) + static_cast<double>(done_ns_[pause_at_[i]] + tail_ns));
    return best;
  }

 private:
  // From each place in [from, to) to each one in [from, to]: past `to` nobody gets in this interval.
  void advance(std::size_t from, std::size_t to, const Interval& interval, std::int64_t tail_before_ns, std::int64_t length_ns) {
    const std::int64_t idle_ns = length_ns - interval.work_ns;
    for (std::size_t late = 0; late < values_.size(); ++late) {
      const std::int64_t late_ns = step_ns(tail_before_ns, late, values_.size());
      for (std::size_t left = 0; left < next_.size(); ++left) {
        const std::int64_t free_ns = idle_ns - late_ns + step_ns(interval.tail_ns, left + 1, next_.size());
        const bool last = left + 1 == next_.size();
        within(from, to, values_[late], free_ns, last ? price_ * interval.weight : 0, next_[left]);
      }
    }
  }

  static std::int64_t step_ns(std::int64_t tail_ns, std::size_t step, std::size_t steps) {
    return tail_ns * static_cast<std::int64_t>(step) / static_cast<std::int64_t>(steps);
  }

  // As much as free_ns for nothing; what is more, at this price; 0: not at all.
  void within(std::size_t from, std::size_t to, const std::vector<double>& values, std::int64_t free_ns, double price,
              std::vector<double>& next) {
    window_.clear(to - from + 1);
    std::size_t first = from; // to start from for nothing
    double dearer = kNo;      // the best of those before it, as if nothing were done
    for (std::size_t place = from; place <= to; ++place) {
      if (values[place] > kNo && (place < to || to == reach_)) window_.add(place, values);
      const std::int64_t since_ns = done_ns_[place] - free_ns;
      for (; first <= place && done_ns_[first] < since_ns; ++first)
        dearer = std::max(dearer, values[first] + price * static_cast<double>(done_ns_[first]));
      window_.drop_before(first);
      double best = window_.largest(values);
      if (price > 0) best = std::max(best, dearer - price * static_cast<double>(since_ns));
      next[place] = std::max(next[place], best);
    }
  }

  double price_;
  std::vector<std::int64_t> done_ns_{0}; // by place: device time of all before it
  std::vector<std::size_t> pause_at_;
  std::vector<Pause> pauses_;
  std::size_t reach_ = 0;
  Values values_;
  Values next_;
  Window window_;
};

} // namespace

double most_work_ns(std::span<const Interval> high, std::span<const LowKernel> pass, double price,
                    std::int64_t longest_delay_ns) {
  std::int64_t idle_ns = high.back().end_ns;
  for (const Interval& interval : high) idle_ns -= interval.work_ns;
  Search search(pass, price, idle_ns + longest_delay_ns + high.back().tail_ns);
  Interval before;
  std::int64_t idle_until_ns = 0;
  for (std::size_t i = 0; i < high.size(); ++i) {
    const Interval& interval = high[i];
    const std::int64_t next_ns = i + 1 < high.size() ? high[i + 1].end_ns - interval.end_ns : 0;
    idle_until_ns += interval.end_ns - before.end_ns - interval.work_ns;
    search.live_through(interval, before, next_ns, idle_until_ns + longest_delay_ns + interval.tail_ns);
    before = interval;
  }
  return search.best(high.back().tail_ns);
}

} // namespace fikit::simulator
