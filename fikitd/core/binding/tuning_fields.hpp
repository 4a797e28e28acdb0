// Fields that Python names in a dict: constants of the policy, times of the scheduler.
#pragma once

#include <nanobind/nanobind.h>

#include <string>

#include "policy/tuning_fields.hpp"

namespace fikit::binding {

// Raises ValueError, which says `unknown`, where a name is none of these.
template <class Of, class Value, std::size_t kMany>
void turn_all(Of& of, const policy::TuningField<Of, Value> (&fields)[kMany], const nanobind::dict& values, const char* unknown) {
  for (const auto [name, value] : values)
    if (!policy::turn(of, fields, nanobind::cast<std::string>(name), nanobind::cast<Value>(value)))
      throw nanobind::value_error(unknown);
}

} // namespace fikit::binding
