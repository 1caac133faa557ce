#include "coll_gpuar/report/journal.h"

#include <algorithm>

namespace gpuar {

const char* describe(Form form) {
  switch (form) {
    case Form::blocking:
      return "blocking";
    case Form::nonblocking:
      return "nonblocking";
    case Form::persistent:
      return "persistent";
    case Form::internal:
      return "Open MPI's";
  }
  return "unknown";
}

void Journal::enter(CallTimes& call) const {
  call.entered = call.last_entered = now_ns();
  call.last = rank_;
  call.uncertainty = 0;
  call.stamp = stamps::make(call.entered, rank_);
}

bool Journal::hear(CallTimes& call, Rank from, std::uint64_t stamp) {
  if (stamp == call.stamp) return false;  // nothing new
  const PeerClock& clock = *clocks_[static_cast<std::size_t>(from)];
  const std::int64_t uncertainty = clock.uncertainty(call.entered);
  if (uncertainty == PeerClock::unknown) {
    call.uncertainty = uncertainty;
    return clock.is_due(now_ns());
  }
  const std::int64_t near = call.entered + clock.offset();
  const std::int64_t entered = stamps::time_of(stamp, near) - clock.offset();
  const bool surely_earlier = entered + uncertainty < call.last_entered;
  if (!surely_earlier) call.uncertainty = std::max(call.uncertainty, uncertainty);
  if (entered > call.last_entered) {
    call.last_entered = entered;
    call.last = stamps::rank_of(stamp);
    call.stamp = stamps::make(entered, call.last);
  }
  if (clock.is_shared()) return false;
  const bool listed = std::find(to_ask_.begin(), to_ask_.end(), from) != to_ask_.end();
  if (!listed) to_ask_.push_back(from);
  return false;
}

void Journal::leave(const CallTimes& call, const CallClass& of, std::size_t bytes) {
  const std::int64_t took = now_ns() - call.entered;
  Row& noted = row(of);
  ++noted.calls;
  noted.bytes += bytes;
  noted.total += took;
  noted.longest = std::max(noted.longest, took);
  noted.times.add(took);
  totals_->time_ns += static_cast<std::uint64_t>(took);
  if (of.form == Form::blocking) totals_->blocked_ns += took;
  if (!knows_waiting(call, took)) return;
  const std::int64_t waited = std::clamp<std::int64_t>(call.last_entered - call.entered, 0, took);
  ++noted.compared;
  noted.known += took;
  noted.waited += waited;
  totals_->wait_ns += static_cast<std::uint64_t>(waited);
  Row::Late& late = noted.late[static_cast<std::size_t>(call.last)];
  ++late.calls;
  late.waited += waited;
}

// Calls come in runs of one kind: the row of the last one is tried first.
Row& Journal::row(const CallClass& of) {
  if (last_row_ < rows_.size() && rows_[last_row_].of == of) [[likely]]
    return rows_[last_row_];
  const auto found =
      std::find_if(rows_.begin(), rows_.end(), [&](const Row& row) { return row.of == of; });
  last_row_ = static_cast<std::size_t>(found - rows_.begin());
  if (found != rows_.end()) return *found;
  Row& fresh = rows_.emplace_back();
  fresh.of = of;
  fresh.late.resize(clocks_.size());
  return fresh;
}

}  // namespace gpuar
