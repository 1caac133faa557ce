// The allreduce algorithms: what they are called, what they promise, what they cost.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "coll_gpuar/algorithms/view.h"
#include "coll_gpuar/schedule/builder.h"
#include "coll_gpuar/schedule/schedule.h"
#include "coll_gpuar/schedule/sink.h"

namespace gpuar {

// One file each; there is the picture and where the formula comes from.
void ring(const View& view, Sink& sink);
void recursive_doubling(const View& view, std::uint32_t radix, Sink& sink);
void tree(const View& view, std::uint32_t radix, Sink& sink);
void rabenseifner(const View& view, Sink& sink);
void double_tree(const View& view, Sink& sink);
void direct(const View& view, Sink& sink);
void two_shot(const View& view, Sink& sink);
void reduce_broadcast(const View& view, Sink& sink);

// Halves of the above, for what is composed of them. A reduction ends at position 0, a
// reduce-scatter leaves each position its own of `size` parts; the other halves begin there.
void tree_reduce(const View& view, std::uint32_t radix, Sink& sink);
void tree_broadcast(const View& view, std::uint32_t radix, Sink& sink);
void two_shot_reduce_scatter(const View& view, Sink& sink);
void two_shot_allgather(const View& view, Sink& sink);

// The closed formula of one segment of B bytes on a flat network where each rank sends one message
// and receives one at a time. Bytes are in units of B / parts.
struct Cost {
  std::uint64_t rounds = 0;    // messages one after the other on the longest chain
  std::uint64_t messages = 0;  // as rounds, but messages through one port queue up
  std::uint64_t parts = 1;     // how many units make up B
  std::uint64_t wire = 0;      // units one after the other on the longest chain, likewise queued
  std::uint64_t sent = 0;      // units, by the rank that sends most
  std::uint64_t reduced = 0;   // units, by the rank that reduces most
  friend bool operator==(const Cost&, const Cost&) = default;
};

Cost tree_cost(Rank size, std::uint32_t radix);
Cost two_shot_cost(Rank size);

// What moves all positions of a group so that each does for another's parts what that one did.
enum class Turn : std::uint8_t { none, shift, exclusive_or };

struct Algorithm {
  std::string_view name;
  std::string_view description;  // one line
  void (*narrate)(const View& view, std::uint32_t radix, Sink& sink);
  std::uint32_t (*chunks)(Rank size);  // into which a segment is cut
  Cost (*cost)(Rank size, std::uint32_t radix);
  bool keeps_rank_order;  // operands stay in order of rank: fit for non-commutative operations
  bool reproducible;      // follows the association that is fixed by rank alone (Association::tree)
  bool has_radix;         // only these look at it
  bool crowds_links;      // all ranks of a host talk to other hosts at the same moment
  Turn turn;              // exclusive_or: with a power of two of ranks alone
  Rank max_size;          // of more ranks, a plan would take too much memory
};

// All of them, in a fixed order.
std::span<const Algorithm> algorithms();

// By name; null if there is none such.
const Algorithm* find_algorithm(std::string_view name);

// "ring, recursive_doubling, …", for messages.
std::string algorithm_names();

// Throws std::invalid_argument on a radix or size that the algorithm cannot serve.
void check_serves(const Algorithm& algorithm, Rank size, std::uint32_t radix);

// Scratch slots for a communicator of so many ranks: an algorithm that receives from everybody at
// once should not wait for slots.
std::uint32_t slots_for(Rank size);

struct BuildOptions {
  std::uint32_t radix = 2;  // a power of two, at least 2
  BuilderOptions builder;
  std::span<const Rank> order{};  // all ranks, such that neighbours are near; empty: by number
};

// The schedule of one rank of a communicator. Throws std::invalid_argument on a radix or size that
// the algorithm cannot serve.
Schedule build(const Algorithm& algorithm, Rank rank, Rank size, const BuildOptions& options = {});

}  // namespace gpuar
