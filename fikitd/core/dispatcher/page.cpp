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
#include <cstddef>
#include <stdexcept>
#include <string>
#include <system_error>

namespace fikit::dispatcher {
namespace {

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

fikit_page* map(int memfd, std::size_t bytes) {
  void* address = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd, 0);
  if (address == MAP_FAILED) fail("cannot map a client's page");
  return static_cast<fikit_page*>(address);
}

// The size of a file that make_page made, as its seals show: another file could be truncated under the mapping.
std::size_t checked_bytes(int memfd) {
  struct stat status {};
  if (fstat(memfd, &status) != 0) fail("cannot inspect a client's page");
  const int seals = fcntl(memfd, F_GET_SEALS);
  const auto bytes = static_cast<std::size_t>(status.st_size);
  const bool has_size = bytes == fikit_page_file_bytes(FIKIT_PROTOCOL_VERSION) || bytes == fikit_page_file_bytes(FIKIT_PROTOCOL_OLDEST);
  if (!has_size || seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    errno = EINVAL;
    fail("not a page made by make_page");
  }
  return bytes;
}

} // namespace

int make_page(bool measure, std::int64_t lease_ns, std::int64_t spin_ns, std::uint32_t sample_every,
              std::uint32_t version, std::string_view collective_names) {
  if (version < FIKIT_PROTOCOL_OLDEST || version > FIKIT_PROTOCOL_VERSION)
    throw std::invalid_argument("no page of protocol version " + std::to_string(version));
  if (collective_names.size() > FIKIT_COLLECTIVES_BYTES - 2)
    throw std::invalid_argument("the names of collective kernels have no room in a page");
  const int memfd = memfd_create("fikit-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memfd < 0) fail("cannot create a client's page");
  const std::size_t bytes = fikit_page_file_bytes(version);
  try {
    if (ftruncate(memfd, static_cast<off_t>(bytes)) != 0) fail("cannot size a client's page");
    fikit_page* page = map(memfd, bytes); // zeroed: the gate is open, no request, empty ring
    page->magic = FIKIT_PAGE_MAGIC;
    page->version = version;
    page->page_bytes = sizeof(fikit_page);
    page->measure = measure ? 1 : 0;
    page->lease_ns = lease_ns;
    page->spin_ns = spin_ns;
    page->sample_every = sample_every;
    if (version >= FIKIT_SINCE_FILLS) {
      page->fills_ask.store(1, std::memory_order_relaxed);
      std::copy(collective_names.begin(), collective_names.end(), page->collective_names);
    }
    munmap(page, bytes);
    // Without these a client could truncate the file under the daemon's mapping and kill it with SIGBUS.
    if (fcntl(memfd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) fail("cannot seal a client's page");
  } catch (...) {
    close(memfd);
    throw;
  }
  return memfd;
}

Page::Page(int memfd) : Page(memfd, checked_bytes(memfd)) {}

Page::Page(int memfd, std::size_t bytes) : Page(map(memfd, bytes), bytes) {}

Page::Page(fikit_page* page, std::size_t bytes)
    : PageWords(*page, __atomic_load_n(&page->version, __ATOMIC_RELAXED)), bytes_(bytes),
      plan_(bytes > sizeof(fikit_page) ? fikit_plan_behind(page) : nullptr) {}

Page::~Page() { munmap(page_, bytes_); }

void Page::wake() {
  page_->wake.fetch_add(1, std::memory_order_release);
  syscall(SYS_futex, &page_->wake, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

void Page::open_gate() {
  PageWords::open_gate();
  wake();
}

void Page::close_gate(std::int64_t until_ns) {
  PageWords::close_gate(until_ns);
  wake();
}

void Page::renew_lease(std::int64_t until_ns) { page_->gate_until_ns.store(until_ns, std::memory_order_release); }

void Page::grant(std::uint32_t request, std::uint64_t run_until) {
  PageWords::grant(request, run_until);
  wake();
}

std::uint32_t Page::set_goal(std::uint64_t bytes) {
  const std::uint32_t goal = PageWords::set_goal(bytes);
  if (goal != 0) wake();
  return goal;
}

void Page::set_awake(bool awake) { page_->awake.store(awake ? 1 : 0, std::memory_order_seq_cst); }

void Page::set_ring_tail(std::uint64_t tail) { page_->ring_tail.store(tail, std::memory_order_release); }

tracking::Counters Page::counters(std::int64_t now_ns) const {
  tracking::Counters counters;
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
  double count = 0, least_ns = 0; // the number of waits, and their least possible sum
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    buckets[i] = page_->wait_histogram[i].load(std::memory_order_relaxed);
    count += buckets[i];
    least_ns += std::ldexp(buckets[i], static_cast<int>(i));
  }
  double rest = 0.99 * count;
  for (std::size_t i = 0; i < buckets.size() && count > 0; ++i) {
    if (rest <= buckets[i] && buckets[i] > 0) {
      const double low_ns = std::ldexp(1.0, static_cast<int>(i));
      // A bucket reaches to twice its lower bound. A tighter bound: a wait is no longer than the total less the least of all others.
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
