#include "coll_gpuar/algorithms/algorithm.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <stdexcept>

#include "coll_gpuar/algorithms/peers.h"

namespace gpuar {
namespace {

constexpr Rank any_size = std::numeric_limits<Rank>::max();

// A plan holds its steps, and should not hold 4 MiB of them: with five for each other rank, or with
// three.
constexpr Rank five_steps_each = 8192;
constexpr Rank three_steps_each = 16384;

template <void (*function)(const View&, Sink&)>
void without_radix(const View& view, std::uint32_t /*radix*/, Sink& sink) {
  function(view, sink);
}

std::uint32_t one_chunk(Rank /*size*/) {
  return 1;
}
std::uint32_t two_chunks(Rank /*size*/) {
  return 2;
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

Cost recursive_doubling_cost(Rank size, std::uint32_t radix) {
  std::uint64_t levels = 0;
  std::uint64_t peers = 0;
  for (Rank blocks = power_of_two_below(size); blocks > 1; ++levels) {
    const Rank width = even_width(blocks, static_cast<Rank>(radix));
    peers += others(width);
    blocks /= width;
  }
  const std::uint64_t queued = peers + 2 * fold(size);
  const std::uint64_t own = peers + fold(size);
  return {levels + 2 * fold(size), queued, 1, queued, own, own};
}

Cost tree_cost_by_radix(Rank size, std::uint32_t radix) {
  return tree_cost(size, radix);
}

// A rank has at most two children in one tree and a parent in either. What queues up at ports may
// be one less: that depends on which of two messages comes first.
Cost double_tree_cost(Rank size, std::uint32_t /*radix*/) {
  const std::uint64_t n = others(size);
  const std::uint64_t levels = n == 0 ? 0 : static_cast<std::uint64_t>(std::bit_width(n));
  const std::uint64_t sent = n == 0 ? 0 : std::min<std::uint64_t>(n + 1, 4);
  const std::uint64_t queued = n == 0 ? 0 : 4 * levels - 2 - fold(size);
  return {2 * levels, queued, 2, queued, sent, std::min<std::uint64_t>(n, 2)};
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

Cost two_shot_cost_of(Rank size, std::uint32_t /*radix*/) {
  return two_shot_cost(size);
}

Cost reduce_broadcast_cost(Rank size, std::uint32_t /*radix*/) {
  const std::uint64_t n = others(size);
  return {n > 0 ? 2U : 0U, 2 * n, 1, 2 * n, n, n};
}

constexpr std::array<Algorithm, 8> table{{
    {.name = "ring",
     .description = "partial sums, then results, travel around a ring",
     .narrate = without_radix<ring>,
     .chunks = chunk_per_rank,
     .cost = ring_cost,
     .keeps_rank_order = false,
     .reproducible = false,
     .has_radix = false,
     .crowds_links = false,
     .turn = Turn::shift,
     .max_size = five_steps_each},
    {.name = "recursive_doubling",
     .description = "blocks of ranks join, two or more at a time, by exchanging whole vectors",
     .narrate = recursive_doubling,
     .chunks = one_chunk,
     .cost = recursive_doubling_cost,
     .keeps_rank_order = true,
     .reproducible = true,
     .has_radix = true,
     .crowds_links = true,
     .turn = Turn::exclusive_or,
     .max_size = any_size},
    {.name = "tree",
     .description = "k-nomial tree: reduced to rank 0, sent back down",
     .narrate = tree,
     .chunks = one_chunk,
     .cost = tree_cost_by_radix,
     .keeps_rank_order = true,
     .reproducible = true,
     .has_radix = true,
     .crowds_links = false,
     .turn = Turn::none,
     .max_size = any_size},
    {.name = "double_tree",
     .description =
         "two binary trees, half of the vector each: leaves of one have children in the other",
     .narrate = without_radix<double_tree>,
     .chunks = two_chunks,
     .cost = double_tree_cost,
     .keeps_rank_order = true,
     .reproducible = false,
     .has_radix = false,
     .crowds_links = false,
     .turn = Turn::none,
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
     .turn = Turn::exclusive_or,
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
     .turn = Turn::shift,
     .max_size = three_steps_each},
    {.name = "two_shot",
     .description = "direct: everybody reduces its part of everybody's vector and sends it to all",
     .narrate = without_radix<two_shot>,
     .chunks = chunk_per_rank,
     .cost = two_shot_cost_of,
     .keeps_rank_order = true,
     .reproducible = true,
     .has_radix = false,
     .crowds_links = true,
     .turn = Turn::shift,
     .max_size = five_steps_each},
    {.name = "reduce_broadcast",
     .description = "linear reduction to rank 0, then linear broadcast: the baseline",
     .narrate = without_radix<reduce_broadcast>,
     .chunks = one_chunk,
     .cost = reduce_broadcast_cost,
     .keeps_rank_order = true,
     .reproducible = true,
     .has_radix = false,
     .crowds_links = false,
     .turn = Turn::none,
     .max_size = three_steps_each},
}};

}  // namespace

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

Cost two_shot_cost(Rank size) {
  const std::uint64_t n = others(size);
  return {n > 0 ? 2U : 0U, 2 * n, n + 1, 2 * n, 2 * n, n};
}

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

void check_serves(const Algorithm& algorithm, Rank size, std::uint32_t radix) {
  if (radix < 2 || !std::has_single_bit(radix)) {
    throw std::invalid_argument("radix " + std::to_string(radix) +
                                ": must be a power of two, at least 2");
  }
  if (size > algorithm.max_size) {
    throw std::invalid_argument(std::string(algorithm.name) + " serves at most " +
                                std::to_string(algorithm.max_size) + " ranks, not " +
                                std::to_string(size));
  }
}

std::uint32_t slots_for(Rank size) {
  return static_cast<std::uint32_t>(std::clamp<Rank>(size - 1, 4, 16));
}

Schedule build(const Algorithm& algorithm, Rank rank, Rank size, const BuildOptions& options) {
  check_serves(algorithm, size, options.radix);
  const std::uint32_t chunks = algorithm.chunks(size);
  Builder builder(rank, size, chunks, options.builder);
  algorithm.narrate(View{rank, size, {0, chunks}, {}}, options.radix, builder);
  return std::move(builder).finish();
}

}  // namespace gpuar
