// Fields by name, and the constants of Tuning so: for who tries others, or plays everything in slow motion.
#pragma once

#include <cstddef>
#include <string_view>

#include "tuning.hpp"

namespace fikit::policy {

template <class Of, class Value>
struct Knob {
  const char* name;
  Value Of::* at;
};

// False: there is none of this name.
template <class Of, class Value, std::size_t kMany>
bool turn(Of& of, const Knob<Of, Value> (&knobs)[kMany], std::string_view name, const Value& value) {
  for (const Knob<Of, Value>& knob : knobs) {
    if (knob.name != name) continue;
    of.*(knob.at) = value;
    return true;
  }
  return false;
}

inline constexpr Knob<Tuning, double> kKnobs[] = {
    {"saved_ns", &Tuning::saved_ns},
    {"arrivals_saved", &Tuning::arrivals_saved},
    {"advance_ns", &Tuning::advance_ns},
    {"cheap", &Tuning::cheap},
    {"queued_price", &Tuning::queued_price},
    {"nothing", &Tuning::nothing},
    {"remembered_ns", &Tuning::remembered_ns},
    {"highest_load", &Tuning::highest_load},
    {"reserve", &Tuning::reserve},
    {"queue_cover", &Tuning::queue_cover},
    {"reaction_ns", &Tuning::reaction_ns},
    {"behind_ns", &Tuning::behind_ns},
    {"deep", &Tuning::deep},
    {"late", &Tuning::late},
    {"guarded_ageing", &Tuning::guarded_ageing},
    {"near_ns", &Tuning::near_ns},
    {"ahead_ns", &Tuning::ahead_ns},
    {"surprise", &Tuning::surprise},
    {"ease", &Tuning::ease},
    {"enough_ns", &Tuning::enough_ns},
    {"surplus_from", &Tuning::surplus_from},
    {"surplus_kept", &Tuning::surplus_kept},
    {"surplus_share", &Tuning::surplus_share},
    {"surplus_ns", &Tuning::surplus_ns},
    {"odd_idle_ns", &Tuning::odd_idle_ns},
    {"held", &Tuning::held},
    {"rest_slowdown", &Tuning::rest_slowdown},
    {"long_idle_ns", &Tuning::long_idle_ns},
    {"turn_ns", &Tuning::turn_ns},
    {"longest_run", &Tuning::longest_run},
    {"longest_run_ns", &Tuning::longest_run_ns},
    {"rest_run_ns", &Tuning::rest_run_ns},
};

} // namespace fikit::policy
