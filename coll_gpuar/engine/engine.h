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
#include "coll_gpuar/engine/sentence.h"
#include "ucx_bridge/staging.h"

namespace gpuar {

// Who drives the engine: a thread of the program, or gpuar's own progress thread, which never runs
// a user's reduction.
enum class Caller : std::uint8_t { program, helper };

template <class Transport>
class Engine {
 public:
  explicit Engine(Transport& transport) : transport_(transport), staging_(transport) {}
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

  // Calls on device memory are to come, of this process's CUDA. It must outlive them.
  void use(Cuda& cuda) { cuda_ = &cuda; }

  // Throws std::bad_alloc.
  Run* take();
  void give(Run* run);

  // Puts a bound run on the wire, or in the queue behind its stream's window. It takes its sequence
  // number there, also when the communicator is already broken; a persistent request has its own.
  void start(Run& run);

  // A run that was started before it had a plan has one now.
  void resume(Run& run);

  // Ends all calls of a communicator with an error, here and at its other members.
  void abandon(Comm& comm, Status status, const Sentence& what) { fail(comm, status, what); }

  // As abandon(), where every other member comes to the same by itself, or is told by notify().
  void end_here(Comm& comm, Status status, const Sentence& what) { fail_here(comm, status, what); }
  // `data` must stay until communication is over.
  void notify(Comm& comm, Rank rank, const MessageHeader& note,
              std::span<const std::byte> data = {}) {
    send_note(comm, rank, note, data);
  }

  // A member is gone, or given up: the communicator fails, nothing is sent to it any more, and what
  // is under way with it is waited for no longer.
  void lose(Comm& comm, Rank rank, const Sentence& what);

  // As lose(), where the member may live and is told.
  void part(Comm& comm, Rank rank, const Sentence& what);

  // Ends the connection to a member that has to be given up, where the transport can: what is under
  // way with it then ends.
  void cut_off(Comm& comm, Rank rank);

  // Where a call stands: equal as long as nothing of it moves.
  std::uint64_t standing_of(const Run& run) const;
  // The ranks that a call waits for: those whose message is due, and those that have yet to take
  // one. A rank may come several times.
  template <class Visit>
  void for_each_awaited(const Run& run, Visit visit) const;
  // What the calls of communicators with a journal do is noted there. It must outlive them.
  void use(Trace& trace) { trace_ = &trace; }

  // Number of events. Finished calls with a `done` are then to be had from pop_finished().
  unsigned progress(Caller caller);
  bool has_finished() const { return !finished_.empty(); }
  Run* pop_finished() { return finished_.pop(); }

  // All communicators that were added and not removed, in no order.
  template <class Visit>
  void for_each_comm(Visit visit) const {
    for (const auto& [id, comm] : comms_) visit(*comm);
  }

  // The calls of a communicator that are on the wire.
  template <class Visit>
  static void for_each_call(Comm& comm, Visit visit) {
    for (const Stream& stream : comm.streams) {
      for (Run* run : stream.calls) {
        if (run && run->active) visit(*run);
      }
    }
    for (Run* run : comm.persistent) {
      if (run && run->active) visit(*run);
    }
  }

  // Gives cached memory back to the system.
  void release_pools() { scratch_.release(); }
  std::size_t pooled_bytes() const { return scratch_.cached(); }

  // Messages that wait for their call or their step, and operations under way.
  std::size_t outstanding() const { return helds_.in_use() + ops_.in_use(); }

 private:
  // Stands for a step where an operation belongs to all of a segment.
  static constexpr std::uint32_t whole_segment = ~std::uint32_t{0};

  struct Op : TransportOp {
    Engine* engine = nullptr;
    Run* run = nullptr;    // nullptr: a note
    Lane* lane = nullptr;  // nullptr: before or after the run's steps
    std::uint32_t step = 0;
    // Of work on the device; as here before and after.
    std::uint32_t fused = 0;  // reductions that went along with this step's
    Held* held = nullptr;     // the arrival that is being copied to the device
    GpuOp device;             // in use if it has an owner
    Op* next = nullptr;       // of this run's operations under way
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
  bool may_act_on(const Run& run, const Arrival& arrival) const;
  Taken accept_fleeting(Run& run, Lane& lane, std::uint32_t step, const Arrival& arrival);
  Taken accept_rendezvous(Run& run, Lane& lane, std::uint32_t step, const Arrival& arrival,
                          Held* held);
  Taken keep(Comm* comm, HeldList& list, const MessageHeader& header, const Arrival& arrival,
             Held* held);
  Taken keep_orphan(const MessageHeader& header, const Arrival& arrival);
  Taken refuse(Comm& comm, const MessageHeader& header, Status status, const Sentence& what);
  Held* hold(const MessageHeader& header, const Arrival& arrival);
  void drop(Held* held);
  void drop_all(HeldList& list);
  void adopt(HeldList& list, Run& run);
  void take_note(Comm& comm, const MessageHeader& note, const Arrival& arrival);
  static bool is_from_member(const Comm& comm, const MessageHeader& abort_record);
  void give_up_with(Comm& comm, const MessageHeader& abort_record);
  static const PeerReceives* receives_from(const Schedule& schedule, Rank rank);
  Comm* find_comm(const CommId& id);
  Run* find_run(Comm& comm, const MessageHeader& header);

