#include "coll_gpuar/schedule/builder.h"

#include <algorithm>
#include <bit>
#include <stdexcept>
#include <string>

namespace gpuar {
namespace {

constexpr std::uint32_t max_message = 65535;  // 16 bits on the wire
constexpr std::size_t max_slots = 65535;      // Operand::slot

constexpr Operand input{Place::input, 0};
constexpr Operand output{Place::output, 0};

std::string text(Span span) {
  return "chunks [" + std::to_string(span.first) + ", +" + std::to_string(span.count) + ")";
}

std::uint32_t next_message(std::unordered_map<Rank, std::uint32_t>& counts, Rank peer) {
  const std::uint32_t message = counts[peer]++;
  if (message > max_message) {
    throw std::length_error("schedule: more than 65536 messages between two ranks (peer " +
                            std::to_string(peer) + ")");
  }
  return message;
}

}  // namespace

Builder::Builder(Rank rank, Rank size, std::uint32_t chunks, BuilderOptions options)
    : options_(options) {
  if (size < 1 || rank < 0 || rank >= size || chunks == 0) {
    throw std::invalid_argument("schedule: rank " + std::to_string(rank) + " of " +
                                std::to_string(size) + ", " + std::to_string(chunks) + " chunks");
  }
  schedule_.rank = rank;
  schedule_.size = size;
  schedule_.chunks = chunks;
  chunks_.resize(chunks);
}

void Builder::check(Span span) const {
  if (span.count == 0 || span.first >= schedule_.chunks ||
      span.count > schedule_.chunks - span.first) {
    throw std::invalid_argument("schedule: " + text(span) + " of " +
                                std::to_string(schedule_.chunks));
  }
}

void Builder::check(Rank peer, Span span) const {
  check(span);
  if (peer < 0 || peer >= schedule_.size || peer == schedule_.rank) {
    throw std::invalid_argument("schedule: rank " + std::to_string(schedule_.rank) + " of " +
                                std::to_string(schedule_.size) + " and peer " +
                                std::to_string(peer));
  }
}

void Builder::send(Rank peer, Span span) {
  check(peer, span);
  Step step = message(Verb::send, peer, span);
  step.source = settle(span);
  emit(step);
}

void Builder::recv(Rank peer, Span span) {
  check(peer, span);
  emit(message(Verb::recv, peer, span));
}

// Goes through the operands in order of rank with a stack, and combines the two on top as soon as
// the next operand lies outside the smallest subtree that holds both.
void Builder::recv_reduce(std::span<const Rank> peers, Span span) {
  for (std::size_t i = 0; i < peers.size(); ++i) {
    check(peers[i], span);
    if (i > 0 && peers[i - 1] >= peers[i]) {
      throw std::invalid_argument("schedule: peers of a reduction must ascend");
    }
  }
  if (peers.empty()) return;
  const Term own{settle(span), schedule_.rank};
  const auto after_own = std::upper_bound(peers.begin(), peers.end(), own.rank);

  std::vector<Term> stack;
  const auto combine_top = [&] {
    const Term right = stack.back();
    stack.pop_back();
    stack.back() = combine(stack.back(), right, span);
  };
  const auto push = [&](const Term& term) {
    while (stack.size() > 1 && height(stack[stack.size() - 2].rank, stack.back().rank) <=
                                   height(stack.back().rank, term.rank)) {
      combine_top();
    }
    stack.push_back(term);
  };
  for (auto peer = peers.begin(); peer != after_own; ++peer) push(receive(*peer, span));
  push(own);
  for (auto peer = after_own; peer != peers.end(); ++peer) push(receive(*peer, span));
  while (stack.size() > 2) combine_top();

  emit_reduce(output, stack[0].operand, stack[1].operand, span);
  release(stack[0].operand);
  release(stack[1].operand);
}

// The height, in the fixed tree over all ranks, of the smallest subtree that holds both. In a chain
// all are alike, so that operands combine as they come.
std::uint32_t Builder::height(Rank left, Rank right) const {
  if (options_.association == Association::chain) return 0;
  const auto size = static_cast<std::uint32_t>(schedule_.size);
  const std::uint32_t folded = size - std::bit_floor(size);
  const auto leaf = [folded](Rank rank) {
    const auto r = static_cast<std::uint32_t>(rank);
    return r < 2 * folded ? r / 2 : r - folded;
  };
  return static_cast<std::uint32_t>(std::bit_width(leaf(left) ^ leaf(right)));
}

Builder::Term Builder::receive(Rank peer, Span span) {
  Step step = message(Verb::recv, peer, span);
  step.target = acquire_slot();
  emit(step);
  return {step.target, peer};
}

Builder::Term Builder::combine(const Term& left, const Term& right, Span span) {
  const bool keep_left = left.operand.place == Place::slot;
  const Operand target = keep_left ? left.operand : right.operand;
  emit_reduce(target, left.operand, right.operand, span);
  if (keep_left) release(right.operand);
  return {target, right.rank};
}

Operand Builder::acquire_slot() {
  std::size_t slot = slots_.size();
  if (slots_.size() >= options_.min_slots) {
    for (std::size_t i = 0; i < slots_.size() && slot == slots_.size(); ++i) {
      const std::size_t candidate = (next_slot_ + i) % slots_.size();
      if (!slots_[candidate].live) slot = candidate;
    }
  }
  if (slot == slots_.size()) {
    if (slot == max_slots) throw std::length_error("schedule: more than 65535 scratch slots");
    slots_.emplace_back();
  }
  slots_[slot].live = true;
  next_slot_ = slot + 1;
  return {Place::slot, static_cast<std::uint16_t>(slot)};
}

void Builder::release(Operand operand) {
  if (operand.place == Place::slot) slots_[operand.slot].live = false;
}

// Where the current value of the span lies. A span of which only a part was written is made whole
// in the output first; what crosses the wire is not affected.
Operand Builder::settle(Span span) {
  const auto first = chunks_.begin() + span.first;
  const auto count = std::count_if(first, first + span.count,
                                   [](const Memory& chunk) { return chunk.writer != none; });
  if (count == 0) return input;
  if (static_cast<std::uint32_t>(count) < span.count) copy_unwritten(span);
  return output;
}

// One copy per run of chunks that nothing has written.
void Builder::copy_unwritten(Span span) {
  const std::uint32_t end = span.first + span.count;
  for (std::uint32_t chunk = span.first; chunk < end; ++chunk) {
    if (written(chunk)) continue;
    Span run{chunk, 1};
    while (run.first + run.count < end && !written(run.first + run.count)) ++run.count;
    Step step;
    step.verb = Verb::copy;
    step.source = input;
    step.span = run;
    emit(step);
    chunk = run.first + run.count - 1;
  }
}

// A send or a receive, numbered; between the output and the peer unless the caller says otherwise.
Step Builder::message(Verb verb, Rank peer, Span span) {
  Step step;
  step.verb = verb;
  step.peer = peer;
  step.message = next_message(verb == Verb::send ? sent_ : received_, peer);
  step.span = span;
  return step;
}

void Builder::emit_reduce(Operand target, Operand source, Operand other, Span span) {
  Step step;
  step.verb = Verb::reduce;
  step.target = target;
  step.source = source;
  step.other = other;
  step.span = span;
  emit(step);
}

void Builder::emit(const Step& step) {
  schedule_.steps.push_back(step);
  last_edge_.push_back(none);
  if (step.verb != Verb::recv) read(step.source, step.span);
  if (step.verb == Verb::reduce) read(step.other, step.span);
  if (step.verb != Verb::send) write(step.target, step.span);
}

void Builder::read(Operand operand, Span span) {
  if (operand.place == Place::slot) return read(slots_[operand.slot].memory);
  for (std::uint32_t i = 0; i < span.count; ++i) read(chunks_[span.first + i]);
}

void Builder::write(Operand operand, Span span) {
  if (operand.place != Place::slot) {
    for (std::uint32_t i = 0; i < span.count; ++i) write(chunks_[span.first + i]);
    return;
  }
  write(slots_[operand.slot].memory);
  schedule_.slot_chunks = std::max(schedule_.slot_chunks, span.count);
}

void Builder::read(Memory& memory) {
  depend_on(memory.writer);
  readers_.push_back({static_cast<std::uint32_t>(schedule_.steps.size() - 1), memory.readers});
  memory.readers = static_cast<std::uint32_t>(readers_.size() - 1);
}

void Builder::write(Memory& memory) {
  depend_on(memory.writer);
  for (std::uint32_t i = memory.readers; i != none; i = readers_[i].next) {
    depend_on(readers_[i].step);
  }
  memory = {.writer = static_cast<std::uint32_t>(schedule_.steps.size() - 1)};
}

void Builder::depend_on(std::uint32_t step) {
  const auto current = static_cast<std::uint32_t>(schedule_.steps.size() - 1);
  if (step == none || step == current || last_edge_[step] == current) return;
  last_edge_[step] = current;
  edges_.emplace_back(step, current);
}

Schedule Builder::finish() && {
  copy_unwritten({0, schedule_.chunks});
  schedule_.slots = static_cast<std::uint32_t>(slots_.size());
  index_successors();
  index_receives();
  return std::move(schedule_);
}

// Counting sort of the edges by their earlier step.
void Builder::index_successors() {
  auto& steps = schedule_.steps;
  for (const auto& [earlier, later] : edges_) {
    ++steps[earlier].successor_count;
    ++steps[later].dependencies;
  }
  std::uint32_t first = 0;
  for (std::uint32_t i = 0; i < steps.size(); ++i) {
    steps[i].first_successor = first;
    first += steps[i].successor_count;
    steps[i].successor_count = 0;
    if (steps[i].dependencies == 0) schedule_.initial.push_back(i);
  }
  schedule_.successors.resize(first);
  for (const auto& [earlier, later] : edges_) {
    Step& step = steps[earlier];
    schedule_.successors[step.first_successor + step.successor_count++] = later;
  }
}

void Builder::index_receives() {
  for (const auto& [peer, count] : received_) schedule_.receives.push_back({peer, 0, count});
  std::sort(schedule_.receives.begin(), schedule_.receives.end(),
            [](const PeerReceives& a, const PeerReceives& b) { return a.peer < b.peer; });
  std::uint32_t first = 0;
  for (PeerReceives& entry : schedule_.receives) {
    entry.first = first;
    first += entry.count;
    received_[entry.peer] = entry.first;
  }
  schedule_.recv_steps.resize(first);
  for (std::uint32_t i = 0; i < schedule_.steps.size(); ++i) {
    const Step& step = schedule_.steps[i];
    if (step.verb == Verb::recv) schedule_.recv_steps[received_[step.peer] + step.message] = i;
  }
}

}  // namespace gpuar
