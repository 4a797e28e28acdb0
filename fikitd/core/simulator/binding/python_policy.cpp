#include "python_policy.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "policy_view.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace fikit::simulator {

using policy::Client;
using policy::Event;
using policy::Given;
using policy::WaitReason;
using policy::Reason;

namespace {

// One sentence about an answer that no policy may give.
class NotAllowed : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

constexpr std::uint32_t kMostLaunches = 256; // of a grant: more is no decision any more

} // namespace

class PythonPolicy final : public policy::LevelPolicy {
 public:
  PythonPolicy(const policy::Options& options, nb::object mine) : LevelPolicy(options), mine_(std::move(mine)) {
    const nb::object base = nb::module_::import_("fikitd.simulation.policy").attr("Policy");
    if (!nb::isinstance(mine_, base)) throw NotAllowed("what makes the policy returned no Policy, but " + repr(mine_));
    level_->policy = this;
    mine_.attr("_level") = nb::cast(level_);
    const auto own = [&](const char* method) { // of Policy itself it would say what LevelPolicy says
      const bool inherited = nb::getattr(mine_.type(), method).is(nb::getattr(base, method));
      return inherited ? nb::object() : nb::object(mine_.attr(method));
    };
    asks_ = {own("gates"), own("choose"), own("granted"), own("charged_ns"), own("copies_that_matter"), own("choose_copy"),
             own("extended"), own("overstaying"), own("next_change_ns"), own("noted"), own("noted_given"), own("noted_done_below")};
    looks_ahead_ = nb::cast<bool>(mine_.attr("looks_ahead")());
  }
  ~PythonPolicy() override { level_->policy = nullptr; }

  bool looks_ahead() const override { return looks_ahead_; }
  void learn(const LevelPolicy& higher) override {
    LevelPolicy::learn(higher);
    mine_.attr("learn")(static_cast<const PythonPolicy&>(higher).mine_);
  }

  // What Python asks.
  nb::object seen(const Client& client) const {
    nb::object& kept = seen_[client.slot];
    if (!kept.is_valid() || nb::cast<const Seen&>(kept).id != client.id) kept = nb::cast(Seen{.level = level_, .id = client.id});
    return kept;
  }
  nb::object seen_or_none(const Client* client) const { return client == nullptr ? nb::none() : seen(*client); }
  nb::list seen_all() const {
    nb::list clients;
    for (const Client& client : all()) clients.append(seen(client));
    return clients;
  }
  Client* find(policy::ClientId id) { return clients().find(id); }
  void tell(const Client& client, Reason reason, policy::ClientId by) { hold(client, {.reason = reason, .by = by}); }

  using LevelPolicy::first_waiting;
  using LevelPolicy::keeps_from_gap;
  using LevelPolicy::look_at_gates;
  using LevelPolicy::next_end_ns;
  using LevelPolicy::next_idle_ns;
  using LevelPolicy::only_one;
  using LevelPolicy::options;
  std::int64_t usual_charge_ns(const Client& client, const Launches& granted) const { return LevelPolicy::charged_ns(client, granted); }

 private:
  struct Asks { // methods; of those that nobody overrides: nothing
    nb::object gates, choose, granted, charged_ns, copies_that_matter, choose_copy, extended, overstaying, next_change_ns;
    nb::object noted, noted_given, noted_done_below;
  };

  static std::string repr(const nb::object& value) { return nb::cast<std::string>(nb::repr(value)); }

  template <class... Args>
  nb::object ask(const nb::object& method, Args&&... args) const {
    struct Answering {
      explicit Answering(Level& level) : level_(level) { level_.answering = true, ++level_.asked; }
      ~Answering() { level_.answering = false; }
      Level& level_;
    };
    const Answering answering(*level_);
    return method(std::forward<Args>(args)...);
  }

  template <class Value>
  static Value as(const nb::object& said, const char* method, const char* what) {
    Value value{};
    if (!nb::try_cast(said, value, false)) throw NotAllowed(std::string(method) + "() must return " + what + ", not " + repr(said));
    return value;
  }

