// Three clients live through a made-up history on their pages: launches, requests, grants and their runs, copies, drains, marks,
// expired leases, times. Or two live through what was seen on the pages of a live run, which comes on standard input: W CLIENT WORD
// VALUE, M CLIENT WORD MARK, R CLIENT KIND SLOT VALUE T, and T NOW, the moment of a look. Prints every event that the policy is told,
// and every decision. Arguments: policy, seed, rounds; or policy, play. In manual time, with its own random numbers: the same
// everywhere.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "dispatcher/client.hpp"

using namespace fikit;

extern "C" bool __real__ZN5fikit6policy6Policy5applyERKNS0_5EventE(policy::Policy*, const policy::Event&);
extern "C" bool __wrap__ZN5fikit6policy6Policy5applyERKNS0_5EventE(policy::Policy* self, const policy::Event& e) {
  const auto& o = e.outlook;
  std::printf("%d %u %lld %lld %lld %d %lld %d %d %u %d %lld %lld | %lld %lld %lld %lld %lld %u %u %d\n", static_cast<int>(e.kind),
              e.client, static_cast<long long>(e.time_ns), static_cast<long long>(e.since_ns), static_cast<long long>(e.spread_ns),
              e.waited, static_cast<long long>(e.began_ns), e.granted, e.exclusive, e.request, static_cast<int>(e.engine),
              static_cast<long long>(e.duration_ns), static_cast<long long>(e.gap_ns), static_cast<long long>(o.slack.ns.front()),
              static_cast<long long>(o.idle.ns.front()), static_cast<long long>(o.span_ns), static_cast<long long>(o.after_ns),
              static_cast<long long>(o.high_ns), o.run.launches, o.long_run.launches, o.open);
  return __real__ZN5fikit6policy6Policy5applyERKNS0_5EventE(self, e);
}

