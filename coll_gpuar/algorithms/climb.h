// Up and down a tree, whichever tree it is.
#pragma once

#include <vector>

#include "coll_gpuar/algorithms/peers.h"
#include "coll_gpuar/algorithms/view.h"
#include "coll_gpuar/schedule/sink.h"

namespace gpuar {

inline void reduce_up(const View& view, const TreeNode& node, Span span, Sink& sink) {
  std::vector<Rank> children;
  for (const Rank child : node.children) children.push_back(view.rank(child));
  sink.recv_reduce(children, span);
  if (node.parent >= 0) sink.send(view.rank(node.parent), span);
}

// The last child first: in a k-nomial tree it has the largest subtree and the longest way to go.
inline void broadcast_down(const View& view, const TreeNode& node, Span span, Sink& sink) {
  if (node.parent >= 0) sink.recv(view.rank(node.parent), span);
  for (auto child = node.children.rbegin(); child != node.children.rend(); ++child) {
    sink.send(view.rank(*child), span);
  }
}

}  // namespace gpuar
