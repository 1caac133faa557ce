// The checker checked: each defect put into correct schedules must be caught.
#include <algorithm>

#include "test/catch.h"
#include "test/schedule/world.h"

namespace gpuar {
namespace {

using namespace symbolic;

// Why one step waits for another.
enum Hazard : unsigned {
  read_after_write = 1,
  write_after_read = 2,
  write_after_write = 4,
  slot_read = 8,    // reads what was put into a slot
  slot_reuse = 16,  // puts something else into it
};

bool overlap(Span a, Span b) {
  return a.first < b.first + b.count && b.first < a.first + a.count;
}

// Whether an access of `a` and one of `b` touch the same memory: none, a chunk or the same slot.
enum class Touch : std::uint8_t { none, chunk, slot };

Touch touch(const Step& a, Operand of_a, const Step& b, Operand of_b) {
  const bool slot = of_a.place == Place::slot;
  if (slot != (of_b.place == Place::slot)) return Touch::none;
  if (slot) return of_a.slot == of_b.slot ? Touch::slot : Touch::none;
  return overlap(a.span, b.span) ? Touch::chunk : Touch::none;
}

std::vector<Operand> reads(const Step& step) {
  if (step.verb == Verb::recv) return {};
  if (step.verb == Verb::reduce) return {step.source, step.other};
  return {step.source};
}

std::vector<Operand> writes(const Step& step) {
  if (step.verb == Verb::send) return {};
  return {step.target};
}

unsigned hazards(const Step& earlier, const Step& later) {
  unsigned found = 0;
  const auto look = [&](const auto& of_earlier, const auto& of_later, unsigned chunk,
                        unsigned slot) {
    for (const Operand a : of_earlier) {
      for (const Operand b : of_later) {
        const Touch at = touch(earlier, a, later, b);
        if (at == Touch::chunk) found |= chunk;
        if (at == Touch::slot) found |= slot;
      }
    }
  };
  look(writes(earlier), reads(later), read_after_write, slot_read);
  look(reads(earlier), writes(later), write_after_read, slot_reuse);
  look(writes(earlier), writes(later), write_after_write, slot_reuse);
  return found;
}

// Takes away the dependencies that rest on these hazards alone, as a builder without the rule
// would. Returns whether there were any.
bool drop(std::vector<Schedule>& schedules, unsigned rule) {
  bool changed = false;
  for (Schedule& schedule : schedules) {
    std::vector<std::uint32_t> kept;
    for (Step& step : schedule.steps) {
      const auto first = static_cast<std::uint32_t>(kept.size());
      for (std::uint32_t k = 0; k < step.successor_count; ++k) {
        const std::uint32_t later = schedule.successors[step.first_successor + k];
        const unsigned reasons = hazards(step, schedule.steps[later]);
        REQUIRE(reasons != 0);  // no dependency without a reason
        if ((reasons & ~rule) != 0) {
          kept.push_back(later);
        } else {
          --schedule.steps[later].dependencies;
          changed = true;
        }
      }
      step.first_successor = first;
      step.successor_count = static_cast<std::uint32_t>(kept.size()) - first;
    }
    schedule.successors = std::move(kept);
    schedule.initial.clear();
    for (std::uint32_t i = 0; i < schedule.steps.size(); ++i) {
      if (schedule.steps[i].dependencies == 0) schedule.initial.push_back(i);
    }
  }
  return changed;
}

// The last step of rank 1 with this verb.
Step* last(std::vector<Schedule>& schedules, Verb verb) {
  auto& steps = schedules[1].steps;
  const auto found = std::find_if(steps.rbegin(), steps.rend(),
                                  [verb](const Step& step) { return step.verb == verb; });
  return found == steps.rend() ? nullptr : &*found;
}

bool shift_peer(std::vector<Schedule>& schedules) {
  Step* send = last(schedules, Verb::send);
  if (send == nullptr) return false;
  const Rank size = schedules[0].size;
  send->peer = (send->peer + 1) % size;
  if (send->peer == 1) send->peer = 2;
  return true;
}

bool swap_operands(std::vector<Schedule>& schedules) {
  for (Schedule& schedule : schedules) {
    for (Step& step : schedule.steps) {
      if (step.verb != Verb::reduce) continue;
      std::swap(step.source, step.other);
      return true;
    }
  }
  return false;
}

bool wrong_number(std::vector<Schedule>& schedules) {
  Step* send = last(schedules, Verb::send);
  if (send == nullptr) return false;
  ++send->message;
  return true;
}

bool swapped_numbers(std::vector<Schedule>& schedules) {
  auto& steps = schedules[1].steps;
  for (Step& a : steps) {
    for (Step& b : steps) {
      if (a.verb != Verb::send || b.verb != Verb::send || a.peer != b.peer ||
          a.message >= b.message) {
        continue;
      }
      std::swap(a.message, b.message);
      return true;
    }
  }
  return false;
}

bool wrong_span(std::vector<Schedule>& schedules) {
  const std::uint32_t chunks = schedules[0].chunks;
  for (Step& step : schedules[0].steps) {
    if (step.verb != Verb::send || step.span.count == chunks) continue;
    step.span.first = step.span.first == 0 ? 1 : step.span.first - 1;
    return true;
  }
  return false;
}

// A receive that goes to another slot than the reduction expects.
bool wrong_slot(std::vector<Schedule>& schedules) {
  for (Schedule& schedule : schedules) {
    for (Step& step : schedule.steps) {
      if (step.verb != Verb::recv || step.target.place != Place::slot || schedule.slots < 2)
        continue;
      step.target.slot = static_cast<std::uint16_t>((step.target.slot + 1U) % schedule.slots);
      return true;
    }
  }
  return false;
}

bool writes_input(std::vector<Schedule>& schedules) {
  for (Schedule& schedule : schedules) {
    for (Step& step : schedule.steps) {
      if (step.verb != Verb::reduce || step.target.place != Place::output) continue;
      step.target.place = Place::input;
      return true;
    }
  }
  return false;
}

bool lost_receive(std::vector<Schedule>& schedules) {
  for (Schedule& schedule : schedules) {
    if (schedule.receives.empty()) continue;
    schedule.receives.pop_back();
    return true;
  }
  return false;
}

Shape claimed(const Algorithm& algorithm) {
  if (algorithm.reproducible) return Shape::tree;
  return algorithm.keeps_rank_order ? Shape::rank_order : Shape::any;
}

bool caught(const std::vector<Schedule>& schedules, Shape shape) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    for (const InPlace in_place : {InPlace::no, InPlace::yes}) {
      if (!check(schedules, in_place, shape, seed).failure.empty()) return true;
    }
  }
  return false;
}

