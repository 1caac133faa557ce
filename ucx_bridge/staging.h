// Between the engine and a transport for calls on device memory: what the transport carries goes to
// it as it is; everything else passes through memory that it does carry, piece by piece.
//
//   send:   device -- copy --> room -- wire -->            the copy of one segment runs while
//   fetch:            -- wire --> room -- copy --> device  another one is on the wire
//
// The room is pinned host memory. Where the transport carries device memory, but not this one (it
// cannot be exported by IPC), it is device scratch that can.
#pragma once

#include <memory>
#include <new>
#include <vector>

#include "cuda_reduce/host_room.h"
#include "ucx_bridge/transport.h"

namespace gpuar {

template <class Wire>
class Staging {
 public:
  using Peer = typename Wire::Peer;

  explicit Staging(Wire& wire) : wire_(wire) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // As the transport's send() and fetch(), with memory that is not the host's: `memory.gpu` is set.
  // `cuda` is the one that made it.
  Status send(Cuda& cuda, Peer peer, TransportOp& op, const void* data, std::size_t bytes,
              const Memory& memory);
  Status fetch(Cuda& cuda, const Arrival& arrival, TransportOp& op, void* target, std::size_t bytes,
               const Memory& memory);
  void cancel(TransportOp& op);

  // Transfers that took the detour.
  std::uint64_t staged() const { return staged_; }

 private:
  struct Piece {
    Staging* staging = nullptr;
    Cuda* cuda = nullptr;
    Gpu* gpu = nullptr;
    TransportOp* op = nullptr;  // the caller's
    TransportOp wire;
    GpuOp copy;
    HostRoom room;
    std::byte* scratch = nullptr;  // device memory instead of the room
    Peer peer{};
    void* target = nullptr;  // of a fetch
    std::size_t bytes = 0;
    bool on_wire = false;
    bool cancelled = false;

    std::byte* data() const { return scratch ? scratch : room.data; }
    MemoryKind kind() const { return scratch ? MemoryKind::device : room.kind; }
  };

  bool carries(const Memory& memory) const {
    return wire_.carries(memory.kind) && memory.exportable;
  }
  Piece* take(Cuda& cuda, TransportOp& op, std::size_t bytes, const Memory& memory);
  void give(Piece* piece);
  // Ends a piece: the caller's operation is done.
  static void finish(Piece* piece, Status status);
  static void copied_down(void* owner, Status status);
  static void copied_up(void* owner, Status status);
  static Piece* piece_of(TransportOp* wire_op) {
    return static_cast<Piece*>(static_cast<TransportOp*>(wire_op)->staged);
  }
  static void sent(TransportOp* wire_op, Status status);
  static void fetched(TransportOp* wire_op, Status status);
  static Status copy_up(Piece* piece);

