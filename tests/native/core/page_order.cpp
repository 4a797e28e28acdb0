// What one side has to see when it sees a store of the other (docs/design/contracts.md, "Memory order of the shared pages"): two
// threads, one with the shim's code, one with the dispatcher's. A plain variable goes along with each store, so that
// ThreadSanitizer reports an order that no longer says "after". It knows no fences: there the processor itself is asked, many times.
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <thread>

#include "dispatcher/page.hpp"
#include "dispatcher/ring.hpp"
#include "page_order.h"

namespace {

using fikit::dispatcher::Page;

constexpr std::size_t kTimes = 2000;
std::array<std::size_t, kTimes + 1> told; // plain: written before what publishes it, read after
std::atomic<bool> ended = false;
int wrong = 0;

constexpr auto kRelaxed = std::memory_order_relaxed; // between the threads, where nothing is to follow from it

fikit_page* client_page(int memfd) {
  return static_cast<fikit_page*>(mmap(nullptr, sizeof(fikit_page), PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0));
}

struct Both { // views of one page, as in two processes
  int memfd = fikit::dispatcher::make_page(false, 1'000'000'000, 1'000'000'000, 0);
  Page page{memfd};
  fikit_page* client = client_page(memfd);
  Both() { client_has(client); }
};

// ThreadSanitizer goes by addresses: here both sides have to use one mapping.
struct One {
  int memfd = fikit::dispatcher::make_page(false, 1'000'000'000, 1'000'000'000, 0);
  Page page{memfd};
  One() { client_has(const_cast<fikit_page*>(&page.raw())); }
};

std::int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }
std::int64_t far_ns() { return now_ns() + FIKIT_MOST_LEASE_NS / 2; }

void check(std::size_t said, std::size_t expected, const char* what) {
  if (said == expected || wrong++ > 0) return;
  std::printf("%s: %zu instead of %zu\n", what, said, expected);
}

void reports() {
  One one;
  std::atomic<std::size_t> taken = 0;
  std::thread client([&] {
    for (std::size_t i = 1; i <= kTimes; ++i) {
      told[i] = i;
      client_reports(i);
    }
  });
  fikit::dispatcher::Ring ring;
  for (fikit::dispatcher::Report report; taken < kTimes;)
    if (ring.next(one.page.raw(), 0, report)) check(told[report.value], ++taken, "report");
  client.join();
}

void requests_and_grants() {
  One one;
  static std::array<std::size_t, kTimes + 1> granted;
  one.page.close_gate(far_ns());
  std::thread client([&] {
    for (std::size_t i = 1; i <= kTimes; ++i) {
      told[i] = i;
      check(granted[client_asks(i)], i, "granted");
    }
    ended.store(true, kRelaxed);
  });
  for (std::uint32_t last = 0; !ended.load(kRelaxed);) {
    const fikit::tracking::Request request = one.page.request();
    if (!request.waiting || request.sequence == last) continue;
    last = request.sequence;
    check(told[last], request.bytes, "request");
    granted[last] = last;
    one.page.grant(last, 0);
  }
  client.join();
}

void gate() {
  One one;
  std::atomic<std::size_t> seen = 0;
  std::thread client([&] {
    for (std::size_t i = 1; i <= kTimes; ++i) {
      while (client_may_go() == (i % 2 != 0)) std::this_thread::yield();
      check(told[i], i, "gate");
      seen.store(i, kRelaxed);
    }
  });
  const std::int64_t until_ns = far_ns();
  for (std::size_t i = 1; i <= kTimes; ++i) {
    told[i] = i;
    if (i % 2 != 0) one.page.close_gate(until_ns);
    else one.page.open_gate();
    while (seen.load(kRelaxed) < i) std::this_thread::yield();
  }
  client.join();
}

void runs() {
  One one;
  std::thread client([&] {
    for (std::size_t i = 1; i <= kTimes; ++i) {
      while (!client_goes_on(i - 1)) std::this_thread::yield();
      check(told[i], i, "run");
    }
  });
  for (std::size_t i = 1; i <= kTimes; ++i) {
    told[i] = i;
    one.page.extend_run(i);
  }
  client.join();
}

