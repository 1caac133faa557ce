// Ring (Patarasuk and Yuan, 2009). The vector is cut into P parts. Partial sums travel around the
// ring until each part is complete on one rank, then the complete parts travel around once more.
//
//        ┌─▶ 0 ──▶ 1 ─┐       step s of the first round:   send part r − s,  reduce r − s − 1
//        │            ▼       step s of the second round:  send part r − s + 1,   get r − s
//        └── 3 ◀── 2 ─┘
//
// Steps: 2(P−1). Bytes sent per rank: 2(P−1)/P · B, the least possible. Reduced: (P−1)/P · B.
#include "coll_gpuar/algorithms/algorithm.h"
#include "coll_gpuar/algorithms/peers.h"

namespace gpuar {

void ring(const View& view, Sink& sink) {
  const Rank size = view.size;
  const Rank next = view.rank(ring_next(view.position, size));
  const Rank previous = view.rank(ring_previous(view.position, size));
  const auto part = [&](Rank offset) {
    return view.parts(ring_shift(view.position, offset, size), 1, size);
  };
  for (Rank step = 0; step < size - 1; ++step) {
    sink.send(next, part(-step));
    sink.recv_reduce(previous, part(-step - 1));
  }
  for (Rank step = 0; step < size - 1; ++step) {
    sink.send(next, part(1 - step));
    sink.recv(previous, part(-step));
  }
}

}  // namespace gpuar
