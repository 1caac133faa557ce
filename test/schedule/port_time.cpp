#include <algorithm>
#include <map>
#include <tuple>

#include "test/schedule/world.h"

namespace gpuar::symbolic {
namespace {

struct Message {
  std::uint64_t available;  // since both its steps may start
  std::uint32_t send, recv;
  Rank from, to;
  std::uint64_t ends = 0;

  // First come, first served; then by program order of the sender, then of the receiver.
  bool operator<(const Message& other) const {
    return std::tie(available, send, recv, from) <
           std::tie(other.available, other.send, other.recv, other.from);
  }
};

class Ports {
 public:
  Ports(const std::vector<Schedule>& schedules, const std::function<std::uint64_t(Span)>& weight)
      : schedules_(schedules),
        weight_(weight),
        sending_(schedules.size()),
        receiving_(schedules.size()) {
    for (const Schedule& schedule : schedules) {
      std::vector<std::uint32_t> waiting;
      for (const Step& step : schedule.steps) waiting.push_back(step.dependencies);
      waiting_.push_back(std::move(waiting));
    }
    for (const Schedule& schedule : schedules) {
      for (const std::uint32_t i : schedule.initial) ready(schedule.rank, i);
    }
  }

  std::uint64_t run() {
    start_messages();
    while (!under_way_.empty()) {
      const auto first =
          std::min_element(under_way_.begin(), under_way_.end(),
                           [](const Message& a, const Message& b) { return a.ends < b.ends; });
      const Message message = *first;
      now_ = message.ends;
      *first = under_way_.back();
      under_way_.pop_back();
      sending_[index(message.from)] = receiving_[index(message.to)] = false;
      done(message.from, message.send);
      done(message.to, message.recv);
      const bool more = std::any_of(under_way_.begin(), under_way_.end(),
                                    [&](const Message& m) { return m.ends == now_; });
      if (!more) start_messages();
    }
    return now_;
  }

 private:
  static std::size_t index(Rank rank) { return static_cast<std::size_t>(rank); }

  void ready(Rank rank, std::uint32_t i) {
    const Step& step = schedules_[index(rank)].steps[i];
    if (step.verb == Verb::reduce || step.verb == Verb::copy) return done(rank, i);
    const bool sends = step.verb == Verb::send;
    const auto key = sends ? std::tuple(rank, step.peer, step.message)
                           : std::tuple(step.peer, rank, step.message);
    const auto [half, is_first] = halves_.try_emplace(key, i);
    if (is_first) return;
    const std::uint32_t other = half->second;
    available_.push_back(
        {now_, sends ? i : other, sends ? other : i, std::get<0>(key), std::get<1>(key)});
  }

  void done(Rank rank, std::uint32_t i) {
    const Schedule& schedule = schedules_[index(rank)];
    const Step& step = schedule.steps[i];
    for (std::uint32_t k = 0; k < step.successor_count; ++k) {
      const std::uint32_t later = schedule.successors[step.first_successor + k];
      if (--waiting_[index(rank)][later] == 0) ready(rank, later);
    }
  }

  void start_messages() {
    std::sort(available_.begin(), available_.end());
    std::vector<Message> held;
    for (Message& message : available_) {
      if (sending_[index(message.from)] || receiving_[index(message.to)]) {
        held.push_back(message);
        continue;
      }
      sending_[index(message.from)] = receiving_[index(message.to)] = true;
      const Step& send = schedules_[index(message.from)].steps[message.send];
      message.ends = now_ + weight_(send.span);
      under_way_.push_back(message);
    }
    available_ = std::move(held);
  }

  const std::vector<Schedule>& schedules_;
  const std::function<std::uint64_t(Span)>& weight_;
  std::uint64_t now_ = 0;
  std::vector<std::vector<std::uint32_t>> waiting_;
  std::vector<char> sending_, receiving_;
  std::map<std::tuple<Rank, Rank, std::uint32_t>, std::uint32_t> halves_;  // one side is ready
  std::vector<Message> available_, under_way_;
};

}  // namespace

std::uint64_t port_time(const std::vector<Schedule>& schedules,
                        const std::function<std::uint64_t(Span)>& weight) {
  return Ports(schedules, weight).run();
}

}  // namespace gpuar::symbolic
