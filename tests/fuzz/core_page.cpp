// What fikitd reads from a client's page: words, ring, requests and marks, written by somebody who means no good. Whatever
// stands there, nothing is read or written out of bounds, counters stay in bounds, and once the liar is silent an honest
// client is served. In manual time. A libFuzzer target (`make fuzz`), or a program of its own (alone.c).
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>

#include "dispatcher/client.hpp"
#include "input.hpp"

namespace {

using namespace fikit;
using fuzz::check;
using fuzz::Input;

constexpr policy::ClientId kHonest = 1, kLiar = 2;
constexpr std::int64_t kLeaseNs = 100'000'000;
constexpr double kMaxCounter = 9007199254740992.0; // 2^53

struct Page {
  explicit Page(std::uint32_t version) : memfd(dispatcher::make_page(false, kLeaseNs, 20'000, 64, version)) {
    at = static_cast<fikit_page*>(mmap(nullptr, sizeof *at, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0));
    if (at == MAP_FAILED) std::abort();
  }
  ~Page() {
    munmap(at, sizeof *at);
    close(memfd);
  }
  Page(const Page&) = delete;
  Page& operator=(const Page&) = delete;

  int memfd;
  fikit_page* at;
};

// One GPU with a liar and an honest client, without the dispatcher's thread and clock.
class World {
 public:
  World(std::string_view policy, int priority, std::uint32_t version)
      : policy_(policy::make_policy(policy, options_)), honest_page_(FIKIT_PROTOCOL_VERSION), liar_page_(version) {
    add(honest_, honest_page_, kHonest, 5);
    add(liar_, liar_page_, kLiar, priority);
    decide();
  }

  fikit_page& page() { return *liar_page_.at; }
  dispatcher::Client& liar() { return *liar_; }
  std::int64_t now_ns() const { return now_ns_; }
  void pass(std::int64_t ns) { now_ns_ += ns; }

  void round() {
    for (dispatcher::Client* client : {liar_.get(), honest_.get()}) client->end_old_run(now_ns_);
    liar_->poll(now_ns_, *policy_);
    honest_->poll(now_ns_, *policy_);
    decide();
  }

  // The liar does nothing any more. Work that it says to have, of a length that it has measured itself, is believed for
  // kHorizonNs at most.
  bool serves_the_honest_one() {
    fikit_page& page = *honest_page_.at;
    page.request_ns = now_ns_;
    page.request_seq = 1;
    page.waiting = 1;
    const std::int64_t until_ns = now_ns_ + policy::kHorizonNs + 20 * kLeaseNs;
    for (; now_ns_ < until_ns; pass(kLeaseNs / 20)) {
      round();
      if (!honest_->closed() || page.grant_seq == 1) return true;
    }
    return false;
  }

 private:
  void add(std::unique_ptr<dispatcher::Client>& client, const Page& page, policy::ClientId id, int priority) {
    client = std::make_unique<dispatcher::Client>(id, page.memfd, priority, false, options_, now_ns_, traffic_,
                                                  dispatcher::Gang::of(id),
                                                  std::make_shared<dispatcher::Siblings>(options_.lease_ns), 64);
    policy_->apply({.kind = policy::EventKind::client_added, .client = id, .time_ns = now_ns_, .priority = priority});
  }

  void decide() {
    policy_->decide(now_ns_, decisions_);
    for (const policy::Decision& decision : decisions_.items()) {
      dispatcher::Client& client = decision.client == kHonest ? *honest_ : *liar_;
      if (decision.kind == policy::DecisionKind::open) client.open_gate(now_ns_);
      if (decision.kind == policy::DecisionKind::close) client.close_gate(now_ns_ + kLeaseNs);
      if (decision.kind == policy::DecisionKind::ask_copies) client.ask_copies(decision.engines);
      if (decision.kind == policy::DecisionKind::grant) client.grant(decision.request, decision.launches, now_ns_);
      if (decision.kind == policy::DecisionKind::extend_run) client.extend_run(decision.launches);
      if (decision.kind == policy::DecisionKind::end_run) client.end_run();
    }
  }

