// Agreement without communication. Every process publishes one record before Open MPI's own
// exchange of process data; whether gpuar serves a communicator is a pure function of its members'
// records, so that all members come to the same answer, whenever each of them asks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "topo/place.h"

namespace gpuar {

// Raised by every change of the record, of the messages, or of a schedule.
constexpr std::uint16_t wire_protocol = 1;

// Parameters that shape what crosses the wire. Their values are published, not a hash of them, so
// that a difference can be named.
struct WireParameters {
  std::int32_t priority = 0;  // decides whether gpuar or another component serves a call
  std::string algorithm = "auto";
  std::uint64_t segment_size = 0;
  std::int32_t pipeline_depth = 0;
  bool reproducible = false;
  std::string test_node_size;
  friend bool operator==(const WireParameters&, const WireParameters&) = default;
};

struct Record {
  bool published = true;  // false: a stand-in for a process of which only the place is known
  std::uint16_t protocol = wire_protocol;
  std::string version;  // of gpuar; two releases may choose different algorithms for one call
  std::string refusal;  // why this process cannot take part; empty: it can
  WireParameters parameters;
  ProcessPlace place;
  friend bool operator==(const Record&, const Record&) = default;
};

constexpr std::size_t record_capacity = 512;
using RecordBytes = std::array<std::uint8_t, record_capacity>;

// Writes the record and returns its size. Always succeeds: long host names and refusals are cut,
// and a record whose parameters do not fit (texts of more than 64 bytes) becomes a refusal that
// says so.
std::size_t encode(const Record& record, RecordBytes& out);

// Reads what another process published; trusts nothing in it. Bytes that no gpuar wrote come back
// as a refusal that says so. Of another protocol only the protocol, the version and the host's name
// are read.
Record decode(std::span<const std::uint8_t> bytes);

// Whether gpuar serves a communicator, and if not, why.
struct Verdict {
  bool served = true;
  std::int32_t rank = -1;  // the first rank that stands in the way
  std::string host;        // its host; empty if it published nothing
  std::string sentence;    // names rank, host and the differing item, and what to try
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

// Judges the members of a communicator, by rank; nullptr for a process that published nothing.
// Depends on nothing else: not on the rank that asks, nor on when it does.
Verdict judge(std::span<const Record* const> members);

}  // namespace gpuar