  // The client that a method named; nullptr: none.
  Client* named(const nb::object& said, const char* method) {
    if (said.is_none()) return nullptr;
    if (!nb::isinstance<Seen>(said)) throw NotAllowed(std::string(method) + "() must return a client or None, not " + repr(said));
    return &nb::cast<const Seen&>(said).client();
  }
  [[noreturn]] static void refuse(const char* method, const Client& client, const std::string& why) {
    throw NotAllowed(std::string(method) + "() chose " + name_of(client) + ", " + why);
  }
  void check_level(const char* method, const Client& client) const {
    if (!client.closed) refuse(method, client, "whose gate is open: it launches without asking");
    if (client.decided != policy::Decided::here)
      refuse(method, client, "about which another object decides, that of its priority: choose one for which waits_here() holds");
  }
  static const Launches& checked(const Launches& launches, const char* method) {
    if (launches.launches < 1 || launches.launches > kMostLaunches)
      throw NotAllowed(std::string(method) + "() covers " + std::to_string(launches.launches) + " launches; 1 to " +
                       std::to_string(kMostLaunches) + " may be covered");
    if (launches.work_ns < policy::kUnknown || launches.work_ns > policy::kHorizonNs)
      throw NotAllowed(std::string(method) + "() says that its launches take " + std::to_string(launches.work_ns) +
                       " ns; say None, or 0 to " + std::to_string(policy::kHorizonNs));
    return launches;
  }

  bool gates() const override {
    return asks_.gates.is_valid() ? as<bool>(ask(asks_.gates), "gates", "True or False") : LevelPolicy::gates();
  }

  void noted(const Event& event, const Client& client) override {
    if (asks_.noted.is_valid()) ask(asks_.noted, nb::cast(event), seen(client));
  }
  void noted_given(const Given& given, const Client& client, std::int64_t now_ns) override {
    if (asks_.noted_given.is_valid()) ask(asks_.noted_given, nb::cast(given), seen(client), now_ns);
  }
  void noted_done_below(const Event& event) override {
    if (asks_.noted_done_below.is_valid()) ask(asks_.noted_done_below, nb::cast(event));
  }

  Client* choose(std::int64_t now_ns) override {
    if (!sets().waiting.any()) return nullptr;
    if (!asks_.choose.is_valid()) throw NotAllowed("the policy has no choose(): write one, which returns a client or None");
    Client* client = named(ask(asks_.choose, now_ns), "choose");
    if (client == nullptr) {
      hold_waiting([this](const Client& waits) {
        const WaitReason said = held(waits); // what choose() did not say
        return said.reason == Reason::none ? WaitReason{.reason = Reason::behind, .by = first_id()} : said;
      });
      return nullptr;
    }
    check_level("choose", *client);
    if (!client->waiting) refuse("choose", *client, "which asks for nothing: choose one for which waits_here() holds");
    if (client->grant_count == policy::kMaxGrants)
      refuse("choose", *client, std::to_string(policy::kMaxGrants) + " of whose grants are in flight: wait until one is over");
    return client;
  }

  Launches granted(const Client& client) const override {
    if (!asks_.granted.is_valid()) return LevelPolicy::granted(client);
    return checked(as<Launches>(ask(asks_.granted, seen(client)), "granted", "Launches"), "granted");
  }
  std::int64_t charged_ns(const Client& client, const Launches& granted) const override {
    if (!asks_.charged_ns.is_valid()) return LevelPolicy::charged_ns(client, granted);
    const auto ns = as<std::int64_t>(ask(asks_.charged_ns, seen(client), nb::cast(granted)), "charged_ns", "a whole number");
    return std::clamp<std::int64_t>(ns, 0, policy::kHorizonNs);
  }

