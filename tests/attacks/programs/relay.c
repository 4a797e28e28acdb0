/* Processes in turns: `relay SECONDS PROCESSES MS`. Each launches kernels of 200 us for a second at least. Then, 200 ms after the one before, it launches the same kernel for so
 * many ms and ends, and a new process takes its place. */
#include "attack.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { HARMLESS = 1000, BETWEEN = 200 }; /* ms */

static _Atomic int64_t *newest_ns; /* when a long kernel was launched */

static int my_turn(int64_t harmless_ns) {
  const int64_t now = now_ns();
  int64_t newest = *newest_ns;
  return now > harmless_ns && now - newest > (int64_t)BETWEEN * MS && atomic_compare_exchange_strong(newest_ns, &newest, now);
}

static void member(int argc, char **argv, int64_t long_ns) {
  hush();
  begin(argc, argv);
  const int64_t harmless_ns = now_ns() + (int64_t)HARMLESS * MS;
  for (int turn = 0; !turn && going_on();) {
    turn = my_turn(harmless_ns);
    launch(turn ? long_ns : 200 * US, NULL);
    OK(cuCtxSynchronize());
  }
  _exit(0);
}

int main(int argc, char **argv) {
  const int processes = argc > 2 ? atoi(argv[2]) : 6;
  const int64_t long_ns = (argc > 3 ? atoll(argv[3]) : 30) * MS;
  newest_ns = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(newest_ns != MAP_FAILED);
  begin_without_device(argc, argv);
  for (int there = 0; going_on();) {
    if (there < processes) {
      there++;
      if (fork() == 0)
        member(argc, argv, long_ns);
    } else if (wait(NULL) > 0) {
      there--;
      ended();
    }
  }
  return finish();
}
