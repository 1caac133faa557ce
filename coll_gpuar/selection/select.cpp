#include "coll_gpuar/selection/select.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>

#include "coll_gpuar/selection/saturating.h"
#include "coll_gpuar/selection/turns.h"

namespace gpuar {
namespace {

constexpr std::array<std::uint32_t, 5> radices{2, 4, 8, 16, 32};
// 60 KiB times powers of two: what a fragment of shared memory takes, and room for uneven parts.
constexpr std::uint64_t smallest_segment = 30720;

// What is chosen before radix and segments.
struct Way {
  std::uint32_t composition = flat;
  std::uint32_t algorithm = 0;
  friend bool operator==(const Way&, const Way&) = default;

  [[nodiscard]] const Composition& composed() const { return compositions()[composition]; }
  [[nodiscard]] const Algorithm& across() const { return algorithms()[algorithm]; }
  [[nodiscard]] bool has_radix() const { return composed().has_radix || across().has_radix; }
};

Way way_of(const Choice& choice) {
  return {choice.composition, choice.algorithm};
}

std::uint64_t whole_elements(std::uint64_t segment_bytes, const CallShape& shape) {
  const std::uint64_t element = element_of(shape);
  return std::max(segment_bytes / element * element, element);
}

std::optional<Choice::Reason> refusal(const Way& way, const CallShape& shape) {
  const LayoutSummary& layout = shape.layout;
  const Algorithm& algorithm = way.across();
  Rank ranks = shape.ranks;
  Rank at_once = 1;  // messages to one peer where the algorithm by itself has one
  Grouping groups = Grouping::subtrees;
  if (way.composition != flat) {
    if (layout.max_ranks_per_host < 2) return Choice::Reason::no_groups;
    if (layout.hosts < 2 && !way.composed().has_parts) return Choice::Reason::no_groups;
    if (layout.parts == 0 && way.composed().has_parts) return Choice::Reason::no_parts;
    const std::vector<GroupSizes> levels = group_sizes_of(way.composed(), layout, shape.ranks);
    ranks = levels.back().groups;
    for (const GroupSizes& level : levels) at_once *= static_cast<Rank>(pieces_of_one(level));
    groups = way.composed().has_parts ? layout.parts_are : Grouping::subtrees;
    if (layout.hosts > 1) groups = std::min(groups, layout.hosts_are);
  }
  if (!shape.commutative && !(algorithm.keeps_rank_order && groups >= Grouping::runs)) {
    return Choice::Reason::breaks_rank_order;
  }
  if (shape.reproducible && !(algorithm.reproducible && groups >= Grouping::subtrees)) {
    return Choice::Reason::not_reproducible;
  }
  if (ranks > algorithm.max_size / at_once) return Choice::Reason::too_many_ranks;
  return std::nullopt;
}

// Segments in flight hide each other's latencies. Where one core copies and reduces and a segment
// takes a single round, nothing is left to hide, and a second one only costs cache. What is
// composed of parts keeps each of them busy with another segment.
std::uint64_t default_depth(const Choice& choice, const CallShape& shape, const Machine& machine) {
  const bool overlaps = shape.layout.hosts > 1 || machine.moves_by_itself;
  std::uint64_t depth = machine.depth;
  if (choice.composition != flat) {
    depth = 2 * depth;
  } else if (!overlaps && cost_of(choice, shape).across.rounds == 1) {
    depth = 1;
  }
  return std::min(depth, machine.most_in_flight / choice.segment_bytes);
}

Choice cheapest_segments(const Way& way, std::uint32_t radix, const CallShape& shape,
                         const Forced& forced, const Machine& machine) {
  Choice best{.algorithm = way.algorithm, .radix = radix, .composition = way.composition};
  const Turns turns(best, shape, machine);
  best.predicted_ps = most;
  const auto consider = [&](std::uint64_t segment_bytes) {
    Choice choice{way.algorithm,  radix, whole_elements(segment_bytes, shape), 1, 0, {},
                  way.composition};
    const std::uint64_t segments = divide_up(shape.bytes, choice.segment_bytes);
    const std::uint64_t depth =
        forced.depth != 0 ? forced.depth : default_depth(choice, shape, machine);
    choice.depth = static_cast<std::uint32_t>(
        std::clamp<std::uint64_t>(depth, 1, std::max<std::uint64_t>(segments, 1)));
    choice.predicted_ps = turns.predict(choice);
    if (choice.predicted_ps < best.predicted_ps || best.predicted_ps == most) best = choice;
  };
  if (forced.segment_bytes != 0) {
    consider(std::min(forced.segment_bytes, std::max<std::uint64_t>(shape.bytes, 1)));
    return best;
  }
  if (shape.bytes <= machine.largest_segment) consider(shape.bytes);
  for (std::uint64_t bytes = machine.largest_segment; bytes >= smallest_segment; bytes /= 2) {
    if (bytes < shape.bytes) consider(bytes);
  }
  return best;
}

// Over radices and segments; the earlier one wins a tie.
Choice cheapest(const Way& way, const CallShape& shape, const Forced& forced,
                const Machine& machine) {
  if (forced.radix != 0 || !way.has_radix()) {
    return cheapest_segments(way, forced.radix != 0 ? forced.radix : radices[0], shape, forced,
                             machine);
  }
  Choice best;
  best.predicted_ps = most;
  for (const std::uint32_t radix : radices) {
    if (radix > 2 && radix / 2 >= static_cast<std::uint32_t>(shape.ranks))
      break;  // no wider than the one before
    const Choice choice = cheapest_segments(way, radix, shape, forced, machine);
    if (choice.predicted_ps < best.predicted_ps || radix == radices[0]) best = choice;
  }
  return best;
}

bool is_asked_for(const Way& way, const Forced& forced) {
  return (forced.algorithm == nullptr || forced.algorithm == &way.across()) &&
         (forced.composition == nullptr || forced.composition == &way.composed());
}

// Calls function(way) for all that there are, in a fixed order.
template <class Function>
void for_each_way(Function function) {
  for (std::uint32_t composition = 0; composition < compositions().size(); ++composition) {
    for (std::uint32_t algorithm = 0; algorithm < algorithms().size(); ++algorithm) {
      function(Way{composition, algorithm});
    }
  }
}

// The cheapest of all that serve the shape and are asked for, leaving out `except`.
std::optional<Choice> cheapest_of_all(const CallShape& shape, const Forced& forced,
                                      const Machine& machine, std::optional<Way> except = {}) {
  std::optional<Choice> best;
  for_each_way([&](const Way& way) {
    if (way == except || !is_asked_for(way, forced) || refusal(way, shape)) return;
    const Choice choice = cheapest(way, shape, forced, machine);
    if (!best || choice.predicted_ps < best->predicted_ps) best = choice;
  });
  return best;
}

// Why nothing that is asked for serves: what stands in the way of the first. If that is its number
// of ranks, an algorithm was named.
Choice::Reason refusal_of_all(const CallShape& shape, const Forced& forced) {
  std::optional<Choice::Reason> reason;
  for_each_way([&](const Way& way) {
    if (!reason && is_asked_for(way, forced)) reason = refusal(way, shape);
  });
  return reason.value_or(Choice::Reason::forced);
}

// The same, but free to choose the way.
Forced any_way(Forced forced) {
  forced.algorithm = nullptr;
  forced.composition = nullptr;
  return forced;
}

bool is_free(const Forced& forced) {
  return forced.algorithm == nullptr && forced.composition == nullptr;
}

std::string microseconds(std::uint64_t ps) {
  std::array<char, 40> text{};
  std::snprintf(text.data(), text.size(), "%llu.%llu us",
                static_cast<unsigned long long>(ps / 1'000'000),
                static_cast<unsigned long long>(ps / 100'000 % 10));
  return text.data();
}

std::string asked_for(const Forced& forced) {
  if (forced.composition == nullptr) return std::string(forced.algorithm->name);
  if (forced.algorithm == nullptr) return std::string(forced.composition->name);
  if (forced.composition == &compositions()[flat]) return std::string(forced.algorithm->name);
  return std::string(forced.composition->name) + ":" + std::string(forced.algorithm->name);
}

std::string reason_text(Choice::Reason reason, const Forced& forced) {
  if (is_free(forced) || reason == Choice::Reason::cheapest) return "least predicted time";
  const std::string by = forced.by.empty() ? "" : " by " + forced.by;
  const std::string but = asked_for(forced) + " was asked for" + by + ", but ";
  switch (reason) {
    case Choice::Reason::cheapest:
    case Choice::Reason::forced:
      break;
    case Choice::Reason::breaks_rank_order:
      return but + "does not keep the order of ranks that a non-commutative operation needs";
    case Choice::Reason::not_reproducible:
      return but + "does not follow the one association that reproducible asks for";
    case Choice::Reason::too_many_ranks:
      return but + "serves at most " + std::to_string(forced.algorithm->max_size) +
             " ranks or nodes of equal size";
    case Choice::Reason::no_groups:
      return but + "needs several nodes, one of them with several ranks";
    case Choice::Reason::no_parts:
      return but +
             "needs a node with several packages or NUMA domains, to which ranks are bound, "
             "one of them with several ranks";
  }
  return "asked for" + by;
}

}  // namespace

LayoutSummary summary_of(Levels levels) {
  LayoutSummary layout;
  const std::vector<GroupSizes> sizes = sizes_of(levels);
  const GroupSizes hosts = sizes_of(levels.back());
  layout.hosts = static_cast<std::uint32_t>(hosts.groups);
  layout.max_ranks_per_host = static_cast<std::uint32_t>(hosts.largest);
  layout.min_ranks_per_host = static_cast<std::uint32_t>(hosts.smallest);
  layout.hosts_are = grouping_of(levels.back());
  if (levels.size() < 2) return layout;
  layout.parts = static_cast<std::uint32_t>(sizes.front().groups);
  layout.max_ranks_per_part = static_cast<std::uint32_t>(sizes.front().largest);
  layout.min_ranks_per_part = static_cast<std::uint32_t>(sizes.front().smallest);
  layout.max_parts_per_host = static_cast<std::uint32_t>(sizes.back().largest);
  layout.min_parts_per_host = static_cast<std::uint32_t>(sizes.back().smallest);
  layout.parts_are = grouping_of(levels.front());
  return layout;
}

Choice select(const CallShape& shape, const Forced& forced, const Machine& machine) {
  if (auto choice = cheapest_of_all(shape, forced, machine)) {
    if (!is_free(forced)) choice->reason = Choice::Reason::forced;
    return *choice;
  }
  // Some algorithm always serves.
  Choice choice = *cheapest_of_all(shape, any_way(forced), machine);
  choice.reason = refusal_of_all(shape, forced);
  return choice;
}

std::string name_of(const Choice& choice) {
  const Way way = way_of(choice);
  const std::string across(way.across().name);
  return choice.composition == flat ? across : std::string(way.composed().name) + ":" + across;
}

std::string describe(const Choice& choice) {
  const Way way = way_of(choice);
  const std::string radix = " of radix " + std::to_string(choice.radix);
  std::string across(way.across().name);
  if (way.across().has_radix && choice.radix != 2) across += radix;
  if (choice.composition == flat) return across;
  const std::string text = std::string(way.composed().name) + " with " + across + " across";
  return way.composed().has_radix ? text + ", trees" + radix : text;
}

std::string explain(const Choice& choice, const CallShape& shape, const Forced& forced,
                    const Machine& machine) {
  const std::string why = reason_text(choice.reason, forced);
  const std::uint64_t segments =
      std::max<std::uint64_t>(divide_up(shape.bytes, choice.segment_bytes), 1);
  std::string text = describe(choice) + ", " + std::to_string(segments) +
                     (segments == 1 ? " segment" : " segments") + " of " +
                     std::to_string(std::min(choice.segment_bytes, shape.bytes)) + " bytes, " +
                     std::to_string(choice.depth) + " in flight: " + why + " (" +
                     microseconds(choice.predicted_ps);
  if (const auto next = cheapest_of_all(shape, any_way(forced), machine, way_of(choice))) {
    text += "; otherwise " + describe(*next) + ", " + microseconds(next->predicted_ps);
  }
  return text + ")";
}

bool parse_algorithm(std::string_view name, Forced& forced, std::string& why) {
  forced.algorithm = nullptr;
  forced.composition = nullptr;
  if (name == "auto") return true;
  const auto colon = name.find(':');
  forced.composition = find_composition(name.substr(0, colon));
  if (forced.composition != nullptr && colon == std::string_view::npos) return true;
  forced.algorithm =
      find_algorithm(colon == std::string_view::npos ? name : name.substr(colon + 1));
  if (colon == std::string_view::npos) forced.composition = &compositions()[flat];
  if (forced.composition != nullptr && forced.algorithm != nullptr) return true;
  why = "unknown algorithm \"" + std::string(name) + "\"; valid are auto, " + algorithm_names();
  for (const Composition& composition : compositions().subspan(1)) {
    why += ", " + std::string(composition.name);
  }
  why += "; and one of the latter with one of the former, as in hierarchy:ring";
  return false;
}

}  // namespace gpuar
