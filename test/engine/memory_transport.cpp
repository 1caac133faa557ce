#include "test/engine/memory_transport.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace gpuar {

// Eager:       (staged ->) flying -> delivering -> held -> over
// Rendezvous:   flying -> delivering -> held -> fetching -> acknowledging -> over
//
// `staged`: the sender was told in_progress, the payload is still in its buffer.
struct MemoryWorld::Message {
  enum class State { staged, flying, delivering, held, fetching, acknowledging, over };

  State state = State::flying;
  std::uint32_t from = 0;
  std::uint32_t to = 0;
  MessageHeader header;
  const void* source = nullptr;
  std::size_t bytes = 0;
  bool rendezvous = false;
  bool holdable = false;
  bool cancelled_by_sender = false;
  bool cancelled_by_receiver = false;
  bool sender_told = false;  // its op is over: never touch it again
  TransportOp* send_op = nullptr;
  TransportOp* fetch_op = nullptr;
  void* target = nullptr;
  std::unique_ptr<std::byte[]> block;  // eager payload, `offset` bytes in
  std::size_t offset = 0;

  void* handle() { return rendezvous ? static_cast<void*>(this) : block.get() + offset; }
};

MemoryWorld::MemoryWorld(std::uint32_t ranks, std::uint64_t seed, MemoryOptions options)
    : seed_(seed), options_(options), random_(seed) {
  for (std::uint32_t rank = 0; rank < ranks; ++rank)
    transports_.emplace_back(new MemoryTransport(*this, rank));
}

MemoryWorld::~MemoryWorld() = default;

void MemoryWorld::contract_broken(const char* what) const {
  std::fprintf(stderr, "memory transport, seed %llu: contract broken: %s\n",
               static_cast<unsigned long long>(seed_), what);
  std::abort();
}

bool MemoryWorld::idle() const {
  return std::all_of(messages_.begin(), messages_.end(),
                     [](const auto& message) { return message->state == Message::State::over; });
}

void MemoryWorld::sweep() {
  std::erase_if(messages_,
                [](const auto& message) { return message->state == Message::State::over; });
}

void MemoryWorld::copy_payload(Message& message) {
  message.offset = std::uniform_int_distribution<std::size_t>(0, 15)(random_);
  // One byte more for an empty message: its address must lie in its own block, to be unique.
  const std::size_t length = std::max<std::size_t>(message.bytes, 1);
  message.block = std::make_unique<std::byte[]>(message.offset + length);
  if (message.bytes > 0)
    std::memcpy(message.block.get() + message.offset, message.source, message.bytes);
}

unsigned MemoryWorld::progress_all() {
  std::vector<MemoryTransport*> order;
  for (auto& transport : transports_) order.push_back(transport.get());
  std::shuffle(order.begin(), order.end(), random_);
  unsigned events = 0;
  for (MemoryTransport* transport : order) events += progress(*transport);
  return events;
}

unsigned MemoryWorld::progress(MemoryTransport& self) {
  if (depth_ > 0) contract_broken("progress() called from within `arrived` or `done`");
  ++depth_;
  std::vector<Message*> mine;
  for (auto& message : messages_)
    if (message->from == self.rank_ || message->to == self.rank_) mine.push_back(message.get());
  std::shuffle(mine.begin(), mine.end(), random_);
  unsigned events = 0;
  for (Message* message : mine)
    if (chance(options_.pace) && step(self, *message)) ++events;
  --depth_;
  sweep();
  return events;
}

// The next thing that can happen to `message` at this rank; false if it is another's turn.
bool MemoryWorld::step(MemoryTransport& self, Message& message) {
  using State = Message::State;
  const bool is_sender = message.from == self.rank_;
  const bool is_receiver = message.to == self.rank_;
  const auto is_dead = [&](std::uint32_t rank) {
    return rank == message.from || rank == message.to;
  };
  if (std::any_of(dead_.begin(), dead_.end(), is_dead)) return false;
  if (is_sender && message.cancelled_by_sender && !message.sender_told) {
    const bool receiver_has_it = message.state == State::held || message.state == State::fetching;
    if (!receiver_has_it) message.state = State::over;  // never arrives, or has been dealt with
    finish_send(message, Status::aborted);
    return true;
  }
  switch (message.state) {
    case State::staged:
      if (!is_sender) return false;
      message.header = message.send_op->header;
      copy_payload(message);
      message.state = State::flying;
      finish_send(message, Status::ok);
      return true;
    case State::flying:
      if (!is_receiver || self.handler_.arrived == nullptr) return false;
      deliver(self, message);
      return true;
    case State::fetching:
      if (!is_receiver) return false;
      finish_fetch(message);
      return true;
    case State::acknowledging:
      if (!is_sender) return false;
      message.state = State::over;
      if (!message.sender_told) finish_send(message, Status::ok);
      return true;
    case State::delivering:
    case State::held:
    case State::over:
      break;
  }
  return false;
}

