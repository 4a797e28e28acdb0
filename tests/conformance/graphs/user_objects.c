/* User objects: a graph, its copies and its executable copies each keep what they were given. */
#include <unistd.h>

#include "../graphs.h"

typedef void *UserObject;
CUresult cuUserObjectCreate(UserObject *, void *, void (*)(void *), unsigned, unsigned), cuUserObjectRelease(UserObject, unsigned);
CUresult cuGraphRetainUserObject(CUgraph, UserObject, unsigned, unsigned), cuGraphReleaseUserObject(CUgraph, UserObject, unsigned);

enum { NO_DESTRUCTOR_SYNC = 1, MOVE = 1 };

static volatile int g_destroyed;
static void destroy(void *data) { __atomic_store_n(&g_destroyed, *(int *)data, __ATOMIC_SEQ_CST); }

/* The destructor may run on a thread of the driver's. */
static int destroyed(void) {
  for (int tries = 0; tries < 5000 && g_destroyed == 0; ++tries) usleep(1000);
  return g_destroyed;
}

static UserObject object(int *number) {
  UserObject made;
  g_destroyed = 0;
  OK(cuUserObjectCreate(&made, number, destroy, 1, NO_DESTRUCTOR_SYNC));
  return made;
}

int main(void) {
  CUcontext context;
  CUmodule module = open_device(&context);
  int number = 7;
  CUgraph graph = new_graph(), clone;
  UserObject given = object(&number);
  see("given_to_the_graph", cuGraphRetainUserObject(graph, given, 1, MOVE));
  add_check(graph, NULL, kernel(module, "emu_check_order"), zeroed(4), 0);
  CUgraphExec exec = instantiate(graph);
  OK(cuGraphDestroy(graph));
  run(exec);
  see("kept_by_the_exec", g_destroyed);
  OK(cuGraphExecDestroy(exec));
  see("gone_with_the_exec", destroyed());

  graph = new_graph();
  given = object(&number);
  see("shared_with_the_graph", cuGraphRetainUserObject(graph, given, 1, 0));
  OK(cuUserObjectRelease(given, 1));
  OK(cuGraphClone(&clone, graph));
  OK(cuGraphDestroy(graph));
  see("kept_by_the_clone", g_destroyed);
  see("taken_back", cuGraphReleaseUserObject(clone, given, 1));
  see("gone_then", destroyed());
  return 0;
}