using Mutation = bool (*)(std::vector<Schedule>&);

struct Mutant {
  const char* name;
  Mutation mutate;
};

// Correct schedules, and what is claimed of them.
struct Subject {
  std::string name;
  std::vector<Schedule> schedules;
  Shape shape;
};

std::vector<Subject> subjects() {
  const BuildOptions options{2, {1, Association::tree}};
  std::vector<Subject> all;
  for (const Algorithm& algorithm : algorithms()) {
    for (const Rank size : {3, 4, 5, 6, 8}) {
      all.push_back({std::string(algorithm.name) + ", " + std::to_string(size) + " ranks",
                     build_all(algorithm, size, options), claimed(algorithm)});
    }
    for (const Composition& composition : compositions().subspan(1, 2)) {
      for (const Level& level : {Level{0, 0, 1, 1}, Level{0, 0, 0, 0, 1, 1, 1, 1}}) {
        all.push_back({std::string(composition.name) + " of " + std::string(algorithm.name) + ", " +
                           std::to_string(level.size()) + " ranks",
                       build_all(composition, algorithm, {&level, 1}, options),
                       claimed(algorithm)});
      }
    }
  }
  return all;
}

// Where the order of ranks is free, swapped operands are no defect.
bool is_defect(const Subject& subject, const Mutant& mutant) {
  return mutant.mutate != swap_operands || subject.shape != Shape::any;
}

TEST_CASE("the symbolic checker catches every mutant", "[checker]") {
  const std::vector<Mutant> mutants{
      {"no read after write", [](auto& all) { return drop(all, read_after_write); }},
      {"no write after read", [](auto& all) { return drop(all, write_after_read); }},
      {"no wait for data in a slot", [](auto& all) { return drop(all, slot_read); }},
      {"no wait for a slot in use", [](auto& all) { return drop(all, slot_reuse); }},
      {"shifted peer", shift_peer},
      {"swapped operands", swap_operands},
      {"wrong message number", wrong_number},
      {"two message numbers swapped", swapped_numbers},
      {"wrong span", wrong_span},
      {"wrong slot", wrong_slot},
      {"input written", writes_input},
      {"receive not indexed", lost_receive},
  };
  const std::vector<Subject> good = subjects();
  for (const Subject& subject : good) {
    INFO(subject.name);
    REQUIRE_FALSE(caught(subject.schedules, subject.shape));
  }
  for (const Mutant& mutant : mutants) {
    int applied = 0;
    for (const Subject& subject : good) {
      auto bad = subject.schedules;
      if (!is_defect(subject, mutant) || !mutant.mutate(bad)) continue;
      ++applied;
      INFO(mutant.name << " in " << subject.name);
      CHECK(caught(bad, subject.shape));
    }
    INFO(mutant.name);
    CHECK(applied > 0);
  }
}

}  // namespace
}  // namespace gpuar
