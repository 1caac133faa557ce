#include "coll_gpuar/check/roll_call.h"

#include <fmt/format.h>

namespace gpuar {

std::vector<Rank> RollCall::missing(Rank self) const {
  std::vector<Rank> ranks;
  for (std::size_t i = 0; i < answers_.size(); ++i) {
    const auto rank = static_cast<Rank>(i);
    if (rank != self && answers_[i] != Answer::present) ranks.push_back(rank);
  }
  return ranks;
}

std::string RollCall::describe_missing(Rank self) const {
  constexpr std::size_t most = 8;  // named one by one
  const std::vector<Rank> ranks = missing(self);
  std::string text;
  for (std::size_t i = 0; i < ranks.size() && i < most; ++i) {
    const bool answers = answers_[static_cast<std::size_t>(ranks[i])] == Answer::absent;
    text += fmt::format(
        "{}rank {} {}", i > 0 ? ", " : "", ranks[i],
        answers ? "is elsewhere in MPI" : "does not answer (it computes, or waits outside MPI)");
  }
  if (ranks.size() > most) text += fmt::format(" and {} more", ranks.size() - most);
  return text;
}

}  // namespace gpuar
