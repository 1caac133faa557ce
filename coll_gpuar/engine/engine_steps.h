// Engine: steps, segments and calls. Included by engine.h.
#pragma once

#include "coll_gpuar/engine/engine.h"

namespace gpuar {

template <class T>
void Engine<T>::give(Run* run) {
  run->comm = nullptr;
  runs_.give(run);
}

template <class T>
void Engine<T>::start(Run& run) {
  Comm& comm = *run.comm;
  run.active = true;
  run.status = Status::ok;
  run.segments_done = 0;
  run.complete.store(false, std::memory_order_relaxed);
  if (run.kind == MessageKind::call) run.sequence = comm.next_sequence++;
  if (run.kind == MessageKind::call && run.sequence - comm.oldest >= window) {
    comm.waiting.push(run);
    return;
  }
  begin(run);
  if (run.active) advance(run);
  run_ready();
}

// Opens the first segments; posts nothing yet.
template <class T>
void Engine<T>::begin(Run& run) {
  Comm& comm = *run.comm;
  if (run.kind == MessageKind::call) {
    comm.calls[run.sequence % window] = &run;
    comm.started = run.sequence + 1;
  }
  if (comm.status != Status::ok) return fail_run(run, comm.status);
  const Plan& plan = *run.plan;
  if (run.lanes.size() < plan.depth) run.lanes.resize(plan.depth);
  for (Lane& lane : run.lanes) lane.live = false;
  if (plan.segments == 0) return finish(run);
  // In a pipeline every lane will need its scratch; taken at once, the pool does not grow later.
  const bool pipelined = plan.depth > 1 && plan.program->schedule.slots > 0;
  for (std::uint32_t i = 0; i < plan.depth; ++i) {
    open_segment(run, run.lanes[i], i);
    if (pipelined) scratch_slot(run, run.lanes[i], 0);
  }
  HeldList& pending = comm.pending[run.sequence % window];
  if (pending.head) adopt(pending, run);
}

template <class T>
void Engine<T>::open_segment(Run& run, Lane& lane, std::size_t segment) {
  const Plan& plan = *run.plan;
  const Program& program = *plan.program;
  const Schedule& schedule = program.schedule;
  lane.segment = segment;
  lane.first = segment * plan.segment_elements;
  lane.elements = plan.elements_of(segment);
  lane.live = true;
  lane.steps_left = static_cast<std::uint32_t>(schedule.steps.size());
  lane.remaining.assign(program.dependencies.begin(), program.dependencies.end());
  lane.ready.resize(schedule.steps.size());
  std::copy(schedule.initial.begin(), schedule.initial.end(), lane.ready.begin());
  lane.ready_head = 0;
  lane.ready_tail = static_cast<std::uint32_t>(schedule.initial.size());
  lane.arrivals.assign(schedule.recv_steps.size(), nullptr);
  lane.slots.assign(schedule.slots, Slot{});
  if (run.early.head) adopt(run.early, run);
}

template <class T>
void Engine<T>::close_segment(Run& run, Lane& lane) {
  const Plan& plan = *run.plan;
  lane.live = false;
  ++run.segments_done;
  const std::size_t next = lane.segment + plan.depth;
  if (next < plan.segments) {
    open_segment(run, lane, next);
  } else if (run.segments_done == plan.segments) {
    finish(run);
  }
}

// Executes what is ready, the oldest segments first, until nothing is.
template <class T>
void Engine<T>::advance(Run& run) {
  if (caller_ == Caller::helper && run.binding.reduction.custom) {
    run.queued = true;
    deferred_.push(run);
    return;
  }
  const std::uint32_t depth = run.plan->depth;
  for (bool worked = true; worked;) {
    worked = false;
    for (std::uint32_t i = 0; i < depth; ++i) {
      Lane& lane = run.lanes[i];
      while (run.active && lane.live && lane.ready_head != lane.ready_tail) {
        worked = true;
        execute(run, lane, lane.ready[lane.ready_head++]);
      }
      if (!run.active || run.status != Status::ok) return;
    }
  }
}

template <class T>
void Engine<T>::execute(Run& run, Lane& lane, std::uint32_t index) {
  if (run.status != Status::ok) return;  // failed: nothing more is posted
  switch (step_of(run, index).verb) {
    case Verb::send:
      return execute_send(run, lane, index);
    case Verb::recv:
      return execute_recv(run, lane, index);
    case Verb::reduce:
    case Verb::copy:
      return execute_reduce(run, lane, index);
  }
}

template <class T>
void Engine<T>::execute_send(Run& run, Lane& lane, std::uint32_t index) {
  const Step& step = step_of(run, index);
  const ElementRange range = range_of(run, lane, step);
  if (range.count == 0) return complete(run, lane, index);
  const std::byte* data = locate(run, lane, step.source, range);
  void* peer = peer_of(*run.comm, step.peer);
  if (!peer) return;  // failed
  Op* op = take_op(run, lane, index);
  op->header = {run.comm->id,
                run.sequence,
                static_cast<std::uint32_t>(run.comm->rank),
                static_cast<std::uint32_t>(lane.segment),
                static_cast<std::uint16_t>(step.message),
                pack_kind(run.kind, run.round)};
  const Status status = transport_.send(static_cast<typename T::Peer>(peer), *op, data,
                                        range.count * run.plan->element_bytes);
  if (status == Status::in_progress) return track(run, op);
  give_op(op);
  if (status == Status::ok) return complete(run, lane, index);
  fail(*run.comm, status, "cannot send to rank " + std::to_string(step.peer));
}

template <class T>
void Engine<T>::execute_recv(Run& run, Lane& lane, std::uint32_t index) {
  const Step& step = step_of(run, index);
  if (range_of(run, lane, step).count == 0) return complete(run, lane, index);
  Held*& place = lane.arrivals[run.plan->program->receive[index]];
  if (!place) {
    place = expected();
    return;
  }
  Held* held = place;
  place = nullptr;
  if (accept(run, lane, index, held->arrival, held) == Taken::consumed) drop(held);
}

// Reductions and copies: both read and write memory of this rank only.
template <class T>
void Engine<T>::execute_reduce(Run& run, Lane& lane, std::uint32_t index) {
  const Step& step = step_of(run, index);
  const ElementRange range = range_of(run, lane, step);
  if (range.count == 0) return complete(run, lane, index);
  const std::byte* source = locate(run, lane, step.source, range);
  // A slot as target is written into this lane's own memory, never into an arrival.
  std::byte* target = step.target.place == Place::slot ? scratch_slot(run, lane, step.target.slot)
                                                       : locate(run, lane, step.target, range);
  if (!target || !source) return fail(*run.comm, Status::no_memory, "no memory for a scratch slot");
  if (step.verb == Verb::copy) {
    if (target != source) std::memcpy(target, source, range.count * run.plan->element_bytes);
    return complete(run, lane, index);
  }
  const std::byte* other = locate(run, lane, step.other, range);
  if (!other) return fail(*run.comm, Status::no_memory, "no memory for a scratch slot");
  const Reduction& reduction = run.binding.reduction;
  if (reduction.function) {
    reduction.function(target, source, other, range.count);
  } else if (reduction.custom(reduction.context, target, source, other, range.count) != 0) {
    return fail(*run.comm, Status::failed, "the user-defined reduction could not be run");
  }
  // Each value in a slot is read once; then the arrival that holds it may go.
  for (const Operand& operand : {step.source, step.other}) {
    if (operand.place == Place::slot) empty_slot(lane, operand.slot);
  }
  if (step.target.place == Place::slot) lane.slots[step.target.slot].data = target;
  complete(run, lane, index);
}

template <class T>
void Engine<T>::complete(Run& run, Lane& lane, std::uint32_t index) {
  const Schedule& schedule = run.plan->program->schedule;
  const Step& step = schedule.steps[index];
  const std::uint32_t* successor = schedule.successors.data() + step.first_successor;
  for (std::uint32_t i = 0; i < step.successor_count; ++i) {
    if (--lane.remaining[successor[i]] == 0) lane.ready[lane.ready_tail++] = successor[i];
  }
  if (--lane.steps_left == 0) close_segment(run, lane);
}

// The memory of an operand; nullptr only for a slot that finds no memory.
template <class T>
std::byte* Engine<T>::locate(Run& run, Lane& lane, Operand operand, ElementRange range) {
  const std::size_t offset = (lane.first + range.first) * run.plan->element_bytes;
  switch (operand.place) {
    case Place::input:
      return const_cast<std::byte*>(run.binding.in) + offset;
    case Place::output:
      return run.binding.out + offset;
    case Place::slot:
      break;
  }
  Slot& slot = lane.slots[operand.slot];
  if (!slot.data) slot.data = scratch_slot(run, lane, operand.slot);
  return slot.data;
}

template <class T>
std::byte* Engine<T>::scratch_slot(Run& run, Lane& lane, std::uint16_t slot) {
  const Plan& plan = *run.plan;
  if (!lane.scratch) {
    lane.scratch = scratch_.take(plan.program->schedule.slots * plan.slot_bytes);
    if (!lane.scratch) return nullptr;
  }
  return lane.scratch + slot * plan.slot_bytes;
}

template <class T>
void Engine<T>::empty_slot(Lane& lane, std::uint16_t index) {
  Slot& slot = lane.slots[index];
  if (slot.held) drop(slot.held);
  slot = Slot{};
}

// Ends a run: nothing of it is on the wire any more.
template <class T>
void Engine<T>::finish(Run& run) {
  Comm& comm = *run.comm;
  const Plan& plan = *run.plan;
  for (Lane& lane : run.lanes) {
    lane.live = false;
    if (!lane.scratch) continue;
    scratch_.give(lane.scratch, plan.program->schedule.slots * plan.slot_bytes);
    lane.scratch = nullptr;
  }
  run.active = false;
  if (run.kind == MessageKind::call) {
    comm.calls[run.sequence % window] = nullptr;
    promote(comm);
  }
  if (run.done) {
    finished_.push(run);
  } else {
    run.complete.store(true, std::memory_order_release);
  }
}

// Moves the window on, and calls that waited behind it onto the wire.
template <class T>
void Engine<T>::promote(Comm& comm) {
  if (comm.promoting) return;
  comm.promoting = true;
  for (;;) {
    while (comm.oldest != comm.started && !comm.calls[comm.oldest % window]) ++comm.oldest;
    if (comm.waiting.empty() || comm.waiting.head->sequence - comm.oldest >= window) break;
    Run* next = comm.waiting.pop();
    begin(*next);
    if (next->active) enqueue(*next);
  }
  comm.promoting = false;
}

template <class T>
void Engine<T>::enqueue(Run& run) {
  if (run.queued) return;
  run.queued = true;
  ready_.push(run);
}

template <class T>
void Engine<T>::run_ready() {
  if (posting_) return;
  posting_ = true;
  while (Run* run = ready_.pop()) {
    run->queued = false;
    if (run->active && run->status == Status::ok) advance(*run);
  }
  posting_ = false;
}

template <class T>
unsigned Engine<T>::progress(Caller caller) {
  caller_ = caller;
  if (caller == Caller::program) {
    while (Run* run = deferred_.pop()) ready_.push(*run);
  }
  const unsigned events = transport_.progress();
  if (!ready_.empty()) run_ready();
  caller_ = Caller::program;
  return events;
}

}  // namespace gpuar
