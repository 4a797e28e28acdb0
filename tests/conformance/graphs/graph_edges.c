/* A graph's shape: asked for, changed, cloned. */
#include "../graphs.h"

int main(void) {
  CUcontext context;
  open_device(&context);
  CUgraph graph = new_graph(), other = new_graph(), clone;
  CUgraphNode a, b, c, d, foreign, twin, nodes[4] = {NULL}, to[4] = {NULL};
  size_t count = 0;
  OK(cuGraphAddEmptyNode(&a, graph, NULL, 0));
  OK(cuGraphAddEmptyNode(&b, graph, &a, 1));
  OK(cuGraphAddEmptyNode(&c, graph, &a, 1));
  const CUgraphNode both[] = {b, c}, same[] = {b, b};
  OK(cuGraphAddEmptyNode(&d, graph, both, 2));
  OK(cuGraphAddEmptyNode(&foreign, other, NULL, 0));
  see("empty_type", node_type(a));
  see("dependency_named_twice", cuGraphAddEmptyNode(&twin, graph, same, 2));
  see("dependency_of_another_graph", cuGraphAddEmptyNode(&twin, graph, &foreign, 1));
  OK(cuGraphGetRootNodes(graph, NULL, &count));
  see("roots", (long long)count);
  OK(cuGraphGetRootNodes(graph, nodes, &count));
  see("root_is_the_first", nodes[0] == a);
  OK(cuGraphGetEdges(graph, NULL, NULL, &count));
  see("edges", (long long)count);
  OK(cuGraphGetEdges(graph, nodes, to, &count));
  int known = 1;
  for (size_t i = 0; i < count; ++i) known &= (nodes[i] == a && (to[i] == b || to[i] == c)) || ((nodes[i] == b || nodes[i] == c) && to[i] == d);
  see("edges_are_those_given", known);
  count = 4;
  OK(cuGraphNodeGetDependencies(d, nodes, &count));
  see("dependencies", (long long)count);
  see("rest_of_the_room", nodes[2] == NULL && nodes[3] == NULL);
  count = 4;
  OK(cuGraphNodeGetDependentNodes(a, nodes, &count));
  see("dependents", (long long)count);
  see("remove", cuGraphRemoveDependencies(graph, &b, &d, 1));
  see("remove_again", cuGraphRemoveDependencies(graph, &b, &d, 1));
  see("add_back", cuGraphAddDependencies(graph, &b, &d, 1));
  see("add_twice", cuGraphAddDependencies(graph, &b, &d, 1));

  see("clone", cuGraphClone(&clone, graph));
  see("clone_nodes", node_count(clone));
  see("find_in_clone", cuGraphNodeFindInClone(&twin, d, clone));
  see("twin_is_another", twin != d);
  count = 0;
  OK(cuGraphNodeGetDependencies(twin, NULL, &count));
  see("twin_dependencies", (long long)count);
  see("find_what_was_not_there", cuGraphNodeFindInClone(&twin, foreign, clone));
  see("destroy_node", cuGraphDestroyNode(b));
  see("nodes_left", node_count(graph));
  OK(cuGraphGetEdges(graph, NULL, NULL, &count));
  see("edges_left", (long long)count);
  see("clone_nodes_still", node_count(clone));
  OK(cuGraphDestroy(graph));
  OK(cuGraphDestroy(clone));
  return 0;
}
