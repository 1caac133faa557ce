// Rabenseifner: reduce-scatter by recursive halving, allgather by recursive doubling. Partners at
// distance 1, 2, 4, … exchange halves of what they still hold: the lower one keeps the lower half.
// Distances grow (rather than shrink), so that each reduction joins neighbouring blocks of ranks.
//
//        0 ◀─▶ 1   2 ◀─▶ 3       distance 1: halves        0: [0,1]  1: [2,3]  2: [0,1]  3: [2,3]
//        0 ◀─────▶ 2                      2: quarters      0: [0]    1: [2]    2: [1]    3: [3]
//              1 ◀─────▶ 3                and the same way back
//
// With n = 2^⌊log2 P⌋ parts and f = 1 if P is no power of two (then neighbours are folded first),
// else 0: Steps: 2·log2 n + 2f. Bytes sent by the busiest rank: (2(n−1)/n + f) · B.
// Reduced: ((n−1)/n + f) · B.
#include "coll_gpuar/algorithms/algorithm.h"
#include "coll_gpuar/algorithms/fold.h"

namespace gpuar {

void rabenseifner(const View& view, Sink& sink) {
  folded(view, sink, [&](const Leaves& leaves) {
    Rank first = 0;  // the parts I hold: [first, first + count)
    Rank count = leaves.size;
    for (Rank distance = 1; distance < leaves.size; distance *= 2) {
      const Rank peer = leaves.rank(doubling_peer(leaves.leaf, distance));
      count /= 2;
      const Rank upper = first + count;
      const Rank keep = (leaves.leaf & distance) == 0 ? first : upper;
      const Rank give = keep == first ? upper : first;
      sink.send(peer, view.parts(give, count, leaves.size));
      sink.recv_reduce(peer, view.parts(keep, count, leaves.size));
      first = keep;
    }
    for (Rank distance = leaves.size / 2; distance > 0; distance /= 2) {
      const Rank peer = leaves.rank(doubling_peer(leaves.leaf, distance));
      const Rank theirs = (leaves.leaf & distance) == 0 ? first + count : first - count;
      sink.send(peer, view.parts(first, count, leaves.size));
      sink.recv(peer, view.parts(theirs, count, leaves.size));
      if (theirs < first) first = theirs;
      count *= 2;
    }
  });
}

}  // namespace gpuar
