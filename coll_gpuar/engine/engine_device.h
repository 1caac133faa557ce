// Engine: calls on device memory. Included by engine.h.
//
// The schedule is the host's, and so is the wire. What differs is local: copies and reductions are
// posted to the device and end later, from Cuda::poll(), as transfers do. A dependency is met when
// the device is done, so that nothing is sent or overwritten too early.
//
//   through_host    copy down | the host's run, in place in pinned memory | copy up
//   on_device       [copy in to out, if they are memory of two kinds] | the run where out lies
#pragma once

#include "coll_gpuar/engine/engine.h"

namespace gpuar {

// Posts an operation on the device; `post` is given the GpuOp.
template <class T>
template <class Post>
void Engine<T>::post_on_device(Run& run, Op* op, const char* what, Post post) {
  if (!op) return fail(*run.comm, Status::no_memory, "no memory for work on the device");
  op->device = {&Engine::on_device_done, op, nullptr};
  const Status status = post(op->device);
  if (status == Status::in_progress) return track(run, op);
  reset_device(op);
  give_op(op);
  fail(*run.comm, status,
       {"the device refuses ", what, "; look for the first CUDA error before this line"});
}

template <class T>
void Engine<T>::reset_device(Op* op) {
  if (op->held) drop(op->held);
  op->held = nullptr;
  op->fused = 0;
  op->device.owner = nullptr;
}

template <class T>
void Engine<T>::on_device_done(void* owner, Status status) {
  on_done(static_cast<Op*>(owner), status);
}

// --- Before and after the run ------------------------------------------------------------------

// Begins what has to come first: the plan, or work on the device. Whether steps may be executed.
template <class T>
bool Engine<T>::begin_late(Run& run) {
  if (!run.plan) return false;  // resume() begins it
  open(run);
  if (!run.active) return false;
  if (run.device.gpu) {
    prepare(run);
  } else {
    run.device.stage = Stage::running;
  }
  return run.active && run.device.stage == Stage::running;
}

template <class T>
void Engine<T>::prepare(Run& run) {
  DeviceCall& device = run.device;
  run.binding.in = device.user_in;
  run.binding.out = device.user_out;
  if (device.carry == Carry::on_device && !take_device_scratch(run)) {
    device.carry = Carry::through_host;
  }
  if (!device.after_queued_work) return enter(run);
  device.stage = Stage::waiting;
  for (Gpu* gpu : {device.in.gpu, device.out.gpu == device.in.gpu ? nullptr : device.out.gpu}) {
    if (!gpu || run.status != Status::ok) continue;
    post_on_device(run, take_op(run, nullptr, 0), "to wait for the work queued on it",
                   [&](GpuOp& op) { return gpu->after_queued_work(op); });
  }
}

// All scratch of a run on the device is taken before anything is posted: later there is no way
// back. False if the device has none left.
template <class T>
bool Engine<T>::take_device_scratch(Run& run) {
  const std::size_t bytes = scratch_bytes(*run.plan);
  for (std::uint32_t i = 0; bytes > 0 && i < run.plan->depth; ++i) {
    run.lanes[i].scratch = run.device.gpu->take(bytes);
    if (run.lanes[i].scratch) continue;
    give_device_scratch(run);
    return false;
  }
  return true;
}

template <class T>
void Engine<T>::give_device_scratch(Run& run) {
  for (Lane& lane : run.lanes) {
    if (lane.scratch) run.device.gpu->give(lane.scratch, scratch_bytes(*run.plan));
    lane.scratch = nullptr;
  }
}

// Brings the input to where the run reads it.
template <class T>
void Engine<T>::enter(Run& run) {
  DeviceCall& device = run.device;
  const std::size_t bytes = run.plan->count * run.plan->element_bytes;
  const bool through_host = device.carry == Carry::through_host;
  const bool other_memory = device.in.kind != device.out.kind || device.in.gpu != device.out.gpu;
  device.stage = Stage::running;
  if (through_host && device.out.gpu) {
    device.room = take_room(*cuda_, bytes);
    run.binding.out = device.room.data;
    if (!device.room.data) {
      return fail(*run.comm, Status::no_memory, "no host memory to carry device data through");
    }
  }
  if (!through_host && !other_memory) return;
  run.binding.in = run.binding.out;
  device.stage = Stage::entering;
  post_on_device(run, take_op(run, nullptr, 0), "a copy of the input", [&](GpuOp& op) {
    return device.gpu->copy(run.binding.out, device.user_in, bytes, op);
  });
}

// The steps are over, or the run has failed: puts the result where the caller wants it, then gives
// back what the device lent. False while the copy is under way; finish() comes again after it.
template <class T>
bool Engine<T>::leave(Run& run) {
  DeviceCall& device = run.device;
  if (device.room.data && run.status == Status::ok && device.stage == Stage::running) {
    device.stage = Stage::leaving;
    post_on_device(run, take_op(run, nullptr, 0), "a copy of the result", [&](GpuOp& op) {
      return device.gpu->copy(device.user_out, device.room.data, device.room.bytes, op);
    });
    return false;
  }
  if (device.carry == Carry::on_device) give_device_scratch(run);
  give_room(*cuda_, device.room);
  device.stage = Stage::bound;  // a persistent request may start again
  return true;
}

// An operation before or after the run has ended.
template <class T>
void Engine<T>::stage_done(Run& run) {
  switch (run.device.stage) {
    case Stage::waiting:
      if (run.in_flight == 0) enter(run);
      return;
    case Stage::entering:
      run.device.stage = Stage::running;
      return;
    case Stage::leaving:
      return finish(run);
    case Stage::bound:
    case Stage::running:
      return;
  }
}

// --- Steps ---------------------------------------------------------------------------------------

template <class T>
Memory Engine<T>::memory_of(const Run& run, Operand operand) {
  switch (operand.place) {
    case Place::input:
      return run.binding.in == run.binding.out ? run.device.out : run.device.in;
    case Place::output:
      return run.device.out;
    case Place::slot:
      break;
  }
  return {MemoryKind::device, run.device.gpu->exports(), run.device.gpu};
}

template <class T>
Status Engine<T>::send_from_device(Run& run, typename T::Peer to, Op& op, const std::byte* data,
                                   std::size_t bytes) {
  const Step& step = step_of(run, op.step);
  if (run.comm->sends) run.comm->sends(*run.comm, step.peer, *run.device.gpu);
  return staging_.send(*cuda_, to, op, data, bytes, memory_of(run, step.source));
}

template <class T>
Status Engine<T>::fetch_to_device(Run& run, std::uint32_t index, Op& op, std::byte* target,
                                  const Arrival& arrival) {
  const Step& step = step_of(run, index);
  if (run.comm->fetches) run.comm->fetches(*run.comm, step.peer, *run.device.gpu);
  return staging_.fetch(*cuda_, arrival, op, target, arrival.bytes, memory_of(run, step.target));
}

// An eager message lies in host memory: it stays held until the device has copied it.
template <class T>
Taken Engine<T>::accept_eager_on_device(Run& run, Lane& lane, std::uint32_t index,
                                        const Arrival& arrival, Held* held) {
  const Step& step = step_of(run, index);
  const bool was_held = held != nullptr;
  std::byte* target = locate(run, lane, step.target, range_of(run, lane, step));
  if (target && !held) held = hold(MessageHeader{}, arrival);
  if (!target || !held) {
    fail(*run.comm, Status::no_memory, "no memory for a message to the device");
    return Taken::consumed;
  }
  const bool copied_out = held->stash != nullptr;
  Op* op = take_op(run, &lane, index);
  if (!op) {
    if (!was_held) drop(held);
    fail(*run.comm, Status::no_memory, "no memory for a message to the device");
    return was_held || copied_out ? Taken::consumed : Taken::held;
  }
  op->held = held;
  post_on_device(run, op, "a copy of a message", [&](GpuOp& posted) {
    return run.device.gpu->copy(target, held->arrival.data, held->arrival.bytes, posted);
  });
  return !was_held && copied_out ? Taken::consumed : Taken::held;
}

template <class T>
void Engine<T>::copy_on_device(Run& run, Lane& lane, std::uint32_t index, std::byte* target,
                               const std::byte* source, std::size_t bytes) {
  if (target == source) return complete(run, lane, index);
  post_on_device(run, take_op(run, &lane, index), "a copy",
                 [&](GpuOp& op) { return run.device.gpu->copy(target, source, bytes, op); });
}

// One pass over several inputs: a reduction whose result is only read by another reduction that
// waits for nothing else takes that one's operand along.
template <class T>
void Engine<T>::reduce_on_device(Run& run, Lane& lane, std::uint32_t index) {
  const Schedule& schedule = run.plan->program->schedule;
  const Step* step = &schedule.steps[index];
  const ElementRange range = range_of(run, lane, *step);
  const Reduction& reduction = run.binding.reduction;
  GpuReduction work{reduction.op, reduction.type, nullptr, {}, 2, range.count};
  work.inputs[0] = locate(run, lane, step->source, range);
  work.inputs[1] = locate(run, lane, step->other, range);
  Op* op = take_op(run, &lane, index);
  if (!op) return fail(*run.comm, Status::no_memory, "no memory for a reduction on the device");
  while (work.input_count < max_reduce_inputs && step->successor_count == 1) {
    const std::uint32_t next = schedule.successors[step->first_successor];
    const Step& follower = schedule.steps[next];
    if (follower.verb != Verb::reduce || lane.remaining[next] != 1 ||
        follower.source != step->target || follower.span != step->span) {
      break;
    }
    work.inputs[work.input_count++] = locate(run, lane, follower.other, range);
    ++op->fused;
    step = &follower;
  }
  work.out = step->target.place == Place::slot ? scratch_slot(run, lane, step->target.slot)
                                               : locate(run, lane, step->target, range);
  post_on_device(run, op, "a reduction",
                 [&](GpuOp& posted) { return run.device.gpu->reduce(work, posted); });
}

template <class T>
void Engine<T>::divide_on_device(Run& run, Lane& lane, std::byte* sum) {
  const Reduction& reduction = run.binding.reduction;
  const GpuDivision work{reduction.type, sum, sum, lane.elements, reduction.divide_by};
  post_on_device(run, take_op(run, &lane, whole_segment), "a division",
                 [&](GpuOp& op) { return run.device.gpu->divide(work, op); });
}

// What a reduction, and those that went along with it, leave behind.
template <class T>
void Engine<T>::complete_on_device(Run& run, Lane& lane, std::uint32_t index, std::uint32_t fused) {
  if (index == whole_segment) return close_segment(run, lane);
  for (;;) {
    const Step& step = step_of(run, index);
    const std::uint32_t next =
        fused > 0 ? run.plan->program->schedule.successors[step.first_successor] : 0;
    if (step.verb == Verb::reduce) settle_slots(run, lane, step);
    complete(run, lane, index);
    if (fused == 0) return;
    --fused;
    --lane.ready_tail;  // the one that went along: it has just become ready, as the last
    index = next;
  }
}

// As progress(), where there are devices: what this poll makes ready goes out together.
template <class T>
unsigned Engine<T>::progress_devices() {
  unsigned events = 0;
  {
    const Cuda::Current current(*cuda_);
    events = transport_.progress();
  }
  run_ready();
  if (cuda_->in_flight() == 0) return events;
  events += cuda_->poll();
  run_ready();
  cuda_->launch();
  return events;
}

}  // namespace gpuar
