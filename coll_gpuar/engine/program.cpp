#include "coll_gpuar/engine/program.h"

#include <algorithm>

namespace gpuar {

namespace {

// Segment numbers travel in 32 bits.
constexpr std::size_t max_segments = std::size_t{1} << 31;

std::size_t divide_up(std::size_t value, std::size_t by) {
  return value / by + (value % by == 0 ? 0 : 1);
}

}  // namespace

Program::Program(Schedule built) : schedule(std::move(built)) {
  const std::size_t steps = schedule.steps.size();
  dependencies.resize(steps);
  receive.resize(steps);
  for (std::size_t i = 0; i < steps; ++i) dependencies[i] = schedule.steps[i].dependencies;
  for (std::size_t i = 0; i < schedule.recv_steps.size(); ++i) {
    receive[schedule.recv_steps[i]] = static_cast<std::uint32_t>(i);
  }
}

std::size_t Program::bytes() const {
  const auto held = [](const auto& vector) { return vector.capacity() * sizeof(vector[0]); };
  return sizeof(*this) + held(schedule.steps) + held(schedule.successors) + held(schedule.initial) +
         held(schedule.receives) + held(schedule.recv_steps) + held(dependencies) + held(receive);
}

Plan::Plan(std::shared_ptr<const Program> of, std::size_t elements, std::size_t bytes_per_element,
           std::size_t segment_bytes, std::uint32_t in_flight)
    : program(std::move(of)), count(elements), element_bytes(bytes_per_element) {
  segment_elements = segment_bytes == 0 ? count : segment_bytes / element_bytes;
  segment_elements = std::max({segment_elements, divide_up(count, max_segments), std::size_t{1}});
  segments = divide_up(count, segment_elements);
  depth = static_cast<std::uint32_t>(
      std::clamp<std::size_t>(segments, 1, std::max<std::uint32_t>(in_flight, 1)));
  const Schedule& schedule = program->schedule;
  const std::size_t largest = std::min(segment_elements, count);
  const std::size_t chunk = divide_up(largest, schedule.chunks);
  slot_bytes = std::min(largest, chunk * schedule.slot_chunks) * element_bytes;
}

}  // namespace gpuar
