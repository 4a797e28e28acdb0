// Fields by name, and the constants of Tuning so: for who tries others, or plays everything in slow motion.
#pragma once

#include <cstddef>
#include <string_view>

#include "policy/base/tuning.hpp"

namespace fikit::policy {

template <class Of, class Value>
struct TuningField {
  const char* name;
  Value Of::* at;
};

// False: there is none of this name.
template <class Of, class Value, std::size_t kMany>
bool turn(Of& of, const TuningField<Of, Value> (&fields)[kMany], std::string_view name, const Value& value) {
  for (const TuningField<Of, Value>& field : fields) {
    if (field.name != name) continue;
    of.*(field.at) = value;
    return true;
  }
  return false;
}

inline constexpr TuningField<Tuning, double> kTuningFields[] = {
    {"saved_ns", &Tuning::saved_ns},
    {"arrivals_saved", &Tuning::arrivals_saved},
    {"advance_ns", &Tuning::advance_ns},
    {"reserve", &Tuning::reserve},
    {"cheap", &Tuning::cheap},
    {"surprise", &Tuning::surprise},
    {"enough_ns", &Tuning::enough_ns},
    {"lately_ns", &Tuning::lately_ns},
    {"highest_load", &Tuning::highest_load},
    {"remembered_ns", &Tuning::remembered_ns},
    {"reaction_ns", &Tuning::reaction_ns},
    {"near_ns", &Tuning::near_ns},
    {"close_ns", &Tuning::close_ns},
    {"long_idle_ns", &Tuning::long_idle_ns},
    {"turn_ns", &Tuning::turn_ns},
    {"longest_run_ns", &Tuning::longest_run_ns},
    {"rest_run_ns", &Tuning::rest_run_ns},
};

} // namespace fikit::policy
