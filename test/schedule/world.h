// The symbolic checker: the schedules of all ranks, run on expressions instead of numbers.
//
// Sends complete only when matched (rendezvous), ready steps start and started steps finish in
// random order, and memory is watched from the start of a step to its end.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "coll_gpuar/algorithms/composition.h"
#include "coll_gpuar/schedule/schedule.h"

namespace gpuar::symbolic {

using Expression = std::uint32_t;

// Expressions over the ranks' contributions, each distinct one held once: equal expressions have
// equal numbers. Expression r, for r below the number of ranks, is the contribution of rank r.
class Expressions {
 public:
  explicit Expressions(Rank ranks);
  Expression join(Expression left, Expression right);

  // How many contributions are in it, repetitions included; saturates.
  [[nodiscard]] std::uint32_t contributions(Expression expression) const {
    return nodes_[expression].contributions;
  }
  // The contributions from left to right. Only for few of them: see contributions().
  [[nodiscard]] std::vector<Rank> flatten(Expression expression) const;
  [[nodiscard]] std::string text(Expression expression) const;

 private:
  struct Node {
    Expression left;
    Expression right;
    std::uint32_t contributions;
  };
  Rank ranks_;
  std::vector<Node> nodes_;
  std::unordered_map<std::uint64_t, Expression> known_;
};

// The association that `reproducible` fixes, and the chain from left to right, written down from
// their definitions alone.
Expression fixed_tree(Expressions& expressions, Rank ranks);
Expression left_chain(Expressions& expressions, Rank ranks);

enum class InPlace : std::uint8_t { no, yes };

// What the result must look like, beyond being the same allreduce on all ranks.
enum class Shape : std::uint8_t { any, rank_order, chain, tree };

struct Outcome {
  std::string failure;       // empty: all is well
  std::uint64_t rounds = 0;  // messages on the longest chain
};

// Runs the schedules once. The failure names what happened, the rank and the seed.
Outcome check(const std::vector<Schedule>& schedules, InPlace in_place, Shape shape,
              std::uint64_t seed);

// The schedules of all ranks.
std::vector<Schedule> build_all(const Algorithm& algorithm, Rank size, const BuildOptions& options);
std::vector<Schedule> build_all(const Composition& composition, const Algorithm& algorithm,
                                Levels levels, const BuildOptions& options);

// The time that the schedules take on a flat network without latency where a rank sends one message
// and receives one at a time, and a message takes as long as `weight` says.
std::uint64_t port_time(const std::vector<Schedule>& schedules,
                        const std::function<std::uint64_t(Span)>& weight);

}  // namespace gpuar::symbolic
