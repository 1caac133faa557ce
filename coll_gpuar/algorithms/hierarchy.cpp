// Hierarchy: reduce-scatter within each node, allreduce of each piece across the nodes, allgather
// within each node. Every rank of a node works for a piece of its own, so all of them keep the
// network busy, and each node sends and receives no more than one rank alone would.
//
//        node 0        node 1        node 2
//       ┌───────┐     ┌───────┐     ┌───────┐
//       │ 0 ↔ 1 │     │ 2 ↔ 3 │     │   4   │       two-shot: first piece 0, 2, 4;  second 1, 3, 4
//       └─┼───┼─┘     └─┼───┼─┘     └─┼─┼───┘
//         └───┼─────────┴───┼─────────┘ │           across: any algorithm, on each piece
//             └─────────────┴───────────┘
//
// With G ranks on the largest node there are G pieces; a smaller node shares them out. With A(N, B)
// for the algorithm across N nodes: Steps: 2 + A's. Bytes sent by the busiest rank of equal nodes:
// 2(G−1)/G · B within the node and A(N, B/G) to other nodes. Reduced: (G−1)/G · B and A's.
#include "coll_gpuar/algorithms/composition.h"

namespace gpuar {

void hierarchy(const View& view, Levels levels, const Across& across, Sink& sink) {
  if (levels.empty()) return across(view, sink);
  const Groups groups(view, levels.front());
  View node = groups.mine(view);
  node.grain = node.chunks.count / groups.pieces();
  const Span mine = groups.my_pieces();

  two_shot_reduce_scatter(node, sink);
  for (std::uint32_t piece = mine.first; piece < mine.first + mine.count; ++piece) {
    const std::vector<Rank> workers = groups.workers(piece);
    const Span chunks = node.parts(static_cast<Rank>(piece), 1, static_cast<Rank>(groups.pieces()));
    hierarchy(view_of(workers, view.rank(view.position), chunks), levels.subspan(1), across, sink);
  }
  two_shot_allgather(node, sink);
}

}  // namespace gpuar