  policy::CopyEngines copies_that_matter(const Client& client) const override {
    policy::CopyEngines matter{};
    if (!asks_.copies_that_matter.is_valid()) return matter;
    const nb::object said = ask(asks_.copies_that_matter, seen(client));
    for (const nb::handle engine : nb::iter(said)) {
      const auto* at = std::ranges::find(policy::kEngineNames, as<std::string>(nb::borrow(engine), "copies_that_matter", "names of engines"));
      if (at == policy::kEngineNames.end() || at == policy::kEngineNames.begin())
        throw NotAllowed("copies_that_matter() named " + repr(nb::borrow(engine)) + "; copies are made by to_device and to_host");
      matter[policy::copy_engine(static_cast<policy::Engine>(at - policy::kEngineNames.begin()))] = true;
    }
    return matter;
  }
  Client* choose_copy(std::int64_t now_ns) override {
    if (!asks_.choose_copy.is_valid()) return unasked_copy();
    Client* client = named(ask(asks_.choose_copy, now_ns), "choose_copy");
    if (client == nullptr) return nullptr;
    check_level("choose_copy", *client);
    if (client->copy == policy::Engine::compute) refuse("choose_copy", *client, "no copy of which stands at the gate");
    return client;
  }
  // Who asks for copies and never chooses one would hold it for ever.
  Client* unasked_copy() {
    const auto all = clients().all();
    for (Client& client : all)
      if (client.copy != policy::Engine::compute && client.decided == policy::Decided::here) return &client;
    return nullptr;
  }

  Extension extended(std::int64_t now_ns) override {
    if (!asks_.extended.is_valid()) return {};
    const nb::object said = ask(asks_.extended, now_ns);
    if (said.is_none()) return {};
    if (!nb::isinstance<nb::tuple>(said) || nb::len(said) != 2)
      throw NotAllowed("extended() must return (client, Launches) or None, not " + repr(said));
    Client* client = named(said[0], "extended");
    if (client == nullptr) throw NotAllowed("extended() chose nobody: return None in place of the tuple");
    check_level("extended", *client);
    const Launches to = checked(as<Launches>(said[1], "extended", "(client, Launches) or None"), "extended");
    if (client->grant_count == 0 || client->run.launches == 0) refuse("extended", *client, "which has no run under way");
    if (to.launches <= client->run.launches) refuse("extended", *client, "whose run already covers as many launches");
    return {.client = client, .to = {.launches = to.launches, .work_ns = std::max<std::int64_t>(0, to.work_ns)}};
  }
  Client* overstaying(std::int64_t now_ns) override {
    if (!asks_.overstaying.is_valid()) return nullptr;
    Client* client = named(ask(asks_.overstaying, now_ns), "overstaying");
    if (client == nullptr) return nullptr;
    check_level("overstaying", *client);
    if (client->run.launches == 0) refuse("overstaying", *client, "which has no run to end");
    return client;
  }

  std::int64_t next_change_ns(std::int64_t now_ns) const override {
    if (!asks_.next_change_ns.is_valid()) return next_moment_ns(now_ns);
    const nb::object said = ask(asks_.next_change_ns, now_ns);
    if (said.is_none()) return policy::kNever;
    const auto next_ns = as<std::int64_t>(said, "next_change_ns", "a time (whole ns) or None");
    if (next_ns <= now_ns)
      throw NotAllowed("next_change_ns() said " + std::to_string(next_ns) + ", which is not after now (" + std::to_string(now_ns) +
                       "): a dispatcher would ask for ever");
    return next_ns;
  }

 public:
  // When a policy that looks at clients' work, grants and exclusive kernels may answer differently.
  std::int64_t next_moment_ns(std::int64_t now_ns) const { return std::min(next_end_ns(now_ns), next_idle_ns(now_ns)); }

 private:
  nb::object mine_;
  std::shared_ptr<Level> level_ = std::make_shared<Level>();
  mutable std::array<nb::object, policy::kMaxClients> seen_; // by slot
  Asks asks_;
  bool looks_ahead_ = false;
};

Client& Seen::client() const {
  if (level->policy == nullptr) throw nb::attribute_error("the simulation is over");
  Client* known = level->policy->find(id);
  if (known == nullptr) throw nb::attribute_error(("client " + std::to_string(id) + " has left").c_str());
  return *known;
}

