// fikit-dispatch-bench ROUNDS GPUS CLIENTS IDLE_MS: what a decision costs, how soon a launch goes on after what it waited
// for, and what a node full of idle clients costs. JSON on standard output. Behind `python -m bench dispatch`.
#include <linux/futex.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <ctime>
#include <deque>
#include <exception>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "clock.hpp"
#include "dispatcher.hpp"
#include "forecaster/forecaster.hpp"
#include "page.hpp"

namespace {

using namespace fikit;
using dispatcher::Dispatcher;
using Samples = std::vector<double>;

constexpr std::int64_t kLeaseNs = 100'000'000;
constexpr std::int64_t kSpinNs = 20'000; // fikit.toml's default, for dispatcher and clients
constexpr std::int64_t kSettleNs = 1'000'000'000; // the dispatchers fall asleep, and look ever more rarely
constexpr std::int64_t kSoonNs = 8'000;    // a client that has waited so long still spins
constexpr std::int64_t kLaterNs = 300'000; // and after so long it sleeps
constexpr std::int64_t kBehindNs = 1'000'000;
constexpr int kHigh = 1;
constexpr int kLow = 8;

void pause_for(std::int64_t ns) {
  const timespec time{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
  nanosleep(&time, nullptr);
}

// A nap takes 50 us longer than it says: that is no short wait.
void spin_or_pause_for(std::int64_t ns) {
  if (ns > kSpinNs) return pause_for(ns);
  const std::int64_t until_ns = dispatcher::now() + ns;
  while (dispatcher::now() < until_ns) __builtin_ia32_pause();
}

// ---------------------------------------------------------------- decisions, in manual time

// One high client and lower ones, and the policy between them; each event is followed by a decision, as in a round of the
// dispatcher.
class Histories {
 public:
  explicit Histories(std::size_t clients) {
    for (policy::ClientId id = 0; id < clients; ++id)
      policy_->apply({.kind = policy::EventKind::client_added, .client = id, .priority = id == 0 ? kHigh : kLow});
    policy_->decide(0, out_); // closes the gates
    for (policy::ClientId id = 1; id < clients; ++id) waits(id);
  }

  // The high client launches ever more and leaves no time for any of those who wait.
  void refuse(int rounds) {
    policy::Event launch{.kind = policy::EventKind::launched, .duration_ns = 20'000, .gap_ns = 30'000};
    launch.outlook.slack.ns = {0, 10'000, 20'000, 30'000, 50'000, 100'000, 200'000, 400'000};
    for (int round = 0; round < rounds; ++round) {
      happens(launch);
      passes(100'000);
      if (round % 8 == 7) happens({.kind = policy::EventKind::drained, .duration_ns = 0});
    }
  }
  // It rests for idle_ns and longer after each launch, and those who are granted a kernel want the next one at once.
  void grant(int rounds, std::int64_t idle_ns) {
    constexpr std::size_t kAtOnce = 4;
    policy::Outlook outlook;
    for (std::size_t i = 0; i < TimeQuantiles::kCount; ++i)
      outlook.slack.ns[i] = outlook.idle.ns[i] = idle_ns + static_cast<std::int64_t>(i) * idle_ns;
    for (int round = 0; round < rounds; ++round) {
      happens({.kind = policy::EventKind::launched, .duration_ns = 20'000, .gap_ns = 30'000, .outlook = outlook});
      t_ns_ += 20'000;
      passes(20'000);
      happens({.kind = policy::EventKind::drained, .duration_ns = 0, .outlook = outlook});
      for (std::size_t i = 0; i < kAtOnce && !granted_.empty(); ++i) {
        const Grant grant = granted_.front();
        granted_.pop_front();
        happens({.kind = policy::EventKind::launched, .client = grant.client, .granted = true, .request = grant.request,
                 .duration_ns = length_ns(grant.client)});
        t_ns_ += length_ns(grant.client);
        happens({.kind = policy::EventKind::grant_done, .client = grant.client, .request = grant.request});
        waits(grant.client);
      }
    }
  }
  // ns per event with its decision.
  const Samples& samples() const { return samples_; }

 private:
  struct Grant {
    policy::ClientId client = 0;
    std::uint32_t request = 0;
  };
  static std::int64_t length_ns(policy::ClientId id) { return 50'000 + 1'000 * std::int64_t{id}; }
  void passes(std::uint32_t most_ns) { t_ns_ += static_cast<std::int64_t>(dice_() % most_ns); }
  void waits(policy::ClientId id) {
    happens({.kind = policy::EventKind::waiting, .client = id, .request = ++request_, .duration_ns = length_ns(id)});
  }
  void happens(policy::Event event) {
    event.time_ns = t_ns_;
    if (event.client == 0) forecaster::foretell(alone_, event);
    const std::int64_t begin_ns = dispatcher::now();
    policy_->apply(event);
    policy_->decide(t_ns_, out_);
    samples_.push_back(static_cast<double>(dispatcher::now() - begin_ns));
    for (const policy::Decision& decision : out_.items())
      if (decision.kind == policy::DecisionKind::grant) granted_.push_back({.client = decision.client, .request = decision.request});
  }

  std::unique_ptr<policy::Policy> policy_ = policy::make_policy("budget", {});
  predictor::SegmentAlone alone_; // the high client, as the predictor reckons
  policy::Decisions out_;
  std::mt19937 dice_{1};
  std::int64_t t_ns_ = 0;
  std::uint32_t request_ = 0;
  std::deque<Grant> granted_;
  Samples samples_;
};

Samples refusals(std::size_t clients, int rounds) {
  Histories histories(clients);
  histories.refuse(rounds);
  return histories.samples();
}

Samples grants(std::size_t clients, int rounds) {
  constexpr std::int64_t kShortNs = 100'000;  // one kernel at a time
  constexpr std::int64_t kLongNs = 1'000'000; // as many as may be in flight
  Samples all;
  for (const std::int64_t idle_ns : {kShortNs, kLongNs}) {
    Histories histories(clients);
    histories.grant(rounds, idle_ns);
    all.insert(all.end(), histories.samples().begin(), histories.samples().end());
  }
  return all;
}

// ---------------------------------------------------------------- launches that wait, in real time

// A client as the shim is one (shim/gate/gate.c, shim/base/page.h).
class FakeClient {
 public:
  static constexpr std::uint32_t kSlot = 1; // of all its kernels

  FakeClient(Dispatcher& gpu, policy::ClientId id, int priority) : doorbell_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    const int memfd = dispatcher::make_page(false, kLeaseNs, kSpinNs, 0);
    page_ = static_cast<fikit_page*>(mmap(nullptr, sizeof(fikit_page), PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0));
    gpu.add_client(id, memfd, doorbell_, priority, false);
    close(memfd);
  }
  ~FakeClient() {
    munmap(page_, sizeof(fikit_page));
    close(doorbell_);
  }
  FakeClient(const FakeClient&) = delete;
  FakeClient& operator=(const FakeClient&) = delete;

  void put(std::uint32_t kind, std::uint64_t value) {
    const std::uint64_t i = page_->ring_head.fetch_add(1, std::memory_order_relaxed);
    fikit_entry& entry = page_->ring[i % FIKIT_RING_ENTRIES];
    entry.stamp.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    __atomic_store_n(&entry.t_ns, dispatcher::now(), __ATOMIC_RELAXED);
    __atomic_store_n(&entry.slot, kind == FIKIT_ENTRY_DRAINED ? 0 : kSlot, __ATOMIC_RELAXED);
    __atomic_store_n(&entry.kind, kind, __ATOMIC_RELAXED);
    __atomic_store_n(&entry.value, value, __ATOMIC_RELAXED);
    entry.stamp.store(i + 1, std::memory_order_release);
  }
  void launch() { put(FIKIT_ENTRY_LAUNCH, page_->launch_seq.fetch_add(1, std::memory_order_release) + 1); }
  void drain() { put(FIKIT_ENTRY_DRAINED, page_->launch_seq.load()); }

  // As the dispatcher's Page does it.
  void grant(std::uint32_t request) {
    page_->grant_seq.store(request, std::memory_order_release);
    page_->wake.fetch_add(1, std::memory_order_release);
    syscall(SYS_futex, &page_->wake, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  }
  // Posts a request; its number.
  std::uint32_t ask() {
    const std::uint32_t request = page_->request_seq.load() + 1;
    std::atomic_thread_fence(std::memory_order_release);
    page_->request_ns.store(dispatcher::now(), std::memory_order_relaxed);
    page_->request_seq.store(request, std::memory_order_relaxed);
    page_->waiting.store(1, std::memory_order_release);
    ring();
    return request;
  }
  // Until the request is granted, or its lease over; the moment.
  std::int64_t wait(std::uint32_t request) {
    const std::int64_t start_ns = dispatcher::now();
    for (;;) {
      const std::uint32_t seen = page_->wake.load(std::memory_order_seq_cst);
      const std::int64_t t_ns = dispatcher::now();
      if (page_->grant_seq.load(std::memory_order_acquire) == request || page_->gate_until_ns.load() <= t_ns) return t_ns;
      if (t_ns - start_ns < kSpinNs) {
        sched_yield();
        continue;
      }
      const std::int64_t until_ns = t_ns + kLeaseNs;
      const timespec until{.tv_sec = until_ns / 1'000'000'000, .tv_nsec = until_ns % 1'000'000'000};
      syscall(SYS_futex, &page_->wake, FUTEX_WAIT_BITSET, seen, &until, nullptr, FUTEX_BITSET_MATCH_ANY);
    }
  }
  // The granted kernel is launched, and complete at once.
  void finish(std::uint32_t request) {
    page_->waiting.store(0, std::memory_order_release);
    page_->launch_seq.fetch_add(1);
    put(FIKIT_ENTRY_GRANTED, request);
    put(FIKIT_ENTRY_DONE, request);
    ring();
  }

 private:
  void ring() const {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (page_->awake.load(std::memory_order_relaxed) == 0) eventfd_write(doorbell_, 1);
  }
  fikit_page* page_ = nullptr;
  int doorbell_;
};

std::unique_ptr<Dispatcher> make_dispatcher() {
  policy::Options options;
  options.lease_ns = kLeaseNs;
  return std::make_unique<Dispatcher>("prio", options, kSpinNs, 0);
}

// From the moment at which the high client's host has waited for its work to the moment at which the low client, which
// waited for that, goes on. Here both are one thread, so that it and the dispatcher can spin on two cores.
Samples hand_overs_soon(int rounds) {
  const auto gpu = make_dispatcher();
  FakeClient high(*gpu, 1, kHigh);
  FakeClient low(*gpu, 2, kLow);
  Samples samples;
  for (int i = 0; i < rounds; ++i) {
    high.launch();
    const std::uint32_t request = low.ask();
    spin_or_pause_for(kSoonNs);
    const std::int64_t drained_ns = dispatcher::now();
    high.drain();
    samples.push_back(static_cast<double>(low.wait(request) - drained_ns));
    low.finish(request);
  }
  return samples;
}

// The same after so long a wait that the low client sleeps.
Samples hand_overs_later(int rounds) {
  const auto gpu = make_dispatcher();
  FakeClient high(*gpu, 1, kHigh);
  FakeClient low(*gpu, 2, kLow);
  std::atomic<int> turn{0}; // odd: low asks; even: it has gone on
  std::int64_t went_on_ns = 0;
  std::thread lower([&] {
    for (int i = 0; i < rounds; ++i) {
      while (turn.load(std::memory_order_acquire) != 2 * i + 1) std::this_thread::yield();
      const std::uint32_t request = low.ask();
      went_on_ns = low.wait(request);
      low.finish(request);
      turn.store(2 * i + 2, std::memory_order_release);
    }
  });
  Samples samples;
  for (int i = 0; i < rounds; ++i) {
    high.launch();
    turn.store(2 * i + 1, std::memory_order_release);
    pause_for(kLaterNs);
    const std::int64_t drained_ns = dispatcher::now();
    high.drain();
    while (turn.load(std::memory_order_acquire) != 2 * i + 2) pause_for(20'000); // leaves the core to the others
    samples.push_back(static_cast<double>(went_on_ns - drained_ns));
  }
  lower.join();
  return samples;
}

// From a grant on the page to the launch that it lets through.
Samples wakes(int rounds, std::int64_t after_ns) {
  const auto gpu = make_dispatcher();
  FakeClient high(*gpu, 1, kHigh);
  FakeClient low(*gpu, 2, kLow);
  std::atomic<int> turn{0};
  std::int64_t went_on_ns = 0;
  std::thread lower([&] {
    for (int i = 0; i < rounds; ++i) {
      while (turn.load(std::memory_order_acquire) != 2 * i + 1) std::this_thread::yield();
      went_on_ns = low.wait(static_cast<std::uint32_t>(i + 1));
      turn.store(2 * i + 2, std::memory_order_release);
    }
  });
  Samples samples;
  for (int i = 0; i < rounds; ++i) {
    turn.store(2 * i + 1, std::memory_order_release);
    spin_or_pause_for(after_ns);
    const std::int64_t granted_ns = dispatcher::now();
    low.grant(static_cast<std::uint32_t>(i + 1)); // in the dispatcher's place, which nobody asked: it is asleep
    while (turn.load(std::memory_order_acquire) != 2 * i + 2) pause_for(20'000);
    samples.push_back(static_cast<double>(went_on_ns - granted_ns));
  }
  lower.join();
  return samples;
}

// ---------------------------------------------------------------- a client that waits

double cpu_s() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

double cpu_share(std::int64_t ns) {
  const double before_s = cpu_s();
  pause_for(ns);
  return (cpu_s() - before_s) / (1e-9 * static_cast<double>(ns));
}

// Of one core, while a lower launch stands behind a kernel of the high client that takes as long as is known of it.
double behind_cpu_share(std::int64_t kernel_ns, std::int64_t kernels) {
  const auto gpu = make_dispatcher();
  FakeClient high(*gpu, 1, kHigh);
  FakeClient low(*gpu, 2, kLow);
  predictor::Model model;
  model.add_duration(model.describe({.name = "known"}), {}, kernel_ns);
  gpu->describe(1, FakeClient::kSlot, {.name = "known"});
  gpu->set_profile(1, {.alone = model, .beside = {}, .doubtful = {}, .borrowed = {}});
  double share = 0;
  for (std::int64_t i = 0; i < kernels; ++i) {
    high.launch();
    const std::uint32_t request = low.ask();
    share += cpu_share(kernel_ns) / static_cast<double>(kernels);
    high.drain();
    low.wait(request);
    low.finish(request);
  }
  return share;
}

// ---------------------------------------------------------------- a node full of clients

struct Node {
  double empty_cpu_share = 0; // of one core, without clients
  double idle_cpu_share = 0;  // with clients that do nothing
  Samples request_ns;        // from a client's request to its going on, one after the other over all GPUs
};

Node node(int gpus, int clients, int rounds, std::int64_t idle_ns) {
  std::vector<std::unique_ptr<Dispatcher>> dispatchers;
  std::vector<std::unique_ptr<FakeClient>> lows;
  std::vector<std::unique_ptr<FakeClient>> highs;
  Node result;
  dispatchers.reserve(static_cast<std::size_t>(gpus));
  for (int gpu = 0; gpu < gpus; ++gpu) dispatchers.push_back(make_dispatcher());
  pause_for(kSettleNs);
  result.empty_cpu_share = cpu_share(idle_ns);
  for (const auto& gpu : dispatchers) {
    for (int id = 0; id < clients; ++id)
      (id == 0 ? highs : lows)
          .push_back(std::make_unique<FakeClient>(*gpu, static_cast<policy::ClientId>(id),
                                                  id == 0 ? kHigh : kLow));
  }
  pause_for(kSettleNs);
  result.idle_cpu_share = cpu_share(idle_ns);
  for (int i = 0; i < rounds && !lows.empty(); ++i) {
    FakeClient& low = *lows[static_cast<std::size_t>(i) * 37 % lows.size()];
    const std::int64_t begin_ns = dispatcher::now();
    const std::uint32_t request = low.ask();
    result.request_ns.push_back(static_cast<double>(low.wait(request) - begin_ns));
    low.finish(request);
  }
  for (const auto& gpu : dispatchers) gpu->stop();
  return result;
}

void print(const char* name, const Samples& samples) {
  std::printf("\"%s\": [", name);
  for (std::size_t i = 0; i < samples.size(); ++i) std::printf("%s%.0f", i == 0 ? "" : ", ", samples[i]);
  std::printf("], ");
}

int run(int rounds, int gpus, int clients, std::int64_t idle_ms) {
  std::printf("{");
  print("decide_2_ns", refusals(2, rounds));
  print("decide_8_ns", refusals(8, rounds));
  print("decide_64_ns", refusals(64, rounds));
  print("decide_busy_8_ns", grants(8, rounds));
  print("decide_busy_64_ns", grants(64, rounds));
  print("hand_over_soon_ns", hand_overs_soon(rounds));
  print("hand_over_later_ns", hand_overs_later(rounds));
  print("wake_soon_ns", wakes(rounds, kSoonNs));
  print("wake_later_ns", wakes(rounds, kLaterNs));
  const double behind_share = behind_cpu_share(kBehindNs, rounds);
  const Node full = node(gpus, clients, rounds, idle_ms * 1'000'000);
  print("node_request_ns", full.request_ns);
  std::printf("\"behind_cpu_share\": %.6f, \"empty_cpu_share\": %.6f, \"idle_cpu_share\": %.6f}\n", behind_share,
              full.empty_cpu_share, full.idle_cpu_share);
  return 0;
}

} // namespace

int main(int argc, char** argv) {
  try {
    const std::vector<std::string> words(argv + 1, argv + argc);
    if (words.size() == 4) return run(std::stoi(words[0]), std::stoi(words[1]), std::stoi(words[2]), std::stoi(words[3]));
    std::fputs("usage: fikit-dispatch-bench ROUNDS GPUS CLIENTS IDLE_MS\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fikit-dispatch-bench: couldn't measure: %s\n", error.what());
  }
  return 1;
}
