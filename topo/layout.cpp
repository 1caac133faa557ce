#include "topo/layout.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <tuple>
#include <unordered_map>

namespace gpuar {
namespace {

// Cuts the ranks of one host into nodes as they come by.
class HostCutter {
 public:
  // The node of the host's next rank; `nodes` counts the nodes of the communicator.
  std::int32_t next(const NodeSizes& sizes, std::int32_t& nodes) {
    const bool full = !sizes.empty() && used_ == sizes[block_ % sizes.size()];
    if (node_ < 0 || full) {
      if (full) ++block_;
      used_ = 0;
      node_ = nodes++;
    }
    ++used_;
    return node_;
  }

 private:
  std::int32_t node_ = -1;
  std::int32_t used_ = 0;  // ranks in that node so far
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

}  // namespace

std::optional<NodeSizes> parse_node_sizes(std::string_view text) {
  NodeSizes sizes;
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

Layout make_layout(std::span<const ProcessPlace* const> members, const NodeSizes& pretend) {
  Layout layout;
  layout.node_of.reserve(members.size());
  std::unordered_map<std::uint64_t, HostCutter> hosts;
  std::vector<std::int32_t> ranks_in;  // by node
  for (const ProcessPlace* place : members) {
    const std::int32_t node = hosts[place->host_id].next(pretend, layout.nodes);
    layout.node_of.push_back(node);
    ranks_in.resize(static_cast<std::size_t>(layout.nodes));
    ++ranks_in[static_cast<std::size_t>(node)];
  }
  if (!ranks_in.empty()) {
    const auto [smallest, largest] = std::minmax_element(ranks_in.begin(), ranks_in.end());
    layout.smallest_node = *smallest;
    layout.largest_node = *largest;
  }
  layout.oversubscribed = is_oversubscribed(members);
  return layout;
}

}  // namespace gpuar
