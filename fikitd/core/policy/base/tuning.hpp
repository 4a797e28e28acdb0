// The constants of `budget`, each with its reason, and of the predictor's words that it decides by. `python -m bench tuning` halves and
// doubles each of them; docs/results/scheduling-results.md has the table. What bounds a case rather than weighs it stands where it is used:
// how late a completion may be reported (kMinGraceNs, kPatienceNs in clients.cpp), from where on a copy is long (copying.hpp) and what
// a short one can explain (kShortCopiesNs in slowdown_budget.cpp), when runs of a kernel differ (forecaster.cpp).
#pragma once

#include "types/launches.hpp"

namespace fikit::policy {

struct Tuning {
  // Budget of so much progress may be saved up: a long kernel's delay comes at once, and is bought from savings.
  double saved_ns = 600e6;
  // So many times as much by a client whose requests come from outside: a delay is felt by all that wait behind it, so what one
  // takes from the budget is now nothing, now a third of it.
  double arrivals_saved = 2;
  // A client begins with the budget of so much progress: what the reserve holds back has paid for it after a second of work.
  double advance_ns = 200e6;
  // Not all that lower work costs can be measured: a copy before the first launch of a request is not seen. Delays are
  // counted so many times.
  double reserve = 1.2;
  // A delay of this share of the lower kernel's length is cheap: it is paid whenever there is budget.
  double cheap = 0.02;
  // Delays that were not expected are many where they come to more than this share of what lower work has lately had: there
  // forecasts are no good.
  double surprise = 0.005;
  // So much of its time says so: what is shorter may be like none of what comes.
  double enough_ns = 20e6;
  // Of delays beside lower work this much of the device for it is remembered: what came before counts half.
  double lately_ns = 200e6;
  // A load above this cannot be told, in the time that is remembered, from a client that is never idle.
  double highest_load = 0.75;
  // Load is what was seen in about this time.
  double remembered_ns = 30e9;
  // From a decision to the launch that it grants: the device stands idle for so long, if it does.
  double reaction_ns = 15e3;
  // A grant that is made while so much lower work is left is there before its end: nothing is gained by an earlier one but that
  // its client's host may pause.
  double near_ns = 100e3;

  // The predictor's. A host's idle time that may be longer than this, and than others of its kind, is one between requests that come
  // from outside.
  double long_idle_ns = 1e6;
  // Where clients take turns on the device, none has it for a shorter time than this while others wait.
  double turn_ns = 1e6;
  // Work that one grant covers, at most: more is more often refused as a whole.
  double longest_run_ns = double{kRunLimit.work_ns};
  // Where all those above are at rest, up to 256 launches: their next launch would end it, and the program asks seldom until then.
  double rest_run_ns = double{kLongRunLimit.work_ns};
};

} // namespace fikit::policy
