// The state of one call under way (a Run) and of one communicator.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "coll_gpuar/engine/program.h"
#include "coll_gpuar/status.h"
#include "cuda_reduce/reduce.h"
#include "ucx_bridge/transport.h"

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
  ReduceFn function = nullptr;
  int (*custom)(void* context, void* out, const void* left, const void* right,
                std::size_t count) = nullptr;
  void* context = nullptr;
};

// Pointers of this call. in == out: in place.
struct Binding {
  const std::byte* in = nullptr;
  std::byte* out = nullptr;
  Reduction reduction;
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
  std::byte* scratch = nullptr;          // all slots, taken at first need
  std::vector<std::uint32_t> remaining;  // per step: dependencies to come
  std::vector<std::uint32_t> ready;      // every step enters once: no wrap
  std::vector<Held*> arrivals;           // per receive: nothing, expected(), or what came early
  std::vector<Slot> slots;
};

// Marks a receive that is posted and waits for its arrival.
inline Held* expected() {
  static Held mark;
  return &mark;
}

struct Run {
  Comm* comm = nullptr;
  std::shared_ptr<const Plan> plan;
  Binding binding;
  MessageKind kind = MessageKind::call;
  std::uint32_t sequence = 0;
  std::uint32_t round = 0;

  std::vector<Lane> lanes;
  std::size_t segments_done = 0;
  std::uint32_t in_flight = 0;  // transport operations to come back
  HeldList early;               // arrivals for segments not yet open
  Status status = Status::ok;
  bool active = false;
  bool queued = false;         // in the engine's list of runs with work
  Run* next = nullptr;         // waiting or finished
  Run* next_ready = nullptr;   // queued: a run may finish while it is
  TransportOp* ops = nullptr;  // under way; the engine knows their full type
  std::atomic<bool> complete{false};

  void (*done)(void* user, int status) = nullptr;  // nonblocking and persistent
  void* user = nullptr;
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
};

// At most this many ordinary calls of a communicator are on the wire; later ones queue. A rank
// that is late thus holds at most window × (eager bytes per call) for each of its peers. The
// oldest unfinished call is on the wire on every rank that has made it, so this cannot deadlock.
// Persistent starts may come in another order on each rank and are exempt.
constexpr std::uint32_t window = 64;

struct Comm {
  CommId id;
  Rank rank = 0;
  Rank size = 0;
  std::string name;
  std::vector<void*> peers;  // Transport::Peer by rank, resolved at first use
  void* (*resolve)(Comm& comm, Rank rank) = nullptr;  // nullptr: unreachable
  void (*log)(Comm& comm, const std::string& line) = nullptr;

  std::uint32_t next_sequence = 0;         // of ordinary calls
  std::uint32_t started = 0;               // one past the newest call on the wire
  std::uint32_t oldest = 0;                // the oldest call not finished
  std::array<Run*, window> calls{};        // by sequence % window
  std::vector<Run*> persistent;            // by number; nullptr once freed
  std::array<HeldList, window> pending{};  // arrivals for calls not yet made, by sequence % window
  RunQueue<&Run::next> waiting;
  bool promoting = false;      // moving runs out of `waiting`: not to be entered twice
  Status status = Status::ok;  // an error stays: the communicator is broken
};

}  // namespace gpuar