void MemoryWorld::deliver(MemoryTransport& self, Message& message) {
  using State = Message::State;
  message.state = State::delivering;
  message.holdable = message.rendezvous || chance(options_.holdable);
  const MessageHeader header = message.rendezvous ? message.send_op->header : message.header;
  const bool prompt = chance(options_.prompt);
  const Arrival arrival{message.handle(), message.bytes, message.rendezvous, message.holdable,
                        prompt};
  const Taken taken = self.handler_.arrived(self.handler_.self, header, arrival);
  if (message.state != State::delivering) {  // released or fetched meanwhile
    if (taken != Taken::held) contract_broken("arrival released or fetched, yet said `consumed`");
    return;
  }
  if (taken == Taken::consumed) {
    message.block.reset();
    message.state = message.rendezvous ? State::acknowledging : State::over;
    return;
  }
  if (!message.holdable) contract_broken("an arrival that may not be held was held");
  message.state = State::held;
}

void MemoryWorld::finish_fetch(Message& message) {
  const bool lost = message.cancelled_by_sender || message.cancelled_by_receiver;
  if (!lost && message.bytes > 0) std::memcpy(message.target, message.source, message.bytes);
  message.state = message.sender_told ? Message::State::over : Message::State::acknowledging;
  TransportOp* const op = message.fetch_op;
  message.fetch_op = nullptr;
  op->done(op, lost ? Status::aborted : Status::ok);
}

void MemoryWorld::finish_send(Message& message, Status status) {
  message.sender_told = true;
  TransportOp* const op = message.send_op;
  message.send_op = nullptr;
  op->done(op, status);
}

MemoryWorld::Message& MemoryWorld::held_message(const Arrival& arrival, const char* verb) {
  for (auto& message : messages_) {
    const bool alive =
        message->state == Message::State::held || message->state == Message::State::delivering;
    if (alive && message->holdable && message->handle() == arrival.data) return *message;
  }
  contract_broken(verb);
}

Status MemoryTransport::send(Peer peer, TransportOp& op, const void* data, std::size_t bytes) {
  using State = MemoryWorld::Message::State;
  if (peer == rank_) world_->contract_broken("a rank sent to itself");
  if (std::find(lost_.begin(), lost_.end(), peer) != lost_.end()) return Status::unreachable;
  auto message = std::make_unique<MemoryWorld::Message>();
  message->from = rank_;
  message->to = peer;
  message->header = op.header;
  message->source = data;
  message->bytes = bytes;
  message->rendezvous = bytes > world_->options_.eager_limit;
  const bool now = !message->rendezvous && world_->chance(world_->options_.inline_completion);
  if (now) {
    world_->copy_payload(*message);
    message->sender_told = true;
  } else {
    message->state = message->rendezvous ? State::flying : State::staged;
    message->send_op = &op;
    op.request = message.get();
  }
  ++messages_sent_;
  bytes_sent_ += bytes;
  world_->messages_.push_back(std::move(message));
  return now ? Status::ok : Status::in_progress;
}

Status MemoryTransport::fetch(const Arrival& arrival, TransportOp& op, void* target,
                              std::size_t bytes) {
  auto& message = world_->held_message(arrival, "fetch() of what is not held");
  if (!message.rendezvous) world_->contract_broken("fetch() of an eager arrival");
  if (bytes != message.bytes) {
    message.state = MemoryWorld::Message::State::acknowledging;
    return Status::truncated;
  }
  std::memset(target, 0xa5, bytes);
  message.target = target;
  message.fetch_op = &op;
  message.state = MemoryWorld::Message::State::fetching;
  op.request = &message;
  return Status::in_progress;
}

void MemoryTransport::release(const Arrival& arrival) {
  using State = MemoryWorld::Message::State;
  auto& message = world_->held_message(arrival, "release() of what is not held");
  message.block.reset();
  message.state = message.rendezvous ? State::acknowledging : State::over;
}

void MemoryTransport::cancel(TransportOp& op) {
  for (auto& message : world_->messages_) {
    if (message->send_op == &op) message->cancelled_by_sender = true;
    if (message->fetch_op == &op) message->cancelled_by_receiver = true;
  }
}

void MemoryTransport::lose(Peer peer) {
  lost_.push_back(peer);
}

unsigned MemoryTransport::progress() {
  return world_->progress(*this);
}

}  // namespace gpuar
