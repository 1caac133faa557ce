#include "test/schedule/world.h"

#include <algorithm>
#include <limits>
#include <sstream>
#include <stdexcept>

namespace gpuar::symbolic {
namespace {

constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
constexpr Expression rubbish = none;  // memory that nothing has written

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// What is under way in a chunk or a slot.
struct Watch {
  std::uint32_t readers = 0;
  bool writer = false;
};

struct Memory {
  std::vector<Expression> input, output, slots;  // slots: slot_chunks values each
  std::vector<Span> slot_spans;                  // what each slot holds
  std::vector<Watch> chunk_watch, slot_watch;
};

struct StepState {
  std::uint32_t waiting = 0;    // dependencies not yet met
  std::uint32_t depth = 0;      // messages on the longest chain up to here
  std::uint32_t sender = none;  // receives: the step of the peer that sends this message
  bool started = false;
};

struct Action {  // start a step, or finish a started one (a receive: with its sender)
  Rank rank;
  std::uint32_t step;
  bool finish;
};

class World {
 public:
  World(const std::vector<Schedule>& schedules, InPlace in_place, std::uint64_t seed)
      : schedules_(schedules),
        in_place_(in_place == InPlace::yes),
        random_(seed),
        ranks_(static_cast<Rank>(schedules.size())),
        expressions_(ranks_) {
    for (Rank rank = 0; rank < ranks_; ++rank) set_up(rank);
  }

  void run();
  void check_result(Shape shape);
  [[nodiscard]] std::uint64_t rounds() const { return rounds_; }

 private:
  const Schedule& schedule(Rank rank) const { return schedules_[static_cast<std::size_t>(rank)]; }
  const Step& step(Rank rank, std::uint32_t i) const { return schedule(rank).steps[i]; }
  StepState& state(Rank rank, std::uint32_t i) {
    return states_[static_cast<std::size_t>(rank)][i];
  }
  Memory& memory(Rank rank) { return memories_[static_cast<std::size_t>(rank)]; }

  [[noreturn]] void fail(Rank rank, std::uint32_t i, const std::string& what) const;
  void set_up(Rank rank);
  void check_form(Rank rank) const;
  void start(Rank rank, std::uint32_t i);
  void offer(Rank rank, std::uint32_t i);
  void finish(Rank rank, std::uint32_t i);
  void complete(Rank rank, std::uint32_t i, std::uint32_t depth);
  template <class Function>
  void watch(Rank rank, Operand operand, Span span, Function function);
  void begin_read(Rank rank, std::uint32_t i, Operand operand);
  void begin_write(Rank rank, std::uint32_t i);
  void end_read(Rank rank, std::uint32_t i, Operand operand);
  Expression load(Rank rank, std::uint32_t i, Operand operand, std::uint32_t chunk);
  void store(Rank rank, std::uint32_t i, std::uint32_t chunk, Expression value);

