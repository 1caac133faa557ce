// Where an algorithm runs: a group of ranks, my position in it, and the chunks it works on.
// A hierarchy is the same algorithms over the views of its groups.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "coll_gpuar/schedule/sink.h"

namespace gpuar {

struct View {
  Rank position = 0;  // mine in the group
  Rank size = 1;      // of the group
  Span chunks{0, 1};  // the whole vector, as far as this group is concerned
  std::span<const Rank>
      ranks{};  // position -> rank of the communicator, ascending; empty: the same

  [[nodiscard]] Rank rank(Rank at) const {
    return ranks.empty() ? at : ranks[static_cast<std::size_t>(at)];
  }

  // Parts [first, first + count) of the vector cut into `of` equal parts; `of` divides the chunks.
  [[nodiscard]] Span parts(Rank first, Rank count, Rank of) const {
    const std::uint32_t width = chunks.count / static_cast<std::uint32_t>(of);
    return {chunks.first + static_cast<std::uint32_t>(first) * width,
            static_cast<std::uint32_t>(count) * width};
  }
};

}  // namespace gpuar
