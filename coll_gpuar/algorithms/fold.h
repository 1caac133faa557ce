// Algorithms that want a power of two of ranks, for any number of ranks.
#pragma once

#include "coll_gpuar/algorithms/peers.h"
#include "coll_gpuar/algorithms/view.h"
#include "coll_gpuar/schedule/sink.h"

namespace gpuar {

// What is left of a view after folding: leaves instead of positions.
struct Leaves {
  const View& view;
  Fold fold;
  Rank leaf;  // mine
  Rank size;  // a power of two

  [[nodiscard]] Rank rank(Rank at) const { return view.rank(fold.position(at)); }
};

// Odd neighbours hand their vector to the even one, which calls `inner` for both and returns the
// result: one message more at either end where the number of ranks is no power of two.
template <class Inner>
void folded(const View& view, Sink& sink, Inner inner) {
  const Fold fold(view.size);
  if (fold.is_extra(view.position)) {
    const Rank even = view.rank(view.position - 1);
    sink.send(even, view.chunks);
    sink.recv(even, view.chunks);
    return;
  }
  const bool pair = fold.has_extra(view.position);
  if (pair) sink.recv_reduce(view.rank(view.position + 1), view.chunks);
  inner(Leaves{view, fold, fold.leaf(view.position), fold.leaves});
  if (pair) sink.send(view.rank(view.position + 1), view.chunks);
}

}  // namespace gpuar
