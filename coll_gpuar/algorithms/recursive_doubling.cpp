// Recursive doubling. Partners at distance 1, 2, 4, … exchange all they have and both reduce it, so
// that blocks of ranks with the same value double in size.
//
//        0 ◀─▶ 1   2 ◀─▶ 3       distance 1
//        0 ◀─────▶ 2                      2
//              1 ◀─────▶ 3
//
// With k = ⌊log2 P⌋ and f = 1 if P is no power of two (then neighbours are folded first), else 0:
// Steps: k + 2f. Bytes sent by the busiest rank: (k + f) · B. Reduced: (k + f) · B.
#include "coll_gpuar/algorithms/algorithm.h"
#include "coll_gpuar/algorithms/fold.h"

namespace gpuar {

void recursive_doubling(const View& view, Sink& sink) {
  folded(view, sink, [&](const Leaves& leaves) {
    for (Rank distance = 1; distance < leaves.size; distance *= 2) {
      const Rank peer = leaves.rank(doubling_peer(leaves.leaf, distance));
      sink.send(peer, view.chunks);
      sink.recv_reduce(peer, view.chunks);
    }
  });
}

}  // namespace gpuar
