#include "coll_gpuar/selection/select.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <optional>

namespace gpuar {
namespace {

constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint32_t default_depth = 2;
constexpr std::array<std::uint32_t, 3> radices{2, 4, 8};
constexpr std::uint64_t smallest_segment = 16384;
constexpr std::uint64_t largest_segment = 4194304;

std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? most : product;
}

std::uint64_t plus(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? most : sum;
}

std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

std::uint64_t element_of(const CallShape& shape) {
  return std::max<std::uint64_t>(shape.element_bytes, 1);
}

std::uint64_t whole_elements(std::uint64_t segment_bytes, const CallShape& shape) {
  const std::uint64_t element = element_of(shape);
  return std::max(segment_bytes / element * element, element);
}

Link link_of(const CallShape& shape, const Algorithm& algorithm, const Machine& machine) {
  Link link = shape.layout.hosts > 1 ? machine.network : machine.shared_memory;
  if (shape.layout.hosts > 1 && algorithm.crowds_links) {
    link.byte = times(link.byte, std::max<std::uint32_t>(shape.layout.max_ranks_per_host, 1));
  }
  if (shape.layout.oversubscribed) link.latency = plus(link.latency, machine.oversubscribed);
  return link;
}

// What one segment takes: from its start to its end, and of the resource that it uses most.
struct SegmentTime {
  std::uint64_t all = 0;
  std::uint64_t busiest = 0;
};

SegmentTime segment_time(const Cost& cost, const Link& link, std::uint64_t bytes,
                         const CallShape& shape, const Machine& machine) {
  const bool from_memory = shape.bytes > machine.cached_message;
  const std::uint64_t uncached = (from_memory ? machine.uncached_byte : 0) +
                                 (bytes > machine.cached_segment ? machine.uncached_byte : 0);
  const std::uint64_t forwarding = from_memory ? 0 : link.forwarded;
  const std::uint64_t link_byte = plus(link.byte, uncached);
  const std::uint64_t reduce_byte =
      plus(shape.custom ? machine.custom_byte : machine.reduce_byte, uncached);
  const std::uint64_t element = element_of(shape);
  const std::uint64_t unit = times(divide_up(divide_up(bytes, element), cost.parts), element);

  const std::uint64_t messages = times(cost.messages, link.message);
  const std::uint64_t reduction = times(times(cost.reduced, unit), reduce_byte);
  // All rounds but the first send what was just received or reduced.
  const auto on_the_wire = [&](std::uint64_t units) {
    const std::uint64_t bytes_sent = times(units, unit);
    const std::uint64_t forwarded = times(bytes_sent / cost.rounds, cost.rounds - 1);
    return plus(times(bytes_sent, link_byte), times(forwarded, forwarding));
  };
  const std::uint64_t wire = on_the_wire(cost.wire);
  const std::uint64_t sending = on_the_wire(cost.sent);

  SegmentTime time;
  time.all = plus(plus(times(cost.rounds, link.latency), messages), plus(wire, reduction));
  // Shared memory is copied by the core that also reduces; a network moves data on its own.
  time.busiest = plus(
      messages, shape.layout.hosts > 1 ? std::max(sending, reduction) : plus(sending, reduction));
  return time;
}

std::optional<Choice::Reason> refusal(const Algorithm& algorithm, const CallShape& shape) {
  if (shape.ranks > algorithm.max_size) return Choice::Reason::too_many_ranks;
  if (!shape.commutative && !algorithm.keeps_rank_order) return Choice::Reason::breaks_rank_order;
  if (shape.reproducible && !algorithm.reproducible) return Choice::Reason::not_reproducible;
  return std::nullopt;
}

Choice cheapest_segments(std::uint32_t index, std::uint32_t radix, const CallShape& shape,
                         const Forced& forced, const Machine& machine) {
  Choice best;
  best.predicted_ps = most;
  const auto consider = [&](std::uint64_t segment_bytes) {
    Choice choice{index, radix, whole_elements(segment_bytes, shape), 1, 0, {}};
    const std::uint64_t segments = divide_up(shape.bytes, choice.segment_bytes);
    const std::uint64_t depth = forced.depth != 0 ? forced.depth : default_depth;
    choice.depth = static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(depth, 1, std::max<std::uint64_t>(segments, 1)));
    choice.predicted_ps =
        predict(algorithms()[index], radix, choice.segment_bytes, choice.depth, shape, machine);
    if (choice.predicted_ps < best.predicted_ps || best.predicted_ps == most) best = choice;
  };
  if (forced.segment_bytes != 0) {
    consider(std::min(forced.segment_bytes, std::max<std::uint64_t>(shape.bytes, 1)));
    return best;
  }
  if (shape.bytes <= largest_segment) consider(shape.bytes);
  for (std::uint64_t bytes = largest_segment; bytes >= smallest_segment; bytes /= 2) {
    if (bytes < shape.bytes) consider(bytes);
  }
  return best;
}

