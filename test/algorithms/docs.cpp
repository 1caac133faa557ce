#include "test/algorithms/docs.h"

#include <fstream>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "coll_gpuar/algorithms/algorithm.h"
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

std::string section(const Algorithm& algorithm, const std::string& source_root) {
  const std::string name(algorithm.name);
  std::ostringstream out;
  out << "## " << name << "\n\n"
      << algorithm.description << ".\n\n```text\n"
      << head_comment(source_root + "/coll_gpuar/algorithms/" + name + ".cpp") << "```\n\n";
  for (const Rank rank : {0, 1}) {
    out << "Rank " << rank << " of 4:\n\n```text\n"
        << to_text(build(algorithm, rank, 4)) << "```\n\n";
  }
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
  for (const Algorithm& algorithm : algorithms()) page += section(algorithm, source_root);
  page.pop_back();  // one newline at the end
  return page;
}

}  // namespace gpuar
