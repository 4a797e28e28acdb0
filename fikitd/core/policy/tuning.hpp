// What `budget` cannot learn: its constants, each with its reason. `python -m bench tuning` halves and doubles each of
// them; docs/scheduling-results.md has the table. What bounds a case rather than weighs it stands where it is used: how late a
// completion may be reported (kMinGraceNs, kPatienceNs in clients.cpp), from where on a copy is long (copying.hpp) and what a
// short one can explain (kShortCopiesNs in account.cpp), when runs of a kernel differ (foresight.cpp).
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
  // A delay of this share of the lower kernel's length is cheap: it is paid whenever there is budget.
  double cheap = 0.02;
  // While another request of the client may wait, what is paid beyond that is no more than so many times its max_slowdown, as a
  // share of that length. The next time between requests, at which nobody waits, is cheaper, and near.
  double queued_price = 10;
  // A smaller share is what the eight times of a forecast cannot tell from nothing: it is not asked for.
  double nothing = 0.001;
  // Not all that lower work costs can be measured: a copy before the first launch of a request is not seen. Delays are
  // counted so many times.
  double reserve = 1.2;
  // Requests that come from outside may meet a delay in so many times the number that is expected: a queue may be long.
  double queue_cover = 2;
  // A load above this cannot be told, in the time that is remembered, from a client that is never idle.
  double highest_load = 0.75;
  // Load is what was seen in about this time.
  double remembered_ns = 30e9;
  // From a decision to the launch that it grants: the device stands idle for so long, if it does.
  double reaction_ns = 15e3;
  // A client that comes back is at most so far behind its equals.
  double behind_ns = 1e6;
  // So many times run_ahead_ns of lower work may be in flight where that costs nothing or little, even if it takes so many
  // times as long as is reckoned. So a program whose host pauses now and then keeps the device busy meanwhile.
  double deep = 64;
  double late = 3;
  // A grant that is made while so much lower work is left is there before its end: nothing is gained by an earlier one but that
  // its client's host may pause.
  double near_ns = 100e3;
  // An earlier one meets whoever comes back meanwhile, and is worth as much as so much more of the device.
  double ahead_ns = 1e3;
  // Not where delays that were not expected come to more than this share of what lower work has lately had: there forecasts
  // are no good.
  double surprise = 0.005;
  // Below a job with a max_delay a request ages so many times as slowly. One that breaks the promise meets some ten requests
  // at a high load, and of those of a few milliseconds that shall be fewer than one in a hundred.
  double guarded_ageing = 10;
  // Where lower work waits for a client, and delays it, for less of its time than this share of its max_slowdown, nothing is
  // refused for its sake.
  double ease = 0.2;
  // So much of its time says so: what is shorter may be like none of what comes.
  double enough_ns = 20e6;
  // What a client has saved beyond this share is spent whatever is forecast, until this share is left: enough for what is dear at
  // rest, and full before what is earned is lost.
  double surplus_from = 0.8;
  double surplus_kept = 0.3;
  // By kernels no longer than this share of what may be spent: many short ones come to what was feared of them, one long one to
  // all or nothing.
  double surplus_share = 0.1;
  // Whether that pays is said by so much of its time with it, and without; by less it is mostly chance.
  double surplus_ns = 200e6;
  // An idle time that is longer than all before by less is no sign of requests that come from outside.
  double odd_idle_ns = 10e6;
  // Where it waits for more than this share, what a client allows beyond this slowdown is spent while it is at work, too.
  double held = 0.5;
  double rest_slowdown = 0.05;
  // A host's idle time that may be longer than this, and than others of its kind, is one between requests that come from outside.
  double long_idle_ns = 1e6;
  // Where clients take turns on the device, none has it for a shorter time than this while others wait.
  double turn_ns = 1e6;
  // Launches that one grant covers, and how much work they are together, at most: more is more often refused as a whole.
  double longest_run = kRunLimit.launches;
  double longest_run_ns = double{kRunLimit.work_ns};
  // Where all those above are at rest, up to 256 launches: their next launch would end it, and the program asks seldom until then.
  double rest_run_ns = double{kLongRunLimit.work_ns};
};

} // namespace fikit::policy
