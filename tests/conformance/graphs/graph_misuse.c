/* Calls that the manual does not name as errors and that no program should make. A driver may refuse them, and may crash: each is
 * made in a process of its own. 1: refused, 0: done, below 0: the signal that ended the process. */
#include <sys/wait.h>
#include <unistd.h>

#include "../graphs.h"

static CUresult contain_itself(CUfunction check) {
  CUgraph graph = new_graph();
  CUgraphNode node = add_check(graph, NULL, check, zeroed(4), 0);
  return cuGraphAddChildGraphNode(&node, graph, &node, 1, graph);
}

static CUgraphNode a_memset(CUgraph graph, MemsetNode *fill) {
  CUcontext context;
  CUgraphNode node;
  *fill = (MemsetNode){zeroed(4), 0, 7, 4, 1, 1};
  OK(cuCtxGetCurrent(&context));
  OK(cuGraphAddMemsetNode(&node, graph, NULL, 0, fill, context));
  return node;
}

static CUresult set_memset_of_a_kernel(CUfunction check) {
  CUgraph graph = new_graph();
  MemsetNode fill;
  a_memset(graph, &fill);
  return cuGraphMemsetNodeSetParams(add_check(graph, NULL, check, zeroed(4), 0), &fill);
}

static CUresult set_memset_of_a_copy(CUfunction check) {
  (void)check;
  CUgraph graph = new_graph();
  CUcontext context;
  CUgraphNode copy;
  MemsetNode fill;
  const CUdeviceptr from = zeroed(4), to = zeroed(4);
  const CopyNode word_over = {{0, 0, 0, 0, DEVICE_MEMORY, NULL, from, NULL, NULL, 0, 0}, {0, 0, 0, 0, DEVICE_MEMORY, NULL, to, NULL, NULL, 0, 0}, 4, 1, 1};
  a_memset(graph, &fill);
  OK(cuCtxGetCurrent(&context));
  OK(cuGraphAddMemcpyNode(&copy, graph, NULL, 0, &word_over, context));
  return cuGraphMemsetNodeSetParams(copy, &fill);
}

static CUresult child_of_a_kernel(CUfunction check) {
  CUgraph graph = new_graph(), child;
  return cuGraphChildGraphNodeGetGraph(add_check(graph, NULL, check, zeroed(4), 0), &child);
}

static CUresult copy_of_a_kernel(CUfunction check) {
  CUgraph graph = new_graph();
  CopyNode copy;
  return cuGraphMemcpyNodeGetParams(add_check(graph, NULL, check, zeroed(4), 0), &copy);
}

static CUresult event_of_a_kernel(CUfunction check) {
  CUgraph graph = new_graph();
  CUevent event;
  return cuGraphEventRecordNodeGetEvent(add_check(graph, NULL, check, zeroed(4), 0), &event);
}

static CUresult kernel_of_a_memset(CUfunction check) {
  (void)check;
  MemsetNode fill;
  KernelNode params;
  CUresult cuGraphKernelNodeGetParams(CUgraphNode, KernelNode *);
  return cuGraphKernelNodeGetParams(a_memset(new_graph(), &fill), &params);
}

static const struct {
  const char *name;
  CUresult (*call)(CUfunction);
} kCalls[] = {
    {"memset_of_a_kernel", set_memset_of_a_kernel}, {"memset_of_a_copy", set_memset_of_a_copy},
    {"child_of_a_kernel", child_of_a_kernel},       {"copy_of_a_kernel", copy_of_a_kernel},
    {"event_of_a_kernel", event_of_a_kernel},       {"kernel_of_a_memset", kernel_of_a_memset},
    {"graph_that_contains_itself", contain_itself},
};
enum { CALLS = sizeof kCalls / sizeof *kCalls };

static int in_child(CUresult (*call)(CUfunction)) {
  CUcontext context;
  CUfunction check = kernel(open_device(&context), "emu_check_order");
  return call(check) == 0 ? 10 : 11; /* 1: a step on the way failed */
}

int main(void) {
  pid_t children[CALLS];
  for (int i = 0; i < CALLS; i++) {
    children[i] = fork();
    if (children[i] == 0) _exit(in_child(kCalls[i].call));
  }
  for (int i = 0; i < CALLS; i++) {
    int status;
    CHECK(waitpid(children[i], &status, 0) == children[i]);
    CHECK(WIFSIGNALED(status) || WEXITSTATUS(status) >= 10);
    see(kCalls[i].name, WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status) - 10);
  }
  return 0;
}
