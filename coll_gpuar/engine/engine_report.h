// Engine: what the report is made of. Included by engine.h.
//
// Out of line: a job that writes no report pays a comparison where a call begins, where it ends,
// and for each message.
#pragma once

#include <bit>
#include <limits>

#include "coll_gpuar/engine/engine.h"

namespace gpuar {

template <class T>
void Engine<T>::enter_journal(Run& run) try {
  if (run.own) return;
  Comm& comm = *run.comm;
  comm.journal->enter(run.times);
  if (trace_) [[unlikely]]
    for (Lane& lane : run.lanes) lane.traced.clear();
  if (comm.journal->to_ask().empty()) [[likely]]
    return;
  for (const Rank rank : comm.journal->to_ask()) {
    if (comm.journal->clock(rank)->is_due(run.times.entered)) send_ping(comm, rank);
  }
  comm.journal->to_ask().clear();
} catch (const std::bad_alloc&) {
  // The report lacks something; calls go on.
}

template <class T>
void Engine<T>::send_ping(Comm& comm, Rank rank) {
  const std::uint16_t tag = comm.journal->clock(rank)->ping(now_ns());
  send_note(comm, rank, note(comm.id, static_cast<std::uint32_t>(comm.rank), Note::ping, 0, tag));
}

template <class T>
Form Engine<T>::form_of(const Run& run) {
  if (run.kind == MessageKind::persistent) return Form::persistent;
  if (run.kind == MessageKind::internal) return Form::internal;
  return run.done ? Form::nonblocking : Form::blocking;
}

// A stamp that is gone marks a call that was noted: runs are used again.
template <class T>
void Engine<T>::leave_journal(Run& run) try {
  run.times.stamp = 0;
  if (run.status != Status::ok) return;
  const std::size_t bytes = run.plan->count * run.plan->element_bytes;
  run.comm->journal->leave(run.times,
                           {static_cast<std::uint8_t>(std::bit_width(bytes)), form_of(run),
                            static_cast<std::uint8_t>(run.device.carry), run.plan->algorithm},
                           bytes);
  if (trace_) [[unlikely]]
    trace_call(run);
} catch (const std::bad_alloc&) {
  // As when it entered.
}

template <class T>
void Engine<T>::hear_stamp(Run& run, const MessageHeader& header) try {
  Comm& comm = *run.comm;
  const auto from = static_cast<Rank>(header.source);
  if (!comm.journal || run.times.stamp == 0 || from == comm.rank) return;
  if (trace_) [[unlikely]]
    trace_arrival(run, header);
  if (comm.journal->hear(run.times, from, header.stamp)) send_ping(comm, from);
} catch (const std::bad_alloc&) {
  // As when it entered.
}

template <class T>
void Engine<T>::answer_ping(Comm& comm, const MessageHeader& ping) {
  send_note(comm, static_cast<Rank>(ping.source),
            note(comm.id, static_cast<std::uint32_t>(comm.rank), Note::pong,
                 static_cast<std::uint64_t>(now_ns()), ping.message));
}

// An offset is told with how far it may be off, in microseconds.
template <class T>
void Engine<T>::take_pong(Comm& comm, const MessageHeader& pong) {
  if (!comm.journal) return;
  const auto from = static_cast<Rank>(pong.source);
  PeerClock& clock = *comm.journal->clock(from);
  const std::int64_t now = now_ns();
  if (!clock.pong(pong.message, static_cast<std::int64_t>(value_of(pong)), now)) return;
  const std::int64_t us = clock.uncertainty(now) / 1000 + 1;
  if (us > std::numeric_limits<std::uint16_t>::max()) return;
  send_note(comm, from,
            note(comm.id, static_cast<std::uint32_t>(comm.rank), Note::tells,
                 static_cast<std::uint64_t>(clock.offset()), static_cast<std::uint16_t>(us)));
}

template <class T>
void Engine<T>::take_offset(Comm& comm, const MessageHeader& offset) {
  if (!comm.journal) return;
  constexpr std::int64_t us = 1000;
  comm.journal->clock(static_cast<Rank>(offset.source))
      ->told(-static_cast<std::int64_t>(value_of(offset)), offset.message * us, now_ns());
}

}  // namespace gpuar
