#include "topo/layout.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace gpuar {
namespace {

// Cuts the ranks of one host into nodes, or those of a node into packages, as they come by.
class Cutter {
 public:
  // The part of the next rank; `parts` counts those of the communicator.
  std::int32_t next(const Pretended::Sizes& sizes, std::int32_t& parts) {
    const bool full = !sizes.empty() && used_ == sizes[block_ % sizes.size()];
    if (part_ < 0 || full) {
      if (full) ++block_;
      used_ = 0;
      part_ = parts++;
    }
    ++used_;
    return part_;
  }

 private:
  std::int32_t part_ = -1;
  std::int32_t used_ = 0;  // ranks in that part so far
  std::size_t block_ = 0;  // index into the sizes, without the wrap
};

// Ranks with one binding share its hardware threads; all ranks of a host share the host's.
bool is_oversubscribed(std::span<const ProcessPlace* const> members) {
  using Binding = std::tuple<std::uint64_t, std::int32_t, std::int32_t>;
  std::map<Binding, std::int32_t> per_binding;
  std::unordered_map<std::uint64_t, std::int32_t> per_host;
  const auto exceeds = [](std::int32_t ranks, std::int32_t threads) {
    return threads > 0 && ranks > threads;
  };
  return std::any_of(members.begin(), members.end(), [&](const ProcessPlace* place) {
    return exceeds(++per_host[place->host_id], place->host_threads) ||
           exceeds(++per_binding[{place->host_id, place->core, place->threads}], place->threads);
  });
}

std::int32_t shared_threads(std::span<const ProcessPlace* const> members) {
  if (members.empty()) return 0;
  const ProcessPlace& first = *members.front();
  const bool one_machine = std::all_of(members.begin(), members.end(), [&](const auto* place) {
    return machine_of(place->host_id) == machine_of(first.host_id) &&
           place->host_threads == first.host_threads;
  });
  const bool overloaded = static_cast<std::int64_t>(members.size()) > first.host_threads;
  return one_machine && overloaded ? std::max(first.host_threads, 0) : 0;
}

std::uint64_t cache_per_rank(std::span<const ProcessPlace* const> members) {
  struct Host {
    std::uint64_t ranks = 0;
    std::uint64_t bytes = 0;
  };
  std::unordered_map<std::uint64_t, Host> hosts;
  for (const ProcessPlace* place : members) {
    Host& host = hosts[place->host_id];
    ++host.ranks;
    host.bytes = static_cast<std::uint64_t>(std::max(place->host_cache_kib, 0)) << 10;
  }
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (const auto& [id, host] : hosts) least = std::min(least, host.bytes / host.ranks);
  return hosts.empty() ? 0 : least;
}

using Members = std::span<const ProcessPlace* const>;

std::size_t at(std::int32_t number) {
  return static_cast<std::size_t>(number);
}

// Counts what Partition::of says.
Partition counted(std::vector<std::int32_t> of) {
  Partition partition;
  std::vector<std::int32_t> ranks;
  for (const std::int32_t group : of) {
    if (at(group) >= ranks.size()) ranks.resize(at(group) + 1);
    ++ranks[at(group)];
  }
  partition.count = static_cast<std::int32_t>(ranks.size());
  if (!ranks.empty()) {
    const auto [smallest, largest] = std::minmax_element(ranks.begin(), ranks.end());
    partition.smallest = *smallest;
    partition.largest = *largest;
  }
  partition.of = std::move(of);
  return partition;
}

// Divides groups by an index; not those in which somebody's index is unknown.
Partition divide(const std::vector<std::int32_t>& groups, Members members,
                 std::int32_t ProcessPlace::*index) {
  std::vector<char> whole(groups.size(), 0);  // by group
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    if (members[rank]->*index < 0) whole[at(groups[rank])] = 1;
  }
  std::map<std::pair<std::int32_t, std::int32_t>, std::int32_t> numbers;
  std::vector<std::int32_t> of(groups.size());
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    const std::int32_t group = groups[rank];
    const std::int32_t part = whole[at(group)] != 0 ? -1 : members[rank]->*index;
    const auto next = static_cast<std::int32_t>(numbers.size());
    of[rank] = numbers.try_emplace({group, part}, next).first->second;
  }
  return counted(std::move(of));
}

Partition pretended(const std::vector<std::int32_t>& nodes, const Pretended::Sizes& sizes) {
  std::unordered_map<std::int32_t, Cutter> cutters;  // by node
  std::vector<std::int32_t> of;
  std::int32_t parts = 0;
  of.reserve(nodes.size());
  for (const std::int32_t node : nodes) of.push_back(cutters[node].next(sizes, parts));
  return counted(std::move(of));
}

void find_gpus(Layout& layout, Members members) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::int32_t> numbers;
  std::vector<std::int32_t> ranks;  // by GPU
  layout.gpu_of.reserve(members.size());
  for (const ProcessPlace* place : members) {
    if (place->gpu == 0) {
      layout.gpu_of.push_back(-1);
      continue;
    }
    const auto next = static_cast<std::int32_t>(numbers.size());
    const std::int32_t gpu = numbers.try_emplace({place->host_id, place->gpu}, next).first->second;
    ranks.resize(numbers.size());
    layout.most_ranks_per_gpu = std::max(layout.most_ranks_per_gpu, ++ranks[at(gpu)]);
    layout.gpu_of.push_back(gpu);
  }
  layout.gpus = static_cast<std::int32_t>(numbers.size());
  layout.gpus_known =
      !members.empty() && std::all_of(members.begin(), members.end(), [](const auto* place) {
        return place->gpu != 0 && place->gpu_index >= 0;
      });
}

