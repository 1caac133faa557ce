// Engine: members that are gone or silent. Included by engine.h.
//
// A process that died never takes what was sent to it, so what is under way with it is disowned:
// the call ends without it, and its operations stay with the transport. Nobody can read or write
// the caller's memory for such an operation any more. Of a member that is merely silent, nothing is
// disowned, unless the transport can cut it off (then its operations end by themselves).
#pragma once

#include "coll_gpuar/engine/engine.h"

namespace gpuar {

template <class T>
void Engine<T>::lose(Comm& comm, Rank rank, const Sentence& what) {
  const bool news = comm.status == Status::ok;
  fail_here(comm, Status::process_failed, what);
  if (void* peer = find_peer(comm, rank)) transport_.lose(static_cast<typename T::Peer>(peer));
  if (news) announce_abort(comm);
  for_each_call(comm, [&](Run& run) { disown(run, rank); });
}

template <class T>
void Engine<T>::part(Comm& comm, Rank rank, const Sentence& what) {
  if (void* peer = find_peer(comm, rank)) transport_.renew(static_cast<typename T::Peer>(peer));
  send_note(comm, rank, parting_record(comm));
  lose(comm, rank, what);
}

template <class T>
void Engine<T>::cut_off(Comm& comm, Rank rank) {
  if (void* peer = comm.peers[static_cast<std::size_t>(rank)])
    transport_.lose(static_cast<typename T::Peer>(peer));
}

template <class T>
void Engine<T>::disown(Run& run, Rank rank) {
  if (!run.active || run.status == Status::ok) return;
  Op* next = nullptr;
  for (Op* op = static_cast<Op*>(run.ops); op; op = next) {
    next = op->next;
    const bool wire = op->lane && op->step != whole_segment && !op->device.owner;
    if (!wire || step_of(run, op->step).peer != rank) continue;
    untrack(op);
    op->run = nullptr;  // as a note: should it end after all, nobody waits
  }
  if (run.in_flight == 0) finish(run);
}

template <class T>
std::uint64_t Engine<T>::standing_of(const Run& run) const {
  std::uint64_t standing = 0;
  const auto mix = [&](std::uint64_t value) {
    constexpr std::uint64_t odd = 0x9e3779b97f4a7c15;
    standing = (standing ^ value) * odd;
  };
  mix(run.sequence);
  mix(run.round);
  mix(run.segments_done);
  mix(run.in_flight);
  mix(static_cast<std::uint64_t>(run.device.stage));
  mix(static_cast<std::uint64_t>(run.status));
  for (const Lane& lane : run.lanes) mix(lane.live ? lane.steps_left : 0);
  return standing;
}

template <class T>
template <class Visit>
void Engine<T>::for_each_awaited(const Run& run, Visit visit) const {
  if (!run.plan) return;
  const Schedule& schedule = run.plan->program->schedule;
  for (const Lane& lane : run.lanes) {
    if (!lane.live || run.status != Status::ok) continue;
    for (std::size_t i = 0; i < lane.arrivals.size(); ++i) {
      if (lane.arrivals[i] == expected()) visit(schedule.steps[schedule.recv_steps[i]].peer);
    }
  }
  for (const Op* op = static_cast<const Op*>(run.ops); op; op = op->next) {
    if (op->lane && op->step != whole_segment && !op->device.owner)
      visit(step_of(run, op->step).peer);
  }
}

}  // namespace gpuar
