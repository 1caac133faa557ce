#include "coll_gpuar/engine/run.h"

#include <algorithm>
#include <cstring>

namespace gpuar {

// std::byte gives the tables their storage; all of them are of types that need no constructor.
void Lane::begin_tables(const Program& program) {
  const Schedule& schedule = program.schedule;
  const std::size_t steps = schedule.steps.size();
  const std::size_t receives = schedule.recv_steps.size();
  const std::size_t slots_at = receives * sizeof(void*);
  const std::size_t empty_bytes = slots_at + schedule.slots * sizeof(Slot);
  const std::size_t bytes = empty_bytes + 2 * steps * sizeof(std::uint32_t);
  if (bytes > block_bytes_) {
    block_.reset(new std::byte[bytes]);
    block_bytes_ = bytes;
  }
  std::byte* const block = block_.get();
  arrivals = {reinterpret_cast<Held**>(block), receives};
  slots = {reinterpret_cast<Slot*>(block + slots_at), schedule.slots};
  remaining = {reinterpret_cast<std::uint32_t*>(block + empty_bytes), steps};
  ready = {remaining.data() + steps, steps};
  std::memset(block, 0, empty_bytes);
  std::copy_n(program.dependencies.data(), steps, remaining.data());
  std::copy_n(schedule.initial.data(), schedule.initial.size(), ready.data());
}

}  // namespace gpuar
