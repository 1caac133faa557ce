// Ranks that take turns on the cores of one machine: what all of them do counts there, not what the
// busiest one does.
#pragma once

#include <cstdint>

#include "coll_gpuar/selection/select.h"

namespace gpuar {

// What all ranks together do for one segment. Bytes are in units of the segment / chunks.
struct Work {
  std::uint64_t crossings = 0;  // messages from one host to another
  std::uint64_t crossed = 0;    // units, by these
  std::uint64_t messages = 0;   // within hosts
  std::uint64_t moved = 0;      // units, by the latter
  std::uint64_t reduced = 0;    // units
  std::uint64_t chunks = 1;
};

// Taken as if the ranks filled the hosts, or the parts of a single one, evenly and one after the
// other.
Work work_of(const Choice& choice, const CallShape& shape);

// The time of a way, predict() of its choices, where layout.shared_threads is set. Of up to 64
// ranks on one host that is their turns, one for each round, and all work by however many cores
// there are. Where one machine pretends to be several hosts, sending and receiving between them is
// work of the kernel, which is added.
class Turns {
 public:
  Turns(const Choice& way, const CallShape& shape, const Machine& machine);

  // Picoseconds; `choice` is of the way, its segments and depth are free. Saturates.
  [[nodiscard]] std::uint64_t predict(const Choice& choice) const;

 private:
  [[nodiscard]] std::uint64_t unit_of(std::uint64_t bytes) const;
  [[nodiscard]] std::uint64_t work_for(std::uint64_t segment_bytes) const;
  [[nodiscard]] std::uint64_t on_one_host(const Choice& choice) const;
  [[nodiscard]] std::uint64_t work_between_hosts() const;

  CallShape shape_;
  const Machine& machine_;
  bool one_host_ = false;
  std::uint64_t between_hosts_ = 0;
  std::uint64_t rounds_ = 0;
  Work work_;
};

}  // namespace gpuar
