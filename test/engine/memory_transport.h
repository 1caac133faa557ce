// P ranks in one process, meeting the transport contract of ucx_bridge/transport.h as unkindly as
// it allows: what a real transport does once a month happens here in every run.
//
//   - Messages overtake each other, also those of one sender to one receiver.
//   - A send that returned in_progress reads its buffer and header as late as just before `done`.
//   - A fetch fills its target with rubbish first and copies as late as just before `done`.
//   - Eager arrivals lie at any alignment, in a block of their exact length (the address sanitizer
//     sees one byte too many); those that may not be held are gone when the handler returns.
//   - A rendezvous sender learns late that its data was fetched.
//
// Everything random comes from one seed: print it, and a failing run can be had again. Breaking the
// contract ends the process with a sentence that names the seed. One thread drives all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "ucx_bridge/transport.h"

namespace gpuar {

struct MemoryOptions {
  std::size_t eager_limit = 64;    // bytes; longer messages go by rendezvous
  double pace = 0.3;               // chance that a due event happens in one progress()
  double inline_completion = 0.5;  // chance that an eager send returns ok at once
  double holdable = 0.5;           // chance that an eager arrival may be held
  double prompt = 0.5;             // chance that its handler may send
};

class MemoryWorld;

// One rank's end of a MemoryWorld.
class MemoryTransport {
 public:
  using Peer = std::uint32_t;  // a rank of the same world

  // Messages that arrive before open() wait for it.
  void open(ArrivalHandler handler) { handler_ = handler; }

  Status send(Peer peer, TransportOp& op, const void* data, std::size_t bytes);
  Status fetch(const Arrival& arrival, TransportOp& op, void* target, std::size_t bytes);
  void release(const Arrival& arrival);
  void cancel(TransportOp& op);
  void lose(Peer peer);
  unsigned progress();

  std::uint64_t messages_sent() const { return messages_sent_; }
  std::uint64_t bytes_sent() const { return bytes_sent_; }

 private:
  friend class MemoryWorld;
  MemoryTransport(MemoryWorld& world, Peer rank) : world_(&world), rank_(rank) {}

  MemoryWorld* world_;
  Peer rank_;
  ArrivalHandler handler_;
  std::uint64_t messages_sent_ = 0;
  std::uint64_t bytes_sent_ = 0;
  std::vector<Peer> lost_;
};

class MemoryWorld {
 public:
  MemoryWorld(std::uint32_t ranks, std::uint64_t seed, MemoryOptions options = {});
  ~MemoryWorld();
  MemoryWorld(const MemoryWorld&) = delete;
  MemoryWorld& operator=(const MemoryWorld&) = delete;

  MemoryTransport& rank(std::uint32_t rank) { return *transports_.at(rank); }
  std::uint32_t size() const { return static_cast<std::uint32_t>(transports_.size()); }
  std::uint64_t seed() const { return seed_; }

  // One progress() of every rank, in random order. Returns the number of events.
  unsigned progress_all();

  // The rank's process has died: from now on nothing of it moves, nor does what others have under
  // way with it.
  void kill(std::uint32_t rank) { dead_.push_back(rank); }

  // No message under way, none held: what every test should end with.
  bool idle() const;

 private:
  friend class MemoryTransport;
  struct Message;

  [[noreturn]] void contract_broken(const char* what) const;
  bool chance(double probability) { return std::bernoulli_distribution(probability)(random_); }
  unsigned progress(MemoryTransport& self);
  bool step(MemoryTransport& self, Message& message);
  void copy_payload(Message& message);
  void deliver(MemoryTransport& self, Message& message);
  void finish_fetch(Message& message);
  void finish_send(Message& message, Status status);
  Message& held_message(const Arrival& arrival, const char* verb);
  void sweep();

  std::uint64_t seed_;
  MemoryOptions options_;
  std::mt19937_64 random_;
  std::vector<std::unique_ptr<MemoryTransport>> transports_;
  std::vector<std::unique_ptr<Message>> messages_;
  std::vector<std::uint32_t> dead_;
  unsigned depth_ = 0;  // of progress(): messages are freed outside only
};

}  // namespace gpuar
