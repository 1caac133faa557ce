#include <algorithm>
#include <bit>
#include <limits>

#include "test/schedule/world.h"

namespace gpuar::symbolic {

Expressions::Expressions(Rank ranks) : ranks_(ranks) {
  for (Rank rank = 0; rank < ranks; ++rank) nodes_.push_back({0, 0, 1});
}

Expression Expressions::join(Expression left, Expression right) {
  const std::uint64_t key = std::uint64_t{left} << 32 | right;
  const auto [entry, is_new] = known_.try_emplace(key, static_cast<Expression>(nodes_.size()));
  if (is_new) {
    const std::uint64_t sum =
        std::uint64_t{nodes_[left].contributions} + nodes_[right].contributions;
    const std::uint64_t most = std::numeric_limits<std::uint32_t>::max();
    nodes_.push_back({left, right, static_cast<std::uint32_t>(std::min(sum, most))});
  }
  return entry->second;
}

std::vector<Rank> Expressions::flatten(Expression expression) const {
  std::vector<Rank> ranks;
  std::vector<Expression> stack{expression};
  while (!stack.empty()) {
    const Expression top = stack.back();
    stack.pop_back();
    if (top < static_cast<Expression>(ranks_)) {
      ranks.push_back(static_cast<Rank>(top));
    } else {
      stack.push_back(nodes_[top].right);
      stack.push_back(nodes_[top].left);
    }
  }
  return ranks;
}

std::string Expressions::text(Expression expression) const {
  if (expression < static_cast<Expression>(ranks_)) return std::to_string(expression);
  const Node& node = nodes_[expression];
  std::string inside;
  if (node.contributions > 64) {
    inside = std::to_string(node.contributions) + " operands";
  } else {
    inside = text(node.left);
    inside += ' ';
    inside += text(node.right);
  }
  inside.insert(inside.begin(), '(');
  inside += ')';
  return inside;
}

Expression fixed_tree(Expressions& expressions, Rank ranks) {
  Rank leaves = 1;
  while (leaves * 2 <= ranks) leaves *= 2;
  const Rank folded = ranks - leaves;
  std::vector<Expression> level;
  for (Rank rank = 0; rank < 2 * folded; rank += 2) {
    level.push_back(
        expressions.join(static_cast<Expression>(rank), static_cast<Expression>(rank + 1)));
  }
  for (Rank rank = 2 * folded; rank < ranks; ++rank) {
    level.push_back(static_cast<Expression>(rank));
  }
  while (level.size() > 1) {
    std::vector<Expression> next;
    for (std::size_t i = 0; i < level.size(); i += 2) {
      next.push_back(expressions.join(level[i], level[i + 1]));
    }
    level = std::move(next);
  }
  return level[0];
}

Expression left_chain(Expressions& expressions, Rank ranks) {
  Expression sum = 0;
  for (Rank rank = 1; rank < ranks; ++rank) {
    sum = expressions.join(sum, static_cast<Expression>(rank));
  }
  return sum;
}

}  // namespace gpuar::symbolic
