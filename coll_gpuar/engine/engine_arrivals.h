// Engine: what the transport brings. Included by engine.h.
//
// Nothing in a header is trusted: it must name a communicator, a call, a segment and a message
// that this rank expects from that sender, with the length that this rank expects.
#pragma once

#include "coll_gpuar/engine/engine.h"

namespace gpuar {

template <class T>
void Engine<T>::add(Comm& comm) {
  comms_[comm.id] = &comm;
  // Early birds: peers may have made the communicator, and called, before this rank did.
  for (Held* held = orphans_.take_all(); held;) {
    Held* next = held->next;
    if (held->header.comm == comm.id && kind_of(held->header) == MessageKind::abort) {
      take_note(comm, held->header, held->arrival);
      drop(held);
    } else if (held->header.comm == comm.id && comm.status != Status::ok) {
      drop(held);
    } else if (held->header.comm == comm.id) {
      comm.pending[held->header.sequence % window].push(held);
    } else {
      orphans_.push(held);
    }
    held = next;
  }
}

// What belongs to no call. Of a kind that this version does not know: dropped.
template <class T>
void Engine<T>::take_note(Comm& comm, const MessageHeader& note, const Arrival& arrival) {
  if (note_of(note) == Note::gave_up) return give_up_with(comm, note);
  const bool of_member = note.source < static_cast<std::uint32_t>(comm.size) &&
                         note.source != static_cast<std::uint32_t>(comm.rank);
  if (!of_member || comm.status != Status::ok) return;
  if (note_of(note) == Note::ping) return answer_ping(comm, note);
  if (note_of(note) == Note::pong) return take_pong(comm, note);
  if (note_of(note) == Note::tells) return take_offset(comm, note);
  if (comm.take_note) comm.take_note(comm, note, arrival);
}

// Ids are used again. The record may be about an older communicator, which this rank, whose calls
// had all ended well, has freed. Its sender keeps that one, and is in no other of the same id.
template <class T>
bool Engine<T>::is_from_member(const Comm& comm, const MessageHeader& abort_record) {
  return abort_record.source < comm.processes.size() &&
         comm.processes[abort_record.source] == sender_of(abort_record);
}

template <class T>
void Engine<T>::give_up_with(Comm& comm, const MessageHeader& abort_record) {
  if (!is_from_member(comm, abort_record)) return;
  if (is_parting(abort_record)) {
    if (void* peer = find_peer(comm, static_cast<Rank>(abort_record.source)))
      transport_.mark_broken(static_cast<typename T::Peer>(peer));
  }
  fail_here(comm, reason_of(abort_record),
            {"rank ", abort_record.source, " gave up; its own message says why and what to try"});
}

template <class T>
void Engine<T>::remove(Comm& comm) {
  for (HeldList& list : comm.pending) drop_all(list);
  comms_.erase(comm.id);
  if (last_comm_ == &comm) last_comm_ = nullptr;
}

template <class T>
Comm* Engine<T>::find_comm(const CommId& id) {
  if (last_comm_ && last_comm_->id == id) return last_comm_;
  const auto found = comms_.find(id);
  if (found == comms_.end()) return nullptr;
  return last_comm_ = found->second;
}

template <class T>
Run* Engine<T>::find_run(Comm& comm, const MessageHeader& header) {
  Run* run = nullptr;
  if (const Stream* stream = comm.stream(kind_of(header))) {
    run = stream->calls[header.sequence % window];
  } else if (header.sequence < comm.persistent.size()) {
    run = comm.persistent[header.sequence];
  }
  const bool match = run && run->active && run->sequence == header.sequence &&
                     (run->round & round_mask) == round_of(header);
  if (!match) return nullptr;
  return run->plan ? run : nullptr;
}

// nullptr if nothing is expected from that rank.
template <class T>
const PeerReceives* Engine<T>::receives_from(const Schedule& schedule, Rank rank) {
  const auto peer = std::lower_bound(
      schedule.receives.begin(), schedule.receives.end(), rank,
      [](const PeerReceives& receives, Rank other) { return receives.peer < other; });
  return peer != schedule.receives.end() && peer->peer == rank ? &*peer : nullptr;
}

// Of notes only these matter to a communicator that is made later.
template <class T>
Taken Engine<T>::keep_orphan(const MessageHeader& header, const Arrival& arrival) {
  const bool of_no_use = kind_of(header) == MessageKind::abort &&
                         note_of(header) != Note::gave_up && note_of(header) != Note::shows;
  return of_no_use ? Taken::consumed : keep(nullptr, orphans_, header, arrival, nullptr);
}

template <class T>
Taken Engine<T>::arrived(const MessageHeader& header, const Arrival& arrival) {
  Comm* comm = find_comm(header.comm);
  if (!comm) return keep_orphan(header, arrival);
  if (kind_of(header) == MessageKind::abort) {
    take_note(*comm, header, arrival);
    return Taken::consumed;
  }
  if (header.source >= static_cast<std::uint32_t>(comm->size)) {
    return refuse(*comm, header, Status::bad_message, "no such rank");
  }
  if (comm->status != Status::ok) return Taken::consumed;
  Run* run = find_run(*comm, header);
  if (!run) return keep(comm, comm->pending[header.sequence % window], header, arrival, nullptr);
  return route(*run, header, arrival, nullptr);
}

// Finds the step for a message of a run that is on the wire. `held` is its entry if it was kept
// before: the result then says whether the entry is still needed. Otherwise the message has just
// come in, and the result is what the transport is told.
template <class T>
Taken Engine<T>::route(Run& run, const MessageHeader& header, const Arrival& arrival, Held* held) {
  Comm& comm = *run.comm;
  const Plan& plan = *run.plan;
  const Schedule& schedule = plan.program->schedule;
  if (header.stamp != 0) [[unlikely]]
    hear_stamp(run, header);
  if (header.segment >= plan.segments) {
    return refuse(comm, header, Status::truncated, "it sends more segments");
  }
  Lane& lane = run.lanes[header.segment % plan.depth];
  if (!lane.live || lane.segment < header.segment) {
    return keep(&comm, run.early, header, arrival, held);
  }
  const PeerReceives* peer = receives_from(schedule, static_cast<Rank>(header.source));
  if (lane.segment != header.segment || !peer || header.message >= peer->count) {
    return refuse(comm, header, Status::bad_message, "nothing is expected from it");
  }
  const std::uint32_t ordinal = peer->first + header.message;
  Held*& place = lane.arrivals[ordinal];
  if (!place) {  // the step cannot take it yet
    place = held ? held : hold(header, arrival);
    if (!place) fail(comm, Status::no_memory, "no memory to keep a message");
    return !held && (!place || place->stash) ? Taken::consumed : Taken::held;
  }
  if (place != expected()) {
    return refuse(comm, header, Status::bad_message, "the message came twice");
  }
  place = nullptr;
  const Taken taken = accept(run, lane, schedule.recv_steps[ordinal], arrival, held);
  if (run.active) enqueue(run);
  return taken;
}

template <class T>
Taken Engine<T>::accept(Run& run, Lane& lane, std::uint32_t step, const Arrival& arrival,
                        Held* held) {
  const std::size_t bytes = range_of(run, lane, step_of(run, step)).count * run.plan->element_bytes;
  if (arrival.bytes != bytes) {
    fail(*run.comm, Status::truncated,
         {"rank ", step_of(run, step).peer, " sends ", arrival.bytes,
          " bytes where this rank expects ", bytes,
          "; do all ranks pass the same count and datatype?"});
    return Taken::consumed;
  }
  return arrival.rendezvous ? accept_rendezvous(run, lane, step, arrival, held)
                            : accept_eager(run, lane, step, arrival, held);
}

template <class T>
Taken Engine<T>::accept_eager(Run& run, Lane& lane, std::uint32_t index, const Arrival& arrival,
                              Held* held) {
  if (run.device.carry == Carry::on_device) {
    return accept_eager_on_device(run, lane, index, arrival, held);
  }
  // Into a slot nothing is copied if that can be: the reduction reads from where the transport has
  // it.
  const Step& step = step_of(run, index);
  const bool keepable = held || arrival.holdable;
  if (step.target.place == Place::slot && keepable) {
    if (!held) held = hold(MessageHeader{}, arrival);
    if (held) {
      lane.slots[step.target.slot] = {static_cast<std::byte*>(held->arrival.data), held};
      complete(run, lane, index);
      return Taken::held;
    }
  } else if (step.target.place == Place::slot && may_act_on(run, arrival)) {
    return accept_fleeting(run, lane, index, arrival);
  }
  std::byte* target = locate(run, lane, step.target, range_of(run, lane, step));
  if (!target) {
    fail(*run.comm, Status::no_memory, "no memory for a scratch slot");
  } else {
    std::memcpy(target, arrival.data, arrival.bytes);
    complete(run, lane, index);
  }
  return Taken::consumed;
}

// Not while another run is looked after; and who knows what a user's reduction calls.
template <class T>
bool Engine<T>::may_act_on(const Run& run, const Arrival& arrival) const {
  return arrival.prompt && !posting_ && !run.binding.reduction.custom;
}

// The transport has it for as long as this lasts: time for a reduction that waits for nothing else.
template <class T>
Taken Engine<T>::accept_fleeting(Run& run, Lane& lane, std::uint32_t index,
                                 const Arrival& arrival) {
  const std::uint16_t slot = step_of(run, index).target.slot;
  auto* const data = static_cast<std::byte*>(arrival.data);
  lane.slots[slot].data = data;
  complete(run, lane, index);
  posting_ = true;
  advance(run);
  posting_ = false;
  const bool still_needed = run.active && lane.live && lane.slots[slot].data == data;
  if (!still_needed) return Taken::consumed;
  std::byte* const copy = scratch_slot(run, lane, slot);
  lane.slots[slot].data = copy;
  if (copy) {
    std::memcpy(copy, data, arrival.bytes);
  } else {
    fail(*run.comm, Status::no_memory, "no memory for a scratch slot");
  }
  return Taken::consumed;
}

template <class T>
Taken Engine<T>::accept_rendezvous(Run& run, Lane& lane, std::uint32_t index,
                                   const Arrival& arrival, Held* held) {
  const Step& step = step_of(run, index);
  std::byte* target = locate(run, lane, step.target, range_of(run, lane, step));
  Op* op = target ? take_op(run, &lane, index) : nullptr;
  if (!op) {
    fail(*run.comm, Status::no_memory, "no memory to receive a message");
    return Taken::consumed;
  }
  if (void* const peer = find_peer(*run.comm, step.peer))
    transport_.attach(static_cast<typename T::Peer>(peer));
  const Status status = run.device.carry == Carry::on_device
                            ? fetch_to_device(run, index, *op, target, arrival)
                            : transport_.fetch(arrival, *op, target, arrival.bytes);
  if (held) helds_.give(held);  // its arrival is the transport's again
  if (status == Status::in_progress) {
    track(run, op);
    return Taken::held;
  }
  give_op(op);
  if (status == Status::ok) {
    complete(run, lane, index);
  } else {
    fail_with(*run.comm, step.peer, status, {"cannot receive from rank ", step.peer});
  }
  return Taken::held;
}

// A kept arrival, or a copy of one that the transport cannot leave with us; nullptr if there is no
// memory for it.
template <class T>
Held* Engine<T>::hold(const MessageHeader& header, const Arrival& arrival) {
  Held* held = helds_.take();
  if (!held) return nullptr;
  *held = Held{header, arrival, nullptr, nullptr};
  if (arrival.rendezvous || arrival.holdable) return held;
  held->stash = scratch_.take(arrival.bytes);
  if (!held->stash) {
    helds_.give(held);
    return nullptr;
  }
  std::copy_n(static_cast<const std::byte*>(arrival.data), arrival.bytes, held->stash);
  held->arrival.data = held->stash;
  return held;
}

template <class T>
Taken Engine<T>::keep(Comm* comm, HeldList& list, const MessageHeader& header,
                      const Arrival& arrival, Held* held) {
  if (held) {
    list.push(held);
    return Taken::held;
  }
  held = hold(header, arrival);
  if (held) {
    list.push(held);
  } else if (comm) {
    fail(*comm, Status::no_memory, "no memory to keep a message");
  }
  return !held || held->stash ? Taken::consumed : Taken::held;
}

template <class T>
void Engine<T>::drop(Held* held) {
  if (held->stash) {
    scratch_.give(held->stash, held->arrival.bytes);
  } else {
    transport_.release(held->arrival);
  }
  helds_.give(held);
}

template <class T>
void Engine<T>::drop_all(HeldList& list) {
  for (Held* held = list.take_all(); held;) {
    Held* next = held->next;
    drop(held);
    held = next;
  }
}

// Gives a run the messages that came before it was ready for them.
template <class T>
void Engine<T>::adopt(HeldList& list, Run& run) {
  for (Held* held = list.take_all(); held;) {
    Held* next = held->next;
    const MessageHeader& header = held->header;
    const bool match = kind_of(header) == run.kind && header.sequence == run.sequence &&
                       round_of(header) == (run.round & round_mask);
    if (!match) {
      list.push(held);
    } else if (run.status != Status::ok ||
               route(run, header, held->arrival, held) == Taken::consumed) {
      drop(held);
    }
    held = next;
  }
}

template <class T>
Taken Engine<T>::refuse(Comm& comm, const MessageHeader& header, Status status,
                        const Sentence& what) {
  fail(comm, status, {"message from rank ", header.source, " refused: ", what});
  return Taken::consumed;
}

}  // namespace gpuar
