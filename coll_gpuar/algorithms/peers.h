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

// The width of the next of several levels that divide `blocks`, a power of two, as evenly as can be
// into widths of at most `radix`, a power of two.
constexpr Rank even_width(Rank blocks, Rank radix) {
  const Rank levels = (log2_of(blocks) + log2_of(radix) - 1) / log2_of(radix);
  if (levels == 0) return 1;
  return static_cast<Rank>(std::uint64_t{1} << ((log2_of(blocks) + levels - 1) / levels));
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

// The same over any number of positions: folded ones hang below the one that works for both.
inline TreeNode folded_knomial_node(Rank position, Rank size, std::uint32_t radix) {
  const Fold fold(size);
  if (fold.is_extra(position)) return {position - 1, {}};
  TreeNode node = knomial_node(fold.leaf(position), fold.leaves, static_cast<Rank>(radix));
  if (node.parent >= 0) node.parent = fold.position(node.parent);
  for (Rank& child : node.children) child = fold.position(child);
  if (fold.has_extra(position)) node.children.insert(node.children.begin(), position + 1);
  return node;
}

// The root of the in-order binary tree over the positions [first, first + count).
constexpr Rank in_order_root(Rank first, Rank count) {
  return first + power_of_two_below(count) - 1;
}

// A binary tree over `size` positions: every subtree is a run of consecutive positions, its left
// half before the root and its right half behind it. Even positions are leaves, odd ones are not.
//
//        3
//     ┌──┴──┐
//     1     5       size 7
//    ┌┴┐   ┌┴┐
//    0 2   4 6
inline TreeNode even_leaves_node(Rank position, Rank size) {
  TreeNode node;
  Rank first = 0;
  Rank count = size;
  for (;;) {
    const Rank root = in_order_root(first, count);
    const Rank left = root - first;
    const Rank right = count - left - 1;
    if (position == root) {
      if (left > 0) node.children.push_back(in_order_root(first, left));
      if (right > 0) node.children.push_back(in_order_root(root + 1, right));
      return node;
    }
    node.parent = root;
    count = position < root ? left : right;
    if (position > root) first = root + 1;
  }
}

// The other way round: that tree over the positions from 1 on, below position 0. Odd positions are
// leaves, even ones (but for the only one) are not.
inline TreeNode odd_leaves_node(Rank position, Rank size) {
  if (position == 0) {
    return size > 1 ? TreeNode{-1, {in_order_root(1, size - 1)}} : TreeNode{};
  }
  TreeNode node = even_leaves_node(position - 1, size - 1);
  ++node.parent;  // the root's becomes position 0
  for (Rank& child : node.children) ++child;
  return node;
}

}  // namespace gpuar
