// The constants of `budget`, and those of the predictor by which `budget` decides, each with its reason. `python -m bench tuning` halves
// and doubles each of them; docs/results/scheduling-results.md has the table. Constants that bound a case rather than weigh it stand where
// they are used: how late a client may report a completion (kMinGraceNs, kPatienceNs in clients.cpp), how long a long copy is at least
// (copying.hpp), what a short one can explain (kShortCopiesNs in slowdown_budget.cpp), when runs of a kernel differ (forecaster.cpp).
#pragma once

#include "types/launches.hpp"

namespace fikit::policy {

struct Tuning {
  // A client may save up the budget that it earns by so much progress: a long kernel's delay comes at once, and savings pay for it.
  double saved_ns = 600e6;
  // A client whose requests come from outside may save up so many times as much: all requests that wait behind the delayed one feel a
  // delay, so one delay costs the budget nothing, and the next one a third of it.
  double arrivals_saved = 2;
  // A client begins with the budget of so much progress. After a second of work what the reserve holds back has paid for that.
  double advance_ns = 200e6;
  // The budget counts each delay so many times, because fikitd cannot measure all that lower work costs: it does not see, for one, a copy
  // before the first launch of a request.
  double reserve = 1.2;
  // A delay of this share of the lower kernel's length is cheap: the client pays it whenever there is budget.
  double cheap = 0.02;
  // Where unforeseen delays come to more than this share of the device time that lower work has lately had, forecasts are no good.
  double surprise = 0.005;
  // Lower work has to have had the device for so long before its delays say anything: a shorter time may be like none that comes.
  double enough_ns = 20e6;
  // Delays are remembered for so much device time of lower work: delays before that count half.
  double lately_ns = 200e6;
  // In the time that is remembered nobody can tell a client with a higher load than this from one that is never idle.
  double highest_load = 0.75;
  // A client's load is the one that was seen in about this time.
  double remembered_ns = 30e9;
  // From a decision to the launch that it grants: an idle device stays idle for so long.
  double reaction_ns = 15e3;
  // If lower work is on the device for so much longer, a grant that is made now reaches it in time. An earlier grant gains only that the
  // granted client's host may pause.
  double near_ns = 100e3;
  // The same where an earlier grant costs more than it gains: where kernels overlap, the granted client loses little by a pause of its host;
  // and a client whose next request comes from outside, at any moment, waits for all that was granted.
  double close_ns = 20e3;

  // The predictor's. If a host's idle time may be longer than this, and than others of its kind, it is taken for one between requests
  // that come from outside.
  double long_idle_ns = 1e6;
  // Where clients take turns on the device, each has it for at least this time while others wait.
  double turn_ns = 1e6;
  // The most work that one grant covers: a policy would refuse a longer run more often as a whole.
  double longest_run_ns = double{kRunLimit.work_ns};
  // The same where all clients above are at rest, for up to 256 launches: a launch of theirs would end the run, and until then the
  // program seldom has to ask.
  double rest_run_ns = double{kLongRunLimit.work_ns};
};

} // namespace fikit::policy
