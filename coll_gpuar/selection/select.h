// Which algorithm, over which groups and in which segments: by predicted time, from facts that are
// equal on all ranks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "coll_gpuar/algorithms/composition.h"
#include "coll_gpuar/selection/machine.h"

namespace gpuar {

// Where the ranks of a communicator sit.
struct LayoutSummary {
  std::uint32_t hosts = 1;
  std::uint32_t max_ranks_per_host = 1;
  std::uint32_t min_ranks_per_host = 1;
  Grouping hosts_are = Grouping::scattered;  // of the ranks of each host

  std::uint32_t parts = 0;  // packages or NUMA domains of all hosts; 0: hosts are not divided
  std::uint32_t max_ranks_per_part = 1;
  std::uint32_t min_ranks_per_part = 1;
  std::uint32_t max_parts_per_host = 1;
  std::uint32_t min_parts_per_host = 1;
  Grouping parts_are = Grouping::scattered;  // of the ranks of each part

  bool oversubscribed = false;       // more ranks than cores on some host
  std::uint64_t cache_per_rank = 0;  // bytes of last-level cache; 0: unknown
  // Of the machine, if all hosts are really one and it has fewer hardware threads than ranks; else
  // 0.
  std::uint32_t shared_threads = 0;
};

// Of a communicator's levels: the hosts, or their parts and they. The rest is left as it is.
LayoutSummary summary_of(Levels levels);

// A call, as far as the choice may look at it: what MPI makes equal on all ranks. It has no room
// for a pointer, a memory kind or the way in which a rank built its datatype.
struct CallShape {
  std::uint64_t bytes = 0;
  std::uint64_t element_bytes = 1;
  Rank ranks = 1;
  bool commutative = true;
  bool reproducible = false;  // one association by rank alone
  bool custom = false;        // a user-defined operation
  LayoutSummary layout;
};

// What the user or the tuning file forces; it must agree between ranks.
struct Forced {
  const Algorithm* algorithm = nullptr;      // null: chosen
  std::uint64_t segment_bytes = 0;           // 0: chosen
  std::uint32_t depth = 0;                   // segments in flight; 0: chosen
  std::uint32_t radix = 0;                   // a power of two; 0: chosen
  const Composition* composition = nullptr;  // null: chosen
  std::string by = {};                       // who forces the way, for people; empty: the user
};

struct Choice {
  enum class Reason : std::uint8_t {
    cheapest,
    forced,
    // Forced, but replaced by the cheapest that serves, because the forced one
    breaks_rank_order,
    not_reproducible,
    too_many_ranks,
    no_groups,
    no_parts,
  };

  std::uint32_t algorithm = 0;  // index into algorithms(); across the nodes, unless flat
  std::uint32_t radix = 2;
  std::uint64_t segment_bytes = 1;  // a multiple of the element, at least one element
  std::uint32_t depth = 1;
  std::uint64_t predicted_ps = 0;
  Reason reason = Reason::cheapest;
  std::uint32_t composition = flat;  // index into compositions()
  friend bool operator==(const Choice&, const Choice&) = default;
};

Choice select(const CallShape& shape, const Forced& forced = {}, const Machine& machine = {});

// The levels that a composition has on this layout, innermost first, as its formula takes them.
std::vector<GroupSizes> group_sizes_of(const Composition& composition, const LayoutSummary& layout,
                                       Rank ranks);

// What a choice costs on this layout.
ComposedCost cost_of(const Choice& choice, const CallShape& shape);

// The predicted time of a choice, in picoseconds: the first segment fills the pipeline, each other
// one takes as long as its busiest resource. A flat algorithm is taken to pay for the slower link
// everywhere, a composed one has its part within the nodes and its part across. Saturates.
std::uint64_t predict(const Choice& choice, const CallShape& shape, const Machine& machine);

// "ring", "hierarchy:ring": as parse_algorithm reads it.
std::string name_of(const Choice& choice);

// "ring", "tree of radix 4", "hierarchy with ring across", for people.
std::string describe(const Choice& choice);

// One line on a choice and why, for people.
std::string explain(const Choice& choice, const CallShape& shape, const Forced& forced = {},
                    const Machine& machine = {});

// Reads the `algorithm` parameter into `forced`: "auto"; an algorithm, which then runs flat; a
// composition; or both as in "hierarchy:ring". False if there is none such; `why` then lists the
// valid ones.
bool parse_algorithm(std::string_view name, Forced& forced, std::string& why);

}  // namespace gpuar