namespace {

PythonPolicy& policy_of(const Level& level) {
  if (level.policy == nullptr) throw nb::attribute_error("the simulation is over");
  return *level.policy;
}

std::optional<std::int64_t> or_none(std::int64_t ns) { return ns == policy::kNever ? std::nullopt : std::optional(ns); }

void hold(const Level& level, const Seen& client, std::string_view reason, std::optional<policy::ClientId> by) {
  const auto* at = std::ranges::find(policy::kReasonNames, reason);
  if (at == policy::kReasonNames.end()) throw nb::value_error(("there is no reason \"" + std::string(reason) + "\"").c_str());
  const auto found = static_cast<Reason>(at - policy::kReasonNames.begin());
  policy_of(level).tell(client.client(), found, by.value_or(client.id));
}

nb::tuple tuple_of(std::span<const std::string_view> names) {
  nb::list list;
  for (const std::string_view name : names) list.append(nb::str(name.data(), name.size()));
  return nb::tuple(list);
}

} // namespace

policy::Policy::Make python_policy(nb::object make) {
  return [make = std::move(make)](const policy::Options& options) -> std::unique_ptr<policy::LevelPolicy> {
    return std::make_unique<PythonPolicy>(options, make());
  };
}

void bind_policy(nb::module_& m) {
  const nb::exception<NotAllowed> not_allowed(m, "NotAllowed"); // for Python
  bind_view(m);
  nb::class_<Level>(m, "Level")
      .def_ro("asked", &Level::asked)
      .def_ro("answering", &Level::answering)
      .def_prop_ro("clients", [](const Level& self) { return policy_of(self).seen_all(); })
      .def_prop_ro("options", [](const Level& self) { return policy_of(self).options(); })
      .def_prop_ro("level", [](const Level& self) { return policy_of(self).level(); })
      .def_prop_ro("queue_free_ns", [](const Level& self) { return policy_of(self).queue_free_ns(); })
      .def("find", [](const Level& self, policy::ClientId id) { return policy_of(self).seen_or_none(policy_of(self).find(id)); }, "id"_a)
      .def("first_waiting",
           [](const Level& self, std::int64_t now_ns) { return policy_of(self).seen_or_none(policy_of(self).first_waiting(now_ns)); },
           "now_ns"_a)
      .def("keeps_from_gap",
           [](const Level& self, const Seen& client, std::int64_t now_ns) {
             return policy_of(self).seen_or_none(policy_of(self).keeps_from_gap(client.client(), now_ns));
           },
           "client"_a, "now_ns"_a)
      .def("next_moment_ns", [](const Level& self, std::int64_t now_ns) { return or_none(policy_of(self).next_moment_ns(now_ns)); }, "now_ns"_a)
      .def("next_idle_ns", [](const Level& self, std::int64_t now_ns) { return or_none(policy_of(self).next_idle_ns(now_ns)); }, "now_ns"_a)
      .def("next_end_ns", [](const Level& self, std::int64_t now_ns) { return or_none(policy_of(self).next_end_ns(now_ns)); }, "now_ns"_a)
      .def("only_one", [](const Level&, const Seen& client) { return PythonPolicy::only_one(client.client()); }, "client"_a)
      .def("charged_ns",
           [](const Level& self, const Seen& client, const Launches& granted) {
             return policy_of(self).usual_charge_ns(client.client(), granted);
           },
           "client"_a, "granted"_a)
      .def("look_at_gates", [](const Level& self) { policy_of(self).look_at_gates(); })
      .def("hold", &hold, "client"_a, "reason"_a, "by"_a = nb::none());
  m.attr("EVENTS") = tuple_of(policy::kEventNames);
  m.attr("DECISIONS") = tuple_of(policy::kDecisionNames);
  m.attr("ENGINES") = tuple_of(policy::kEngineNames);
  m.attr("REASONS") = tuple_of(policy::kReasonNames);
}

} // namespace fikit::simulator
