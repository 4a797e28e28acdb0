#include "libcuda/driver/host_thread.hpp"

#include <pthread.h>
#include <sys/prctl.h>

#include <csignal>
#include <thread>
#include <utility>

namespace emu {
namespace {
thread_local bool t_host_thread = false;
}

void start_quiet_thread(std::function<void()> body) {
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  std::thread([body = std::move(body)] {
    t_host_thread = true;
    prctl(PR_SET_TIMERSLACK, 1UL);  // others watch the memory that it writes: the default, 50 us, is longer than a kernel
    body();
  }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

bool in_host_function() { return t_host_thread; }

}  // namespace emu
