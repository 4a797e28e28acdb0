#include "doorbells.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace fikit::dispatcher {
namespace {

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

constexpr std::uint64_t kOwn = policy::kMaxClients; // the dispatcher's own bell, beside the clients' slots

bool watch(int epoll, int eventfd, std::uint64_t whose) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  event.data.u64 = whose;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, eventfd, &event) == 0;
}

} // namespace

Doorbells::Doorbells() : epoll_(epoll_create1(EPOLL_CLOEXEC)), own_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (epoll_ >= 0 && own_ >= 0 && watch(epoll_, own_, kOwn)) return;
  const int error = errno;
  if (epoll_ >= 0) close(epoll_);
  if (own_ >= 0) close(own_);
  errno = error;
  fail("cannot wait for doorbells");
}

Doorbells::~Doorbells() {
  for (const int eventfd : eventfds_)
    if (eventfd != 0) close(eventfd);
  close(own_);
  close(epoll_);
}

void Doorbells::add(std::size_t slot, int eventfd) {
  constexpr int kLowest = 3; // above 0, which means no descriptor in eventfds_
  const int copy = fcntl(eventfd, F_DUPFD_CLOEXEC, kLowest);
  if (copy < 0) fail("cannot duplicate a client's doorbell");
  if (!watch(epoll_, copy, slot)) {
    const int error = errno;
    close(copy);
    errno = error;
    fail("cannot watch a client's doorbell");
  }
  eventfds_[slot] = copy;
}

void Doorbells::remove(std::size_t slot) {
  int& eventfd = eventfds_[slot];
  if (eventfd == 0) return;
  epoll_ctl(epoll_, EPOLL_CTL_DEL, eventfd, nullptr); // the client may hold the file open: closing is not enough
  close(eventfd);
  eventfd = 0;
}

void Doorbells::ring_own() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(own_, &one, sizeof one); // full = already rung
}

// ppoll, because epoll_wait counts in milliseconds, and epoll_pwait2 is too new for some kernels.
bool Doorbells::wait(std::int64_t timeout_ns) {
  constexpr std::int64_t kNsPerS = 1'000'000'000;
  count_ = 0;
  const std::int64_t ns = std::max<std::int64_t>(timeout_ns, 0);
  const timespec timeout{.tv_sec = ns / kNsPerS, .tv_nsec = ns % kNsPerS};
  pollfd ready{.fd = epoll_, .events = POLLIN, .revents = 0};
  if (ppoll(&ready, 1, &timeout, nullptr) == 0) return false;
  std::array<epoll_event, policy::kMaxClients + 1> events;
  const int found = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 0);
  for (const epoll_event& event : std::span(events).first(static_cast<std::size_t>(std::max(found, 0))))
    if (event.data.u64 != kOwn) rung_[count_++] = static_cast<std::size_t>(event.data.u64);
  return true;
}

} // namespace fikit::dispatcher
