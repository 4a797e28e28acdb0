#include "doorbells.hpp"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace fikit::dispatcher {
namespace {

[[noreturn]] void fail(const char* what) { throw std::system_error(errno, std::generic_category(), what); }

bool watch(int epoll, int eventfd) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLET;
  return epoll_ctl(epoll, EPOLL_CTL_ADD, eventfd, &event) == 0;
}

} // namespace

Doorbells::Doorbells() : epoll_(epoll_create1(EPOLL_CLOEXEC)), own_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (epoll_ >= 0 && own_ >= 0 && watch(epoll_, own_)) return;
  const int error = errno;
  if (epoll_ >= 0) close(epoll_);
  if (own_ >= 0) close(own_);
  errno = error;
  fail("cannot wait for doorbells");
}

Doorbells::~Doorbells() {
  for (const auto& [client, eventfd] : eventfds_) close(eventfd);
  close(own_);
  close(epoll_);
}

void Doorbells::add(policy::ClientId client, int eventfd) {
  const int copy = fcntl(eventfd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) fail("cannot duplicate a client's doorbell");
  if (!watch(epoll_, copy)) {
    const int error = errno;
    close(copy);
    errno = error;
    fail("cannot watch a client's doorbell");
  }
  eventfds_[client] = copy;
}

void Doorbells::remove(policy::ClientId client) {
  const auto it = eventfds_.find(client);
  if (it == eventfds_.end()) return;
  epoll_ctl(epoll_, EPOLL_CTL_DEL, it->second, nullptr); // the client may hold the file open: closing is not enough
  close(it->second);
  eventfds_.erase(it);
}

void Doorbells::ring_own() {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = write(own_, &one, sizeof one); // full = already rung
}

bool Doorbells::wait(std::int64_t timeout_ns) const {
  constexpr std::int64_t kNsPerMs = 1'000'000;
  constexpr int kEvents = 16;
  epoll_event events[kEvents];
  return epoll_wait(epoll_, events, kEvents, static_cast<int>(std::clamp<std::int64_t>(timeout_ns / kNsPerMs, 1, 60'000))) != 0;
}

} // namespace fikit::dispatcher
