// Who has made a call and who has not: what a rank does that has waited too long for the others.
//
// It asks every rank, and gives them some time to answer. Whoever is asked and waits in the same
// call asks too, so that all who wait come to their end at about one moment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coll_gpuar/schedule/sink.h"

namespace gpuar {

class RollCall {
 public:
  enum class Answer : std::uint8_t { none, absent, present };

  // Begins to wait. Times are nanoseconds of one clock.
  void begin(std::int64_t now) {
    since_ = now;
    asking_ = false;
  }
  [[nodiscard]] bool waited_too_long(std::int64_t now, std::int64_t timeout) const {
    return !asking_ && now - since_ > timeout;
  }
  [[nodiscard]] bool is_asking() const { return asking_; }
  void ask(std::int64_t now, Rank size) {
    asking_ = true;
    since_ = now;
    answers_.assign(static_cast<std::size_t>(size), Answer::none);
  }
  void answer(Rank from, bool present) {
    if (asking_)
      answers_[static_cast<std::size_t>(from)] = present ? Answer::present : Answer::absent;
  }
  // Whether everybody has had time to answer.
  [[nodiscard]] bool is_over(std::int64_t now, std::int64_t grace) const {
    return asking_ && now - since_ > grace;
  }
  // Those other than `self` that are not in the call, by rank.
  [[nodiscard]] std::vector<Rank> missing(Rank self) const;
  // "rank 2 has not made it, rank 3 does not answer"
  [[nodiscard]] std::string describe_missing(Rank self) const;

 private:
  std::int64_t since_ = 0;
  bool asking_ = false;
  std::vector<Answer> answers_;  // by rank
};

}  // namespace gpuar
