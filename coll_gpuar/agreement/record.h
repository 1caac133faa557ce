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
#include "topo/process_id.h"

namespace gpuar {

// Raised by every change of the record, of the messages, of a schedule, or of what is chosen.
constexpr std::uint16_t wire_protocol = 8;

// Parameters that shape what crosses the wire. Their values are published, not a hash of them, so
// that a difference can be named.
struct WireParameters {
  std::int32_t priority = 0;  // decides whether gpuar or another component serves a call
  std::string algorithm = "auto";
  std::uint64_t segment_size = 0;
  std::int32_t pipeline_depth = 0;
  bool reproducible = false;
  std::string test_node_size;
  std::string expect = "auto";  // the kind of memory that plans are made for
  std::uint64_t tuning = 0;     // hash of the tuning file that is in use; 0: none
  bool report = false;          // messages carry stamps
  bool trace = false;           // so they do then
  bool check = false;           // a short call precedes each call
  friend bool operator==(const WireParameters&, const WireParameters&) = default;
};

struct Record {
  bool published = true;  // false: a stand-in for a process of which only the place is known
  std::uint16_t protocol = wire_protocol;
  std::string version;  // of gpuar; two releases may choose different algorithms for one call
  std::string refusal;  // why this process cannot take part; empty: it can
  WireParameters parameters;
  ProcessPlace place;
  ProcessId process;            // to find out whether it is still there; on its host alone
  bool has_gpu = false;         // its program might use device memory
  bool carries_device = false;  // and its UCX takes that as it is
  bool tuning_broken = false;   // it was given a tuning file that it cannot use
  friend bool operator==(const Record&, const Record&) = default;
};

constexpr std::size_t record_capacity = 640;
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
  enum class Cause : std::uint8_t { none, missing, refusing, different };

  bool served = true;
  std::int32_t rank = -1;  // the first rank that stands in the way
  std::string host;        // its host; empty if it published nothing
  std::string sentence;    // names rank, host and the differing item, and what to try
  Cause cause = Cause::none;
  std::string item;  // what differs or is refused, without the ranks: one thing to mend
  friend bool operator==(const Verdict&, const Verdict&) = default;
};

// Judges the members of a communicator, by rank; nullptr for a process that published nothing.
// Depends on nothing else: not on the rank that asks, nor on when it does.
Verdict judge(std::span<const Record* const> members);

}  // namespace gpuar
