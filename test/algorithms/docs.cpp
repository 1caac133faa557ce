#include "test/algorithms/docs.h"

#include <array>
#include <fstream>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "coll_gpuar/algorithms/composition.h"
#include "coll_gpuar/schedule/printer.h"

namespace gpuar {
namespace {

constexpr const char* introduction = R"(# The algorithms

*Written by `make_docs` from the algorithms; a test compares. Do not edit by hand.*

Each algorithm is a function of some ten to twenty lines that narrates what one rank does: `send`,
`recv`, `recv_reduce`. The builder turns the narration into a schedule: steps on chunks, with the
dependencies between them. The symbolic checker runs the schedules of all ranks and confirms what
stands here.

*Steps* are messages one after the other, on the longest chain. *Bytes* are those that one rank
sends, for a vector of B bytes: the rank that sends most. *Scratch* is what one segment in flight
needs beside input and output, with four slots to go through. *Rank order*: operands stay in order
of rank, so non-commutative operations are served. *Reproducible*: follows the one association that
is fixed by rank alone, so it is admitted under `coll_gpuar_reproducible`.

)";

std::string fraction(std::uint64_t units, std::uint64_t parts) {
  if (units % parts == 0) return std::to_string(units / parts) + " B";
  return std::to_string(units) + "/" + std::to_string(parts) + " B";
}

const char* yes_or_no(bool value) {
  return value ? "yes" : "no";
}

std::string table(Rank size) {
  std::ostringstream out;
  out << "With " << size << " ranks:\n\n"
      << "| algorithm | steps | bytes sent | reduced | scratch | rank order | reproducible |\n"
      << "|---|---|---|---|---|---|---|\n";
  for (const Algorithm& algorithm : algorithms()) {
    for (const std::uint32_t radix : {2U, 4U}) {
      if (radix != 2 && !algorithm.has_radix) continue;
      const Cost cost = algorithm.cost(size, radix);
      const Schedule schedule = build(algorithm, 0, size, {radix, {}});
      out << "| " << algorithm.name;
      if (algorithm.has_radix) out << ", radix " << radix;
      out << " | " << cost.rounds << " | " << fraction(cost.sent, cost.parts) << " | "
          << fraction(cost.reduced, cost.parts) << " | "
          << fraction(std::uint64_t{schedule.slots} * schedule.slot_chunks, schedule.chunks)
          << " | " << yes_or_no(algorithm.keeps_rank_order) << " | "
          << yes_or_no(algorithm.reproducible) << " |\n";
    }
  }
  out << "\n";
  return out.str();
}

// The comment on top of an algorithm's file, without its slashes.
std::string head_comment(const std::string& path) {
  std::istringstream source(read_file(path));
  std::string comment;
  for (std::string line; std::getline(source, line) && line.rfind("//", 0) == 0;) {
    comment += line.substr(line.size() > 2 ? 3 : 2) + "\n";
  }
  return comment;
}

// The picture of an algorithm or a composition.
std::string picture(std::string_view name, const std::string& source_root) {
  const std::string path = source_root + "/coll_gpuar/algorithms/" + std::string(name) + ".cpp";
  return "```text\n" + head_comment(path) + "```\n\n";
}

// An algorithm or a composition: what it is, and the steps of some ranks.
template <class Named, class BuildRank>
std::string section(const Named& named, const std::string& picture, const char* where,
                    std::initializer_list<Rank> ranks, BuildRank build_rank) {
  std::ostringstream out;
  out << "## " << named.name << "\n\n" << named.description << ".\n\n" << picture;
  for (const Rank rank : ranks) {
    out << "Rank " << rank << where << ":\n\n```text\n" << to_text(build_rank(rank)) << "```\n\n";
  }
  return out.str();
}

std::string algorithm_section(const Algorithm& algorithm, const std::string& source_root) {
  return section(algorithm, picture(algorithm.name, source_root), " of 4", {0, 1},
                 [&](Rank rank) { return build(algorithm, rank, 4); });
}

std::string composition_section(const Composition& composition, const std::string& source_root) {
  const Algorithm& across = *find_algorithm("recursive_doubling");
  if (composition.has_parts) {
    const std::vector<Level> levels{{0, 0, 1, 1, 2, 2, 3, 3}, {0, 0, 0, 0, 1, 1, 1, 1}};
    return section(composition, "", " of 8 on two nodes of two packages, recursive doubling across",
                   {0, 1}, [&](Rank rank) { return build(composition, across, rank, 8, levels); });
  }
  const Level level{0, 1, 1};
  return section(composition, picture(composition.name, source_root),
                 " of 3 on a node of 1 and one of 2, recursive doubling across", {0, 1, 2},
                 [&](Rank rank) {
                   return build(composition, across, rank, 3, {&level, 1});
                 });
}

constexpr const char* composed = R"(# Compositions

Along the nodes the same functions run over groups of ranks: within each node, and across the nodes
with any of the algorithms above. A composition is nothing but these calls. The deep ones have a
level more: the packages of each node, or its NUMA domains where no node has several packages, as
far as ranks are bound to them. On a single node they run across its packages. Any sizes of nodes
and packages are served, also a rank alone on its node.

*Rank order* is kept if the algorithm across keeps it and each group holds a run of consecutive
ranks. A composition is *reproducible* if the algorithm across is and the groups are whole subtrees
of one height in the tree that is fixed by rank alone: equal blocks of 2, 4, 8, … ranks where the
number of ranks is a power of two. Elsewhere one algorithm runs flat.

With 4 nodes of 8 ranks (in the deep ones, 2 packages of 4), what one rank sends within its node and
to others, and what one node sends to others:

)";

