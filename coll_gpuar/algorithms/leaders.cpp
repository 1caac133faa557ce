// Leaders: each node reduces to its first rank, the first ranks of all nodes do an allreduce, and
// each of them broadcasts the result within its node. Few messages, and none to share the way out
// of a node: for vectors so short that only the number of messages counts.
//
//        node 0          node 1       node 2
//       ┌─────────┐     ┌───────┐     ┌───┐
//       │ 0 ◀── 1 │     │ 3 ◀ 4 │     │ 5 │       up a tree within the node, and back down
//       │ ▲       │     │       │     │   │
//       │ └──── 2 │     │       │     │   │
//       └─┼───────┘     └─┼─────┘     └─┼─┘
//         └───────────────┴─────────────┘         across: any algorithm
//
// With T(G) for the tree over the G ranks of the largest node and A(N) for the algorithm across N
// nodes: Steps: T's + A's. Bytes sent by the busiest rank: T's within the node and A's to other
// nodes. Reduced: T's and A's.
#include "coll_gpuar/algorithms/composition.h"

namespace gpuar {

void leaders(const View& view, Levels levels, const Across& across, Sink& sink) {
  if (levels.empty()) return across(view, sink);
  const Groups groups(view, levels.front());
  const View node = groups.mine(view);

  tree_reduce(node, across.radix, sink);
  if (node.position == 0) {
    const std::vector<Rank> first = groups.leaders();
    const View among = view_of(first, view.rank(view.position), view.chunks);
    leaders(among, levels.subspan(1), across, sink);
  }
  tree_broadcast(node, across.radix, sink);
}

}  // namespace gpuar
