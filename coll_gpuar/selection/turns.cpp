#include "coll_gpuar/selection/turns.h"

#include "coll_gpuar/selection/saturating.h"

namespace gpuar {
namespace {

// More ranks than this overload a machine whatever they do, and counting takes their square.
constexpr Rank most_ranks = 64;

// Counts what one rank sends to other hosts.
class Counter final : public Sink {
 public:
  Counter(const Level& host_of, Rank rank) : host_of_(host_of), host_(host(rank)) {}

  void send(Rank peer, Span /*span*/) override { count_ += host(peer) != host_ ? 1 : 0; }
  void recv(Rank /*peer*/, Span /*span*/) override {}
  void recv_reduce(std::span<const Rank> /*peers*/, Span /*span*/) override {}

  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  [[nodiscard]] std::int32_t host(Rank rank) const {
    return host_of_[static_cast<std::size_t>(rank)];
  }

  const Level& host_of_;
  std::int32_t host_;
  std::uint64_t count_ = 0;
};

}  // namespace

std::uint64_t crossings(const Choice& choice, const CallShape& shape) {
  const auto hosts = static_cast<Rank>(shape.layout.hosts);
  Level host_of;
  for (std::int64_t rank = 0; rank < shape.ranks; ++rank) {
    host_of.push_back(static_cast<std::int32_t>(rank * hosts / shape.ranks));
  }
  const Composition& composition = compositions()[choice.composition];
  const Algorithm& algorithm = algorithms()[choice.algorithm];
  const Levels levels(&host_of, 1);  // what the parts of hosts do stays within them
  const Rank across = choice.composition == flat ? shape.ranks : hosts;
  const std::uint32_t chunks = composition.pieces(levels, shape.ranks) * algorithm.chunks(across);
  std::uint64_t count = 0;
  for (Rank rank = 0; rank < shape.ranks; ++rank) {
    Counter counter(host_of, rank);
    composition.narrate({rank, shape.ranks, {0, chunks}}, levels, {algorithm, choice.radix},
                        counter);
    count += counter.count();
  }
  return count;
}

std::uint64_t turns(const Choice& choice, const CallShape& shape, const Machine& machine) {
  const LayoutSummary& layout = shape.layout;
  if (layout.shared_threads == 0 || layout.hosts < 2) return 0;
  const bool counts = shape.ranks <= most_ranks && shape.bytes <= machine.crossing_bytes;
  const std::uint64_t fewest = 2 * (std::uint64_t{layout.hosts} - 1);
  const std::uint64_t messages = counts ? crossings(choice, shape) : fewest;
  return times(messages, machine.crossing) / layout.shared_threads;
}

}  // namespace gpuar
