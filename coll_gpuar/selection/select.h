// Which algorithm, in which segments: by predicted time, from facts that are equal on all ranks.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "coll_gpuar/algorithms/algorithm.h"
#include "coll_gpuar/selection/machine.h"

namespace gpuar {

// Where the ranks of a communicator sit.
struct LayoutSummary {
  std::uint32_t hosts = 1;
  std::uint32_t max_ranks_per_host = 1;
  bool oversubscribed = false;  // more ranks than cores on some host
};

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

// What the user forces; it must agree between ranks.
struct Forced {
  const Algorithm* algorithm = nullptr;  // null: chosen
  std::uint64_t segment_bytes = 0;       // 0: chosen
  std::uint32_t depth = 0;               // segments in flight; 0: chosen
  std::uint32_t radix = 0;               // of trees, a power of two; 0: chosen
};

struct Choice {
  enum class Reason : std::uint8_t {
    cheapest,
    forced,
    // Forced, but replaced by the cheapest that serves, because the forced one
    breaks_rank_order,
    not_reproducible,
    too_many_ranks,
  };

  std::uint32_t algorithm = 0;  // index into algorithms()
  std::uint32_t radix = 2;
  std::uint64_t segment_bytes = 1;  // a multiple of the element, at least one element
  std::uint32_t depth = 1;
  std::uint64_t predicted_ps = 0;
  Reason reason = Reason::cheapest;
  friend bool operator==(const Choice&, const Choice&) = default;
};

Choice select(const CallShape& shape, const Forced& forced = {}, const Machine& machine = {});

// The predicted time, in picoseconds, of an algorithm in `segment_bytes` with `depth` in flight:
// the first segment fills the pipeline, each other one takes as long as its busiest resource.
// Saturates.
std::uint64_t predict(const Algorithm& algorithm, std::uint32_t radix, std::uint64_t segment_bytes,
                      std::uint32_t depth, const CallShape& shape, const Machine& machine);

// One line on a choice and why, for people.
std::string explain(const Choice& choice, const CallShape& shape, const Forced& forced = {},
                    const Machine& machine = {});

// Reads the `algorithm` parameter: "auto" (sets null) or a name. False if there is none such; `why`
// then lists the valid ones.
bool parse_algorithm(std::string_view name, const Algorithm*& algorithm, std::string& why);

}  // namespace gpuar