namespace {

constexpr std::int64_t kLeaseNs = 100'000'000;
constexpr std::uint32_t kMarkEvery = 8;

std::uint64_t state;
std::uint64_t below(std::uint64_t limit) {
  state = state * 6364136223846793005ULL + 1442695040888963407ULL;
  return (state >> 33) % limit;
}

struct Job {
  int memfd = dispatcher::make_page(false, kLeaseNs, 20'000, 0);
  fikit_page* page = static_cast<fikit_page*>(mmap(nullptr, sizeof(fikit_page), PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0));
  std::unique_ptr<dispatcher::Client> client;
  std::uint32_t marks = 0;    // put
  std::uint32_t reached = 0;  // of these
  std::uint64_t bytes = 0;    // of the copy that asks

  void put(std::int64_t t_ns, std::uint32_t kind, std::uint32_t slot, std::uint64_t value) {
    const std::uint64_t i = page->ring_head.fetch_add(1);
    fikit_entry& entry = page->ring[i % FIKIT_RING_ENTRIES];
    entry.t_ns = t_ns, entry.slot = slot, entry.kind = kind, entry.value = value;
    entry.stamp = i + 1;
  }
  void mark(std::int64_t t_ns, std::uint32_t kind, std::uint64_t value) {
    if (marks - reached < FIKIT_MARKS) put(t_ns, kind, ++marks, value);
  }
  void launch(std::int64_t t_ns, std::uint32_t kind, std::uint32_t request) {
    const std::uint64_t seq = ++page->launch_seq;
    put(t_ns, kind, static_cast<std::uint32_t>(1 + seq % 7), kind == FIKIT_ENTRY_GRANTED ? request : seq);
    if (kind != FIKIT_ENTRY_GRANTED) {
      if (page->marker_interval != 0 && below(5) == 0) mark(t_ns + 100, FIKIT_ENTRY_MARK, seq);
    } else if (seq >= page->run_until) {
      if (below(4) == 0) put(t_ns + 30'000, FIKIT_ENTRY_DONE, 0, request);
      else mark(t_ns + 100, FIKIT_ENTRY_MARK_GRANT, request);
    }
  }
  void ask(std::int64_t t_ns) {
    page->request_slot = static_cast<std::uint32_t>(1 + (page->launch_seq + 1) % 7);
    page->request_copy = below(6) == 0 ? 1 + static_cast<std::uint32_t>(below(2)) : 0;
    page->request_bytes = bytes = 1'000'000 + below(50'000'000);
    page->request_ns = t_ns;
    ++page->request_seq;
    page->waiting = 1;
  }
  void stands(std::int64_t t_ns) {
    const bool granted = page->grant_seq == page->request_seq;
    const bool open = page->gate == FIKIT_GATE_OPEN;
    const bool covered = page->launch_seq < page->run_until && page->request_copy == 0;
    const bool expired = below(200) == 0;
    if (!granted && !open && !covered && !expired) return;
    page->waiting = 0;
    if (page->request_copy != 0) {
      put(t_ns, FIKIT_ENTRY_COPY, page->request_copy, bytes);
      if (granted) mark(t_ns + 50, FIKIT_ENTRY_MARK_GRANT, page->request_seq);
      return;
    }
    launch(t_ns, granted || (covered && !open) ? FIKIT_ENTRY_GRANTED : open ? FIKIT_ENTRY_LAUNCH : FIKIT_ENTRY_EXPIRED, page->grant_seq);
  }
  void live(std::int64_t t_ns) {
    if (page->waiting != 0) return stands(t_ns);
    switch (below(12)) {
      case 0: return put(t_ns, FIKIT_ENTRY_DRAINED, static_cast<std::uint32_t>(below(90'000)), page->launch_seq);
      case 1: return put(t_ns, FIKIT_ENTRY_COPY, 1 + static_cast<std::uint32_t>(below(2)), below(60'000'000));
      case 2: return put(t_ns, FIKIT_ENTRY_SAMPLE, static_cast<std::uint32_t>(1 + below(7)), 10'000 + below(60'000));
      case 3: return put(t_ns, FIKIT_ENTRY_GAP, static_cast<std::uint32_t>(1 + below(7)), below(3'000'000));
      case 4:
      case 5: return; // computes
      default: break;
    }
    if (page->gate == FIKIT_GATE_OPEN) launch(t_ns, FIKIT_ENTRY_LAUNCH, 0);
    else if (page->launch_seq < page->run_until) launch(t_ns, FIKIT_ENTRY_GRANTED, page->grant_seq);
    else ask(t_ns);
  }
  void device() {
    while (reached < marks && below(3) != 0) {
      ++reached;
      page->marks[reached % FIKIT_MARKS] = reached;
    }
  }
};

dispatcher::Timed profile() {
  dispatcher::Timed timed;
  for (std::uint32_t slot = 1; slot <= 6; ++slot) { // the seventh is unknown
    const predictor::Identity kernel = timed.alone.describe({.name = "kernel" + std::to_string(slot)});
    for (int i = 0; i < 10; ++i) {
      timed.alone.add_duration(kernel, {}, 20'000 + 7'000 * slot + 100 * i);
      timed.alone.add_gap(kernel, {}, slot == 3 ? 600'000 : 1'000);
    }
  }
  return timed;
}

// One GPU with these jobs' clients, without the dispatcher's thread and clock.
class World {
 public:
  World(const char* name, std::size_t count) : policy_(policy::make_policy(name, options())), jobs(count) {
    if (policy_ == nullptr) std::exit(1);
  }
  void add(std::uint32_t id, int priority, bool profiled, std::uint32_t slots, std::int64_t now_ns) {
    auto& client = jobs[id].client;
    client = std::make_unique<dispatcher::Client>(id, jobs[id].memfd, priority, false, options(), now_ns, traffic_);
    policy_->apply({.kind = policy::EventKind::client_added, .client = id, .time_ns = now_ns, .priority = priority});
    for (std::uint32_t slot = 1; slot <= slots; ++slot) client->describe(slot, {.name = "kernel" + std::to_string(1 + (slot - 1) % 7)});
    if (profiled) client->set_profile(profile(), {}, nullptr);
    client->set_alone(false);
  }
  void round(std::int64_t now_ns) {
    for (Job& job : jobs) job.client->end_old_run(now_ns);
    for (Job& job : jobs) job.client->poll(now_ns, *policy_);
    policy_->decide(now_ns, decisions_);
    for (const policy::Decision& d : decisions_.items()) carry_out(d, now_ns);
  }
  void ask_for_marks() {
    bool closed = false;
    for (const Job& job : jobs) closed |= job.client->closed();
    for (Job& job : jobs) job.client->ask_for_marks(closed && !job.client->closed() ? kMarkEvery : 0);
  }

 private:
  static policy::Options options() {
    policy::Options options;
    options.lease_ns = kLeaseNs;
    return options;
  }
  void carry_out(const policy::Decision& d, std::int64_t now_ns) {
    std::printf("decision %d %u %u %u %lld\n", static_cast<int>(d.kind), d.client, d.request, d.launches, static_cast<long long>(d.time_ns));
    dispatcher::Client& client = *jobs[d.client].client;
    if (d.kind == policy::DecisionKind::open) client.open_gate(now_ns);
    if (d.kind == policy::DecisionKind::close) client.close_gate(now_ns + kLeaseNs);
    if (d.kind == policy::DecisionKind::ask_copies) client.ask_copies(d.engines);
    if (d.kind == policy::DecisionKind::grant) client.grant(d.request, d.launches, now_ns);
    if (d.kind == policy::DecisionKind::extend_run) client.extend_run(d.launches);
    if (d.kind == policy::DecisionKind::end_run) client.end_run();
  }

  std::unique_ptr<policy::Policy> policy_;
  policy::Decisions decisions_;
  dispatcher::Traffic traffic_{policy::Tuning{}};

 public:
  std::vector<Job> jobs;
};

void make_up(const char* name, int rounds) {
  std::int64_t now_ns = 1'000'000'000'000;
  World world(name, 3);
  for (std::uint32_t i = 0; i < 3; ++i) world.add(i, i == 0 ? 1 : i == 1 ? 5 : 8, i != 1, 7, now_ns);
  for (int round = 0; round < rounds; ++round) {
    for (Job& job : world.jobs)
      for (std::uint64_t acts = below(4); acts > 0; --acts) job.live(now_ns + static_cast<std::int64_t>(below(20'000)));
    now_ns += 20'000 + static_cast<std::int64_t>(below(below(10) == 0 ? 5'000'000 : 60'000));
    for (Job& job : world.jobs) job.device();
    world.round(now_ns);
    world.ask_for_marks();
  }
}

void write(fikit_page& page, const std::string& word, std::int64_t value) {
  if (word == "request_ns") page.request_ns = value;
  const auto number = static_cast<std::uint64_t>(value);
  if (word == "launch_seq") page.launch_seq = number;
  if (word == "request_bytes") page.request_bytes = number;
  const auto small = static_cast<std::uint32_t>(value);
  if (word == "request_slot") page.request_slot = small;
  if (word == "request_copy") page.request_copy = small;
  if (word == "request_seq") page.request_seq = small;
  if (word == "waiting") page.waiting = small;
}

void play(const char* name) {
  World world(name, 2);
  std::size_t i = 0;
  std::int64_t t_ns = 0;
  for (std::string word; std::cin >> word;) {
    if (word == "T") {
      std::cin >> t_ns;
      if (world.jobs[0].client == nullptr)
        for (std::uint32_t id = 0; id < 2; ++id) world.add(id, id == 0 ? 1 : 8, true, 300, t_ns - 1'000'000'000);
      world.round(t_ns);
      continue;
    }
    std::cin >> i;
    Job& job = world.jobs.at(i);
    std::uint32_t first = 0, second = 0;
    std::uint64_t value = 0;
    if (word == "W" && std::cin >> word >> t_ns) write(*job.page, word, t_ns);
    else if (word == "M" && std::cin >> first >> second) job.page->marks[first % FIKIT_MARKS] = second;
    else if (word == "R" && std::cin >> first >> second >> value >> t_ns) job.put(t_ns, first, second, value);
  }
}

} // namespace

int main(int count, char** arguments) {
  if (count == 3) play(arguments[1]);
  if (count != 4) return count != 3;
  state = std::strtoull(arguments[2], nullptr, 10);
  make_up(arguments[1], std::atoi(arguments[3]));
}
