// Recursive doubling (of radix 2), multiplying (of more). Blocks of neighbouring ranks with the
// same value join, as many at a time as the radix says: each rank exchanges all it has with its
// like in the others, and all of them reduce it.
//
//        0 ◀─▶ 1   2 ◀─▶ 3       radix 2: pairs
//        0 ◀─────▶ 2                      then pairs of pairs
//              1 ◀─────▶ 3
//
// With L levels of even widths w (at most the radix each; their product is 2^⌊log2 P⌋) and f = 1 if
// P is no power of two (then neighbours are folded first), else 0:
// Steps: L + 2f. Bytes sent by the busiest rank: (Σ(w−1) + f) · B. Reduced: (Σ(w−1) + f) · B.
#include <vector>

#include "coll_gpuar/algorithms/algorithm.h"
#include "coll_gpuar/algorithms/fold.h"

namespace gpuar {

void recursive_doubling(const View& view, std::uint32_t radix, Sink& sink) {
  folded(view, sink, [&](const Leaves& leaves) {
    for (Rank distance = 1, width = 1; distance < leaves.size; distance *= width) {
      width = even_width(leaves.size / distance, static_cast<Rank>(radix));
      const Rank mine = leaves.leaf / distance % width;
      const auto peer = [&](Rank at) { return leaves.rank(leaves.leaf + (at - mine) * distance); };
      std::vector<Rank> peers;
      for (Rank at = 0; at < width; ++at) {
        if (at != mine) peers.push_back(peer(at));
      }
      // In pairs, so that not all send to the same one first.
      for (Rank other = 1; other < width; ++other) sink.send(peer(mine ^ other), view.chunks);
      sink.recv_reduce(peers, view.chunks);
    }
  });
}

}  // namespace gpuar
