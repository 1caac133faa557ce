// gpuar_sim: what each algorithm would take on a machine that need not exist, up to tens of
// thousands of ranks, beside the least that any could take. It walks the schedules that would run.

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "bench/json_file.h"
#include "bench/sim_bound.h"
#include "bench/sim_machine.h"
#include "coll_gpuar/engine/program.h"
#include "coll_gpuar/selection/walk.h"

namespace {

using gpuar::Choice;

constexpr std::uint64_t most_ranks = 1U << 20;
// More different schedules than this take too long to build; their time is the closed formula's.
constexpr std::size_t most_programs = 4096;

struct Options {
  std::string machine = "host";
  std::vector<std::uint64_t> nodes{1, 8, 128, 1024, 8192};
  std::vector<std::uint64_t> sizes{8, 1U << 20, 1U << 30};
  std::uint64_t segment = 0;
  bool all = false;
  std::string json;
};

// One algorithm's way to carry a call.
struct Row {
  std::string algorithm;
  bool chosen = false;
  bool walked = false;
  std::uint64_t ps = 0;
  std::uint64_t steps = 0;
  std::uint64_t segments = 1;
  gpuar::Traffic traffic;
  std::uint64_t scratch = 0;  // bytes, of the rank that needs most
  std::uint64_t plan = 0;
  double build_ms = 0;
};

// Results for one number of nodes and one size.
struct Case {
  std::uint64_t nodes = 1;
  std::uint64_t ranks = 1;
  std::uint64_t bytes = 0;
  bench::LowerBound bound;
  std::vector<Row> rows;  // the chosen one first, then from fast to slow
};

// Of equal size, filled one after the other.
gpuar::Level equal_groups(gpuar::Rank ranks, gpuar::Rank each) {
  gpuar::Level level;
  for (gpuar::Rank rank = 0; rank < ranks; ++rank) level.push_back(rank / each);
  return level;
}

std::vector<gpuar::Level> levels_of(const bench::ImaginedMachine& machine, std::uint64_t nodes) {
  const auto ranks = static_cast<gpuar::Rank>(nodes) * machine.ranks_per_node;
  const gpuar::Rank per_package = machine.ranks_per_node / machine.packages_per_node;
  std::vector<gpuar::Level> levels;
  if (machine.packages_per_node > 1 && per_package > 1) {
    levels.push_back(equal_groups(ranks, per_package));
  }
  levels.push_back(equal_groups(ranks, machine.ranks_per_node));
  return levels;
}

gpuar::CallShape shape_of(gpuar::Levels levels, std::uint64_t bytes) {
  gpuar::CallShape shape;
  shape.bytes = bytes;
  shape.element_bytes = std::min<std::uint64_t>(bytes % 8 == 0 ? 8 : 1, bytes);
  shape.ranks = static_cast<gpuar::Rank>(levels.back().size());
  shape.layout = gpuar::summary_of(levels);
  return shape;
}

// Time, plan and scratch of the first rank, which has the most to do in every algorithm.
void measure_plan(const Choice& choice, const gpuar::CallShape& shape, gpuar::Levels levels,
                  Row& row) {
  const auto start = std::chrono::steady_clock::now();
  const auto program =
      std::make_shared<const gpuar::Program>(gpuar::schedule_of(choice, 0, levels));
  row.build_ms =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  row.plan = program->bytes();
  const gpuar::Plan plan(program, shape.bytes / shape.element_bytes, shape.element_bytes,
                         choice.segment_bytes, choice.depth);
  row.segments = plan.segments;
  row.scratch = plan.slot_bytes * program->schedule.slots * plan.depth;
}

Row simulate(const Choice& choice, const gpuar::CallShape& shape, gpuar::Levels levels,
             const gpuar::Fabric& fabric) {
  Row row;
  row.algorithm = gpuar::describe(choice);
  const gpuar::ComposedCost cost = gpuar::cost_of(choice, shape);
  row.steps = cost.across.rounds;
  for (const gpuar::Cost& part : cost.within) row.steps += part.rounds;
  measure_plan(choice, shape, levels, row);
  row.ps = choice.predicted_ps;
  row.walked = gpuar::different_programs(choice, levels) <= most_programs;
  if (row.walked) {
    const gpuar::Programs programs = gpuar::programs_of(choice, levels);
    row.ps = gpuar::walk(programs, choice, shape, fabric);
    row.traffic = gpuar::traffic(programs, shape);
  }
  return row;
}

Case run_case(const Options& options, const bench::ImaginedMachine& machine, std::uint64_t nodes,
              std::uint64_t bytes) {
  const std::vector<gpuar::Level> levels = levels_of(machine, nodes);
  const gpuar::CallShape shape = shape_of(levels, bytes);
  const gpuar::Fabric& fabric = machine.fabric;
  gpuar::Forced forced;
  forced.segment_bytes = options.segment;
  const Choice chosen = gpuar::select(shape, forced, fabric.machine);
  Case result{nodes, levels.back().size(), bytes, bench::lower_bound(machine, nodes, bytes), {}};
  result.rows.push_back(simulate(chosen, shape, levels, fabric));
  result.rows.front().chosen = true;
  if (!options.all) return result;
  for (const gpuar::Composition& composition : gpuar::compositions()) {
    for (const gpuar::Algorithm& algorithm : gpuar::algorithms()) {
      forced.composition = &composition;
      forced.algorithm = &algorithm;
      const Choice other = gpuar::select(shape, forced, fabric.machine);
      if (other.reason != Choice::Reason::forced) continue;
      if (other.algorithm == chosen.algorithm && other.composition == chosen.composition) continue;
      result.rows.push_back(simulate(other, shape, levels, fabric));
    }
  }
  std::sort(result.rows.begin() + 1, result.rows.end(),
            [](const Row& a, const Row& b) { return a.ps < b.ps; });
  return result;
}

std::string size_text(std::uint64_t bytes) {
  constexpr std::array<const char*, 4> units{"B", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  auto value = static_cast<double>(bytes);
  for (; value >= 1024 && unit + 1 < units.size(); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}", value, value < 10 && value != std::floor(value) ? 1 : 0,
                     units[unit]);
}

double of_bound(const Case& result, const Row& row) {
  return static_cast<double>(row.ps) /
         static_cast<double>(std::max<std::uint64_t>(result.bound.ps(), 1));
}

void print(const Case& result, gpuar::Rank ranks_per_node) {
  fmt::print(
      "\n{} ranks, {} x {}, {}: no less than {:.1f} us ({:.1f} to reach all, {:.1f} for the "
      "bytes)\n",
      result.ranks, result.nodes, ranks_per_node, size_text(result.bytes),
      static_cast<double>(result.bound.ps()) / 1e6,
      static_cast<double>(result.bound.rounds_ps) / 1e6,
      static_cast<double>(result.bound.bytes_ps) / 1e6);
  fmt::print("{:>14} {:>6} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7}  {}\n", "us", "x", "steps",
             "segments", "of rank", "of node", "scratch", "plan", "ms", "algorithm");
  for (const Row& row : result.rows) {
    fmt::print("{:>13.1f}{} {:>6.2f} {:>7} {:>9} {:>9} {:>9} {:>9} {:>9} {:>7.2f}  {}{}\n",
               static_cast<double>(row.ps) / 1e6, row.walked ? " " : "~", of_bound(result, row),
               row.steps, row.segments, row.walked ? size_text(row.traffic.of_rank) : "-",
               row.walked ? size_text(row.traffic.of_node) : "-", size_text(row.scratch),
               size_text(row.plan), row.build_ms, row.algorithm, row.chosen ? " (chosen)" : "");
  }
  std::fflush(stdout);
}

nlohmann::json json_of(const Case& result) {
  nlohmann::json rows = nlohmann::json::array();
  for (const Row& row : result.rows) {
    rows.push_back({{"algorithm", row.algorithm},
                    {"chosen", row.chosen},
                    {"walked", row.walked},
                    {"us", static_cast<double>(row.ps) / 1e6},
                    {"of_bound", of_bound(result, row)},
                    {"steps", row.steps},
                    {"segments", row.segments},
                    {"bytes_of_rank", row.traffic.of_rank},
                    {"bytes_of_node", row.traffic.of_node},
                    {"scratch_bytes", row.scratch},
                    {"plan_bytes", row.plan},
                    {"build_ms", row.build_ms}});
  }
  return {{"nodes", result.nodes},
          {"ranks", result.ranks},
          {"bytes", result.bytes},
          {"bound_us", static_cast<double>(result.bound.ps()) / 1e6},
          {"rows", rows}};
}

void declare(CLI::App& app, Options& options) {
  app.add_option("--machine", options.machine,
                 "\"host\" or \"device\": gpuar's own constants with 8 ranks on a node; or a JSON "
                 "file that says what differs")
      ->capture_default_str();
  app.add_option("--nodes", options.nodes, "numbers of nodes")
      ->delimiter(',')
      ->check(CLI::Range(std::uint64_t{1}, most_ranks))
      ->capture_default_str();
  app.add_option("--sizes", options.sizes, "bytes; K, M and G are powers of 1024")
      ->delimiter(',')
      ->transform(CLI::AsSizeValue(false))
      ->capture_default_str();
  app.add_option("--segment", options.segment, "bytes of a segment (default: chosen)")
      ->transform(CLI::AsSizeValue(false));
  app.add_flag("--all", options.all, "all algorithms, not the chosen one alone");
  app.add_option("--json", options.json, "write the results to this file as well");
  app.footer(
      "us: predicted time, by walking the schedules that would run (~: by the closed formula). x: "
      "over\nthe lower bound. of rank, of node: bytes that one rank sends, and one node to others. "
      "scratch,\nplan: memory of a rank beside its buffers. ms: to build the plan.");
}

void run(const Options& options) {
  const bench::ImaginedMachine machine = bench::imagined_machine(options.machine);
  nlohmann::json results = nlohmann::json::array();
  fmt::print("# gpuar_sim: {}\n", machine.name);
  for (const std::uint64_t nodes : options.nodes) {
    if (nodes * static_cast<std::uint64_t>(machine.ranks_per_node) > most_ranks) {
      throw std::runtime_error(fmt::format("{} nodes of {} ranks are more than {} ranks", nodes,
                                           machine.ranks_per_node, most_ranks));
    }
    for (const std::uint64_t bytes : options.sizes) {
      if (bytes == 0) throw std::runtime_error("--sizes: at least one byte");
      const Case result = run_case(options, machine, nodes, bytes);
      print(result, machine.ranks_per_node);
      results.push_back(json_of(result));
    }
  }
  if (options.json.empty()) return;
  bench::write_json(options.json,
                    {{"tool", "gpuar_sim"}, {"machine", machine.name}, {"results", results}});
}

}  // namespace

// Only a mistake in declare() could throw outside of the try blocks.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  Options options;
  CLI::App app("Predicts gpuar's allreduce on machines of any size.", "gpuar_sim");
  declare(app, options);
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpuar_sim: {}\n", error.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
