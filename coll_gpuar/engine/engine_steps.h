// Engine: steps, segments and calls. Included by engine.h.
#pragma once

#include "coll_gpuar/engine/engine.h"

namespace gpuar {

template <class T>
Run* Engine<T>::take() {
  Run* run = runs_.take();
  if (!run) throw std::bad_alloc();
  return run;
}

template <class T>
void Engine<T>::give(Run* run) {
  run->comm = nullptr;
  runs_.give(run);
}

template <class T>
void Engine<T>::start(Run& run) {
  run.active = true;
  run.status = Status::ok;
  run.segments_done = 0;
  run.complete.store(false, std::memory_order_relaxed);
  if (run.comm->journal) [[unlikely]]
    enter_journal(run);
  if (Stream* stream = run.comm->stream(run.kind)) {
    run.sequence = stream->next_sequence++;
    if (run.sequence - stream->oldest >= window) return stream->waiting.push(run);
  }
  if (begin(run)) advance(run);
  run_ready();
}

// Takes a place on the wire and opens the first segments. Whether steps may be executed.
template <class T>
bool Engine<T>::begin(Run& run) {
  Comm& comm = *run.comm;
  if (Stream* stream = comm.stream(run.kind)) {
    stream->calls[run.sequence % window] = &run;
    stream->started = run.sequence + 1;
  }
  if (comm.status != Status::ok) {
    fail_run(run, comm.status);
  } else if (run.device.stage != Stage::running) [[unlikely]] {
    return begin_late(run);
  } else {
    open(run);
  }
  return run.active;
}

template <class T>
void Engine<T>::resume(Run& run) {
  const Stream* stream = run.comm->stream(run.kind);
  const bool waiting = stream && stream->calls[run.sequence % window] != &run;
  if (!run.active || waiting) return;
  if (begin_late(run)) advance(run);
  run_ready();
}

template <class T>
void Engine<T>::open(Run& run) try {
  Comm& comm = *run.comm;
  const Plan& plan = *run.plan;
  if (run.lanes.size() < plan.depth) run.lanes.resize(plan.depth);
  for (Lane& lane : run.lanes) lane.live = false;
  if (plan.segments == 0) return finish(run);
  for (std::uint32_t i = 0; i < plan.depth; ++i) open_segment(run, run.lanes[i], i);
  if (plan.depth > 1) take_scratch(run);
  HeldList& pending = comm.pending[run.sequence % window];
  if (pending.head) adopt(pending, run);
} catch (const std::bad_alloc&) {
  fail(*run.comm, Status::no_memory, "no memory to begin the call");
}

// In a pipeline every lane will need its scratch; taken at once, the pool does not grow later.
template <class T>
void Engine<T>::take_scratch(Run& run) {
  if (run.device.carry != Carry::host || scratch_bytes(*run.plan) == 0) return;
  for (std::uint32_t i = 0; i < run.plan->depth; ++i) scratch_slot(run, run.lanes[i], 0);
}

template <class T>
void Engine<T>::open_segment(Run& run, Lane& lane, std::size_t segment) {
  const Plan& plan = *run.plan;
  const Program& program = *plan.program;
  lane.segment = segment;
  lane.first = segment * plan.segment_elements;
  lane.elements = plan.elements_of(segment);
  lane.begin_tables(program);
  lane.steps_left = static_cast<std::uint32_t>(program.schedule.steps.size());
  lane.ready_head = 0;
  lane.ready_tail = static_cast<std::uint32_t>(program.schedule.initial.size());
  lane.live = true;  // after all that may find no memory: in the first segments of a call only
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

// Makes an average of a segment's sum. Every rank holds the same sum, and nothing of it is on its
// way to others any more: what was sent is the sum.
template <class T>
void Engine<T>::divide(Run& run, Lane& lane) {
  std::byte* out = run.binding.out + lane.first * run.plan->element_bytes;
  if (run.device.carry == Carry::on_device) return divide_on_device(run, lane, out);
  run.binding.reduction.divide(out, out, lane.elements, run.binding.reduction.divide_by);
  close_segment(run, lane);
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
        worked = depth > 1;  // a lane alone has done all that it can
        execute(run, lane, lane.ready[lane.ready_head++]);
      }
    }
  }
}

