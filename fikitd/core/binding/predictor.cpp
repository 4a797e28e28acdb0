// What is predicted of a kernel, and from which statistics.
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>

#include "convert.hpp"
#include "parts.hpp"
#include "predictor/model.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace fikit::binding {

predictor::Kernel kernel(const std::string& name, std::uint64_t module_hash, const Triple& grid, const Triple& block,
                         std::uint32_t shared_bytes, std::uint32_t kind) {
  return {.name = name,
          .module_hash = module_hash,
          .grid = grid,
          .block = block,
          .shared_bytes = shared_bytes,
          .kind = kind};
}

namespace {

predictor::Context context(const std::vector<predictor::Identity>& before) {
  predictor::Context result;
  for (const predictor::Identity identity : before) result.push(identity);
  return result;
}

// A time that may be unknown, as None.
template <class Class>
auto or_none(std::int64_t Class::*time) {
  return [time](const predictor::Prediction& said) -> std::optional<std::int64_t> {
    return said.*time < 0 ? std::nullopt : std::optional(said.*time);
  };
}

void bind_prediction(nb::module_& m) {
  using predictor::Prediction;
  nb::class_<Prediction>(m, "Prediction")
      .def_prop_ro("duration_ns", or_none(&Prediction::duration_ns))
      .def_prop_ro("duration_mean_ns", or_none(&Prediction::duration_mean_ns))
      .def_prop_ro("duration_high_ns", or_none(&Prediction::duration_high_ns))
      .def_prop_ro("duration_tail_ns", or_none(&Prediction::duration_tail_ns))
      .def_prop_ro("duration_longest_ns", or_none(&Prediction::duration_longest_ns))
      .def_prop_ro("durations", [](const Prediction& said) { return said.durations; })
      .def_prop_ro("duration_context", [](const Prediction& said) { return int{said.duration_context}; })
      .def_prop_ro("gap_ns", or_none(&Prediction::gap_ns))
      .def_prop_ro("gap_low_ns", or_none(&Prediction::gap_low_ns))
      .def_prop_ro("gap_mean_ns", or_none(&Prediction::gap_mean_ns))
      .def_prop_ro("boundary_chance", [](const Prediction& said) { return said.boundary_chance; })
      .def_prop_ro("boundary_low_ns", or_none(&Prediction::boundary_low_ns))
      .def_prop_ro("boundary_median_ns", or_none(&Prediction::boundary_median_ns))
      .def_prop_ro("boundary_high_ns", or_none(&Prediction::boundary_high_ns))
      .def_prop_ro("gaps", [](const Prediction& said) { return said.gaps; })
      .def_prop_ro("gap_context", [](const Prediction& said) { return int{said.gap_context}; });
}

} // namespace

void bind_predictor(nb::module_& m) {
  bind_prediction(m);
  m.attr("BOUNDARY_NS") = predictor::kBoundaryNs;
  m.def("bucket_of", &predictor::bucket_of, "ns"_a);
  m.def("bucket_low", &predictor::bucket_low, "bucket"_a);
  m.def(
      "quantile", [](const nb::dict& histogram, double q) { return predictor::quantile(to_histogram(histogram), q); },
      "histogram"_a, "q"_a);
  m.def("merge_statistics", &merge_statistics, "one"_a, "other"_a);
  m.def(
      "identify",
      [](const std::string& name, std::uint64_t module_hash, const Triple& grid, const Triple& block,
         std::uint32_t shared_bytes) { return predictor::identify(kernel(name, module_hash, grid, block, shared_bytes, 0)); },
      "name"_a, "module_hash"_a, "grid"_a, "block"_a, "shared_bytes"_a);

  nb::class_<predictor::Model>(m, "Model")
      .def(nb::init<>())
      .def_static("from_profile", &to_model, "kernels"_a)
      .def("describe",
           [](predictor::Model& self, const std::string& name, std::uint64_t module_hash, const Triple& grid,
              const Triple& block, std::uint32_t shared_bytes, std::uint32_t kind) {
             return self.describe(kernel(name, module_hash, grid, block, shared_bytes, kind));
           },
           "name"_a, "module_hash"_a, "grid"_a, "block"_a, "shared_bytes"_a, "kind"_a = 0)
      .def("add_duration",
           [](predictor::Model& self, predictor::Identity identity, const std::vector<predictor::Identity>& before,
              std::int64_t ns) { self.add_duration(identity, context(before), ns); },
           "identity"_a, "context"_a, "ns"_a)
      .def("add_gap",
           [](predictor::Model& self, predictor::Identity identity, const std::vector<predictor::Identity>& before,
              std::int64_t ns) { self.add_gap(identity, context(before), ns); },
           "identity"_a, "context"_a, "ns"_a)
      .def("merge", [](predictor::Model& self, const predictor::Model& other) { self.merge(other); }, "other"_a)
      .def("learn",
           [](predictor::Model& self, predictor::Identity identity, const std::vector<predictor::Identity>& before,
              std::int64_t ns) { return self.learn(identity, context(before), ns); },
           "identity"_a, "context"_a, "ns"_a)
      .def("follow",
           [](predictor::Model& self, predictor::Identity identity, const std::vector<predictor::Identity>& before,
              std::int64_t ns) { return self.follow(identity, context(before), ns); },
           "identity"_a, "context"_a, "ns"_a)
      .def_prop_ro("drift_alarms", &predictor::Model::drift_alarms)
      .def("predict",
           [](const predictor::Model& self, predictor::Identity identity,
              const std::vector<predictor::Identity>& before) { return self.predict(identity, context(before)); },
           "identity"_a, "context"_a)
      .def("predict_quantile",
           [](const predictor::Model& self, predictor::Identity identity, const std::vector<predictor::Identity>& before,
              double q) {
             const auto [duration_ns, gap_ns] = self.predict_quantile(identity, context(before), q);
             const auto known = [](std::int64_t ns) { return ns < 0 ? std::nullopt : std::optional(ns); };
             return std::pair(known(duration_ns), known(gap_ns));
           },
           "identity"_a, "context"_a, "q"_a)
      .def("export", [](const predictor::Model& self) { return to_profile(self); });
}

} // namespace fikit::binding
