// The wire between the engine and a transport: message headers, arrivals, operations.
// Free of UCX: the engine and the in-memory world of the tests include it too.
#pragma once

#include <cstddef>
#include <cstdint>

#include "coll_gpuar/status.h"
#include "cuda_reduce/memory.h"

namespace gpuar {

// A communicator's id on the wire: Open MPI's own context id, the same on all members
// (32 bits in Open MPI 4.1, 128 bits from 5.0 on).
struct CommId {
  std::uint64_t high = 0;
  std::uint64_t low = 0;
  friend bool operator==(const CommId&, const CommId&) = default;
};

// Every message starts with this header. Matching is exact: no field is a hash. `stamp` follows
// only where the ranks agree to keep a report.
//
//   byte  0        8        16         20       24        28        30      32
//        | high   | low    | sequence | source | segment | message | kind  |
//        |<- communicator->|            sender's           k-th to   2 bits kind
//                                       rank               this peer 14 bits round
//
// `sequence` numbers the calls of a communicator, those of Open MPI itself (`internal`) apart from
// the program's; for persistent requests it is the request's own number and `round` counts its
// starts. A peer can be at most one start ahead (finishing a start needs every rank's
// contribution), so 14 bits of round cannot be mistaken.
struct MessageHeader {
  CommId comm;
  std::uint32_t sequence = 0;
  std::uint32_t source = 0;
  std::uint32_t segment = 0;
  std::uint16_t message = 0;
  std::uint16_t kind_and_round = 0;
  std::uint64_t stamp = 0;  // when the last of the ranks entered the call; 0: not sent
};
static_assert(sizeof(MessageHeader) == 40);
constexpr std::size_t unstamped_bytes = 32;

// The same in 16 bytes, for headers whose fields are all small. With it header and 8 bytes of
// payload share one cache line of UCX's shared memory queue: 25 to 50 ns of 300. A transport may
// send it instead where nothing is lost; its length tells the receiver.
struct CompactHeader {
  std::uint32_t comm = 0;
  std::uint32_t sequence = 0;
  std::uint16_t source = 0;
  std::uint16_t segment = 0;
  std::uint16_t message = 0;
  std::uint16_t kind_and_round = 0;
  std::uint64_t stamp = 0;
};
static_assert(sizeof(CompactHeader) == 24);
constexpr std::size_t compact_unstamped_bytes = 16;

constexpr bool fits_compact(const MessageHeader& header) {
  return header.comm.high == 0 && header.comm.low <= 0xffffffff &&
         (header.source | header.segment) <= 0xffff;
}
constexpr CompactHeader compact(const MessageHeader& header) {
  return {static_cast<std::uint32_t>(header.comm.low),
          header.sequence,
          static_cast<std::uint16_t>(header.source),
          static_cast<std::uint16_t>(header.segment),
          header.message,
          header.kind_and_round,
          header.stamp};
}
constexpr MessageHeader expand(const CompactHeader& header) {
  return {{0, header.comm}, header.sequence,       header.source, header.segment,
          header.message,   header.kind_and_round, header.stamp};
}

enum class MessageKind : std::uint8_t { call = 0, internal = 1, persistent = 2, abort = 3 };

constexpr unsigned kind_bits = 2;
constexpr std::uint16_t round_mask = 0xffff >> kind_bits;

constexpr std::uint16_t pack_kind(MessageKind kind, std::uint32_t round) {
  return static_cast<std::uint16_t>((static_cast<unsigned>(kind) << (16 - kind_bits)) |
                                    (round & round_mask));
}
constexpr MessageKind kind_of(const MessageHeader& header) {
  return static_cast<MessageKind>(header.kind_and_round >> (16 - kind_bits));
}
constexpr std::uint16_t round_of(const MessageHeader& header) {
  return header.kind_and_round & round_mask;
}

// A message of the last kind belongs to no call. Its `round` says what it is.
enum class Note : std::uint16_t {
  gave_up,  // the abort record
  ping,     // what does your clock say?
  pong,
  tells,  // so far is your clock from mine
  asks,   // have you made this call?
  answers,
  hello,  // nothing: it makes a connection
  shows,  // device memory is to come: can you open mine? A sample is the payload
};

// A note carries one number, where other messages have sequence and segment, and a short one that
// an answer repeats.
constexpr MessageHeader note(const CommId& comm, std::uint32_t rank, Note what, std::uint64_t value,
                             std::uint16_t tag) {
  return {comm, static_cast<std::uint32_t>(value),
          rank, static_cast<std::uint32_t>(value >> 32),
          tag,  pack_kind(MessageKind::abort, static_cast<std::uint32_t>(what))};
}
constexpr Note note_of(const MessageHeader& header) {
  return Note{round_of(header)};
}
constexpr std::uint64_t value_of(const MessageHeader& note) {
  return std::uint64_t{note.segment} << 32 | note.sequence;
}

// An abort record names the process that sends it, and says so if it is for the loss of a process
// or a revocation that it gave up: all members then have an error of that class.
constexpr std::uint16_t tag_of(Status why) {
  return why == Status::process_failed ? 2 : why == Status::revoked ? 4 : 0;
}
constexpr MessageHeader abort_record(const CommId& comm, std::uint32_t rank, std::uint64_t process,
                                     Status why) {
  return note(comm, rank, Note::gave_up, process, tag_of(why));
}
constexpr Status reason_of(const MessageHeader& abort_record) {
  for (const Status why : {Status::process_failed, Status::revoked}) {
    if (abort_record.message == tag_of(why)) return why;
  }
  return Status::aborted;
}
// As an abort record, to a process of which nothing can be taken any more: what was sent to its
// sender will not be fetched.
constexpr MessageHeader parting_record(const CommId& comm, std::uint32_t rank,
                                       std::uint64_t process) {
  return note(comm, rank, Note::gave_up, process, 1);
}
constexpr bool is_parting(const MessageHeader& abort_record) {
  return abort_record.message == 1;
}
constexpr std::uint64_t sender_of(const MessageHeader& abort_record) {
  return value_of(abort_record);
}

// What came in. Eager: `data` holds the bytes. Rendezvous: `data` is the transport's handle, to be
// given to fetch().
struct Arrival {
  void* data = nullptr;
  std::size_t bytes = 0;
  bool rendezvous = false;
  bool holdable = false;  // may be kept until release() or fetch(); else it lasts as long as the
                          // handler runs
  bool prompt = false;  // the handler may send before it returns: it runs in no library's callback
};

// What the receiver of an arrival did with it.
enum class Taken : std::uint8_t {
  consumed,  // done with (copied, used, or refused)
  held,      // kept: release() or fetch() will follow, possibly already called
};

// Whoever takes arrivals. Called from within the transport's progress().
struct ArrivalHandler {
  Taken (*arrived)(void* self, const MessageHeader& header, const Arrival& arrival) = nullptr;
  void* self = nullptr;
};

// One send or fetch under way. The caller owns it and keeps it alive until `done` is called;
// an operation that returned anything but in_progress is over and `done` is not called.
struct TransportOp {
  void (*done)(TransportOp* op, Status status) = nullptr;
  MessageHeader header;                // sends: must stay valid while the send is under way
  void* request = nullptr;             // the transport's own
  std::uint64_t* under_way = nullptr;  // the transport's own: counts the operations like this one
  CompactHeader compact;               // the transport's own
  void* staged = nullptr;              // the staging layer's own
};

// A transport T (UcxTransport, and MemoryTransport in the tests) offers:
//
//   using Peer = ...;                                   a cheap handle of a remote process
//   Status send(Peer, TransportOp&, const void* data, size_t bytes,    header in op.header
//               MemoryKind = MemoryKind::host);
//   Status fetch(const Arrival&, TransportOp&, void* target, size_t bytes,
//                MemoryKind = MemoryKind::host);
//   bool   carries(MemoryKind) const;                   what send() and fetch() may be given
//   void   release(const Arrival&);                     gives a held eager arrival back
//   void   cancel(TransportOp&);                        done() follows, from progress()
//   void   lose(Peer);                                  it is gone: send() refuses from now on, and
//                                                       `done` of what is under way may never come
//   void   attach(Peer);                                a fetch() of what it sent is to come
//   void   mark_broken(Peer);                           an operation with it ended as
//   `unreachable`,
//                                                       here or there
//   void   renew(Peer);                                 send() reaches it again, if it lives
//   unsigned progress();                                number of events
//
// All of them return without waiting; `done` and `arrived` are called from progress(), `arrived`
// never from send(). None takes a lock: the engine serialises.

}  // namespace gpuar
