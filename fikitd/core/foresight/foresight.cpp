#include "foresight.hpp"

#include <algorithm>

namespace fikit::foresight {

static_assert(policy::Times::kCount == predictor::kTimes);

namespace {

// What the device needs between two kernels that wait in line: no gap is shorter than that.
std::int64_t in_line_ns(const predictor::Prediction& predicted) {
  constexpr std::int64_t kLongestNs = 5'000;
  return std::clamp<std::int64_t>(predicted.gap_low_ns, 0, kLongestNs);
}

} // namespace

policy::Outlook Foresight::launched(std::int64_t t_ns, predictor::Identity identity,
                                    const predictor::Prediction& predicted) {
  in_segment_ = true;
  policy::Outlook outlook;
  outlook.in_line_ns = in_line_ns(predicted);
  outlook.slack = {rhythm_.launched(t_ns, identity, predicted.duration_ns, outlook.in_line_ns)};
  return outlook;
}

void Foresight::missed(std::int64_t t_ns) {
  in_segment_ = true;
  rhythm_.launched(t_ns, 0, policy::kUnknown, 0);
}

policy::Outlook Foresight::waited(std::int64_t t_ns, std::uint64_t others) {
  // What others launched in the segment before may still have been there at the beginning of this one.
  const predictor::Pause pause = rhythm_.waited(t_ns, others == others_before_);
  if (in_segment_) others_before_ = others_;
  others_ = others;
  in_segment_ = false;
  return {.slack = {pause.slack},
          .idle = {pause.idle},
          .span_ns = pause.span_ns,
          .tail_ns = pause.tail_ns,
          .in_line_ns = 0,
          .open = pause.open};
}

} // namespace fikit::foresight
