#include "coll_gpuar/report/trace.h"

#include <algorithm>
#include <array>

namespace gpuar {

std::uint32_t Trace::add_communicator(TracedComm comm) {
  if (communicators_.size() == most_communicators) {
    communicators_.push_back({"", "communicators made later", 0, 0});
  }
  if (communicators_.size() > most_communicators) return most_communicators;
  communicators_.push_back(std::move(comm));
  return static_cast<std::uint32_t>(communicators_.size() - 1);
}

std::vector<TraceEvent> Trace::sorted() const {
  const bool full = added_ >= events_.size();
  const auto end = full ? events_.end() : events_.begin() + static_cast<std::ptrdiff_t>(next_);
  std::vector<TraceEvent> events(events_.begin(), end);
  std::sort(events.begin(), events.end(), [](const TraceEvent& a, const TraceEvent& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end > b.end;
  });
  return events;
}

std::vector<std::uint32_t> rows_of(std::span<const TraceEvent> events) {
  std::array<std::vector<std::int64_t>, 4> busy_until;  // by kind and row
  std::vector<std::uint32_t> rows;
  rows.reserve(events.size());
  for (const TraceEvent& event : events) {
    auto& of_kind = busy_until[std::min(static_cast<std::size_t>(event.kind), std::size_t{3})];
    const auto free = std::find_if(of_kind.begin(), of_kind.end(),
                                   [&](std::int64_t until) { return until <= event.begin; });
    rows.push_back(static_cast<std::uint32_t>(free - of_kind.begin()));
    if (free == of_kind.end()) {
      of_kind.push_back(event.end);
    } else {
      *free = event.end;
    }
  }
  return rows;
}

}  // namespace gpuar