  const std::vector<Schedule>& schedules_;
  bool in_place_;
  std::mt19937_64 random_;
  Rank ranks_;
  Expressions expressions_;
  std::vector<std::vector<StepState>> states_;
  std::vector<Memory> memories_;
  std::vector<Action> actions_;
  std::uint64_t unfinished_ = 0;
  std::uint64_t rounds_ = 0;
};

void World::fail(Rank rank, std::uint32_t i, const std::string& what) const {
  static constexpr const char* verbs[] = {"send", "recv", "reduce", "copy"};
  const Step& at = step(rank, i);
  std::ostringstream text;
  text << what << " (rank " << rank << " of " << ranks_ << ", step " << i << ", "
       << verbs[static_cast<int>(at.verb)] << " of chunks " << at.span.first << "+" << at.span.count
       << ", peer " << at.peer << ")";
  throw Failure(text.str());
}

void World::set_up(Rank rank) {
  const Schedule& mine = schedule(rank);
  if (mine.rank != rank || mine.size != ranks_ || mine.chunks != schedules_[0].chunks) {
    throw Failure("schedule of another rank, size or number of chunks");
  }
  check_form(rank);
  Memory memory;
  memory.input.assign(mine.chunks, static_cast<Expression>(rank));
  memory.output.assign(in_place_ ? 0 : mine.chunks, rubbish);
  memory.slots.assign(std::size_t{mine.slots} * mine.slot_chunks, rubbish);
  memory.slot_spans.resize(mine.slots);
  memory.chunk_watch.resize(mine.chunks);
  memory.slot_watch.resize(mine.slots);
  memories_.push_back(std::move(memory));
  std::vector<StepState> states(mine.steps.size());
  for (std::size_t i = 0; i < states.size(); ++i) states[i].waiting = mine.steps[i].dependencies;
  states_.push_back(std::move(states));
  for (const std::uint32_t i : mine.initial) actions_.push_back({rank, i, false});
  unfinished_ += mine.steps.size();
}

// What holds for a schedule by itself: indices in range, messages numbered in program order,
// dependencies only on earlier steps, the input never written.
void World::check_form(Rank rank) const {
  const Schedule& mine = schedule(rank);
  std::unordered_map<Rank, std::uint32_t> sent, received;
  std::vector<std::uint32_t> predecessors(mine.steps.size());
  for (std::uint32_t i = 0; i < mine.steps.size(); ++i) {
    const Step& at = mine.steps[i];
    const bool moves = at.verb == Verb::send || at.verb == Verb::recv;
    if (std::uint64_t{at.span.first} + at.span.count > mine.chunks || at.span.count == 0) {
      fail(rank, i, "span out of range");
    }
    if (moves && (at.peer < 0 || at.peer >= ranks_ || at.peer == rank)) fail(rank, i, "bad peer");
    if (at.verb == Verb::send && at.message != sent[at.peer]++) fail(rank, i, "wrong number");
    if (at.verb == Verb::recv && at.message != received[at.peer]++) fail(rank, i, "wrong number");
    if (at.verb != Verb::send && at.target.place == Place::input) fail(rank, i, "writes the input");
    for (const Operand operand : {at.target, at.source, at.other}) {
      if (operand.place == Place::slot &&
          (operand.slot >= mine.slots || at.span.count > mine.slot_chunks)) {
        fail(rank, i, "slot out of range");
      }
    }
    for (std::uint32_t k = 0; k < at.successor_count; ++k) {
      const std::uint32_t later = mine.successors.at(at.first_successor + k);
      if (later <= i || later >= mine.steps.size()) fail(rank, i, "depends on a later step");
      ++predecessors[later];
    }
    if (predecessors[i] != at.dependencies) fail(rank, i, "wrong number of dependencies");
  }
  const auto free_steps =
      static_cast<std::size_t>(std::count(predecessors.begin(), predecessors.end(), 0U));
  if (mine.initial.size() != free_steps) throw Failure("initial steps incomplete");
}

template <class Function>
void World::watch(Rank rank, Operand operand, Span span, Function function) {
  Memory& mine = memory(rank);
  if (operand.place == Place::slot) return function(mine.slot_watch[operand.slot]);
  // Out of place, nothing writes the input, so there is nothing to watch.
  if (operand.place == Place::input && !in_place_) return;
  for (std::uint32_t c = 0; c < span.count; ++c) function(mine.chunk_watch[span.first + c]);
}

void World::begin_read(Rank rank, std::uint32_t i, Operand operand) {
  watch(rank, operand, step(rank, i).span, [&](Watch& at) {
    if (at.writer) fail(rank, i, "reads what is being written");
    ++at.readers;
  });
}

// A step may write what it reads itself: its reads have not begun yet.
void World::begin_write(Rank rank, std::uint32_t i) {
  watch(rank, step(rank, i).target, step(rank, i).span, [&](Watch& at) {
    if (at.writer) fail(rank, i, "writes what is being written");
    if (at.readers > 0) fail(rank, i, "writes what is being read");
  });
}

void World::end_read(Rank rank, std::uint32_t i, Operand operand) {
  watch(rank, operand, step(rank, i).span, [](Watch& at) { --at.readers; });
}

void World::start(Rank rank, std::uint32_t i) {
  const Step& at = step(rank, i);
  state(rank, i).started = true;
  if (at.verb != Verb::send) begin_write(rank, i);
  if (at.verb != Verb::recv) begin_read(rank, i, at.source);
  if (at.verb == Verb::reduce) begin_read(rank, i, at.other);
  if (at.verb != Verb::send) watch(rank, at.target, at.span, [](Watch& w) { w.writer = true; });
  if (at.verb == Verb::send) {
    offer(rank, i);
  } else if (at.verb != Verb::recv || state(rank, i).sender != none) {
    actions_.push_back({rank, i, true});
  }
}

// Finds the receive that message k to this peer belongs to.
void World::offer(Rank rank, std::uint32_t i) {
  const Step& at = step(rank, i);
  const Schedule& theirs = schedule(at.peer);
  const auto entry =
      std::lower_bound(theirs.receives.begin(), theirs.receives.end(), rank,
                       [](const PeerReceives& a, Rank peer) { return a.peer < peer; });
  if (entry == theirs.receives.end() || entry->peer != rank || at.message >= entry->count) {
    fail(rank, i, "nobody receives this");
  }
  const std::uint32_t there = theirs.recv_steps.at(entry->first + at.message);
  const Step& receive = theirs.steps[there];
  if (receive.verb != Verb::recv || receive.peer != rank || receive.message != at.message) {
    fail(at.peer, there, "receives are not indexed right");
  }
  if (!(receive.span == at.span)) fail(rank, i, "sent and received spans differ");
  StepState& peer_state = state(at.peer, there);
  if (peer_state.sender != none) fail(rank, i, "message number used twice");
  peer_state.sender = i;
  if (peer_state.started) actions_.push_back({at.peer, there, true});
}

Expression World::load(Rank rank, std::uint32_t i, Operand operand, std::uint32_t chunk) {
  Memory& mine = memory(rank);
  const Span span = step(rank, i).span;
  Expression value = rubbish;
  if (operand.place == Place::slot) {
    if (!(mine.slot_spans[operand.slot] == span)) fail(rank, i, "slot holds another span");
    value = mine.slots[std::size_t{operand.slot} * schedule(rank).slot_chunks + chunk];
  } else {
    const bool from_input = operand.place == Place::input || in_place_;
    value = (from_input ? mine.input : mine.output)[span.first + chunk];
  }
  if (value == rubbish) fail(rank, i, "reads what was never written");
  return value;
}

void World::store(Rank rank, std::uint32_t i, std::uint32_t chunk, Expression value) {
  Memory& mine = memory(rank);
  const Step& at = step(rank, i);
  if (at.target.place == Place::slot) {
    mine.slot_spans[at.target.slot] = at.span;
    mine.slots[std::size_t{at.target.slot} * schedule(rank).slot_chunks + chunk] = value;
  } else {
    (in_place_ ? mine.input : mine.output)[at.span.first + chunk] = value;
  }
}

void World::finish(Rank rank, std::uint32_t i) {
  const Step& at = step(rank, i);
  const bool receives = at.verb == Verb::recv;
  const Rank from = receives ? at.peer : rank;
  const std::uint32_t source = receives ? state(rank, i).sender : i;
  for (std::uint32_t c = 0; c < at.span.count; ++c) {
    Expression value = load(from, source, step(from, source).source, c);
    if (at.verb == Verb::reduce) value = expressions_.join(value, load(rank, i, at.other, c));
    store(rank, i, c, value);
  }
  watch(rank, at.target, at.span, [](Watch& w) { w.writer = false; });
  end_read(from, source, step(from, source).source);
  if (at.verb == Verb::reduce) end_read(rank, i, at.other);
  if (!receives) return complete(rank, i, state(rank, i).depth);
  const std::uint32_t depth = std::max(state(rank, i).depth, state(from, source).depth) + 1;
  complete(rank, i, depth);
  complete(from, source, depth);
}

void World::complete(Rank rank, std::uint32_t i, std::uint32_t depth) {
  const Step& at = step(rank, i);
  rounds_ = std::max<std::uint64_t>(rounds_, depth);
  --unfinished_;
  for (std::uint32_t k = 0; k < at.successor_count; ++k) {
    const std::uint32_t later = schedule(rank).successors[at.first_successor + k];
    StepState& next = state(rank, later);
    next.depth = std::max(next.depth, depth);
    if (--next.waiting == 0) actions_.push_back({rank, later, false});
  }
}

void World::run() {
  while (!actions_.empty()) {
    std::swap(actions_[random_() % actions_.size()], actions_.back());
    const Action action = actions_.back();
    actions_.pop_back();
    if (action.finish) {
      finish(action.rank, action.step);
    } else {
      start(action.rank, action.step);
    }
  }
  if (unfinished_ == 0) return;
  for (Rank rank = 0; rank < ranks_; ++rank) {
    for (std::uint32_t i = 0; i < schedule(rank).steps.size(); ++i) {
      if (state(rank, i).started && step(rank, i).verb == Verb::recv &&
          state(rank, i).sender == none) {
        fail(rank, i, "deadlock: waits for ever");
      }
    }
  }
  throw Failure("deadlock");
}

void World::check_result(Shape shape) {
  const auto result = [&](Rank rank) -> const std::vector<Expression>& {
    return in_place_ ? memory(rank).input : memory(rank).output;
  };
  const auto count = static_cast<std::uint32_t>(ranks_);
  for (std::uint32_t chunk = 0; chunk < schedules_[0].chunks; ++chunk) {
    const std::string where = " (chunk " + std::to_string(chunk) + ")";
    const Expression value = result(0)[chunk];
    for (Rank rank = 0; rank < ranks_; ++rank) {
      if (result(rank)[chunk] == rubbish) throw Failure("no result" + where);
      if (result(rank)[chunk] != value) {
        throw Failure("ranks 0 and " + std::to_string(rank) + " differ" + where);
      }
    }
    if (expressions_.contributions(value) != count)
      throw Failure("wrong number of operands" + where);
    std::vector<Rank> order = expressions_.flatten(value);
    const bool ascending = std::is_sorted(order.begin(), order.end());
    std::sort(order.begin(), order.end());
    for (std::uint32_t i = 0; i < count; ++i) {
      if (order[i] != static_cast<Rank>(i)) throw Failure("not every rank once" + where);
    }
    if (shape != Shape::any && !ascending) throw Failure("not in order of rank" + where);
    if ((shape == Shape::tree && value != fixed_tree(expressions_, ranks_)) ||
        (shape == Shape::chain && value != left_chain(expressions_, ranks_))) {
      throw Failure("another association: " + expressions_.text(value) + where);
    }
  }
}

}  // namespace

Outcome check(const std::vector<Schedule>& schedules, InPlace in_place, Shape shape,
              std::uint64_t seed) {
  Outcome outcome;
  try {
    World world(schedules, in_place, seed);
    world.run();
    world.check_result(shape);
    outcome.rounds = world.rounds();
  } catch (const Failure& failure) {
    outcome.failure = std::string(failure.what()) + ", seed " + std::to_string(seed);
  }
  return outcome;
}

std::vector<Schedule> build_all(const Algorithm& algorithm, Rank size,
                                const BuildOptions& options) {
  std::vector<Schedule> schedules;
  schedules.reserve(static_cast<std::size_t>(size));
  for (Rank rank = 0; rank < size; ++rank) {
    schedules.push_back(build(algorithm, rank, size, options));
  }
  return schedules;
}

std::vector<Schedule> build_all(const Composition& composition, const Algorithm& algorithm,
                                Levels levels, const BuildOptions& options) {
  const auto size = static_cast<Rank>(levels.front().size());
  std::vector<Schedule> schedules;
  schedules.reserve(levels.front().size());
  for (Rank rank = 0; rank < size; ++rank) {
    schedules.push_back(build(composition, algorithm, rank, size, levels, options));
  }
  return schedules;
}

}  // namespace gpuar::symbolic
