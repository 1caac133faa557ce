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
#include "coll_gpuar/algorithms/algorithm.h"
#include "coll_gpuar/algorithms/climb.h"
#include "coll_gpuar/algorithms/peers.h"

namespace gpuar {

void tree_reduce(const View& view, std::uint32_t radix, Sink& sink) {
  reduce_up(view, folded_knomial_node(view.position, view.size, radix), view.chunks, sink);
}

void tree_broadcast(const View& view, std::uint32_t radix, Sink& sink) {
  broadcast_down(view, folded_knomial_node(view.position, view.size, radix), view.chunks, sink);
}

void tree(const View& view, std::uint32_t radix, Sink& sink) {
  tree_reduce(view, radix, sink);
  tree_broadcast(view, radix, sink);
}

}  // namespace gpuar
