// The dispatcher, its clients' pages, and profiles as they go to and from it.
#include "dispatcher/dispatcher.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "convert.hpp"
#include "dispatcher/packed_profile.hpp"
#include "dispatcher/page.hpp"
#include "dispatcher/spin.hpp"
#include "forecaster/forecaster.hpp"
#include "hex.hpp"
#include "parts.hpp"
#include "predictor/model.hpp"
#include "tuning_fields.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace fikit::binding {

void bind_packed_profile(nb::module_& m) {
  m.def(
      "pack_profile",
      [](const nb::sequence& kernels, const nb::dict& rhythm, std::size_t limit, bool names) {
        const auto with = names ? dispatcher::Names::with : dispatcher::Names::without;
        const std::string packed = dispatcher::pack(to_timed(kernels), to_learnt(rhythm), with, limit);
        return nb::bytes(packed.data(), packed.size());
      },
      "kernels"_a, "rhythm"_a, "limit"_a, nb::kw_only(), "names"_a = false);
  m.def(
      "unpack_profile",
      [](const nb::bytes& packed) {
        dispatcher::Timed timed;
        forecaster::Learnt learnt;
        if (!dispatcher::unpack({packed.c_str(), packed.size()}, timed, learnt))
          throw std::invalid_argument("it is no packed profile");
        return nb::make_tuple(to_profile(timed), to_dict(learnt));
      },
      "packed"_a);
}

