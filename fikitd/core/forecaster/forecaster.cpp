#include "forecaster.hpp"

#include <algorithm>

namespace fikit::forecaster {

static_assert(policy::Tuning{}.long_idle_ns == double{predictor::Rhythm::kLongIdleNs});

namespace {

// What the device needs between two kernels that wait in line: the shortest gap after this one. Where that is long, it never
// stood in line, and would need what is usual.
std::int64_t in_line_ns(const predictor::Prediction& predicted) {
  constexpr std::int64_t kLongestNs = 5'000;
  constexpr std::int64_t kUsualNs = 1'000;
  return predicted.gap_low_ns > kLongestNs ? kUsualNs : std::max<std::int64_t>(predicted.gap_low_ns, 0);
}

// Of the device, by a kernel that stands in line.
std::int64_t takes_ns(const predictor::Prediction& predicted) {
  return predicted.duration_ns < 0 ? kUnknown : predicted.duration_ns + in_line_ns(predicted);
}

// A quantile of the runs, where these differ: it may lie a bucket above what they all took, and the mean a bucket below.
std::int64_t where_varied(const predictor::Prediction& predicted, std::int64_t quantile_ns) {
  constexpr double kVaries = 1.25; // two buckets
  const bool varies = static_cast<double>(quantile_ns) > kVaries * static_cast<double>(predicted.duration_ns);
  return varies ? quantile_ns : predicted.duration_ns;
}

// A run of launches does not go on to a kernel that may well be longer than a run: such a kernel is granted alone.
std::int64_t in_run_ns(const predictor::Prediction& predicted) {
  const std::int64_t feared_ns = where_varied(predicted, predicted.duration_tail_ns);
  return predicted.duration_ns >= 0 && feared_ns > kRunLimit.work_ns ? std::max(feared_ns, takes_ns(predicted)) : takes_ns(predicted);
}

} // namespace

void foretell(predictor::SegmentAlone& alone, policy::Event& event) {
  policy::Outlook& outlook = event.outlook;
  if (event.kind == policy::EventKind::launched) {
    alone.launched(event.time_ns, event.duration_ns, outlook.in_line_ns);
    outlook.alone_dry_ns = alone.dry_ns();
  } else if (event.kind == policy::EventKind::drained && event.waited && event.duration_ns == 0 && alone.launches() > 0) {
    outlook.alone_end_ns = alone.wait_end_ns(event.began_ns, outlook.after_ns, outlook.tail_ns);
    alone.waited();
  }
}

policy::Outlook Forecaster::waiting(predictor::Identity identity, const predictor::Prediction& predicted) const {
  policy::Outlook outlook;
  outlook.in_line_ns = in_line_ns(predicted);
  outlook.high_ns = where_varied(predicted, predicted.duration_high_ns);
  outlook.feared_ns = where_varied(predicted, predicted.duration_tail_ns);
  outlook.longest_ns = where_varied(predicted, predicted.duration_longest_ns);
  outlook.run_longer_ns = longer_.most_ns();
  const predictor::Ahead ahead = runs_.starting(identity, in_run_ns(predicted));
  outlook.run = ahead.run;
  outlook.long_run = ahead.long_run;
  return outlook;
}

policy::Outlook Forecaster::launched(std::int64_t t_ns, predictor::Identity identity,
                                    const predictor::Prediction& predicted, bool exclusive, bool granted) {
  in_segment_ = true;
  policy::Outlook outlook = granted && !exclusive ? waiting(identity, predicted) : policy::Outlook{};
  outlook.in_line_ns = in_line_ns(predicted);
  runs_.launched(identity, exclusive ? kUnknown : in_run_ns(predicted));
  longer_.launched(where_varied(predicted, predicted.duration_longest_ns) - predicted.duration_ns);
  const predictor::Foretold foretold = rhythm_.launched(t_ns, identity, predicted.duration_ns, outlook.in_line_ns);
  outlook.slack = foretold.slack;
  outlook.alone_dry_ns = foretold.dry_ns;
  return outlook;
}

void Forecaster::missed(std::int64_t t_ns) {
  in_segment_ = true;
  rhythm_.launched(t_ns, 0, kUnknown, 0);
  runs_.launched(0, kUnknown);
}

policy::Outlook Forecaster::waited(std::int64_t t_ns, std::uint64_t others, std::int64_t began_ns) {
  // What others launched in the segment before may still have been there at the beginning of this one.
  const predictor::Pause pause = rhythm_.waited(t_ns, others == others_before_, began_ns);
  if (in_segment_) others_before_ = others_;
  others_ = others;
  in_segment_ = false;
  runs_.waited();
  return {.alone_end_ns = pause.end_ns,
          .slack = pause.slack,
          .idle = pause.idle,
          .span_ns = pause.span_ns,
          .tail_ns = pause.tail_ns,
          .after_ns = pause.after_ns,
          .alone_idle_ns = pause.alone_idle ? pause.alone_idle->usual_ns() : kUnknown,
          .in_line_ns = 0,
          .run = {},
          .long_run = {},
          .open = pause.open};
}

} // namespace fikit::forecaster
