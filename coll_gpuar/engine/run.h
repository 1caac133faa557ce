// The state of one call under way (a Run) and of one communicator.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "coll_gpuar/engine/program.h"
#include "coll_gpuar/report/trace.h"
#include "coll_gpuar/status.h"
#include "cuda_reduce/gpu.h"
#include "cuda_reduce/host_room.h"
#include "cuda_reduce/reduce.h"
#include "ucx_bridge/transport.h"

struct gpuar_check;

namespace gpuar {

struct Comm;
struct Run;

// An arrival that came before its step could take it, or whose bytes a slot still refers to.
struct Held {
  MessageHeader header;
  Arrival arrival;
  std::byte* stash = nullptr;  // a copy in pooled memory, if the transport's could not be kept
  Held* next = nullptr;
};

// A list of held arrivals. Order does not matter: headers match exactly.
struct HeldList {
  Held* head = nullptr;
  void push(Held* held) {
    held->next = head;
    head = held;
  }
  Held* take_all() {
    Held* all = head;
    head = nullptr;
    return all;
  }
};

// User-defined operations and types of unusual layout are reduced by the component.
struct Reduction {
  gpuar_op op = GPUAR_SUM;  // with function: the same by name, for a device
  gpuar_type type = GPUAR_FLOAT32;
  ReduceFn function = nullptr;
  int (*custom)(void* context, void* out, const void* left, const void* right,
                std::size_t count) = nullptr;
  void* context = nullptr;
  DivideFn divide = nullptr;  // for an average: what every rank does once to the finished sum
  std::int32_t divide_by = 0;
};

// Pointers of this call. in == out: in place.
struct Binding {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  Reduction reduction;
};

// How a call is carried out. A local matter: nothing of it shows on the wire.
enum class Carry : std::uint8_t {
  host,          // both buffers are the host's
  through_host,  // copied into host memory, reduced there, copied back: short messages, and what no
                 // device reduces
  on_device,     // moved and reduced where it lies
};

// Where a call stands. Its steps are executed only while it is running, and a call on host memory
// that has a plan never is anything else.
enum class Stage : std::uint8_t {
  running,
  bound,     // not begun: on device memory, or without a plan
  waiting,   // for what the caller has queued on the device
  entering,  // the input is being copied
  leaving,   // the result is
};

// The device's side of a call. Without a `gpu` only the stage counts.
struct DeviceCall {
  Carry carry = Carry::host;
  Stage stage = Stage::running;
  const char* why = "";            // through the host, for people
  bool after_queued_work = false;  // first waits for what the caller has queued on the device
  Gpu* gpu = nullptr;              // does the copies and the reductions
  Memory in;                       // of the caller's buffers
  Memory out;
  const std::byte* user_in = nullptr;
  std::byte* user_out = nullptr;
  HostRoom room;  // through_host: the call's data meanwhile
};

struct Slot {
  std::byte* data = nullptr;
  Held* held = nullptr;  // data lies in this arrival, not in the lane's scratch
};

// One segment in flight. Segment s is replayed on lane s % depth.
struct Lane {
  std::size_t segment = 0;
  std::size_t first = 0;  // element of the call
  std::size_t elements = 0;
  bool live = false;
  std::uint32_t steps_left = 0;
  std::uint32_t ready_head = 0;
  std::uint32_t ready_tail = 0;
  std::byte* scratch = nullptr;  // all slots, taken at first need

  std::span<Held*> arrivals;  // per receive: nothing, expected(), or what came early
  std::span<Slot> slots;
  std::span<std::uint32_t> remaining;  // per step: dependencies to come
  std::span<std::uint32_t> ready;      // every step enters once: no wrap
  std::vector<StepTimes> traced;       // per step, while a trace is kept

  // The four tables as a segment finds them. They share one block: a short call is over before five
  // vectors would be set up.
  void begin_tables(const Program& program);

 private:
  std::unique_ptr<std::byte[]> block_;
  std::size_t block_bytes_ = 0;
};

// Marks a receive that is posted and waits for its arrival.
inline Held* expected() {
  static Held mark;
  return &mark;
}

struct Run {
  Comm* comm = nullptr;
  std::shared_ptr<const Plan> plan;  // nullptr: still to come, see Engine::resume
  Binding binding;
  DeviceCall device;
  MessageKind kind = MessageKind::call;
  std::uint32_t sequence = 0;
  std::uint32_t round = 0;
  gpuar_check* check = nullptr;  // the core's
  bool own = false;              // gpuar's own call, of which no report tells
  CallTimes times;               // if the communicator has a journal

