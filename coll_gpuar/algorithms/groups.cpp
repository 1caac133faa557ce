#include "coll_gpuar/algorithms/groups.h"

#include <algorithm>

#include "coll_gpuar/algorithms/peers.h"

namespace gpuar {
namespace {

std::size_t index(std::int32_t number) {
  return static_cast<std::size_t>(number);
}

std::vector<Rank> ranks_by_group(const Level& level) {
  std::vector<Rank> counts;
  for (const std::int32_t group : level) {
    if (index(group) >= counts.size()) counts.resize(index(group) + 1);
    ++counts[index(group)];
  }
  counts.erase(std::remove(counts.begin(), counts.end(), 0), counts.end());
  return counts;
}

}  // namespace

Groups::Groups(const View& view, const Level& level) {
  constexpr std::size_t unseen = ~std::size_t{0};
  std::vector<std::size_t> place(level.size(), unseen);  // of a group in members_
  for (Rank position = 0; position < view.size; ++position) {
    const Rank rank = view.rank(position);
    std::size_t& at = place[index(level[index(rank)])];
    if (at == unseen) {
      at = members_.size();
      members_.emplace_back();
    }
    if (position == view.position) {
      own_ = at;
      position_ = static_cast<Rank>(members_[at].size());
    }
    members_[at].push_back(rank);
    pieces_ = std::max(pieces_, static_cast<std::uint32_t>(members_[at].size()));
  }
}

View Groups::mine(const View& view) const {
  const std::vector<Rank>& ranks = members_[own_];
  return {position_, static_cast<Rank>(ranks.size()), view.chunks, ranks};
}

Span Groups::my_pieces() const {
  const View pieces{position_, static_cast<Rank>(members_[own_].size()), {0, pieces_}};
  return pieces.parts(position_, 1, pieces.size);
}

std::vector<Rank> Groups::workers(std::uint32_t piece) const {
  std::vector<Rank> ranks;
  for (const std::vector<Rank>& group : members_) {
    // The last one whose part of the pieces begins at this piece or before it.
    const std::uint64_t at = ((std::uint64_t{piece} + 1) * group.size() - 1) / pieces_;
    ranks.push_back(group[at]);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

std::vector<Rank> Groups::leaders() const {
  std::vector<Rank> ranks;
  for (const std::vector<Rank>& group : members_) ranks.push_back(group.front());
  return ranks;
}

View view_of(std::span<const Rank> ranks, Rank rank, Span chunks) {
  const auto at = std::lower_bound(ranks.begin(), ranks.end(), rank);
  return {static_cast<Rank>(at - ranks.begin()), static_cast<Rank>(ranks.size()), chunks, ranks};
}

Grouping grouping_of(const Level& level) {
  const Fold fold(static_cast<Rank>(level.size()));
  const GroupSizes sizes = sizes_of(level);
  const Rank leaves = sizes.groups > 0 ? fold.leaves / sizes.groups : 0;
  bool subtrees = leaves * sizes.groups == fold.leaves;
  Rank runs = 0;
  for (std::size_t i = 0; i < level.size(); ++i) {
    const auto rank = static_cast<Rank>(i);
    if (i > 0 && level[i] == level[i - 1]) continue;
    // A subtree begins with the first rank of a leaf, so many leaves after the one before it.
    subtrees = subtrees && !fold.is_extra(rank) && fold.leaf(rank) == runs * leaves;
    ++runs;
  }
  if (runs != sizes.groups) return Grouping::scattered;
  return subtrees ? Grouping::subtrees : Grouping::runs;
}

GroupSizes sizes_of(const Level& level) {
  const std::vector<Rank> counts = ranks_by_group(level);
  if (counts.empty()) return {};
  const auto [smallest, largest] = std::minmax_element(counts.begin(), counts.end());
  return {static_cast<Rank>(level.size()), static_cast<Rank>(counts.size()), *largest, *smallest};
}

std::vector<GroupSizes> sizes_of(Levels levels) {
  std::vector<GroupSizes> sizes;
  std::vector<std::size_t> members;  // a rank of each group of the level before
  for (const Level& level : levels) {
    Level outer;
    if (sizes.empty()) outer = level;
    for (const std::size_t rank : members) outer.push_back(level[rank]);
    sizes.push_back(sizes_of(outer));
    members.clear();
    std::vector<bool> seen(level.size());
    for (std::size_t rank = 0; rank < level.size(); ++rank) {
      if (!seen[index(level[rank])]) members.push_back(rank);
      seen[index(level[rank])] = true;
    }
  }
  return sizes;
}

}  // namespace gpuar
