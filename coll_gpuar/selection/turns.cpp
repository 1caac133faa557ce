#include "coll_gpuar/selection/turns.h"

#include "coll_gpuar/selection/rates.h"
#include "coll_gpuar/selection/saturating.h"

namespace gpuar {
namespace {

// More ranks than this overload a machine whatever they do, and counting takes their square.
constexpr Rank most_ranks = 64;

// Counts what one rank does.
class Counter final : public Sink {
 public:
  Counter(const Level& host_of, Rank rank, Work& work)
      : host_of_(host_of), host_(host(rank)), work_(work) {}

  void send(Rank peer, Span span) override {
    const bool crosses = host(peer) != host_;
    ++(crosses ? work_.crossings : work_.messages);
    (crosses ? work_.crossed : work_.moved) += span.count;
  }
  void recv(Rank /*peer*/, Span /*span*/) override {}
  void recv_reduce(std::span<const Rank> peers, Span span) override {
    work_.reduced += peers.size() * span.count;
  }

 private:
  [[nodiscard]] std::int32_t host(Rank rank) const {
    return host_of_[static_cast<std::size_t>(rank)];
  }

  const Level& host_of_;
  std::int32_t host_;
  Work& work_;
};

// Ranks in so many groups, evenly and one after the other.
Level even_groups(Rank ranks, std::uint32_t groups) {
  Level group_of;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    group_of.push_back(static_cast<std::int32_t>(rank * groups / ranks));
  }
  return group_of;
}

}  // namespace

Work work_of(const Choice& choice, const CallShape& shape) {
  const LayoutSummary& layout = shape.layout;
  const Composition& composition = compositions()[choice.composition];
  const Algorithm& algorithm = algorithms()[choice.algorithm];
  const bool of_parts = layout.hosts < 2 && composition.has_parts;
  // What the parts of several hosts do stays within these.
  const std::uint32_t groups = of_parts ? layout.parts : layout.hosts;
  const Level host_of = even_groups(shape.ranks, layout.hosts);
  const Level group_of = of_parts ? even_groups(shape.ranks, groups) : host_of;
  const Levels levels(&group_of, 1);
  const Rank across = choice.composition == flat ? shape.ranks : static_cast<Rank>(groups);
  const std::uint32_t chunks = composition.pieces(levels, shape.ranks) * algorithm.chunks(across);
  Work work{.chunks = chunks};
  for (Rank rank = 0; rank < shape.ranks; ++rank) {
    Counter counter(host_of, rank, work);
    composition.narrate({rank, shape.ranks, {0, chunks}}, levels, {algorithm, choice.radix},
                        counter);
  }
  return work;
}

Turns::Turns(const Choice& way, const CallShape& shape, const Machine& machine)
    : shape_(shape), machine_(machine) {
  const LayoutSummary& layout = shape.layout;
  if (layout.shared_threads == 0) return;
  one_host_ = layout.hosts < 2 && shape.ranks <= most_ranks && !machine.moves_by_itself;
  if (one_host_) {
    work_ = work_of(way, shape);
    const ComposedCost cost = cost_of(way, shape);
    rounds_ = cost.within.front().rounds + cost.within.back().rounds + cost.across.rounds;
    shape_.layout.oversubscribed = false;
  } else if (layout.hosts > 1) {
    if (shape.ranks <= most_ranks) work_ = work_of(way, shape);
    between_hosts_ = work_between_hosts();
  }
}

std::uint64_t Turns::unit_of(std::uint64_t bytes) const {
  const std::uint64_t element = element_of(shape_);
  return times(divide_up(divide_up(bytes, element), work_.chunks), element);
}

// Beyond some size the speed of links decides, not the number of messages.
std::uint64_t Turns::work_between_hosts() const {
  const bool counts = work_.crossings != 0 && shape_.bytes <= machine_.crossing_bytes;
  const std::uint64_t fewest = 2 * (std::uint64_t{shape_.layout.hosts} - 1);
  const std::uint64_t messages = counts ? work_.crossings : fewest;
  const std::uint64_t bytes = times(work_.crossed, unit_of(shape_.bytes));
  return plus(times(messages, machine_.crossing), times(bytes, machine_.crossing_byte)) /
         shape_.layout.shared_threads;
}

std::uint64_t Turns::work_for(std::uint64_t bytes) const {
  const std::uint64_t unit = unit_of(bytes);
  const std::uint64_t moved = times(work_.moved, unit);
  const Link link = for_messages_of(moved / std::max<std::uint64_t>(work_.messages, 1),
                                    rated(machine_.shared_memory, 1, shape_, bytes, machine_));
  const std::uint64_t moving = plus(times(work_.messages, link.message), times(moved, link.byte));
  const std::uint64_t reducing =
      times(times(work_.reduced, unit), reduce_rate(shape_, bytes, machine_));
  return plus(moving, reducing) / shape_.layout.shared_threads;
}

// Work on m cores takes at least its m-th part, and at most (1 - 1/m) of its longest chain more
// (Graham, Bounds on multiprocessing timing anomalies, 1969): taken to be halfway between. Chains
// are those of the segments in flight.
std::uint64_t Turns::on_one_host(const Choice& choice) const {
  const std::uint64_t threads = shape_.layout.shared_threads;
  const auto [bytes, whole, rest] = segments_of(choice, shape_);
  const std::uint64_t work = plus(times(whole, work_for(bytes)), rest == 0 ? 0 : work_for(rest));

  CallShape segment = shape_;
  segment.bytes = bytes;
  const std::uint64_t chain = gpuar::predict(choice, segment, machine_);
  const auto ranks = static_cast<std::uint64_t>(shape_.ranks);
  const std::uint64_t turns = times(times(rounds_, ranks), machine_.turn) / threads;
  const std::uint64_t waits = plus(turns, times(chain, threads - 1) / (2 * threads));
  return plus(work, times(waits, divide_up(whole + (rest != 0 ? 1 : 0), choice.depth)));
}

std::uint64_t Turns::predict(const Choice& choice) const {
  if (one_host_) return on_one_host(choice);
  return plus(gpuar::predict(choice, shape_, machine_), between_hosts_);
}

}  // namespace gpuar
