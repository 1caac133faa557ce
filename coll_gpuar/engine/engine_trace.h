// Engine: events of the trace. Included by engine.h.
//
// Calls are noted where the report notes them, and messages where their stamps are: a job that
// keeps no trace pays a comparison where a step is begun and where it is complete.
#pragma once

#include <utility>

#include "coll_gpuar/engine/engine.h"

namespace gpuar {

template <class T>
TraceEvent Engine<T>::event_of(const Run& run) {
  TraceEvent event;
  event.comm = run.comm->traced_as;
  event.algorithm = run.plan->algorithm;
  event.call = run.sequence;
  event.round = run.round;
  event.form = form_of(run);
  event.path = static_cast<std::uint8_t>(run.device.carry);
  event.end = now_ns();
  return event;
}

template <class T>
void Engine<T>::trace_call(const Run& run) {
  TraceEvent event = event_of(run);
  event.bytes = run.plan->count * run.plan->element_bytes;
  event.begin = run.times.entered;
  event.waited_until = event.begin;
  if (Journal::knows_waiting(run.times, event.end - event.begin)) {
    event.waited_until = std::min(run.times.last_entered, event.end);
    event.peer = run.times.last;
  }
  trace_->add(event);
}

// Room for all steps once one of them is looked at.
template <class T>
StepTimes& Engine<T>::traced(const Run& run, Lane& lane, std::uint32_t step) {
  lane.traced.resize(run.plan->program->schedule.steps.size());
  return lane.traced[step];
}

template <class T>
void Engine<T>::trace_begin(Run& run, Lane& lane, std::uint32_t step) {
  if (run.times.stamp == 0) return;  // gpuar's own call
  traced(run, lane, step) = {now_ns(), 0};
}

// The message for a step that waits for it.
template <class T>
void Engine<T>::trace_arrival(Run& run, const MessageHeader& header) {
  const Schedule& schedule = run.plan->program->schedule;
  if (header.segment >= run.plan->segments) return;
  Lane& lane = run.lanes[header.segment % run.plan->depth];
  const PeerReceives* peer = receives_from(schedule, static_cast<Rank>(header.source));
  if (!lane.live || lane.segment != header.segment || !peer || header.message >= peer->count)
    return;
  StepTimes& times = traced(run, lane, schedule.recv_steps[peer->first + header.message]);
  if (times.arrived == 0) times.arrived = now_ns();
}

// Without a beginning: a reduction that went along with another one.
template <class T>
void Engine<T>::trace_end(Run& run, Lane& lane, std::uint32_t index) {
  if (run.times.stamp == 0) return;
  const StepTimes times = std::exchange(traced(run, lane, index), {});
  if (times.begun == 0) return;
  const Step& step = step_of(run, index);
  TraceEvent event = event_of(run);
  event.bytes = range_of(run, lane, step).count * run.plan->element_bytes;
  if (event.bytes == 0) return;
  event.begin = times.begun;
  event.waited_until = std::max(times.arrived, times.begun);
  event.segment = static_cast<std::uint32_t>(lane.segment);
  event.message = step.message;
  event.peer = step.peer;
  constexpr std::array<TraceEvent::Kind, 4> kinds{TraceEvent::Kind::send, TraceEvent::Kind::receive,
                                                  TraceEvent::Kind::reduce, TraceEvent::Kind::copy};
  event.kind = kinds[static_cast<std::size_t>(step.verb)];
  trace_->add(event);
}

}  // namespace gpuar
