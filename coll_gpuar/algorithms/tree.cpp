// k-nomial tree (binomial for radix 2). Vectors are reduced up the tree to rank 0, the result goes
// down the same tree. Every subtree is a run of consecutive ranks.
//
//            0
//         ┌──┼──┐          radix 2, 8 ranks
//         4  2  1
//       ┌─┤  │
//       6 5  3
//       │
//       7
//
// With L levels of widths w (w = radix, the top one may be narrower; their product is 2^⌊log2 P⌋),
// f = 1 if P is no power of two (then neighbours are folded first), else 0, and g = 1 if that
// lengthens the longest chain (never for radix 2), else 0:
// Steps: 2(L + g). Bytes sent by the busiest rank: (Σ(w−1) + f) · B, half of what passes through
// rank 0 one after the other. Reduced: (Σ(w−1) + f) · B.
#include <vector>

#include "coll_gpuar/algorithms/algorithm.h"
#include "coll_gpuar/algorithms/fold.h"

namespace gpuar {

void tree(const View& view, std::uint32_t radix, Sink& sink) {
  folded(view, sink, [&](const Leaves& leaves) {
    const TreeNode node = knomial_node(leaves.leaf, leaves.size, static_cast<Rank>(radix));
    std::vector<Rank> children;
    for (const Rank child : node.children) children.push_back(leaves.rank(child));
    if (!children.empty()) sink.recv_reduce(children, view.chunks);
    if (node.parent >= 0) {
      sink.send(leaves.rank(node.parent), view.chunks);
      sink.recv(leaves.rank(node.parent), view.chunks);
    }
    // The largest subtree first: it has the longest way to go.
    for (auto child = children.rbegin(); child != children.rend(); ++child) {
      sink.send(*child, view.chunks);
    }
  });
}

}  // namespace gpuar
