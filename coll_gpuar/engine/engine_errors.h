// Engine: operations under way, and failure. Included by engine.h.
//
// A communicator fails as a whole and stays failed: whoever finds the error says so once, posts
// nothing more, takes back what can be taken back, tells all members, and finishes its calls with
// an error when nothing of them is on the wire any more.
#pragma once

#include "coll_gpuar/engine/engine.h"

namespace gpuar {

template <class T>
typename Engine<T>::Op* Engine<T>::take_op(Run& run, Lane* lane, std::uint32_t step) {
  Op* op = ops_.take();
  if (!op) return nullptr;
  op->done = &Engine::on_done;
  op->engine = this;
  op->run = &run;
  op->lane = lane;
  op->step = step;
  return op;
}

template <class T>
void Engine<T>::give_op(Op* op) {
  op->run = nullptr;
  ops_.give(op);
}

template <class T>
void Engine<T>::track(Run& run, Op* op) {
  Op* first = static_cast<Op*>(run.ops);
  op->next = first;
  op->previous = nullptr;
  if (first) first->previous = op;
  run.ops = op;
  ++run.in_flight;
}

template <class T>
void Engine<T>::untrack(Op* op) {
  Run& run = *op->run;
  if (op->next) op->next->previous = op->previous;
  if (op->previous) {
    op->previous->next = op->next;
  } else {
    run.ops = op->next;
  }
  --run.in_flight;
}

template <class T>
void Engine<T>::on_done(TransportOp* transport_op, Status status) {
  Op* op = static_cast<Op*>(transport_op);
  Engine& engine = *op->engine;
  Run* run = op->run;
  if (!run) return engine.give_op(op);  // a note
  Lane* lane = op->lane;
  const std::uint32_t step = op->step;
  const std::uint32_t fused = op->fused;
  const bool device = op->device.owner != nullptr;
  engine.untrack(op);
  if (device) engine.reset_device(op);
  engine.give_op(op);
  if (run->status != Status::ok) {
    if (run->in_flight == 0) engine.finish(*run);
  } else if (status != Status::ok) {
    if (device) {
      engine.fail(*run->comm, status,
                  "work on the device failed; look for the first CUDA error before this line");
    } else {
      const Rank peer = step_of(*run, step).peer;
      engine.fail_with(
          *run->comm, peer, status,
          {"transfer with rank ", peer, " failed; UCX_LOG_LEVEL=info makes UCX say why"});
    }
    if (run->active && run->status != Status::ok && run->in_flight == 0) engine.finish(*run);
  } else {
    if (!lane) {
      engine.stage_done(*run);
    } else if (device) {
      engine.complete_on_device(*run, *lane, step, fused);
    } else {
      engine.complete(*run, *lane, step);
    }
    if (run->active && run->device.stage == Stage::running) engine.enqueue(*run);
  }
}

template <class T>
void Engine<T>::fail(Comm& comm, Status status, const Sentence& what) {
  if (comm.status != Status::ok) return;
  fail_here(comm, status, what);
  announce_abort(comm);
}

template <class T>
void Engine<T>::report(Comm& comm, const Sentence& what) try {
  if (comm.log) comm.log(comm, std::string(what.text()));
} catch (const std::bad_alloc&) {
  // It fails all the same, and says nothing.
}

// As fail(), for what happened with another rank. If that cannot be reached, whoever watches finds
// out why, and ends all that waits for it.
template <class T>
void Engine<T>::fail_with(Comm& comm, Rank rank, Status status, const Sentence& what) {
  void* const peer = find_peer(comm, rank);
  if (status != Status::unreachable || !comm.watched || !peer) return fail(comm, status, what);
  transport_.mark_broken(static_cast<typename T::Peer>(peer));
}

// As fail(), where another rank has told all members.
template <class T>
void Engine<T>::fail_here(Comm& comm, Status status, const Sentence& what) {
  if (comm.status != Status::ok) return;
  comm.status = status;
  report(comm, {what, " (", describe(status), ")", remedy(status)});
  for (HeldList& list : comm.pending) drop_all(list);  // senders wait until theirs is fetched
  for_each_call(comm, [&](Run& run) { fail_run(run, status); });
}

template <class T>
void Engine<T>::fail_run(Run& run, Status status) {
  if (!run.active || run.status != Status::ok) return;
  run.status = status;
  drop_all(run.early);
  for (Lane& lane : run.lanes) {
    if (!lane.live) continue;
    for (Held*& held : lane.arrivals) {
      if (held && held != expected()) drop(held);
      held = nullptr;
    }
    for (std::size_t i = 0; i < lane.slots.size(); ++i) {
      empty_slot(lane, static_cast<std::uint16_t>(i));
    }
  }
  for (Op* op = static_cast<Op*>(run.ops); op; op = op->next) {
    if (!op->device.owner) staging_.cancel(*op);
  }
  if (run.in_flight == 0) finish(run);
}

template <class T>
void Engine<T>::announce_abort(Comm& comm) {
  for (Rank rank = 0; rank < comm.size; ++rank) {
    if (rank != comm.rank) send_note(comm, rank, abort_record(comm));
  }
}

// What cannot be sent is lost: a note is news, and nothing waits for it.
template <class T>
void Engine<T>::send_note(Comm& comm, Rank rank, const MessageHeader& note,
                          std::span<const std::byte> data) {
  void* const peer = find_peer(comm, rank);
  if (!peer) return;
  Op* op = ops_.take();
  if (!op) return;
  op->done = &Engine::on_done;
  op->engine = this;
  op->run = nullptr;
  op->header = note;
  // What a note brings is about the message that follows. Pinned memory goes the same way as that
  // one; through a mailbox it could come later.
  const MemoryKind kind = data.empty() ? MemoryKind::host : MemoryKind::pinned;
  if (transport_.send(static_cast<typename T::Peer>(peer), *op, data.data(), data.size(), kind) !=
      Status::in_progress) {
    give_op(op);
  }
}

// nullptr if nobody knows how to reach it.
template <class T>
void* Engine<T>::find_peer(Comm& comm, Rank rank) {
  void*& peer = comm.peers[static_cast<std::size_t>(rank)];
  if (!peer) peer = comm.resolve(comm, rank);
  return peer;
}

// nullptr after a failure.
template <class T>
void* Engine<T>::peer_of(Comm& comm, Rank rank) {
  void* const peer = find_peer(comm, rank);
  if (!peer) fail(comm, Status::unreachable, {"rank ", rank, " has no address"});
  return peer;
}

}  // namespace gpuar