  // engine_steps.h: steps, segments, calls
  bool begin(Run& run);
  void open(Run& run);
  void take_scratch(Run& run);
  void open_segment(Run& run, Lane& lane, std::size_t segment);
  void close_segment(Run& run, Lane& lane);
  void divide(Run& run, Lane& lane);
  void advance(Run& run);
  void execute(Run& run, Lane& lane, std::uint32_t step);
  void execute_send(Run& run, Lane& lane, std::uint32_t step);
  void execute_recv(Run& run, Lane& lane, std::uint32_t step);
  void execute_reduce(Run& run, Lane& lane, std::uint32_t step);
  void complete(Run& run, Lane& lane, std::uint32_t step);
  void finish(Run& run);
  void promote(Stream& stream);
  unsigned progress_devices();
  void enqueue(Run& run);
  void dequeue(Run& run);
  void run_ready();

  // engine_device.h: calls on device memory. What host functions branch to is kept out of line, or
  // these would pay for it: a call on host memory is to cost no more than without devices.
  [[gnu::noinline]] bool begin_late(Run& run);
  void prepare(Run& run);
  bool take_device_scratch(Run& run);
  void give_device_scratch(Run& run);
  void enter(Run& run);
  [[gnu::noinline]] bool leave(Run& run);
  void stage_done(Run& run);
  template <class Post>
  void post_on_device(Run& run, Op* op, const char* what, Post post);
  static void on_device_done(void* owner, Status status);
  static Memory memory_of(const Run& run, Operand operand);
  [[gnu::noinline]] Status send_from_device(Run& run, typename Transport::Peer to, Op& op,
                                            const std::byte* data, std::size_t bytes);
  [[gnu::noinline]] Status fetch_to_device(Run& run, std::uint32_t step, Op& op, std::byte* target,
                                           const Arrival& arrival);
  [[gnu::noinline]] Taken accept_eager_on_device(Run& run, Lane& lane, std::uint32_t step,
                                                 const Arrival& arrival, Held* held);
  [[gnu::noinline]] void copy_on_device(Run& run, Lane& lane, std::uint32_t step, std::byte* target,
                                        const std::byte* source, std::size_t bytes);
  [[gnu::noinline]] void divide_on_device(Run& run, Lane& lane, std::byte* sum);
  [[gnu::noinline]] void reduce_on_device(Run& run, Lane& lane, std::uint32_t step);
  void complete_on_device(Run& run, Lane& lane, std::uint32_t step, std::uint32_t fused);

  std::byte* locate(Run& run, Lane& lane, Operand operand, ElementRange range);
  std::byte* scratch_slot(Run& run, Lane& lane, std::uint16_t slot);
  void empty_slot(Lane& lane, std::uint16_t slot);
  void settle_slots(Run& run, Lane& lane, const Step& step);
  void give_scratch(Run& run);
  static ElementRange range_of(const Run& run, const Lane& lane, const Step& step) {
    return span_range(lane.elements, run.plan->program->schedule.chunks, step.span);
  }
  // For all slots of a lane.
  static std::size_t scratch_bytes(const Plan& plan) {
    return plan.program->schedule.slots * plan.slot_bytes;
  }
  static const Step& step_of(const Run& run, std::uint32_t step) {
    return run.plan->program->schedule.steps[step];
  }

  // engine_report.h: what the report is made of
  [[gnu::noinline]] void enter_journal(Run& run);
  [[gnu::noinline]] void leave_journal(Run& run);
  [[gnu::noinline]] void hear_stamp(Run& run, const MessageHeader& header);
  void send_ping(Comm& comm, Rank rank);
  void answer_ping(Comm& comm, const MessageHeader& ping);
  void take_pong(Comm& comm, const MessageHeader& pong);
  void take_offset(Comm& comm, const MessageHeader& offset);
  static Form form_of(const Run& run);

  // engine_trace.h: events of the trace
  static TraceEvent event_of(const Run& run);
  void trace_call(const Run& run);
  [[gnu::noinline]] void trace_begin(Run& run, Lane& lane, std::uint32_t step);
  [[gnu::noinline]] void trace_end(Run& run, Lane& lane, std::uint32_t step);
  void trace_arrival(Run& run, const MessageHeader& header);
  static StepTimes& traced(const Run& run, Lane& lane, std::uint32_t step);

  // engine_errors.h: operations under way, failure
  Op* take_op(Run& run, Lane* lane, std::uint32_t step);
  void give_op(Op* op);
  void reset_device(Op* op);
  void track(Run& run, Op* op);
  void untrack(Op* op);
  static void on_done(TransportOp* op, Status status);
  static void report(Comm& comm, const Sentence& what);
  void fail(Comm& comm, Status status, const Sentence& what);
  void fail_here(Comm& comm, Status status, const Sentence& what);
  void fail_with(Comm& comm, Rank rank, Status status, const Sentence& what);
  void fail_run(Run& run, Status status);
  void announce_abort(Comm& comm);
  void disown(Run& run, Rank rank);
  void send_note(Comm& comm, Rank rank, const MessageHeader& note,
                 std::span<const std::byte> data = {});
  static void* find_peer(Comm& comm, Rank rank);
  void* peer_of(Comm& comm, Rank rank);

  Transport& transport_;
  Staging<Transport> staging_;
  Cuda* cuda_ = nullptr;    // once a call was on device memory
  Trace* trace_ = nullptr;  // if one is kept
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
  bool posting_ = false;  // executing what is ready: not to be entered twice
};

}  // namespace gpuar

#include "coll_gpuar/engine/engine_arrivals.h"
#include "coll_gpuar/engine/engine_device.h"
#include "coll_gpuar/engine/engine_errors.h"
#include "coll_gpuar/engine/engine_loss.h"
#include "coll_gpuar/engine/engine_report.h"
#include "coll_gpuar/engine/engine_steps.h"
#include "coll_gpuar/engine/engine_trace.h"