  std::vector<Lane> lanes;
  std::size_t segments_done = 0;
  std::uint32_t in_flight = 0;  // transport operations to come back
  HeldList early;               // arrivals for segments not yet open
  Status status = Status::ok;
  bool active = false;
  bool queued = false;         // in one of the engine's lists of runs with work
  Run* next = nullptr;         // waiting or finished
  Run* next_ready = nullptr;   // queued
  TransportOp* ops = nullptr;  // under way; the engine knows their full type
  std::atomic<bool> complete{false};

  std::uint64_t standing = 0;  // where it stood when it was last looked at,
  std::int64_t stood = 0;      // and for how many nanoseconds since

  void (*done)(void* user, int status) = nullptr;  // nonblocking and persistent
  void* user = nullptr;
  std::uint64_t range = 0;  // in a profiler's timeline
};

// First in, first out, linked through a member of Run.
template <Run* Run::*link>
struct RunQueue {
  Run* head = nullptr;
  Run* tail = nullptr;
  bool empty() const { return head == nullptr; }
  void push(Run& run) {
    run.*link = nullptr;
    (tail ? tail->*link : head) = &run;
    tail = &run;
  }
  Run* pop() {
    Run* run = head;
    if (run) head = run->*link;
    if (!head) tail = nullptr;
    return run;
  }
  // False if it is not in this queue.
  bool remove(Run& run) {
    Run* before = nullptr;
    for (Run* at = head; at; before = at, at = at->*link) {
      if (at != &run) continue;
      (before ? before->*link : head) = run.*link;
      if (tail == &run) tail = before;
      return true;
    }
    return false;
  }
};

// At most this many calls of a stream are on the wire; later ones queue. A rank that is late thus
// holds at most window × (eager bytes per call) of a stream for each of its peers. The oldest
// unfinished call is on the wire on every rank that has made it, so this cannot deadlock.
// Persistent starts may come in another order on each rank and are exempt.
constexpr std::uint32_t window = 64;

// Calls that every rank makes in the same order, numbered by it. A communicator has one of the
// program's calls and one of those that Open MPI makes itself within others, at moments that differ
// between ranks: neither shifts the other's numbers.
struct Stream {
  std::uint32_t next_sequence = 0;
  std::uint32_t started = 0;         // one past the newest call on the wire
  std::uint32_t oldest = 0;          // the oldest call not finished
  bool promoting = false;            // moving runs out of `waiting`: not to be entered twice
  RunQueue<&Run::next> waiting;      // behind the window
  std::array<Run*, window> calls{};  // by sequence % window
};

struct Comm {
  CommId id;
  Rank rank = 0;
  Rank size = 0;
  Status status = Status::ok;  // an error stays: the communicator is broken
  std::string name;
  std::vector<std::uint64_t> processes;  // by rank, each its own; an abort record names its sender
  std::vector<void*> peers;              // Transport::Peer by rank, resolved at first use
  void* (*resolve)(Comm& comm, Rank rank) = nullptr;  // nullptr: unreachable
  void (*log)(Comm& comm, const std::string& line) = nullptr;
  // Notes that are not the engine's own, and what came with them.
  void (*take_note)(Comm& comm, const MessageHeader& note, const Arrival& arrival) = nullptr;
  // Device memory is about to be sent to a rank, or fetched from one.
  void (*sends)(Comm& comm, Rank to, Gpu& gpu) = nullptr;
  void (*fetches)(Comm& comm, Rank from, Gpu& gpu) = nullptr;
  bool watched = false;  // somebody looks for members that are gone, and calls Engine::lose

  std::unique_ptr<Journal> journal;  // if a report is to be written, or a trace
  std::uint32_t traced_as = 0;       // its number in the trace

  std::array<Stream, 2> streams;           // by kind: call, internal
  std::vector<Run*> persistent;            // by number; nullptr once freed
  std::array<HeldList, window> pending{};  // arrivals for calls not yet made, by sequence % window

  // The stream of a call; nullptr for persistent requests, which start in any order.
  Stream* stream(MessageKind kind) {
    return kind <= MessageKind::internal ? &streams[static_cast<std::size_t>(kind)] : nullptr;
  }

  [[nodiscard]] std::uint64_t own_process() const {
    return processes[static_cast<std::size_t>(rank)];
  }
};

// What this rank tells others when it gives up on the communicator.
inline MessageHeader abort_record(const Comm& comm) {
  return abort_record(comm.id, static_cast<std::uint32_t>(comm.rank), comm.own_process(),
                      comm.status);
}
inline MessageHeader parting_record(const Comm& comm) {
  return parting_record(comm.id, static_cast<std::uint32_t>(comm.rank), comm.own_process());
}

}  // namespace gpuar
