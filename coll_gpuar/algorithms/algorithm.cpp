#include "coll_gpuar/algorithms/algorithm.h"

#include <array>
#include <bit>
#include <limits>
#include <stdexcept>

#include "coll_gpuar/algorithms/peers.h"

namespace gpuar {
namespace {

constexpr Rank any_size = std::numeric_limits<Rank>::max();
constexpr Rank ring_max_size = 32769;  // 2(P−1) messages to one peer, numbered in 16 bits

template <void (*function)(const View&, Sink&)>
void without_radix(const View& view, std::uint32_t /*radix*/, Sink& sink) {
  function(view, sink);
}

std::uint32_t one_chunk(Rank /*size*/) {
  return 1;
}
std::uint32_t chunk_per_rank(Rank size) {
  return static_cast<std::uint32_t>(size);
}
std::uint32_t chunk_per_leaf(Rank size) {
  return static_cast<std::uint32_t>(power_of_two_below(size));
}

std::uint64_t others(Rank size) {
  return static_cast<std::uint64_t>(size) - 1;
}
std::uint64_t leaves(Rank size) {
  return static_cast<std::uint64_t>(power_of_two_below(size));
}
std::uint64_t doublings(Rank size) {
  return static_cast<std::uint64_t>(log2_of(power_of_two_below(size)));
}
std::uint64_t fold(Rank size) {
  return std::has_single_bit(static_cast<unsigned>(size)) ? 0 : 1;
}

Cost ring_cost(Rank size, std::uint32_t /*radix*/) {
  const std::uint64_t n = others(size);
  return {2 * n, 2 * n, n + 1, 2 * n, 2 * n, n};
}

Cost recursive_doubling_cost(Rank size, std::uint32_t /*radix*/) {
  const std::uint64_t rounds = doublings(size) + 2 * fold(size);
  const std::uint64_t own = doublings(size) + fold(size);
  return {rounds, rounds, 1, rounds, own, own};
}

Cost tree_cost(Rank size, std::uint32_t radix) {
  const std::uint64_t radix_bits = log2_of(static_cast<Rank>(radix));
  const std::uint64_t full_levels = doublings(size) / radix_bits;
  const std::uint64_t top_width = std::uint64_t{1} << (doublings(size) % radix_bits);
  const std::uint64_t levels = full_levels + (top_width > 1 ? 1 : 0);
  const std::uint64_t children = full_levels * (radix - 1) + (top_width - 1) + fold(size);
  // The first leaf at the full depth has the digit 1 on all levels. If it is folded, the longest
  // chain grows; if only leaves nearer to the root are, it does not.
  std::uint64_t first_deepest = 0;
  for (std::uint64_t i = 0, power = 1; i < levels; ++i, power *= radix) first_deepest += power;
  const bool deeper = static_cast<std::uint64_t>(size) - leaves(size) > first_deepest;
  const std::uint64_t depth = levels + (deeper ? 1 : 0);
  return {2 * depth, 2 * children, 1, 2 * children, children, children};
}

Cost rabenseifner_cost(Rank size, std::uint32_t /*radix*/) {
  const std::uint64_t n = leaves(size);
  const std::uint64_t rounds = 2 * doublings(size) + 2 * fold(size);
  return {rounds,
          rounds,
          n,
          2 * (n - 1) + 2 * fold(size) * n,
          2 * (n - 1) + fold(size) * n,
          n - 1 + fold(size) * n};
}

Cost direct_cost(Rank size, std::uint32_t /*radix*/) {
  const std::uint64_t n = others(size);
  return {n > 0 ? 1U : 0U, n, 1, n, n, n};
}

Cost reduce_broadcast_cost(Rank size, std::uint32_t /*radix*/) {
  const std::uint64_t n = others(size);
  return {n > 0 ? 2U : 0U, 2 * n, 1, 2 * n, n, n};
}

constexpr std::array<Algorithm, 6> table{{
    {.name = "ring",
     .description = "partial sums, then results, travel around a ring",
     .narrate = without_radix<ring>,
     .chunks = chunk_per_rank,
     .cost = ring_cost,
     .keeps_rank_order = false,
     .reproducible = false,
     .has_radix = false,
     .crowds_links = false,
     .max_size = ring_max_size},
    {.name = "recursive_doubling",
     .description = "partners at doubling distance exchange whole vectors",
     .narrate = without_radix<recursive_doubling>,
     .chunks = one_chunk,
     .cost = recursive_doubling_cost,
     .keeps_rank_order = true,
     .reproducible = true,
     .has_radix = false,
     .crowds_links = true,
     .max_size = any_size},
    {.name = "tree",
     .description = "k-nomial tree: reduced to rank 0, sent back down",
     .narrate = tree,
     .chunks = one_chunk,
     .cost = tree_cost,
     .keeps_rank_order = true,
     .reproducible = true,
     .has_radix = true,
     .crowds_links = false,
     .max_size = any_size},
    {.name = "rabenseifner",
     .description = "recursive halving, then doubling: each rank reduces its part",
     .narrate = without_radix<rabenseifner>,
     .chunks = chunk_per_leaf,
     .cost = rabenseifner_cost,
     .keeps_rank_order = true,
     .reproducible = true,
     .has_radix = false,
     .crowds_links = true,
     .max_size = any_size},
    {.name = "direct",
     .description = "one-shot: everybody sends its vector to everybody",
     .narrate = without_radix<direct>,
     .chunks = one_chunk,
     .cost = direct_cost,
     .keeps_rank_order = true,
     .reproducible = true,
     .has_radix = false,
     .crowds_links = true,
     .max_size = any_size},
    {.name = "reduce_broadcast",
     .description = "linear reduction to rank 0, then linear broadcast: the baseline",
     .narrate = without_radix<reduce_broadcast>,
     .chunks = one_chunk,
     .cost = reduce_broadcast_cost,
     .keeps_rank_order = true,
     .reproducible = true,
     .has_radix = false,
     .crowds_links = false,
     .max_size = any_size},
}};

}  // namespace

std::span<const Algorithm> algorithms() {
  return table;
}

const Algorithm* find_algorithm(std::string_view name) {
  for (const Algorithm& algorithm : table) {
    if (algorithm.name == name) return &algorithm;
  }
  return nullptr;
}

std::string algorithm_names() {
  std::string names;
  for (const Algorithm& algorithm : table) {
    if (!names.empty()) names += ", ";
    names += algorithm.name;
  }
  return names;
}

Schedule build(const Algorithm& algorithm, Rank rank, Rank size, const BuildOptions& options) {
  if (options.radix < 2 || !std::has_single_bit(options.radix)) {
    throw std::invalid_argument("radix " + std::to_string(options.radix) +
                                ": must be a power of two, at least 2");
  }
  if (size > algorithm.max_size) {
    throw std::invalid_argument(std::string(algorithm.name) + " serves at most " +
                                std::to_string(algorithm.max_size) + " ranks, not " +
                                std::to_string(size));
  }
  const std::uint32_t chunks = algorithm.chunks(size);
  Builder builder(rank, size, chunks, options.builder);
  algorithm.narrate(View{rank, size, {0, chunks}, {}}, options.radix, builder);
  return std::move(builder).finish();
}

}  // namespace gpuar