void new_handles() {
  std::thread reader([] {
    for (std::size_t i = 1; i <= kTimes; ++i) {
      const void* name;
      while ((name = client_name_of(16 * i)) == nullptr) std::this_thread::yield();
      check(*static_cast<const std::size_t*>(name), i, "new handle");
    }
  });
  for (std::size_t i = 1; i <= kTimes; ++i) {
    told[i] = i;
    client_names(16 * i, &told[i]);
  }
  reader.join();
}

// Reads what `latest` points to until that is the last one.
void follow(const void* (*latest)(), const char* what) {
  for (std::size_t said = 0; said != kTimes;) {
    const auto* name = static_cast<const std::size_t*>(latest());
    if (name == nullptr) continue;
    said = *name;
    check(said, static_cast<std::size_t>(name - told.data()), what);
  }
}

void changed_handle() {
  std::thread reader([] { follow([] { return client_name_of(8); }, "changed handle"); });
  for (std::size_t i = 1; i <= kTimes; ++i) {
    told[i] = i;
    client_names(8, &told[i]);
  }
  reader.join();
}

void driver() {
  std::thread caller([] { follow([]() -> const void* { return client_calls(); }, "function"); });
  for (std::size_t i = 1; i <= kTimes; ++i) {
    told[i] = i;
    client_finds(&told[i]);
  }
  caller.join();
}

constexpr std::size_t kOften = 300'000;

// Fields of one request are never taken for those of another.
void whole_requests() {
  Both both;
  std::thread client([&] {
    for (std::size_t i = 1; i <= kOften; ++i) {
      client_posts(i);
      client_withdraws();
    }
    ended.store(true, kRelaxed);
  });
  while (!ended.load(kRelaxed)) {
    const fikit::tracking::Request request = both.page.request();
    if (request.waiting) check(request.bytes, request.sequence, "request");
    if (request.waiting) check(static_cast<std::size_t>(request.posted_ns), request.sequence, "moment of the request");
  }
  client.join();
}

// Whoever posts rings, or is seen by the last look before the dispatcher sleeps: the two go along a row of pages from its two
// ends, so that they meet at one of them in every round. A missing fence shows within a second on two cores, in most runs.
void bells() {
  constexpr std::size_t kPages = 64;
  const std::int64_t until_ns = now_ns() + 700'000'000;
  std::array<Both, kPages> row;
  std::array<bool, kPages> rang{}, seen{};
  std::atomic<std::size_t> begun = 0, over = 0;
  std::thread client([&] {
    for (std::size_t round = 1;; ++round) {
      while (begun.load(std::memory_order_acquire) < round) {}
      if (ended.load(kRelaxed)) return;
      for (std::size_t i = kPages; i-- > 0;) {
        client_has(row[i].client);
        client_posts(1);
        rang[i] = client_rings();
      }
      over.store(round, std::memory_order_release);
    }
  });
  for (std::size_t round = 1; !ended.load(kRelaxed); ++round) {
    for (Both& both : row) both.page.set_awake(true);
    ended.store(now_ns() >= until_ns, kRelaxed);
    begun.store(round, std::memory_order_release);
    if (ended.load(kRelaxed)) break;
    for (std::size_t i = 0; i < kPages; ++i) {
      row[i].page.set_awake(false);
      std::atomic_thread_fence(std::memory_order_seq_cst); // Dispatcher::fall_asleep()
      seen[i] = row[i].page.request().waiting;
    }
    while (over.load(std::memory_order_acquire) < round) {}
    for (std::size_t i = 0; i < kPages; ++i) {
      check(static_cast<std::size_t>(seen[i] || rang[i]), 1, "seen or rung");
      client_has(row[i].client);
      client_withdraws();
    }
  }
  client.join();
}

} // namespace

int main(int, char** words) {
  const std::map<std::string, void (*)()> all{{"reports", reports}, {"requests and grants", requests_and_grants}, {"gate", gate},
                                              {"runs", runs}, {"new handles", new_handles}, {"changed handle", changed_handle}, {"driver", driver},
                                              {"whole requests", whole_requests}, {"bells", bells}};
  all.at(words[1])();
  std::puts(wrong == 0 ? "fine" : "not fine");
  return wrong == 0 ? 0 : 1;
}
