// What no allreduce can be faster than on a machine, from its description alone: nothing of gpuar's
// algorithms or formulas is used.
#pragma once

#include <cstdint>

#include "bench/sim_machine.h"

namespace bench {

struct LowerBound {
  std::uint64_t rounds_ps = 0;  // for a value to reach all ranks
  std::uint64_t bytes_ps = 0;   // for the bytes to pass the narrowest place
  [[nodiscard]] std::uint64_t ps() const { return rounds_ps > bytes_ps ? rounds_ps : bytes_ps; }
};

// The least time in which a value reaches `count` who know one another, if whoever has it passes it
// on to one after the other.
std::uint64_t reach(const gpuar::Link& link, std::uint64_t count);

LowerBound lower_bound(const ImaginedMachine& machine, std::uint64_t nodes, std::uint64_t bytes);

}  // namespace bench
