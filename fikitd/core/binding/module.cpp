// fikitd._core: the native core as Python sees it. Typed in fikitd/fikitd/_core.pyi.
#include <nanobind/nanobind.h>

#include <exception>
#include <system_error>

#include "parts.hpp"
#include "policy/policy.hpp"

namespace nb = nanobind;

namespace fikit::binding {
extern const char kBuild[]; // scripts/build_id.py
} // namespace fikit::binding

namespace {

// What the system refuses is an OSError, as Python's own calls raise it: its errno tells what fikitd has run out of.
void as_os_error(const std::exception_ptr& thrown, void* /*payload*/) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::system_error& error) {
    PyErr_SetObject(PyExc_OSError, nb::make_tuple(error.code().value(), error.what()).ptr());
  }
}

} // namespace

NB_MODULE(_core, m) {
  nb::register_exception_translator(as_os_error);
  m.doc() = "fikitd's native core: policy, predictor, dispatcher.";
  m.attr("BUILD") = nb::str(fikit::binding::kBuild);
  m.attr("MAX_CLIENTS") = fikit::policy::kMaxClients;
  fikit::binding::bind_predictor(m);
  fikit::binding::bind_accesses(m);
  fikit::binding::bind_policy(m);
  fikit::binding::bind_outlook(m);
  fikit::binding::bind_switch_meter(m);
  fikit::binding::bind_time_account(m);
  fikit::binding::bind_packed_profile(m);
  fikit::binding::bind_dispatcher(m);
}
