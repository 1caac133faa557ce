// What the engine replays: a schedule with two tables that make a replay cheap, and a plan, which
// says how one call's elements are cut into segments for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "coll_gpuar/schedule/schedule.h"

namespace gpuar {

struct Program {
  Schedule schedule;
  std::vector<std::uint32_t> dependencies;  // per step: copied to start a segment
  std::vector<std::uint32_t> receive;       // per step: index into Schedule::recv_steps, for recv

  explicit Program(Schedule built);

  // Of memory, all in all.
  [[nodiscard]] std::size_t bytes() const;
};

// Depends only on what is equal on all ranks; see selection.
struct Plan {
  std::shared_ptr<const Program> program;
  std::size_t count = 0;
  std::size_t element_bytes = 1;
  std::size_t segment_elements = 1;  // of every segment but the last
  std::size_t segments = 0;
  std::uint32_t depth = 1;      // segments in flight
  std::size_t slot_bytes = 0;   // memory for one scratch slot
  std::uint32_t algorithm = 0;  // the core's number for it, for a report

  Plan(std::shared_ptr<const Program> program, std::size_t count, std::size_t element_bytes,
       std::size_t segment_bytes, std::uint32_t depth);

  std::size_t elements_of(std::size_t segment) const {
    const std::size_t first = segment * segment_elements;
    return count - first < segment_elements ? count - first : segment_elements;
  }
};

}  // namespace gpuar
