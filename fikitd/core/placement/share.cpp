#include "share.hpp"

#include <algorithm>

namespace fikit::placement {

double shared_sum_s(const Couple& couple) {
  const double high_s = couple.high_slowdown * couple.high_rest_s;
  const double low_s = couple.low_slowdown * couple.low_rest_s;
  if (high_s <= low_s) return couple.low_rest_s + high_s * (2 - 1 / couple.low_slowdown);
  return couple.high_rest_s + low_s * (2 - 1 / couple.high_slowdown);
}

double shared_last_s(const Couple& couple) {
  const double high_s = couple.high_slowdown * couple.high_rest_s;
  const double low_s = couple.low_slowdown * couple.low_rest_s;
  if (high_s <= low_s) return couple.low_rest_s + high_s * (1 - 1 / couple.low_slowdown);
  return couple.high_rest_s + low_s * (1 - 1 / couple.high_slowdown);
}

bool gains(const Couple& couple, bool new_is_high, double wait_s) {
  const double running_s = new_is_high ? couple.low_rest_s : couple.high_rest_s;
  const double new_s = new_is_high ? couple.high_rest_s : couple.low_rest_s;
  return shared_sum_s(couple) < running_s + std::min(wait_s, running_s) + new_s;
}

bool new_should_be_high(const Couple& new_high, const Couple& running_high) {
  return shared_sum_s(new_high) < shared_sum_s(running_high);
}

} // namespace fikit::placement
