// Who talks to whom: pure arithmetic on positions, without chunks and without a network.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

#include "coll_gpuar/schedule/sink.h"

namespace gpuar {

constexpr Rank ring_next(Rank position, Rank size) {
  return position + 1 == size ? 0 : position + 1;
}

constexpr Rank ring_previous(Rank position, Rank size) {
  return position == 0 ? size - 1 : position - 1;
}

// `position + offset` around a ring, for -size <= offset <= size.
constexpr Rank ring_shift(Rank position, Rank offset, Rank size) {
  const Rank shifted = position + offset;
  if (shifted < 0) return shifted + size;
  return shifted >= size ? shifted - size : shifted;
}

// The partner at a distance that is a power of two: leaves in blocks of 2·distance pair up.
constexpr Rank doubling_peer(Rank leaf, Rank distance) {
  return leaf ^ distance;
}

// The largest power of two that is not above `size`.
constexpr Rank power_of_two_below(Rank size) {
  return static_cast<Rank>(std::bit_floor(static_cast<std::uint32_t>(size)));
}

constexpr Rank log2_of(Rank power) {
  return static_cast<Rank>(std::countr_zero(static_cast<std::uint32_t>(power)));
}

// Folding any number of positions to a power of two of leaves: the first `pairs` even/odd
// neighbours share a leaf, where the even one works for both. Order is kept.
//
//   size 6:   0 1   2 3   4   5      position
//              0     1    2   3      leaf
struct Fold {
  Rank leaves;
  Rank pairs;

  constexpr explicit Fold(Rank size)
      : leaves(power_of_two_below(size)), pairs(size - power_of_two_below(size)) {}

  [[nodiscard]] constexpr bool is_extra(Rank position) const {
    return position < 2 * pairs && position % 2 == 1;
  }
  [[nodiscard]] constexpr bool has_extra(Rank position) const {
    return position < 2 * pairs && position % 2 == 0;
  }
  [[nodiscard]] constexpr Rank leaf(Rank position) const {
    return position < 2 * pairs ? position / 2 : position - pairs;
  }
  [[nodiscard]] constexpr Rank position(Rank leaf) const {
    return leaf < pairs ? 2 * leaf : leaf + pairs;
  }
};

// The k-nomial tree with root 0 over `leaves` positions, radix and leaves powers of two. A node
// whose number, to the base of the radix, ends in i zeros has radix − 1 children for each of these
// i digits; every subtree is a run of consecutive positions that begins with its root.
struct TreeNode {
  Rank parent = -1;            // none: -1
  std::vector<Rank> children;  // ascending, so the smallest subtree first
};

inline TreeNode knomial_node(Rank position, Rank leaves, Rank radix) {
  TreeNode node;
  // 64 bits: the last distance may exceed a Rank.
  for (std::int64_t distance = 1; distance < leaves; distance *= radix) {
    const std::int64_t digit = position / distance % radix;
    if (digit != 0) {
      node.parent = static_cast<Rank>(position - digit * distance);
      break;
    }
    for (std::int64_t i = 1; i < radix && position + i * distance < leaves; ++i) {
      node.children.push_back(static_cast<Rank>(position + i * distance));
    }
  }
  return node;
}

}  // namespace gpuar
