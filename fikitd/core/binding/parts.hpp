// The parts of fikitd._core, and what several of them take from Python.
#pragma once

#include <nanobind/nanobind.h>

#include <array>
#include <cstdint>
#include <string>

#include "policy/policy.hpp"
#include "predictor/kernel.hpp"

namespace fikit::binding {

using Triple = std::array<std::uint32_t, 3>;

policy::Options options(std::int64_t lease_ns, std::int64_t min_gap_ns, std::int64_t run_ahead_ns, std::int64_t idle_after_ns);
predictor::Kernel kernel(const std::string& name, std::uint64_t module_hash, const Triple& grid, const Triple& block,
                         std::uint32_t shared_bytes, std::uint32_t kind);

void bind_predictor(nanobind::module_& m);
void bind_accesses(nanobind::module_& m);
void bind_policy(nanobind::module_& m);
void bind_outlook(nanobind::module_& m);
void bind_switch_meter(nanobind::module_& m);
void bind_time_account(nanobind::module_& m);
void bind_packed_profile(nanobind::module_& m);
void bind_dispatcher(nanobind::module_& m);

} // namespace fikit::binding