std::vector<std::int32_t> rails_by_gpu(Members members) {
  std::vector<std::int32_t> indices;
  for (const ProcessPlace* place : members) indices.push_back(place->gpu_index);
  std::vector<std::int32_t> known = indices;
  std::sort(known.begin(), known.end());
  known.erase(std::unique(known.begin(), known.end()), known.end());
  for (std::int32_t& index : indices) {
    const auto found = std::lower_bound(known.begin(), known.end(), index);
    index = static_cast<std::int32_t>(found - known.begin());
  }
  return indices;
}

std::vector<std::int32_t> rails_by_place(const Layout& layout) {
  std::vector<std::int32_t> of;
  std::vector<std::int32_t> seen(at(layout.nodes), 0);  // ranks, by node
  for (const std::int32_t node : layout.node_of) of.push_back(seen[at(node)]++);
  return of;
}

std::vector<std::int32_t> ring_of(const Layout& layout, Members members) {
  std::vector<std::int32_t> ring(members.size());
  std::iota(ring.begin(), ring.end(), 0);
  const auto key = [&](std::int32_t rank) {
    const ProcessPlace& place = *members[at(rank)];
    return std::tuple(layout.node_of[at(rank)], layout.packages.of[at(rank)],
                      layout.numas.of[at(rank)], place.gpu, place.l3, place.core, rank);
  };
  std::sort(ring.begin(), ring.end(),
            [&](std::int32_t a, std::int32_t b) { return key(a) < key(b); });
  return ring;
}

std::optional<Pretended::Sizes> parse_sizes(std::string_view text) {
  Pretended::Sizes sizes;
  if (text.empty()) return sizes;
  const char* at = text.data();
  const char* const end = at + text.size();
  for (;;) {
    std::int32_t size = 0;
    const auto [rest, error] = std::from_chars(at, end, size);
    if (error != std::errc{} || size < 1) return std::nullopt;
    sizes.push_back(size);
    if (rest == end) return sizes;
    if (*rest != ',') return std::nullopt;
    at = rest + 1;
  }
}

// "1" or "1 to 3".
std::string range(std::int32_t smallest, std::int32_t largest) {
  const std::string last = std::to_string(largest);
  return smallest == largest ? last : std::to_string(smallest) + " to " + last;
}

// The hosts of the first nodes.
std::string node_names(const Layout& layout, Members members) {
  constexpr std::int32_t most = 8;
  std::string text;
  for (std::int32_t node = 0; node < std::min(layout.nodes, most); ++node) {
    text += (node > 0 ? ", " : "") + members[at(layout.leaders[at(node)])]->host;
  }
  if (layout.nodes > most) text += " and " + std::to_string(layout.nodes - most) + " more";
  return text;
}

}  // namespace

std::optional<Pretended> parse_pretended(std::string_view text) {
  const auto slash = text.find('/');
  const auto nodes = parse_sizes(text.substr(0, slash));
  if (slash == std::string_view::npos) {
    return nodes ? std::optional<Pretended>({*nodes, {}}) : std::nullopt;
  }
  const auto packages = parse_sizes(text.substr(slash + 1));
  if (!nodes || !packages || packages->empty()) return std::nullopt;
  return Pretended{*nodes, *packages};
}

Layout make_layout(Members members, const Pretended& pretend) {
  Layout layout;
  layout.node_of.reserve(members.size());
  std::unordered_map<std::uint64_t, Cutter> hosts;
  std::vector<std::int32_t> ranks_in;  // by node
  for (const ProcessPlace* place : members) {
    const std::int32_t node = hosts[place->host_id].next(pretend.nodes, layout.nodes);
    const auto rank = static_cast<std::int32_t>(layout.node_of.size());
    if (at(node) == layout.leaders.size()) layout.leaders.push_back(rank);
    layout.node_of.push_back(node);
    ranks_in.resize(at(layout.nodes));
    ++ranks_in[at(node)];
  }
  if (!ranks_in.empty()) {
    const auto [smallest, largest] = std::minmax_element(ranks_in.begin(), ranks_in.end());
    layout.smallest_node = *smallest;
    layout.largest_node = *largest;
  }
  layout.cache_per_rank = cache_per_rank(members);
  layout.oversubscribed = is_oversubscribed(members);
  layout.shared_threads = shared_threads(members);
  layout.packages = pretend.packages.empty()
                        ? divide(layout.node_of, members, &ProcessPlace::package)
                        : pretended(layout.node_of, pretend.packages);
  layout.numas = divide(layout.packages.of, members, &ProcessPlace::numa);
  find_gpus(layout, members);
  layout.rails = counted(layout.gpus_known ? rails_by_gpu(members) : rails_by_place(layout));
  layout.ring = ring_of(layout, members);
  return layout;
}

const Partition* parts_of(const Layout& layout) {
  for (const Partition* parts : {&layout.packages, &layout.numas}) {
    if (parts->count > layout.nodes) return parts->largest > 1 ? parts : nullptr;
  }
  return nullptr;
}

std::string describe(const Layout& layout, Members members) {
  std::string text = std::to_string(members.size()) + " ranks on " + std::to_string(layout.nodes) +
                     (layout.nodes == 1 ? " node, " : " nodes, ") +
                     range(layout.smallest_node, layout.largest_node) + " on each (" +
                     node_names(layout, members) + ")";
  if (layout.numas.count > layout.nodes) {
    text += "; " + std::to_string(layout.packages.count) + " packages, " +
            std::to_string(layout.numas.count) + " NUMA domains";
  }
  if (layout.gpus > 0) {
    text += "; " + std::to_string(layout.gpus) + " GPUs, at most " +
            std::to_string(layout.most_ranks_per_gpu) + " of the ranks on one";
  }
  if (!std::is_sorted(layout.ring.begin(), layout.ring.end())) text += "; ring by place";
  return text;
}

}  // namespace gpuar