std::string composed_table() {
  const std::array<GroupSizes, 1> nodes{{{32, 4, 8, 8}}};
  const std::array<GroupSizes, 2> packages{{{32, 8, 4, 4}, {8, 4, 2, 2}}};
  std::ostringstream out;
  out << "| composition | across | steps | bytes within | bytes to others | of the node | reduced "
         "|\n"
      << "|---|---|---|---|---|---|---|\n";
  for (const Composition& composition : compositions().subspan(1)) {
    for (const Algorithm& algorithm : algorithms()) {
      const auto levels = composition.has_parts ? std::span<const GroupSizes>(packages) : nodes;
      const ComposedCost cost = composition.cost(levels, {algorithm, 2});
      const std::uint64_t parts = cost.across.parts;  // a multiple of those within
      std::uint64_t rounds = cost.across.rounds;
      std::uint64_t within = 0;
      std::uint64_t reduced = cost.across.reduced;
      for (const Cost& level : cost.within) {
        rounds += level.rounds;
        within += level.sent * (parts / level.parts);
        reduced += level.reduced * (parts / level.parts);
      }
      const auto talkers = static_cast<std::uint64_t>(cost.talkers.at(levels.size() - 1));
      out << "| " << composition.name << " | " << algorithm.name << " | " << rounds << " | "
          << fraction(within, parts) << " | " << fraction(cost.across.sent, parts) << " | "
          << fraction(cost.across.sent * talkers, parts) << " | " << fraction(reduced, parts)
          << " |\n";
    }
  }
  out << "\n";
  return out.str();
}

}  // namespace

std::string read_file(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file || text.str().empty()) throw std::runtime_error("cannot read " + path);
  return text.str();
}

std::string algorithms_page(const std::string& source_root) {
  std::string page = introduction + table(8) + table(12);
  for (const Algorithm& algorithm : algorithms()) page += algorithm_section(algorithm, source_root);
  page += composed + composed_table();
  for (const Composition& composition : compositions().subspan(1)) {
    page += composition_section(composition, source_root);
  }
  page.pop_back();  // one newline at the end
  return page;
}

}  // namespace gpuar
