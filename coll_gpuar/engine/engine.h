// One engine runs the plans of all three calls: it posts steps whose dependencies are met, takes
// what the transport brings, reduces, and finishes calls. It never waits.
//
// It is a template over the transport, so that nothing virtual stands between a step and the wire
// and the same engine runs over UCX and over the in-memory world of the tests. It takes no lock:
// the core serialises.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>
#include <string>
#include <unordered_map>

#include "coll_gpuar/engine/pools.h"
#include "coll_gpuar/engine/run.h"

namespace gpuar {

// Who drives the engine: a thread of the program, or gpuar's own progress thread, which never runs
// a user's reduction.
enum class Caller : std::uint8_t { program, helper };

template <class Transport>
class Engine {
 public:
  explicit Engine(Transport& transport) : transport_(transport) {}
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // To be given to the transport.
  ArrivalHandler handler() {
    return {[](void* self, const MessageHeader& header, const Arrival& arrival) {
              return static_cast<Engine*>(self)->arrived(header, arrival);
            },
            this};
  }

  void add(Comm& comm);
  void remove(Comm& comm);

  Run* take() { return runs_.take(); }
  void give(Run* run);

  // Puts a bound run on the wire, or in the queue behind the communicator's window. Ordinary calls
  // take their sequence number here, also when the communicator is already broken.
  void start(Run& run);

  // Number of events. Finished calls with a `done` are then to be had from pop_finished().
  unsigned progress(Caller caller);
  Run* pop_finished() { return finished_.pop(); }

  // Gives cached memory back to the system.
  void release_pools() { scratch_.release(); }
  std::size_t pooled_bytes() const { return scratch_.cached(); }

 private:
  struct Op : TransportOp {
    Engine* engine = nullptr;
    Run* run = nullptr;
    Lane* lane = nullptr;  // nullptr: an abort record
    std::uint32_t step = 0;
    Op* next = nullptr;  // of this run's operations under way
    Op* previous = nullptr;
  };
  struct CommIdHash {
    std::size_t operator()(const CommId& id) const {
      constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;
      return static_cast<std::size_t>((id.low ^ (id.high * odd)) * odd >> 16);
    }
  };

  // engine_arrivals.h: what the transport brings
  Taken arrived(const MessageHeader& header, const Arrival& arrival);
  Taken route(Run& run, const MessageHeader& header, const Arrival& arrival, Held* held);
  Taken accept(Run& run, Lane& lane, std::uint32_t step, const Arrival& arrival, Held* held);
  Taken accept_eager(Run& run, Lane& lane, std::uint32_t step, const Arrival& arrival, Held* held);
  Taken accept_rendezvous(Run& run, Lane& lane, std::uint32_t step, const Arrival& arrival,
                          Held* held);
  Taken keep(Comm* comm, HeldList& list, const MessageHeader& header, const Arrival& arrival,
             Held* held);
  Taken refuse(Comm& comm, const MessageHeader& header, Status status, const std::string& what);
  Held* hold(const MessageHeader& header, const Arrival& arrival);
  void drop(Held* held);
  void drop_all(HeldList& list);
  void adopt(HeldList& list, Run& run);
  Comm* find_comm(const CommId& id);
  Run* find_run(Comm& comm, const MessageHeader& header);

  // engine_steps.h: steps, segments, calls
  void begin(Run& run);
  void open_segment(Run& run, Lane& lane, std::size_t segment);
  void close_segment(Run& run, Lane& lane);
  void advance(Run& run);
  void execute(Run& run, Lane& lane, std::uint32_t step);
  void execute_send(Run& run, Lane& lane, std::uint32_t step);
  void execute_recv(Run& run, Lane& lane, std::uint32_t step);
  void execute_reduce(Run& run, Lane& lane, std::uint32_t step);
  void complete(Run& run, Lane& lane, std::uint32_t step);
  void finish(Run& run);
  void promote(Comm& comm);
  void enqueue(Run& run);
  void run_ready();

  std::byte* locate(Run& run, Lane& lane, Operand operand, ElementRange range);
  std::byte* scratch_slot(Run& run, Lane& lane, std::uint16_t slot);
  void empty_slot(Lane& lane, std::uint16_t slot);
  static ElementRange range_of(const Run& run, const Lane& lane, const Step& step) {
    return span_range(lane.elements, run.plan->program->schedule.chunks, step.span);
  }
  static const Step& step_of(const Run& run, std::uint32_t step) {
    return run.plan->program->schedule.steps[step];
  }

  // engine_errors.h: operations under way, failure
  Op* take_op(Run& run, Lane& lane, std::uint32_t step);
  void give_op(Op* op);
  void track(Run& run, Op* op);
  void untrack(Op* op);
  static void on_done(TransportOp* op, Status status);
  void fail(Comm& comm, Status status, const std::string& what);
  void fail_run(Run& run, Status status);
  void announce_abort(Comm& comm);
  void* peer_of(Comm& comm, Rank rank);

  Transport& transport_;
  ScratchPool scratch_;
  ObjectPool<Run> runs_;
  ObjectPool<Op> ops_;
  ObjectPool<Held> helds_;
  std::unordered_map<CommId, Comm*, CommIdHash> comms_;
  Comm* last_comm_ = nullptr;  // of the last arrival: spares the look-up
  HeldList orphans_;           // for communicators that this rank has not made yet
  RunQueue<&Run::next_ready> ready_;
  RunQueue<&Run::next_ready> deferred_;  // with work that only a thread of the program may do
  RunQueue<&Run::next> finished_;
  Caller caller_ = Caller::program;
  bool posting_ = false;  // inside run_ready()
};

}  // namespace gpuar

#include "coll_gpuar/engine/engine_arrivals.h"
#include "coll_gpuar/engine/engine_errors.h"
#include "coll_gpuar/engine/engine_steps.h"