// Over radices and segments; the earlier one wins a tie.
Choice cheapest(std::uint32_t index, const CallShape& shape, const Forced& forced,
                const Machine& machine) {
  if (forced.radix != 0 || !algorithms()[index].has_radix) {
    return cheapest_segments(index, forced.radix != 0 ? forced.radix : radices[0], shape, forced,
                             machine);
  }
  Choice best;
  best.predicted_ps = most;
  for (const std::uint32_t radix : radices) {
    const Choice choice = cheapest_segments(index, radix, shape, forced, machine);
    if (choice.predicted_ps < best.predicted_ps || radix == radices[0]) best = choice;
  }
  return best;
}

// The cheapest of all that serve the shape, leaving out `except`. Some always serve.
std::optional<Choice> cheapest_of_all(const CallShape& shape, const Forced& forced,
                                      const Machine& machine,
                                      std::optional<std::uint32_t> except = {}) {
  std::optional<Choice> best;
  for (std::uint32_t i = 0; i < algorithms().size(); ++i) {
    if (i == except || refusal(algorithms()[i], shape)) continue;
    const Choice choice = cheapest(i, shape, forced, machine);
    if (!best || choice.predicted_ps < best->predicted_ps) best = choice;
  }
  return best;
}

std::string microseconds(std::uint64_t ps) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%llu.%llu us",
                static_cast<unsigned long long>(ps / 1'000'000),
                static_cast<unsigned long long>(ps / 100'000 % 10));
  return text.data();
}

std::string reason_text(Choice::Reason reason, const Algorithm* forced) {
  if (forced == nullptr || reason == Choice::Reason::cheapest) return "least predicted time";
  const std::string but = std::string(forced->name) + " was asked for, but ";
  switch (reason) {
    case Choice::Reason::cheapest:
    case Choice::Reason::forced:
      break;
    case Choice::Reason::breaks_rank_order:
      return but + "does not keep the order of ranks that a non-commutative operation needs";
    case Choice::Reason::not_reproducible:
      return but + "does not follow the one association that reproducible asks for";
    case Choice::Reason::too_many_ranks:
      return but + "serves at most " + std::to_string(forced->max_size) + " ranks";
  }
  return "asked for";
}

std::string described(const Choice& choice) {
  const Algorithm& algorithm = algorithms()[choice.algorithm];
  std::string text(algorithm.name);
  if (algorithm.has_radix) text += " of radix " + std::to_string(choice.radix);
  return text;
}

}  // namespace

std::uint64_t predict(const Algorithm& algorithm, std::uint32_t radix, std::uint64_t segment_bytes,
                      std::uint32_t depth, const CallShape& shape, const Machine& machine) {
  const Cost cost = algorithm.cost(shape.ranks, radix);
  const Link link = link_of(shape, algorithm, machine);
  const std::uint64_t segments = std::max<std::uint64_t>(divide_up(shape.bytes, segment_bytes), 1);
  const SegmentTime time =
      segment_time(cost, link, std::min(segment_bytes, shape.bytes), shape, machine);
  const std::uint64_t interval = std::max(time.busiest, divide_up(time.all, depth));
  return plus(time.all, times(segments - 1, interval));
}

Choice select(const CallShape& shape, const Forced& forced, const Machine& machine) {
  if (forced.algorithm == nullptr) return *cheapest_of_all(shape, forced, machine);
  const auto reason = refusal(*forced.algorithm, shape);
  Choice choice;
  if (reason) {
    choice = *cheapest_of_all(shape, forced, machine);
  } else {
    const auto index = static_cast<std::uint32_t>(forced.algorithm - algorithms().data());
    choice = cheapest(index, shape, forced, machine);
  }
  choice.reason = reason.value_or(Choice::Reason::forced);
  return choice;
}

std::string explain(const Choice& choice, const CallShape& shape, const Forced& forced,
                    const Machine& machine) {
  const std::string why = reason_text(choice.reason, forced.algorithm);
  const std::uint64_t segments =
      std::max<std::uint64_t>(divide_up(shape.bytes, choice.segment_bytes), 1);
  std::string text = described(choice) + ", " + std::to_string(segments) +
                     (segments == 1 ? " segment" : " segments") + " of " +
                     std::to_string(std::min(choice.segment_bytes, shape.bytes)) + " bytes, " +
                     std::to_string(choice.depth) + " in flight: " + why + " (" +
                     microseconds(choice.predicted_ps);
  if (const auto next = cheapest_of_all(shape, forced, machine, choice.algorithm)) {
    text += "; otherwise " + described(*next) + ", " + microseconds(next->predicted_ps);
  }
  return text + ")";
}

bool parse_algorithm(std::string_view name, const Algorithm*& algorithm, std::string& why) {
  algorithm = find_algorithm(name);
  if (algorithm != nullptr || name == "auto") return true;
  why = "unknown algorithm \"" + std::string(name) + "\"; valid are auto, " + algorithm_names();
  return false;
}

}  // namespace gpuar
