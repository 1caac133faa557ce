// What the tests of the UCX transport share: operations that remember their end, a receiver that
// does with arrivals what the test tells it, and two transports in one process that know each
// other.
#pragma once

#include <chrono>
#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "test/catch.h"
#include "ucx_bridge/ucx_transport.h"

namespace gpuar::test {

using Bytes = std::vector<std::byte>;

inline Bytes pattern(std::uint32_t sequence, std::size_t bytes) {
  Bytes data(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    data[i] = static_cast<std::byte>(std::size_t{sequence} * 7 + i + (i >> 8));
  return data;
}

// A send or a fetch that remembers how it ended. It must not move while under way.
struct Op : TransportOp {
  Status status = Status::in_progress;
  int times_done = 0;
  Bytes data;
  Arrival arrival;  // fetches: what is fetched

  Op() {
    done = [](TransportOp* op, Status status) {
      auto* const self = static_cast<Op*>(op);
      self->status = status;
      ++self->times_done;
    };
  }
  bool over() const { return status != Status::in_progress; }
};

struct Receiver {
  struct Kept {
    MessageHeader header;
    Arrival arrival;
  };
  // What to do with an arrival; by default, copy or hold.
  std::function<Taken(const MessageHeader&, const Arrival&)> take;

  UcxTransport* transport = nullptr;
  std::deque<Kept> kept;
  std::deque<Op> fetches;
  std::size_t arrived = 0;
  std::size_t bytes = 0;
  std::size_t wrong = 0;
  std::size_t holdable_eager = 0;
  std::size_t rendezvous = 0;

  ArrivalHandler handler() {
    return {[](void* self, const MessageHeader& header, const Arrival& arrival) {
              return static_cast<Receiver*>(self)->arrive(header, arrival);
            },
            this};
  }
  Taken arrive(const MessageHeader& header, const Arrival& arrival) {
    ++arrived;
    bytes += arrival.bytes;
    if (arrival.rendezvous) ++rendezvous;
    if (!arrival.rendezvous && arrival.holdable) ++holdable_eager;
    if (take) return take(header, arrival);
    if (!arrival.holdable) return check(header, arrival), Taken::consumed;
    kept.push_back({header, arrival});
    return Taken::held;
  }
  void check(const MessageHeader& header, const Arrival& arrival) {
    const Bytes expected = pattern(header.sequence, arrival.bytes);
    if (!expected.empty() && std::memcmp(arrival.data, expected.data(), expected.size()) != 0)
      ++wrong;
  }
  Op& fetch(const MessageHeader& header, const Arrival& arrival) {
    Op& op = fetches.emplace_back();
    op.header = header;
    op.data.resize(arrival.bytes);
    const Status status = transport->fetch(arrival, op, op.data.data(), op.data.size());
    if (status != Status::in_progress) op.status = status;
    return op;
  }
  void finish(const Kept& item) {
    if (item.arrival.rendezvous) {
      fetch(item.header, item.arrival);
    } else {
      check(item.header, item.arrival);
      transport->release(item.arrival);
    }
  }
  void finish_kept_last_first() {
    while (!kept.empty()) {
      const Kept item = kept.back();
      kept.pop_back();
      finish(item);
    }
  }
  bool fetches_over() const {
    for (const Op& op : fetches)
      if (!op.over()) return false;
    return true;
  }
  bool fetches_right() const {
    for (const Op& op : fetches)
      if (op.status != Status::ok || op.data != pattern(op.header.sequence, op.data.size()))
        return false;
    return true;
  }
};

struct Side {
  Receiver receiver;
  std::deque<Op> sends;
  UcxTransport::Peer peer = nullptr;
  UcxTransport transport;  // goes first: operations under way outlive it

  // Sends pattern(sequence); a send that completes at once has its buffer overwritten.
  Op& send(std::uint32_t sequence, std::size_t bytes) {
    Op& op = sends.emplace_back();
    op.header.sequence = sequence;
    op.data = pattern(sequence, bytes);
    const Status status = transport.send(peer, op, op.data.data(), op.data.size());
    if (status != Status::in_progress) {
      op.status = status;
      std::fill(op.data.begin(), op.data.end(), std::byte{0xa5});
    }
    return op;
  }
  bool sends_over() const {
    for (const Op& op : sends)
      if (!op.over()) return false;
    return true;
  }
};

inline std::vector<std::string>& logged_lines() {
  static std::vector<std::string> lines;
  return lines;
}

struct Pair {
  Side a;
  Side b;

  explicit Pair(UcxOptions options = {}) {
    logged_lines().clear();
    options.log = [](const char* line) { logged_lines().emplace_back(line); };
    for (Side* side : {&a, &b}) {
      std::string why;
      const Status status = side->transport.open(side->receiver.handler(), options, why);
      INFO(why);
      REQUIRE(status == Status::ok);
      side->receiver.transport = &side->transport;
    }
    a.peer = connect(a, b);
    b.peer = connect(b, a);
  }
  static UcxTransport::Peer connect(Side& from, const Side& to) {
    return from.transport.connect(to.transport.address().data(), to.transport.address().size(),
                                  Where::here);
  }
  void finish_kept() {
    a.receiver.finish_kept_last_first();
    b.receiver.finish_kept_last_first();
  }
  // Progresses both sides until `condition` holds; false after `seconds`.
  template <class Condition>
  bool until(Condition condition, double seconds = 20) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!condition()) {
      a.transport.progress();
      b.transport.progress();
      if (std::chrono::steady_clock::now() > deadline) return false;
    }
    return true;
  }
};

}  // namespace gpuar::test