  policy::Options options_;
  std::unique_ptr<policy::Policy> policy_;
  policy::Decisions decisions_;
  Page honest_page_, liar_page_;
  dispatcher::Traffic traffic_{options_.tuning};
  std::unique_ptr<dispatcher::Client> honest_, liar_;
  std::int64_t now_ns_ = 1'000'000'000'000;
};

void put(World& world, Input& input) {
  fikit_page& page = world.page();
  const std::uint64_t i = page.ring_head.fetch_add(1);
  fikit_entry& entry = page.ring[i % FIKIT_RING_ENTRIES];
  const auto how = input.take<std::uint8_t>();
  entry.kind = how % 12;
  entry.slot = input.take<std::uint16_t>();
  entry.value = how & 0x10 ? input.take<std::uint64_t>() : input.take<std::uint16_t>();
  entry.t_ns = how & 0x20 ? input.take<std::int64_t>() : world.now_ns() - input.take<std::uint16_t>();
  entry.stamp = how & 0x40 ? input.take<std::uint64_t>() : i + 1;
  page.launch_seq.fetch_add(entry.kind == FIKIT_ENTRY_LAUNCH || entry.kind == FIKIT_ENTRY_GRANTED);
}

void request(World& world, Input& input) {
  fikit_page& page = world.page();
  page.request_slot = input.take<std::uint32_t>();
  page.request_copy = page.request_slot >> 24 & 3;
  page.request_bytes = std::uint64_t{page.request_slot} << (page.request_slot >> 26);
  page.request_ns = world.now_ns() + input.take<std::int32_t>();
  page.request_seq = input.take<std::uint16_t>();
  page.waiting = input.take<std::uint8_t>() % 3;
}

void overwrite(World& world, Input& input) {
  // The first words are the liar's own to break, too; the slots and the ring make up the rest.
  const std::size_t at = input.take<std::uint32_t>() % (sizeof(fikit_page) - 16);
  auto* bytes = reinterpret_cast<std::uint8_t*>(&world.page()) + at;
  for (int i = 0; i < 16; ++i) bytes[i] = input.take<std::uint8_t>();
}

void describe(World& world, Input& input) {
  const std::uint32_t slot = 1 + input.take<std::uint16_t>() % (FIKIT_SLOTS - 1);
  predictor::Kernel kernel;
  kernel.name = std::string(1, static_cast<char>('a' + slot % 16));
  kernel.kind = input.take<std::uint8_t>() % 3;
  world.liar().describe(slot, kernel);
}

void check_counters(World& world) {
  const dispatcher::Stats stats = world.liar().stats(world.now_ns());
  for (const std::uint64_t counter : {stats.kernels, stats.wait_count, stats.wait_total_ns, stats.expired, stats.moves.movable_bytes,
                                      stats.moves.in_bytes, stats.moves.out_bytes, stats.moves.missed_bytes, stats.moves.moving_ns})
    check(static_cast<double>(counter) <= kMaxCounter);
  check(stats.moves.resident_bytes <= stats.moves.movable_bytes);
  check(stats.span_ns >= 0 && stats.span_ns <= world.now_ns());
  check(std::isfinite(stats.wait_p99_ns) && std::isfinite(stats.gap_error_p90_ns));
  check(!stats.span_alone_ns || std::isfinite(*stats.span_alone_ns));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::string_view kPolicies[] = {"paper", "prio", "budget"};
  Input input(data, size);
  const auto head = input.take<std::uint8_t>();
  const bool old = head & 0x80;
  World world(kPolicies[head % 3], head / 3 % 10, old ? FIKIT_PROTOCOL_OLDEST : FIKIT_PROTOCOL_VERSION);
  while (!input.empty()) {
    switch (input.take<std::uint8_t>() % 8) {
      case 0:
      case 1: put(world, input); break;
      case 2: request(world, input); break;
      case 3: overwrite(world, input); break;
      case 4: describe(world, input); break;
      case 5: world.page().marks[input.take<std::uint8_t>() % FIKIT_MARKS] = input.take<std::uint16_t>(); break;
      case 6:
        // not its turn, because of its memory: whatever it does then, the honest one is served
        if (input.take<std::uint8_t>() % 2) world.liar().send_away(world.now_ns() + kLeaseNs, world.now_ns() + kLeaseNs);
        else world.liar().call_back(world.now_ns());
        world.pass(input.take<std::uint32_t>() % 50'000'000); break;
      default: world.round(); break;
    }
  }
  world.round();
  check_counters(world);
  check(!old || !world.liar().on_run());
  check(world.serves_the_honest_one());
  return 0;
}
