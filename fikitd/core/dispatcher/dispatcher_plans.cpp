// Plans of clients' memory: what a client's launches touch in an iteration, from which fikitd makes a plan, and the words of its page in which
// the shim reads the plan (plan_words.hpp).
#include <chrono>
#include <stdexcept>
#include <thread>

#include "dispatcher.hpp"

namespace fikit::dispatcher {
namespace {

// Launches that are read at a time, while the GPU's decisions stand still: .07 ms at most with 80 places each, of 128 that there may be.
constexpr std::size_t kPart = 64;
constexpr std::size_t kMostParts = 4 * predictor::Accesses::kMaxLaunches / kPart; // a program may go from one iteration to another meanwhile
constexpr std::chrono::microseconds kBetween{50};                                // for whoever waits for the lock

} // namespace

Touched Dispatcher::accesses(ClientId id) {
  Touching found;
  const auto read = [&] {
    const std::lock_guard lock(mutex_);
    return client(id).read_accesses(found, kPart);
  };
  for (std::size_t parts = 1; !read(); ++parts) {
    if (parts == kMostParts) return {};
    std::this_thread::sleep_for(kBetween);
  }
  return {.learnt = std::move(found.reading).known(), .latest_ns = found.latest_ns};
}

std::optional<InPass> Dispatcher::iteration(ClientId id) {
  const std::lock_guard lock(mutex_);
  return client(id).iteration();
}

std::uint32_t Dispatcher::set_plan(ClientId id, std::uint64_t first_launch, std::uint32_t launches, std::string_view moves,
                                   std::int64_t until_ns) {
  const std::lock_guard lock(mutex_);
  return client(id).plan().set(first_launch, launches, moves, until_ns);
}

std::uint32_t Dispatcher::renew_plan(ClientId id, std::optional<std::uint64_t> first_launch, std::int64_t until_ns) {
  const std::lock_guard lock(mutex_);
  return client(id).plan().renew(first_launch, until_ns);
}

void Dispatcher::drop_plan(ClientId id) {
  const std::lock_guard lock(mutex_);
  client(id).plan().drop();
}

PlanState Dispatcher::plan_state(ClientId id) {
  const std::lock_guard lock(mutex_);
  return client(id).plan().state();
}

} // namespace fikit::dispatcher
