// How the ranks of a communicator lie over the machine. Pure functions of the members' places, so
// that every member computes the same layout.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "topo/place.h"

namespace gpuar {

// The sizes of pretend nodes, which split the ranks of one host for tests. Empty: nodes are hosts.
using NodeSizes = std::vector<std::int32_t>;

// Reads "" (none), "2" (blocks of two ranks) or "1,3" (one rank, then three, then one again, ...).
// nullopt if the text is none of these.
std::optional<NodeSizes> parse_node_sizes(std::string_view text);

struct Layout {
  std::vector<std::int32_t>
      node_of;  // by rank; nodes are numbered in the order of their first rank
  std::int32_t nodes = 0;
  std::int32_t largest_node = 0;  // in ranks
  std::int32_t smallest_node = 0;
  bool oversubscribed = false;  // somewhere ranks share a hardware thread: nobody should spin
  friend bool operator==(const Layout&, const Layout&) = default;
};

// The layout of a communicator with these members, by rank. On each host the pretend nodes are cut
// in rank order; the sizes start again when they are used up, and the last node takes what is left.
Layout make_layout(std::span<const ProcessPlace* const> members, const NodeSizes& pretend = {});

}  // namespace gpuar
