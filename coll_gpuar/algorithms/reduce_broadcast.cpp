// Reduce, then broadcast, both linear: the baseline that anything else has to beat.
//
//        1  2  3              1  2  3
//         ╲ │ ╱       then     ▲ ▲ ▲
//          ▼▼▼                  ╲│╱
//           0                    0
//
// Steps: 2. Bytes sent by the busiest rank: (P−1) · B; as many reach it before.
// Reduced: (P−1) · B.
#include <vector>

#include "coll_gpuar/algorithms/algorithm.h"

namespace gpuar {

void reduce_broadcast(const View& view, Sink& sink) {
  if (view.position != 0) {
    sink.send(view.rank(0), view.chunks);
    sink.recv(view.rank(0), view.chunks);
    return;
  }
  std::vector<Rank> others;
  for (Rank at = 1; at < view.size; ++at) others.push_back(view.rank(at));
  sink.recv_reduce(others, view.chunks);
  for (const Rank other : others) sink.send(other, view.chunks);
}

}  // namespace gpuar
