// A schedule: what one rank does for one segment of an allreduce, as a graph of steps.
// It holds chunk indices only: no pointer, no byte count, no datatype. The engine replays it for
// every segment, so its size does not depend on the message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "coll_gpuar/schedule/sink.h"

namespace gpuar {

enum class Verb : std::uint8_t { send, recv, reduce, copy };

// Where an operand of a step lies. Input and output may be the same memory (MPI_IN_PLACE); the
// builder orders every access so that this makes no difference.
enum class Place : std::uint8_t { input, output, slot };

struct Operand {
  Place place = Place::output;
  std::uint16_t slot = 0;  // scratch slot, if place is slot
  friend bool operator==(const Operand&, const Operand&) = default;
};

// send:   source -> peer
// recv:   peer -> target
// reduce: target = source ∘ other, `source` the operand of the lower ranks; target may be either
// copy:   target = source
struct Step {
  Verb verb = Verb::send;
  Operand target;
  Operand source;
  Operand other;
  Rank peer = -1;
  std::uint32_t message = 0;  // send, recv: this is the k-th message to (from) this peer
  Span span;
  std::uint32_t dependencies = 0;     // steps that must complete before this one may start
  std::uint32_t first_successor = 0;  // into Schedule::successors
  std::uint32_t successor_count = 0;
};

// The receives from one peer, in program order: the k-th message of that peer belongs to step
// recv_steps[first + k].
struct PeerReceives {
  Rank peer = -1;
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

struct Schedule {
  Rank rank = 0;
  Rank size = 1;
  std::uint32_t chunks = 1;       // the segment is cut into this many chunks
  std::uint32_t slots = 0;        // scratch slots used
  std::uint32_t slot_chunks = 0;  // the largest span that a slot must hold
  std::vector<Step> steps;
  std::vector<std::uint32_t> successors;
  std::vector<std::uint32_t> initial;     // steps without dependencies, in program order
  std::vector<PeerReceives> receives;     // ascending by peer
  std::vector<std::uint32_t> recv_steps;  // see PeerReceives
};

// The half-open range of elements that chunk `index` of `chunks` covers, of `count` elements.
// What is left of an even division is spread evenly, so that spans of many chunks differ by one
// element, too. Zero-length chunks are legal.
struct ElementRange {
  std::size_t first = 0;
  std::size_t count = 0;
};

constexpr ElementRange chunk_range(std::size_t count, std::size_t chunks, std::size_t index) {
  const std::size_t base = count / chunks;
  const std::size_t left = count % chunks;
  const auto begin = [=](std::size_t i) { return i * base + i * left / chunks; };
  return {begin(index), begin(index + 1) - begin(index)};
}

// The elements of a span of chunks. Most spans of short messages are all of them: no division then,
// of which each costs as much as ten other instructions.
constexpr ElementRange span_range(std::size_t count, std::size_t chunks, Span span) {
  if (span.count == chunks) return {0, count};
  const std::size_t first = chunk_range(count, chunks, span.first).first;
  const std::size_t end = span.first + span.count == chunks
                              ? count
                              : chunk_range(count, chunks, span.first + span.count).first;
  return {first, end - first};
}

}  // namespace gpuar
