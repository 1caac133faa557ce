// Direct (one-shot). Everybody sends its vector to everybody; each reduces all of them alike.
//
//        0 ◀─▶ 1
//        ▲ ╲ ╱ ▲
//        │  ╳  │        one step, all pairs
//        ▼ ╱ ╲ ▼
//        2 ◀─▶ 3
//
// Steps: 1. Bytes sent per rank: (P−1) · B. Reduced: (P−1) · B.
#include <vector>

#include "coll_gpuar/algorithms/algorithm.h"
#include "coll_gpuar/algorithms/peers.h"

namespace gpuar {

void direct(const View& view, Sink& sink) {
  // Begin with the next rank, so that not all send to rank 0 first.
  for (Rank offset = 1; offset < view.size; ++offset) {
    sink.send(view.rank(ring_shift(view.position, offset, view.size)), view.chunks);
  }
  std::vector<Rank> peers;
  for (Rank at = 0; at < view.size; ++at) {
    if (at != view.position) peers.push_back(view.rank(at));
  }
  sink.recv_reduce(peers, view.chunks);
}

}  // namespace gpuar
