#include "page.hpp"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cmath>
#include <stdexcept>
#include <string>
#include <system_error>

namespace fikit::dispatcher {
namespace {

// Counters of a client that lies stop here, so that sums and differences of them cannot overflow.
constexpr std::uint64_t kMaxCounter = std::uint64_t{1} << 53;

std::uint64_t bounded(const std::atomic<std::uint64_t>& counter) {
  return std::min(counter.load(std::memory_order_relaxed), kMaxCounter);
}

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

fikit_page* map(int memfd) {
  void* address = mmap(nullptr, sizeof(fikit_page), PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
  if (address == MAP_FAILED) fail("cannot map a client's page");
  return static_cast<fikit_page*>(address);
}

} // namespace

int make_page(bool measure, std::int64_t lease_ns, std::int64_t spin_ns, std::uint32_t sample_every,
              std::uint32_t version) {
  if (version < FIKIT_PROTOCOL_OLDEST || version > FIKIT_PROTOCOL_VERSION)
    throw std::invalid_argument("no page of protocol version " + std::to_string(version));
  const int memfd = memfd_create("fikit-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memfd < 0) fail("cannot create a client's page");
  try {
    if (ftruncate(memfd, sizeof(fikit_page)) != 0) fail("cannot size a client's page");
    fikit_page* page = map(memfd); // zeroed: the gate is open, no request, empty ring
    page->magic = FIKIT_PAGE_MAGIC;
    page->version = version;
    page->page_bytes = sizeof(fikit_page);
    page->measure = measure ? 1 : 0;
    page->lease_ns = lease_ns;
    page->spin_ns = spin_ns;
    page->sample_every = sample_every;
    munmap(page, sizeof(fikit_page));
    // Without these a client could truncate the file under the daemon's mapping and kill it with SIGBUS.
    if (fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) fail("cannot seal a client's page");
  } catch (...) {
    close(memfd);
    throw;
  }
  return memfd;
}

policy::Engine engine_of(std::uint32_t copy) {
  if (copy == FIKIT_COPY_IN) return policy::Engine::to_device;
  return copy == FIKIT_COPY_OUT ? policy::Engine::to_host : policy::Engine::compute;
}

Page::Page(int memfd) : page_(nullptr), knows_copies_(false), knows_runs_(false) {
  struct stat status {};
  if (fstat(memfd, &status) != 0) fail("cannot inspect a client's page");
  const int seals = fcntl(memfd, F_GET_SEALS);
  if (status.st_size != static_cast<off_t>(sizeof(fikit_page)) || seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    errno = EINVAL;
    fail("not a page made by make_page");
  }
  page_ = map(memfd);
  knows_copies_ = __atomic_load_n(&page_->version, __ATOMIC_RELAXED) >= FIKIT_SINCE_COPIES;
  knows_runs_ = __atomic_load_n(&page_->version, __ATOMIC_RELAXED) >= FIKIT_SINCE_RUNS;
}

Page::~Page() { munmap(page_, sizeof(fikit_page)); }

void Page::wake() {
  page_->wake.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &page_->wake, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Page::open_gate() {
  page_->gate.store(FIKIT_GATE_OPEN, std::memory_order_release);
  wake();
}

void Page::close_gate(std::int64_t until_ns) {
  page_->gate_until_ns.store(until_ns, std::memory_order_release);
  page_->gate.store(FIKIT_GATE_CLOSED, std::memory_order_release);
  wake();
}

void Page::renew_lease(std::int64_t until_ns) { page_->gate_until_ns.store(until_ns, std::memory_order_release); }

void Page::grant(std::uint32_t request, std::uint64_t run_until) {
  if (knows_runs_) page_->run_until.store(run_until, std::memory_order_release);
  page_->grant_seq.store(request, std::memory_order_release);
  wake();
}

void Page::extend_run(std::uint64_t run_until) {
  if (knows_runs_) page_->run_until.store(run_until, std::memory_order_release);
}

void Page::end_run() {
  if (knows_runs_) page_->run_until.store(0, std::memory_order_release);
}

void Page::ask_copies(const policy::CopyEngines& engines) {
  if (!knows_copies_) return;
  for (std::size_t i = 0; i < engines.size(); ++i)
    page_->copies_ask_from[i].store(engines[i] ? policy::kLongCopyBytes : 0, std::memory_order_relaxed);
}

void Page::set_awake(bool awake) { page_->awake.store(awake ? 1 : 0, std::memory_order_seq_cst); }

void Page::set_ring_tail(std::uint64_t tail) { page_->ring_tail.store(tail, std::memory_order_release); }

void Page::set_mark_every(std::uint32_t launches) { page_->mark_every.store(launches, std::memory_order_relaxed); }

void Page::set_known(std::uint32_t slot, bool gap) {
  const std::uint32_t bit = 1U << slot % 32;
  if (gap) page_->gap_slots[slot / 32].fetch_or(bit, std::memory_order_relaxed);
  else page_->gap_slots[slot / 32].fetch_and(~bit, std::memory_order_relaxed);
  page_->known_slots[slot / 32].fetch_or(bit, std::memory_order_relaxed);
}

std::uint64_t Page::launches() const { return bounded(page_->launch_seq); }

// A later mark has the word only when this one was reached.
bool Page::reached(std::uint32_t mark) const {
  const std::uint32_t newest = page_->marks[mark % FIKIT_MARKS].load(std::memory_order_acquire);
  return static_cast<std::int32_t>(newest - mark) >= 0; // numbers wrap
}

Page::Request Page::request() const {
  Request request;
  request.sequence = page_->request_seq.load(std::memory_order_seq_cst);
  request.waiting = page_->waiting.load(std::memory_order_seq_cst) == 1 && request.sequence != 0;
  if (!request.waiting) return request;
  const std::uint32_t slot = page_->request_slot.load(std::memory_order_relaxed);
  request.slot = slot < FIKIT_SLOTS ? slot : 0;
  if (knows_copies_) request.engine = engine_of(page_->request_copy.load(std::memory_order_relaxed));
  request.bytes = bounded(page_->request_bytes);
  request.posted_ns = page_->request_ns.load(std::memory_order_acquire);
  // The fields belong to another request if the client posted one meanwhile; the next poll sees that one whole.
  request.waiting = page_->request_seq.load(std::memory_order_seq_cst) == request.sequence;
  return request;
}

Page::Counters Page::counters(std::int64_t now_ns) const {
  Counters counters;
  counters.launches = launches();
  counters.wait_count = bounded(page_->wait_count);
  counters.wait_total_ns = bounded(page_->wait_total_ns);
  counters.expired = bounded(page_->expired_count);
  const auto moment = [now_ns](const std::atomic<std::int64_t>& word) {
    return std::clamp<std::int64_t>(word.load(std::memory_order_relaxed), 0, now_ns);
  };
  counters.first_launch_ns = moment(page_->first_launch_ns);
  counters.last_drained_ns = moment(page_->last_drained_ns);

  counters.wait_p99_ns = wait_p99_ns(counters.wait_total_ns);
  return counters;
}

double Page::wait_p99_ns(std::uint64_t total_ns) const {
  std::array<double, FIKIT_WAIT_BUCKETS> buckets{};
  double count = 0, least_ns = 0; // of all waits together
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    buckets[i] = page_->wait_histogram[i].load(std::memory_order_relaxed);
    count += buckets[i];
    least_ns += std::ldexp(buckets[i], static_cast<int>(i));
  }
  double rest = 0.99 * count;
  for (std::size_t i = 0; i < buckets.size() && count > 0; ++i) {
    if (rest <= buckets[i] && buckets[i] > 0) {
      const double low_ns = std::ldexp(1.0, static_cast<int>(i));
      // A bucket is as wide as it is far from 0: no single wait is longer than the others leave of all waiting.
      const double left_ns = static_cast<double>(total_ns) - (least_ns - low_ns);
      return std::max(low_ns, std::min(low_ns * (1.0 + rest / buckets[i]), left_ns));
    }
    rest -= buckets[i];
  }
  return 0;
}

std::vector<std::uint64_t> Page::slot_launches() const {
  std::vector<std::uint64_t> launches(FIKIT_SLOTS);
  for (std::size_t slot = 0; slot < launches.size(); ++slot) launches[slot] = bounded(page_->slot_launches[slot]);
  return launches;
}

} // namespace fikit::dispatcher