void bind_dispatcher(nb::module_& m) {
  m.attr("COUNTERS") = counters();
  using dispatcher::Dispatcher;
  const auto released = nb::call_guard<nb::gil_scoped_release>();
  nb::list kinds;
  for (const std::string_view name : dispatcher::kJournalKinds) kinds.append(std::string(name));
  m.attr("JOURNAL_KINDS") = nb::tuple(kinds);
  m.def("make_page", &dispatcher::make_page, "measure"_a, "lease_ns"_a, "spin_ns"_a, "sample_every"_a = 0,
        "version"_a = FIKIT_PROTOCOL_VERSION, nb::kw_only(), "collective_names"_a = "");

  nb::class_<dispatcher::Spin>(m, "Spin")
      .def(nb::init<std::int64_t>(), "longest_ns"_a)
      .def("came_after", &dispatcher::Spin::came_after, "ns"_a)
      .def_prop_ro("limit_ns", &dispatcher::Spin::limit_ns);

  nb::class_<predictor::Room>(m, "Room")
      .def(nb::init<std::size_t, std::shared_ptr<predictor::Room>>(), "size"_a, "within"_a = nb::none())
      .def_prop_ro("left", &predictor::Room::left);

  nb::class_<dispatcher::Departed>(m, "Departed")
      .def_prop_ro("stats", [](const dispatcher::Departed& self) { return to_dict(self.stats()); })
      .def("journal",
           [](const dispatcher::Departed& self) {
             dispatcher::Story story;
             {
               const nb::gil_scoped_release release;
               story = self.story();
             }
             return to_dict(story);
           })
      .def("profile",
           [](const dispatcher::Departed& self, std::size_t limit) {
             std::string packed;
             {
               const nb::gil_scoped_release release;
               packed = dispatcher::pack(self.measured(), self.learnt(), dispatcher::Names::with, limit);
             }
             return nb::bytes(packed.data(), packed.size());
           },
           "limit"_a);

  nb::class_<Dispatcher>(m, "Dispatcher")
      .def("__init__",
           [](Dispatcher* self, const std::string& policy, std::int64_t lease_ns, std::int64_t min_gap_ns,
              std::int64_t run_ahead_ns, std::int64_t idle_after_ns, std::int64_t spin_ns, std::uint32_t marker_interval,
              double max_slowdown, std::optional<std::int64_t> max_delay_ns, std::optional<std::int64_t> starvation_timeout_ns,
              std::size_t trace_events, const nb::dict& tuning) {
             policy::Options all = options(lease_ns, min_gap_ns, run_ahead_ns, idle_after_ns);
             turn_all(all.tuning, policy::kTuningFields, tuning, "unknown constant of the policy");
             all.protection = {.max_slowdown = max_slowdown, .max_delay_ns = max_delay_ns.value_or(policy::kNever)};
             all.starvation_timeout_ns = starvation_timeout_ns.value_or(policy::kNever);
             new (self) Dispatcher(policy, all, spin_ns, marker_interval, trace_events);
           },
           "policy"_a, "lease_ns"_a, "min_gap_ns"_a, "run_ahead_ns"_a, "idle_after_ns"_a, "spin_ns"_a,
           "marker_interval"_a = 32, nb::kw_only(), "max_slowdown"_a = policy::Protection{}.max_slowdown,
           "max_delay_ns"_a = nb::none(), "starvation_timeout_ns"_a = policy::Options{}.starvation_timeout_ns,
           "trace_events"_a = 0, "tuning"_a = nb::dict())
      .def("add_client", &Dispatcher::add_client, "client_id"_a, "memfd"_a, "doorbell"_a, "priority"_a, "measure"_a,
           nb::kw_only(), "max_slowdown"_a = nb::none(), "max_delay_ns"_a = nb::none(), "gang"_a = 0,
           "resume"_a = false, "room"_a = nb::none(), "overlaps"_a = false, "pid"_a = 0, "user"_a = 0, released)
      .def("switches",
           [](Dispatcher& self) {
             std::vector<tracking::SwitchMeter::Word> words;
             {
               const nb::gil_scoped_release release;
               words = self.switches();
             }
             nb::list list;
             for (const auto& [client, cost] : words)
               list.append(nb::make_tuple(client, cost.switch_ns, cost.spread_ns, cost.count, cost.level));
             return list;
           })
      .def("device",
           [](Dispatcher& self, int priority) {
             policy::Device device;
             {
               const nb::gil_scoped_release release;
               device = self.device(priority);
             }
             nb::dict found;
             const auto or_none = [](std::int64_t ns) { return ns < 0 ? nb::none() : nb::object(nb::int_(ns)); };
             found["switch_ns"] = or_none(device.switch_ns);
             found["spread_ns"] = or_none(device.spread_ns);
             found["samples"] = device.samples;
             return found;
           },
           "priority"_a = 9)
      .def("remember_switch", &Dispatcher::remember_switch, "switch_ns"_a, "spread_ns"_a, "count"_a, "priority"_a, released)
      .def("set_priority", &Dispatcher::set_priority, "client_id"_a, "priority"_a, released)
      .def("ended", &Dispatcher::ended, "client_id"_a, released)
      .def("remove_client",
           [](Dispatcher& self, policy::ClientId id) {
             dispatcher::Stats stats;
             {
               const nb::gil_scoped_release release;
               stats = self.remove_client(id).stats();
             }
             return to_dict(stats);
           },
           "client_id"_a)
      .def("take_client", &Dispatcher::remove_client, "client_id"_a, released)
      .def("use_profile",
           [](Dispatcher& self, policy::ClientId id, const nb::bytes& packed) {
             const std::string_view bytes(packed.c_str(), packed.size());
             const nb::gil_scoped_release release;
             dispatcher::Timed profile;
             forecaster::Learnt learnt;
             for (predictor::Model* model : {&profile.alone, &profile.beside, &profile.doubtful}) model->keep_within(self.room(id));
             if (!dispatcher::unpack(bytes, profile, learnt)) throw std::invalid_argument("it is no packed profile");
             self.set_profile(id, std::move(profile), learnt);
           },
           "client_id"_a, "packed"_a)
      .def("set_profile",
           [](Dispatcher& self, policy::ClientId id, const nb::sequence& kernels, const nb::dict& rhythm) {
             dispatcher::Timed profile = to_timed(kernels);
             const forecaster::Learnt learnt = to_learnt(rhythm);
             const nb::gil_scoped_release release;
             self.set_profile(id, std::move(profile), learnt);
           },
           "client_id"_a, "kernels"_a, "rhythm"_a = nb::dict())
      .def("describe",
           [](Dispatcher& self, policy::ClientId id, std::uint32_t slot, const std::string& name,
              std::uint64_t module_hash, const Triple& grid, const Triple& block, std::uint32_t shared_bytes,
              std::uint32_t kind) {
             self.describe(id, slot, kernel(name, module_hash, grid, block, shared_bytes, kind));
           },
           "client_id"_a, "slot"_a, "name"_a, "module_hash"_a, "grid"_a, "block"_a, "shared_bytes"_a, "kind"_a, released)
      .def("stats",
           [](Dispatcher& self, policy::ClientId id) {
             dispatcher::Stats stats;
             {
               const nb::gil_scoped_release release;
               stats = self.stats(id);
             }
             return to_dict(stats);
           },
           "client_id"_a)
      .def("spent",
           [](Dispatcher& self, policy::ClientId id) {
             tracking::Spent spent;
             {
               const nb::gil_scoped_release release;
               spent = self.spent(id);
             }
             return to_dict(spent);
           },
           "client_id"_a)
      .def("set_goal", &Dispatcher::set_goal, "client_id"_a, "goal_bytes"_a, released)
      .def("send_away", &Dispatcher::send_away, "client_id"_a, "for_ns"_a, released)
      .def("standing",
           [](Dispatcher& self, policy::ClientId id) {
             Dispatcher::Standing standing;
             {
               const nb::gil_scoped_release release;
               standing = self.standing(id);
             }
             return nb::make_tuple(standing.at_gate, standing.busy, standing.launches);
           },
           "client_id"_a)
      .def("stands", &Dispatcher::stands, "client_id"_a, released)
      .def("moves",
           [](Dispatcher& self, policy::ClientId id) {
             tracking::Moves moves;
             {
               const nb::gil_scoped_release release;
               moves = self.moves(id);
             }
             return to_dict(moves);
           },
           "client_id"_a)
      .def("export_profile",
           [](Dispatcher& self, policy::ClientId id) {
             dispatcher::Timed measured;
             {
               const nb::gil_scoped_release release;
               measured = self.measured(id);
             }
             return to_profile(measured);
           },
           "client_id"_a)
      .def("accesses",
           [](Dispatcher& self, policy::ClientId id) {
             dispatcher::Touched known;
             {
               const nb::gil_scoped_release release;
               known = self.accesses(id);
             }
             nb::dict found = to_dict(known.learnt);
             found["latest_ns"] = known.latest_ns;
             return found;
           },
           "client_id"_a)
      .def("packed_accesses",
           [](Dispatcher& self, policy::ClientId id, std::size_t limit) {
             std::string packed;
             {
               const nb::gil_scoped_release release;
               forecaster::Learnt learnt;
               learnt.accesses = self.accesses(id).learnt;
               packed = dispatcher::pack({}, learnt, dispatcher::Names::without, limit);
             }
             return nb::bytes(packed.data(), packed.size());
           },
           "client_id"_a, "limit"_a)
      .def("iteration",
           [](Dispatcher& self, policy::ClientId id) -> nb::object {
             std::optional<dispatcher::InPass> found;
             {
               const nb::gil_scoped_release release;
               found = self.iteration(id);
             }
             if (!found) return nb::none();
             return nb::make_tuple(hex(found->path), found->launches, found->first_launch, found->latest_ns);
           },
           "client_id"_a)
      .def("set_plan",
           [](Dispatcher& self, policy::ClientId id, std::uint64_t first_launch, std::uint32_t launches, const nb::bytes& moves,
              std::int64_t until_ns) {
             const std::string_view bytes(moves.c_str(), moves.size());
             const nb::gil_scoped_release release;
             return self.set_plan(id, first_launch, launches, bytes, until_ns);
           },
           "client_id"_a, "first_launch"_a, "launches"_a, "moves"_a, "until_ns"_a)
      .def("renew_plan", &Dispatcher::renew_plan, "client_id"_a, "first_launch"_a.none(), "until_ns"_a, released)
      .def("drop_plan", &Dispatcher::drop_plan, "client_id"_a, released)
      .def("plan_state",
           [](Dispatcher& self, policy::ClientId id) {
             dispatcher::PlanState state;
             {
               const nb::gil_scoped_release release;
               state = self.plan_state(id);
             }
             return to_dict(state);
           },
           "client_id"_a)
      .def("export_rhythm",
           [](Dispatcher& self, policy::ClientId id) {
             forecaster::Learnt learnt;
             {
               const nb::gil_scoped_release release;
               learnt = self.learnt(id);
             }
             return to_dict(learnt);
           },
           "client_id"_a)
      .def("idle_moments",
           [](Dispatcher& self, policy::ClientId id) {
             std::vector<dispatcher::Idle> idle;
             {
               const nb::gil_scoped_release release;
               idle = self.idle_moments(id);
             }
             nb::list list;
             for (const dispatcher::Idle& moment : idle) list.append(nb::make_tuple(moment.launches, moment.since_ns));
             return list;
           },
           "client_id"_a)
      .def("journal",
           [](Dispatcher& self, policy::ClientId id) {
             dispatcher::Story story;
             {
               const nb::gil_scoped_release release;
               story = self.journal(id);
             }
             return to_dict(story);
           },
           "client_id"_a)
      .def("stop", &Dispatcher::stop, released);
}

} // namespace fikit::binding
