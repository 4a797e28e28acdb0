// The dispatcher among threads that are its clients, come and go, and lie about everything their pages can say. For
// ThreadSanitizer and AddressSanitizer: prints nothing but "done"; what it finds, they say.
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <random>
#include <stdexcept>
#include <thread>
#include <vector>

#include "dispatcher/dispatcher.hpp"
#include "dispatcher/page.hpp"

namespace {

using fikit::dispatcher::Dispatcher;

std::int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::int64_t>(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

// As the shim writes it (shim/base/page.h).
void put(fikit_page* page, std::uint32_t kind, std::uint32_t slot, std::uint64_t value, std::int64_t t_ns) {
  const std::uint64_t i = page->ring_head.fetch_add(1, std::memory_order_relaxed);
  fikit_entry& entry = page->ring[i % FIKIT_RING_ENTRIES];
  entry.stamp.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  __atomic_store_n(&entry.t_ns, t_ns, __ATOMIC_RELAXED);
  __atomic_store_n(&entry.slot, slot, __ATOMIC_RELAXED);
  __atomic_store_n(&entry.kind, kind, __ATOMIC_RELAXED);
  __atomic_store_n(&entry.value, value, __ATOMIC_RELAXED);
  entry.stamp.store(i + 1, std::memory_order_release);
}

void act(fikit_page* page, int doorbell, std::mt19937& dice) {
  const std::uint32_t slot = dice() % 8;
  page->slot_launches[slot].fetch_add(1, std::memory_order_relaxed);
  const std::uint64_t seq = page->launch_seq.fetch_add(1, std::memory_order_release) + 1;
  const bool lies = dice() % 16 == 0;
  put(page, lies ? dice() % 12 : unsigned{FIKIT_ENTRY_LAUNCH}, lies ? dice() : slot, lies ? dice() : seq,
      lies ? static_cast<std::int64_t>(dice()) << 30 : now_ns());
  if (dice() % 4 == 0) put(page, FIKIT_ENTRY_DRAINED, 0, seq, now_ns());
  if (page->gate.load(std::memory_order_acquire) == FIKIT_GATE_CLOSED) {
    std::atomic_thread_fence(std::memory_order_release);
    page->request_slot.store(slot, std::memory_order_relaxed);
    page->request_ns.store(now_ns(), std::memory_order_relaxed);
    page->request_seq.fetch_add(1, std::memory_order_relaxed);
    page->waiting.store(1, std::memory_order_release);
    eventfd_write(doorbell, 1);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
    page->waiting.store(0, std::memory_order_release);
  }
}

void client(Dispatcher& dispatcher, int number, const std::atomic<bool>& stop) {
  std::mt19937 dice(static_cast<unsigned>(number));
  for (int life = 0; !stop.load(); ++life) {
    const int id = number * 1000 + life % 1000;
    const int memfd = fikit::dispatcher::make_page(false, 2'000'000, 1000, 0);
    const int doorbell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    auto* page = static_cast<fikit_page*>(mmap(nullptr, sizeof(fikit_page), PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0));
    const std::uint64_t gang = 1 + static_cast<std::uint64_t>(number) / 2; // two and two are of one job
    dispatcher.add_client(id, memfd, doorbell, number % 10, number % 3 == 0, {}, {}, gang, false, nullptr, number % 4 == 1);
    for (int i = 0; i < 200 && !stop.load(); ++i) {
      act(page, doorbell, dice);
      if (i % 50 == 0) dispatcher.stats(id), dispatcher.journal(id);
      if (i % 20 == 0) dispatcher.spent(id);
    }
    dispatcher.ended(id);
    dispatcher.remove_client(id);
    munmap(page, sizeof(fikit_page));
    close(doorbell);
    close(memfd);
  }
}

// As fikitd's own thread asks and tells, of clients that may be gone by now.
void watch(Dispatcher& dispatcher, const std::atomic<bool>& stop) {
  std::mt19937 dice(99);
  while (!stop.load()) {
    const int id = 1000 * static_cast<int>(1 + dice() % 4) + static_cast<int>(dice() % 50);
    dispatcher.remember_switch(50'000, 5'000, 20, static_cast<int>(dice() % 10));
    dispatcher.device(static_cast<int>(dice() % 10));
    dispatcher.switches();
    try {
      dispatcher.spent(id);
      dispatcher.set_priority(id, static_cast<int>(dice() % 10));
    } catch (const std::out_of_range&) { // it is gone
    } catch (const std::invalid_argument&) { // it is gone, or it measures
    }
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

} // namespace

int main() {
  for (const char* policy : {"budget", "paper", "prio", "fifo"}) {
    const fikit::policy::Options options{.lease_ns = 5'000'000, .min_gap_ns = 20'000, .run_ahead_ns = 500'000, .idle_after_ns = 200'000};
    Dispatcher one(policy, options, 1000, 16, 64), other(policy, options, 1000, 16, 64); // of two GPUs, with processes of the same jobs
    std::atomic<bool> stop = false;
    std::vector<std::thread> threads;
    for (int number = 1; number <= 4; ++number) {
      threads.emplace_back(client, std::ref(one), number, std::cref(stop));
      if (number % 2 == 0) threads.emplace_back(client, std::ref(other), number, std::cref(stop));
    }
    threads.emplace_back(watch, std::ref(one), std::cref(stop));
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    stop = true;
    for (std::thread& each : threads) each.join();
    one.stop();
    other.stop();
  }
  std::puts("done");
  return 0;
}
