// Double binary tree (Sanders, Speck and Träff, 2009). Each half of the vector is reduced up a tree
// of its own and sent back down it. Whoever has children in one tree has none in the other, so all
// links carry about the same.
//
//       0                     3
//       └──┐             ┌────┴──┐          6 ranks: the first half left, the second half right
//          4             1       5
//       ┌──┴─┐          ┌┴┐    ┌─┘
//       2    5          0 2    4
//      ┌┴┐
//      1 3
//
// Subtrees are runs of consecutive ranks. With three ranks or more, L = ⌈log2 P⌉:
// Steps: 2L. Bytes sent by the busiest rank: min(P, 4)/2 · B; in segments, this is all that counts.
// Reduced: min(P − 1, 2)/2 · B.
#include "coll_gpuar/algorithms/algorithm.h"
#include "coll_gpuar/algorithms/climb.h"
#include "coll_gpuar/algorithms/peers.h"

namespace gpuar {

void double_tree(const View& view, Sink& sink) {
  const TreeNode one = odd_leaves_node(view.position, view.size);
  const TreeNode other = even_leaves_node(view.position, view.size);
  const Span first = view.parts(0, 1, 2);
  const Span second = view.parts(1, 1, 2);
  reduce_up(view, one, first, sink);
  reduce_up(view, other, second, sink);
  broadcast_down(view, one, first, sink);
  broadcast_down(view, other, second, sink);
}

}  // namespace gpuar
