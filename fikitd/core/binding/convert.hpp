// Profiles, kernels and statistics between Python's dicts and lists (the profile file's form) and the core's types.
#pragma once

#include <nanobind/nanobind.h>

#include "dispatcher/dispatcher.hpp"
#include "predictor/accesses.hpp"
#include "predictor/model.hpp"

namespace fikit::binding {

predictor::Histogram to_histogram(const nanobind::dict& histogram);
predictor::Model to_model(const nanobind::sequence& kernels); // entries that cannot be are left out
nanobind::list to_profile(const predictor::Model& model);
dispatcher::Timed to_timed(const nanobind::sequence& kernels);
nanobind::list to_profile(const dispatcher::Timed& timed);
forecaster::Learnt to_learnt(const nanobind::dict& rhythm); // of another version: nothing
nanobind::dict to_dict(const forecaster::Learnt& learnt);   // empty when nothing was learnt
predictor::AccessesLearnt to_accesses(const nanobind::dict& accesses); // of another version: nothing
nanobind::dict to_dict(const predictor::AccessesLearnt& learnt);     // empty when nothing was learnt
// Of both together. What cannot be counts nothing.
nanobind::dict merge_statistics(const nanobind::dict& one, const nanobind::dict& other);
nanobind::dict to_dict(const tracking::Spent& spent);
nanobind::dict to_dict(const tracking::Moves& moves);
nanobind::dict to_dict(const dispatcher::PlanState& state);
nanobind::dict counters(); // of Stats: name -> how those of a job's clients add up (counters.def)
nanobind::dict to_dict(const dispatcher::Stats& stats);
nanobind::dict to_dict(const dispatcher::Story& story);

} // namespace fikit::binding