template <class T>
void Engine<T>::execute(Run& run, Lane& lane, std::uint32_t index) {
  if (run.status != Status::ok) return;  // failed: nothing more is posted
  if (trace_) [[unlikely]]
    trace_begin(run, lane, index);
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
  Op* op = take_op(run, &lane, index);
  if (!op) return fail(*run.comm, Status::no_memory, "no memory to send a message");
  op->header = {run.comm->id,
                run.sequence,
                static_cast<std::uint32_t>(run.comm->rank),
                static_cast<std::uint32_t>(lane.segment),
                static_cast<std::uint16_t>(step.message),
                pack_kind(run.kind, run.round),
                run.times.stamp};
  const std::size_t bytes = range.count * run.plan->element_bytes;
  const auto to = static_cast<typename T::Peer>(peer);
  const Status status = run.device.carry == Carry::on_device
                            ? send_from_device(run, to, *op, data, bytes)
                            : transport_.send(to, *op, data, bytes);
  if (status == Status::in_progress) return track(run, op);
  give_op(op);
  if (status == Status::ok) return complete(run, lane, index);
  fail_with(*run.comm, step.peer, status, {"cannot send to rank ", step.peer});
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
    if (run.device.carry == Carry::on_device) {
      const std::size_t bytes = range.count * run.plan->element_bytes;
      return copy_on_device(run, lane, index, target, source, bytes);
    }
    if (target != source) std::memcpy(target, source, range.count * run.plan->element_bytes);
    return complete(run, lane, index);
  }
  const std::byte* other = locate(run, lane, step.other, range);
  if (!other) return fail(*run.comm, Status::no_memory, "no memory for a scratch slot");
  if (run.device.carry == Carry::on_device) return reduce_on_device(run, lane, index);
  const Reduction& reduction = run.binding.reduction;
  if (reduction.function) {
    reduction.function(target, source, other, range.count);
  } else if (reduction.custom(reduction.context, target, source, other, range.count) != 0) {
    return fail(*run.comm, Status::failed, "the user-defined reduction could not be run");
  }
  settle_slots(run, lane, step);
  complete(run, lane, index);
}

// After a reduction. Each value in a slot is read once; then the arrival that holds it may go.
template <class T>
void Engine<T>::settle_slots(Run& run, Lane& lane, const Step& step) {
  for (const Operand& operand : {step.source, step.other}) {
    if (operand.place == Place::slot) empty_slot(lane, operand.slot);
  }
  if (step.target.place != Place::slot) return;
  lane.slots[step.target.slot].data = scratch_slot(run, lane, step.target.slot);
}

template <class T>
void Engine<T>::complete(Run& run, Lane& lane, std::uint32_t index) {
  if (trace_) [[unlikely]]
    trace_end(run, lane, index);
  const Schedule& schedule = run.plan->program->schedule;
  const Step& step = schedule.steps[index];
  const std::uint32_t* successor = schedule.successors.data() + step.first_successor;
  for (std::uint32_t i = 0; i < step.successor_count; ++i) {
    if (--lane.remaining[successor[i]] == 0) lane.ready[lane.ready_tail++] = successor[i];
  }
  if (--lane.steps_left == 0) {
    run.binding.reduction.divide ? divide(run, lane) : close_segment(run, lane);
  }
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
    lane.scratch = scratch_.take(scratch_bytes(plan));
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

template <class T>
void Engine<T>::give_scratch(Run& run) {
  for (Lane& lane : run.lanes) {
    if (!lane.scratch) continue;
    scratch_.give(lane.scratch, scratch_bytes(*run.plan));
    lane.scratch = nullptr;
  }
}

// Ends a run: nothing of it is on the wire any more.
template <class T>
void Engine<T>::finish(Run& run) {
  if (run.device.gpu && !leave(run)) [[unlikely]]
    return;
  for (Lane& lane : run.lanes) lane.live = false;
  give_scratch(run);
  run.active = false;
  if (run.queued) dequeue(run);
  if (run.times.stamp != 0) [[unlikely]]
    leave_journal(run);
  if (Stream* stream = run.comm->stream(run.kind)) {
    stream->calls[run.sequence % window] = nullptr;
    promote(*stream);
  }
  if (run.done) {
    finished_.push(run);
  } else {
    run.complete.store(true, std::memory_order_release);
  }
}

// Moves the window on, and calls that waited behind it onto the wire.
template <class T>
void Engine<T>::promote(Stream& stream) {
  if (stream.promoting) return;
  stream.promoting = true;
  for (;;) {
    while (stream.oldest != stream.started && !stream.calls[stream.oldest % window]) {
      ++stream.oldest;
    }
    if (stream.waiting.empty() || stream.waiting.head->sequence - stream.oldest >= window) break;
    Run* next = stream.waiting.pop();
    if (begin(*next)) enqueue(*next);
  }
  stream.promoting = false;
}

template <class T>
void Engine<T>::enqueue(Run& run) {
  if (run.queued) return;
  run.queued = true;
  ready_.push(run);
}

// Its last message has ended a run that was to be looked after. The run may be another call's soon,
// which must not be taken for one under way.
template <class T>
void Engine<T>::dequeue(Run& run) {
  run.queued = false;
  if (!ready_.remove(run)) deferred_.remove(run);
}

template <class T>
void Engine<T>::run_ready() {
  if (posting_) return;
  posting_ = true;
  while (Run* run = ready_.pop()) {
    run->queued = false;
    if (run->status == Status::ok) advance(*run);
  }
  posting_ = false;
}

template <class T>
unsigned Engine<T>::progress(Caller caller) {
  caller_ = caller;
  if (caller == Caller::program) {
    while (Run* run = deferred_.pop()) ready_.push(*run);
  }
  unsigned events = 0;
  if (cuda_) {
    events = progress_devices();
  } else {
    events = transport_.progress();
    if (!ready_.empty()) run_ready();
  }
  caller_ = Caller::program;
  return events;
}

}  // namespace gpuar
