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
    if (held->header.comm == comm.id) {
      comm.pending[held->header.sequence % window].push(held);
    } else {
      orphans_.push(held);
    }
    held = next;
  }
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
  if (kind_of(header) == MessageKind::call) {
    run = comm.calls[header.sequence % window];
  } else if (header.sequence < comm.persistent.size()) {
    run = comm.persistent[header.sequence];
  }
  const bool match = run && run->active && run->sequence == header.sequence &&
                     (run->round & round_mask) == round_of(header);
  return match ? run : nullptr;
}

template <class T>
Taken Engine<T>::arrived(const MessageHeader& header, const Arrival& arrival) {
  Comm* comm = find_comm(header.comm);
  if (!comm) return keep(nullptr, orphans_, header, arrival, nullptr);
  if (header.source >= static_cast<std::uint32_t>(comm->size)) {
    return refuse(*comm, header, Status::bad_message, "no such rank");
  }
  const MessageKind kind = kind_of(header);
  if (kind == MessageKind::abort) {
    fail(*comm, Status::aborted, "rank " + std::to_string(header.source) + " gave up");
    return Taken::consumed;
  }
  if (kind != MessageKind::call && kind != MessageKind::persistent) {
    return refuse(*comm, header, Status::bad_message, "no such kind of message");
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
  if (header.segment >= plan.segments) {
    return refuse(comm, header, Status::truncated, "it sends more segments");
  }
  Lane& lane = run.lanes[header.segment % plan.depth];
  if (!lane.live || lane.segment < header.segment) {
    return keep(&comm, run.early, header, arrival, held);
  }
  const auto source = static_cast<Rank>(header.source);
  const auto peer = std::lower_bound(
      schedule.receives.begin(), schedule.receives.end(), source,
      [](const PeerReceives& receives, Rank rank) { return receives.peer < rank; });
  if (lane.segment != header.segment || peer == schedule.receives.end() || peer->peer != source ||
      header.message >= peer->count) {
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
         "rank " + std::to_string(step_of(run, step).peer) + " sends " +
             std::to_string(arrival.bytes) + " bytes where this rank expects " +
             std::to_string(bytes) + "; do all ranks pass the same count and datatype?");
    return Taken::consumed;
  }
  return arrival.rendezvous ? accept_rendezvous(run, lane, step, arrival, held)
                            : accept_eager(run, lane, step, arrival, held);
}

template <class T>
Taken Engine<T>::accept_eager(Run& run, Lane& lane, std::uint32_t index, const Arrival& arrival,
                              Held* held) {
  const Step& step = step_of(run, index);
  const bool keepable = held || arrival.holdable;
  if (step.target.place == Place::slot && keepable) {
    // The reduction reads straight from the transport's buffer: no copy into the slot.
    if (!held) held = hold(MessageHeader{}, arrival);
    lane.slots[step.target.slot] = {static_cast<std::byte*>(held->arrival.data), held};
    complete(run, lane, index);
    return Taken::held;
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

template <class T>
Taken Engine<T>::accept_rendezvous(Run& run, Lane& lane, std::uint32_t index,
                                   const Arrival& arrival, Held* held) {
  const Step& step = step_of(run, index);
  std::byte* target = locate(run, lane, step.target, range_of(run, lane, step));
  if (!target) {
    fail(*run.comm, Status::no_memory, "no memory for a scratch slot");
    return Taken::consumed;
  }
  Op* op = take_op(run, lane, index);
  const Status status = transport_.fetch(arrival, *op, target, arrival.bytes);
  if (held) helds_.give(held);  // its arrival is the transport's again
  if (status == Status::in_progress) {
    track(run, op);
    return Taken::held;
  }
  give_op(op);
  if (status == Status::ok) {
    complete(run, lane, index);
  } else {
    fail(*run.comm, status, "cannot receive from rank " + std::to_string(step.peer));
  }
  return Taken::held;
}

// A kept arrival, or a copy of one that the transport cannot leave with us; nullptr if there is no
// memory for it.
template <class T>
Held* Engine<T>::hold(const MessageHeader& header, const Arrival& arrival) {
  Held* held = helds_.take();
  *held = Held{header, arrival, nullptr, nullptr};
  if (arrival.rendezvous || arrival.holdable) return held;
  held->stash = scratch_.take(arrival.bytes);
  if (!held->stash) {
    helds_.give(held);
    return nullptr;
  }
  if (arrival.bytes > 0) std::memcpy(held->stash, arrival.data, arrival.bytes);
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
                        const std::string& what) {
  fail(comm, status, "message from rank " + std::to_string(header.source) + " refused: " + what);
  return Taken::consumed;
}

}  // namespace gpuar
