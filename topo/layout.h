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

// Pretend nodes, which split the ranks of one host for tests, and pretend packages, which split
// those of a node.
struct Pretended {
  using Sizes = std::vector<std::int32_t>;  // in ranks
  Sizes nodes;                              // empty: nodes are hosts
  Sizes packages;                           // empty: what the processes are bound to
  friend bool operator==(const Pretended&, const Pretended&) = default;
};

// Reads "" (none), "2" (nodes of two ranks) or "1,3" (one rank, then three, then one again, ...),
// and after a slash the same of packages: "4/2", "/2". nullopt if the text is none of these.
std::optional<Pretended> parse_pretended(std::string_view text);

// Ranks in disjoint groups. Unless it is said otherwise, groups are numbered in the order of their
// first rank.
struct Partition {
  std::vector<std::int32_t> of;  // by rank
  std::int32_t count = 0;
  std::int32_t largest = 0;  // in ranks
  std::int32_t smallest = 0;
  bool even() const { return smallest == largest; }
  friend bool operator==(const Partition&, const Partition&) = default;
};

struct Layout {
  std::vector<std::int32_t>
      node_of;  // by rank; nodes are numbered in the order of their first rank
  std::int32_t nodes = 0;
  std::int32_t largest_node = 0;  // in ranks
  std::int32_t smallest_node = 0;
  bool oversubscribed = false;  // somewhere ranks share a hardware thread: nobody should spin
  // Of the one machine that all hosts really are (containers), if that has fewer hardware threads
  // than ranks; else 0.
  std::int32_t shared_threads = 0;
  // Bytes of last-level cache for each rank, on the host where that is least; 0 if unknown
  // anywhere.
  std::uint64_t cache_per_rank = 0;

  // The parts of nodes, each level within the one before. What holds a rank that is not bound to
  // one package (or NUMA domain) is not divided.
  Partition packages;
  Partition numas;

  // By rank, the GPU that it uses; -1 if that is not known. Ranks of one number share a GPU.
  std::vector<std::int32_t> gpu_of;
  std::int32_t gpus = 0;  // that some rank is known to use
  std::int32_t most_ranks_per_gpu = 0;
  bool gpus_known = false;  // of every rank

  // Ranks that have the same place in their nodes, one group for each rail of the network. Where
  // all GPUs are known the place is the number of the GPU on its host, and rails are numbered in
  // that order; ranks that share a GPU share its rail. Else it is the place among the ranks of the
  // node.
  Partition rails;

  std::vector<std::int32_t> leaders;  // by node, its lowest rank
  // All ranks in an order that makes neighbours near: node after node, and within a node package
  // after package, then NUMA domain, GPU, L3 cache and core. As a ring it enters and leaves each
  // node once.
  std::vector<std::int32_t> ring;
  friend bool operator==(const Layout&, const Layout&) = default;
};

// The layout of a communicator with these members, by rank. On each host the pretend nodes are cut
// in rank order, and in each node the pretend packages; the sizes start again when they are used
// up, and the last one takes what is left. O(P log P).
Layout make_layout(std::span<const ProcessPlace* const> members, const Pretended& pretend = {});

// The parts of nodes along which an allreduce may go before it leaves them: packages, or, where no
// node has several packages, NUMA domains. Null where each is a node of its own or has one rank.
const Partition* parts_of(const Layout& layout);

// One line on a layout, for people: nodes by the names of their hosts, parts, GPUs, ring.
std::string describe(const Layout& layout, std::span<const ProcessPlace* const> members);

}  // namespace gpuar
