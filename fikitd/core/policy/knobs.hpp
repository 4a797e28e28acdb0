// The constants of Tuning by name: for who tries others, or plays everything in slow motion.
#pragma once

#include <string_view>

#include "tuning.hpp"

namespace fikit::policy {

struct Knob {
  const char* name;
  double Tuning::* at;
};

inline constexpr Knob kKnobs[] = {
    {"saved_ns", &Tuning::saved_ns},
    {"arrivals_saved", &Tuning::arrivals_saved},
    {"advance_ns", &Tuning::advance_ns},
    {"cheap", &Tuning::cheap},
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
    {"ahead", &Tuning::ahead},
    {"surprise", &Tuning::surprise},
    {"longest_run", &Tuning::longest_run},
    {"longest_run_ns", &Tuning::longest_run_ns},
};

// False: there is no such constant.
inline bool tune(Tuning& tuning, std::string_view name, double value) {
  for (const Knob& knob : kKnobs) {
    if (knob.name != name) continue;
    tuning.*(knob.at) = value;
    return true;
  }
  return false;
}

} // namespace fikit::policy
