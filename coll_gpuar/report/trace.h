// The latest events of this process, for a timeline (coll_gpuar_trace).
//
// All memory is taken at the beginning. When it is full, a new event takes the place of the oldest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "coll_gpuar/report/journal.h"

namespace gpuar {

// When a step of a call was begun, and when the message came that it waited for; 0: not.
struct StepTimes {
  std::int64_t begun = 0;
  std::int64_t arrived = 0;
};

struct TraceEvent {
  enum class Kind : std::uint8_t { call, send, receive, reduce, copy };

  std::int64_t begin = 0;  // ns, of now_ns()
  // Until then it waited: a call for the last rank to enter it, a receive for its message.
  std::int64_t waited_until = 0;
  std::int64_t end = 0;
  std::size_t bytes = 0;
  std::uint32_t comm = 0;  // as Trace::add_communicator() numbered it
  std::uint32_t algorithm = 0;
  std::uint32_t call = 0;  // its number among the calls of this form; of a persistent request
  std::uint32_t round = 0;
  std::uint32_t segment = 0;
  std::uint32_t message = 0;  // the k-th of the segment between the two ranks
  Rank peer = -1;             // of a call: the rank that was last to enter it; -1: none
  Kind kind = Kind::call;
  Form form = Form::blocking;
  std::uint8_t path = 0;  // as engine/run.h has Carry
};

struct TracedComm {
  std::string key;  // the same on all members
  std::string name;
  Rank size = 0;
  Rank rank = 0;
};

class Trace {
 public:
  explicit Trace(std::size_t most_events) : events_(most_events) {}

  // Communicators beyond the bound share the last number.
  std::uint32_t add_communicator(TracedComm comm);
  [[nodiscard]] const std::vector<TracedComm>& communicators() const { return communicators_; }

  void add(const TraceEvent& event) {
    events_[next_] = event;
    if (++next_ == events_.size()) next_ = 0;
    ++added_;
  }

  // What is there, by the time of its beginning.
  [[nodiscard]] std::vector<TraceEvent> sorted() const;
  // Events that made room for later ones.
  [[nodiscard]] std::uint64_t left_out() const {
    return added_ > events_.size() ? added_ - events_.size() : 0;
  }

 private:
  static constexpr std::size_t most_communicators = 1024;

  std::vector<TraceEvent> events_;
  std::size_t next_ = 0;
  std::uint64_t added_ = 0;
  std::vector<TracedComm> communicators_;
};

// Shares events out to rows in which nothing overlaps: by event, the number of its row among those
// of its kind. Reductions and copies are of one kind here. Events by beginning, as sorted() has
// them.
std::vector<std::uint32_t> rows_of(std::span<const TraceEvent> events);

}  // namespace gpuar