  Wire& wire_;
  std::vector<std::unique_ptr<Piece>> pieces_;
  std::vector<Piece*> free_;
  std::uint64_t staged_ = 0;
};

template <class W>
typename Staging<W>::Piece* Staging<W>::take(Cuda& cuda, TransportOp& op, std::size_t bytes,
                                             const Memory& memory) try {
  if (free_.empty()) {
    free_.reserve(pieces_.size() + 1);
    pieces_.push_back(std::make_unique<Piece>());
    free_.push_back(pieces_.back().get());
  }
  Piece* piece = free_.back();
  const bool by_scratch = wire_.carries(MemoryKind::device) && memory.gpu->exports();
  piece->scratch = by_scratch ? memory.gpu->take(bytes) : nullptr;
  if (!piece->scratch) piece->room = take_room(cuda, bytes);
  if (!piece->data()) return nullptr;
  free_.pop_back();
  piece->staging = this;
  piece->cuda = &cuda;
  piece->gpu = memory.gpu;
  piece->op = &op;
  piece->wire.staged = piece;
  piece->copy.owner = piece;
  piece->bytes = bytes;
  piece->on_wire = false;
  piece->cancelled = false;
  op.staged = piece;
  ++staged_;
  return piece;
} catch (const std::bad_alloc&) {
  return nullptr;
}

template <class W>
void Staging<W>::give(Piece* piece) {
  if (piece->scratch) {
    piece->gpu->give(piece->scratch, piece->bytes);
    piece->scratch = nullptr;
  } else {
    give_room(*piece->cuda, piece->room);
  }
  piece->op->staged = nullptr;
  free_.push_back(piece);
}

template <class W>
void Staging<W>::finish(Piece* piece, Status status) {
  TransportOp* op = piece->op;
  piece->staging->give(piece);
  op->done(op, status);
}

template <class W>
Status Staging<W>::send(Cuda& cuda, Peer peer, TransportOp& op, const void* data, std::size_t bytes,
                        const Memory& memory) {
  if (carries(memory)) {
    const Cuda::Current current(cuda);
    return wire_.send(peer, op, data, bytes, memory.kind);
  }
  Piece* piece = take(cuda, op, bytes, memory);
  if (!piece) return Status::no_memory;
  piece->peer = peer;
  piece->wire.header = op.header;
  piece->wire.done = sent;
  piece->copy.done = copied_down;
  const Status status = memory.gpu->copy(piece->data(), data, bytes, piece->copy);
  if (status != Status::in_progress) give(piece);
  return status;
}

template <class W>
void Staging<W>::copied_down(void* owner, Status status) {
  auto* piece = static_cast<Piece*>(owner);
  if (status == Status::ok && piece->cancelled) status = Status::aborted;
  if (status != Status::ok) return finish(piece, status);
  piece->on_wire = true;
  const Cuda::Current current(*piece->cuda);
  status = piece->staging->wire_.send(piece->peer, piece->wire, piece->data(), piece->bytes,
                                      piece->kind());
  if (status != Status::in_progress) finish(piece, status);
}

template <class W>
void Staging<W>::sent(TransportOp* wire_op, Status status) {
  finish(piece_of(wire_op), status);
}

template <class W>
Status Staging<W>::fetch(Cuda& cuda, const Arrival& arrival, TransportOp& op, void* target,
                         std::size_t bytes, const Memory& memory) {
  if (carries(memory)) {
    const Cuda::Current current(cuda);
    return wire_.fetch(arrival, op, target, bytes, memory.kind);
  }
  Piece* piece = take(cuda, op, bytes, memory);
  if (!piece) {
    wire_.release(arrival);
    return Status::no_memory;
  }
  piece->target = target;
  piece->wire.done = fetched;
  piece->copy.done = copied_up;
  piece->on_wire = true;
  const Cuda::Current current(cuda);
  Status status = wire_.fetch(arrival, piece->wire, piece->data(), bytes, piece->kind());
  if (status == Status::ok) status = copy_up(piece);
  if (status != Status::in_progress) give(piece);
  return status;
}

template <class W>
Status Staging<W>::copy_up(Piece* piece) {
  piece->on_wire = false;
  return piece->gpu->copy(piece->target, piece->data(), piece->bytes, piece->copy);
}

template <class W>
void Staging<W>::fetched(TransportOp* wire_op, Status status) {
  Piece* piece = piece_of(wire_op);
  if (status == Status::ok) status = copy_up(piece);
  if (status != Status::in_progress) finish(piece, status);
}

template <class W>
void Staging<W>::copied_up(void* owner, Status status) {
  finish(static_cast<Piece*>(owner), status);
}

// A copy ends by itself; then the operation does, and nothing of it goes on the wire any more.
template <class W>
void Staging<W>::cancel(TransportOp& op) {
  auto* piece = static_cast<Piece*>(op.staged);
  if (!piece) return wire_.cancel(op);
  piece->cancelled = true;
  if (piece->on_wire) wire_.cancel(piece->wire);
}

}  // namespace gpuar
