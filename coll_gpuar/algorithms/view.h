// Where an algorithm runs: a group of ranks, my position in it, and the chunks it works on.
// A hierarchy is the same algorithms over the views of its groups.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "coll_gpuar/schedule/sink.h"

namespace gpuar {

struct View {
  Rank position = 0;              // mine in the group
  Rank size = 1;                  // of the group
  Span chunks{0, 1};              // the whole vector, as far as this group is concerned
  std::span<const Rank> ranks{};  // position -> rank of the communicator; empty: the same.
                                  // Ascending wherever the order of ranks is to be kept
  std::uint32_t grain = 1;  // so many chunks stay together when the vector is cut; divides them all

  [[nodiscard]] Rank rank(Rank at) const {
    return ranks.empty() ? at : ranks[static_cast<std::size_t>(at)];
  }

  // Parts [first, first + count) of the vector cut into `of` parts, equal up to one grain. There
  // are at least as many grains as parts, so that no part is empty.
  [[nodiscard]] Span parts(Rank first, Rank count, Rank of) const {
    const std::uint32_t begin = cut(first, of);
    return {chunks.first + begin, cut(first + count, of) - begin};
  }

 private:
  [[nodiscard]] std::uint32_t cut(Rank part, Rank of) const {
    const std::uint64_t grains = chunks.count / grain;
    const std::uint64_t before = grains * static_cast<std::uint64_t>(part);
    return static_cast<std::uint32_t>(before / static_cast<std::uint64_t>(of)) * grain;
  }
};

}  // namespace gpuar
