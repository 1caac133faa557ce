// Direct, two-shot. Everybody sends each part of its vector to the one rank that reduces this part;
// then everybody sends its complete part to everybody.
//
//        0 ◀─▶ 1
//        ▲ ╲ ╱ ▲        first step:    part p of every rank to rank p, which reduces it
//        │  ╳  │        second step:   the complete part p from rank p to every rank
//        ▼ ╱ ╲ ▼
//        2 ◀─▶ 3
//
// Steps: 2. Bytes sent per rank: 2(P−1)/P · B, the least possible. Reduced: (P−1)/P · B.
#include <vector>

#include "coll_gpuar/algorithms/algorithm.h"
#include "coll_gpuar/algorithms/peers.h"

namespace gpuar {

void two_shot_reduce_scatter(const View& view, Sink& sink) {
  // Begin with the next rank, so that not all send to rank 0 first.
  for (Rank offset = 1; offset < view.size; ++offset) {
    const Rank peer = ring_shift(view.position, offset, view.size);
    sink.send(view.rank(peer), view.parts(peer, 1, view.size));
  }
  std::vector<Rank> peers;
  for (Rank at = 0; at < view.size; ++at) {
    if (at != view.position) peers.push_back(view.rank(at));
  }
  sink.recv_reduce(peers, view.parts(view.position, 1, view.size));
}

void two_shot_allgather(const View& view, Sink& sink) {
  for (Rank offset = 1; offset < view.size; ++offset) {
    const Rank peer = ring_shift(view.position, offset, view.size);
    sink.send(view.rank(peer), view.parts(view.position, 1, view.size));
  }
  for (Rank offset = 1; offset < view.size; ++offset) {
    const Rank peer = ring_shift(view.position, -offset, view.size);
    sink.recv(view.rank(peer), view.parts(peer, 1, view.size));
  }
}

void two_shot(const View& view, Sink& sink) {
  two_shot_reduce_scatter(view, sink);
  two_shot_allgather(view, sink);
}

}  // namespace gpuar
