// What one rank notes of a communicator's calls, when a report is to be written.
//
// A call's messages carry a stamp: when the last rank that the sender has heard of entered the
// call. An allreduce ends on no rank before something of every rank's has come there, so at its end
// every rank knows when the last one entered. Until then it waited; the rest of the call moved
// data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "coll_gpuar/report/clock.h"
#include "coll_gpuar/report/histogram.h"

namespace gpuar {

// Of one call under way.
struct CallTimes {
  std::uint64_t stamp = 0;  // for the messages to be sent; 0: the call is not noted
  std::int64_t entered = 0;
  std::int64_t last_entered = 0;  // by any rank that this one has heard of, by the clock here
  Rank last = 0;
  std::int64_t uncertainty = 0;  // of the clocks of those who may have been last
};

enum class Form : std::uint8_t { blocking, nonblocking, persistent, internal };
const char* describe(Form form);

// What calls have in common that share a line of the report.
struct CallClass {
  std::uint8_t size_class = 0;  // bytes: from 2^(size_class - 1) to less than 2^size_class
  Form form = Form::blocking;
  std::uint8_t path = 0;        // as engine/run.h has Carry
  std::uint32_t algorithm = 0;  // the core's number for it
  friend bool operator==(const CallClass&, const CallClass&) = default;
};

struct Row {
  struct Late {
    std::uint64_t calls = 0;  // in which this rank was the last to enter
    std::int64_t waited = 0;  // ns for it, by the rank that keeps the row
  };
  CallClass of;
  std::uint64_t calls = 0;
  std::uint64_t bytes = 0;
  std::uint64_t compared = 0;  // calls of which the waiting is known
  std::int64_t total = 0;      // ns; all calls
  std::int64_t known = 0;      // ns; those that were compared
  std::int64_t waited = 0;     // of `known`
  std::int64_t longest = 0;
  Histogram times;
  std::vector<Late> late;  // by rank
};

// Sums over a process's calls, for whoever watches it run.
struct WaitTotals {
  std::uint64_t time_ns = 0;
  std::uint64_t wait_ns = 0;
  std::int64_t blocked_ns = 0;  // in blocking calls
};

class Journal {
 public:
  // `clocks` by rank, nullptr for this one; they and the totals must outlive it.
  Journal(Rank rank, std::vector<PeerClock*> clocks, WaitTotals& totals)
      : rank_(rank), clocks_(std::move(clocks)), totals_(&totals) {}

  void enter(CallTimes& call) const;
  // A message of the call has come, with a stamp. Returns whether its sender's clock should be
  // asked.
  // now; if it may wait, it is asked before the next call's data is on the way.
  bool hear(CallTimes& call, Rank from, std::uint64_t stamp);
  std::vector<Rank>& to_ask() { return to_ask_; }
  // Whether it is known precisely enough, of a call that took so long, when the last rank entered.
  static bool knows_waiting(const CallTimes& call, std::int64_t took) {
    constexpr std::int64_t precise = 10;  // to a tenth of the time
    return call.uncertainty <= took / precise;
  }
  void leave(const CallTimes& call, const CallClass& of, std::size_t bytes);

  PeerClock* clock(Rank rank) const { return clocks_[static_cast<std::size_t>(rank)]; }
  [[nodiscard]] const std::vector<Row>& rows() const { return rows_; }

 private:
  Row& row(const CallClass& of);

  Rank rank_;
  std::vector<PeerClock*> clocks_;
  WaitTotals* totals_;
  std::vector<Rank> to_ask_;
  std::vector<Row> rows_;
  std::size_t last_row_ = 0;
};

}  // namespace gpuar
