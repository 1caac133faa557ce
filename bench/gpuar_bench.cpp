// gpuar_bench: times and checks MPI_Allreduce, MPI_Iallreduce and persistent allreduce over a range
// of sizes, with whatever MPI serves them, and says who did. On request it also times the nodes and
// what is between them apart.

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>

#include "bench/cuda_driver.h"
#include "bench/data.h"
#include "bench/device_buffer.h"
#include "bench/json_file.h"
#include "bench/measure.h"
#include "bench/nodes.h"
#include "bench/overlap.h"
#include "bench/served.h"
#include "bench/sizes.h"
#include "bench/usage.h"

namespace {

using bench::Form;
using bench::Part;
using bench::Sample;

constexpr std::uint64_t most_calls = 1'000'000'000;

struct Options {
  std::string sizes = "8:64M";
  std::string type = "float";
  std::string op = "sum";
  std::string memory = "host";
  bench::Path path = bench::Path::direct;
  std::vector<std::string> forms = bench::form_names();
  bench::Effort effort;
  std::string json;
  bool progress = false;
  bool compare_nodes = false;
  int node_size = 0;                // 0: ranks that share memory
  std::optional<int> overlap = {};  // calls of MPI_Test within a computation
};

void declare(CLI::App& app, Options& options) {
  app.add_option("--sizes", options.sizes,
                 "bytes: a range MIN:MAX[:FACTOR] or a list A,B,…; K, M and G are powers of 1024")
      ->capture_default_str();
  app.add_option("--type", options.type, "element type")
      ->check(CLI::IsMember(bench::type_names()))
      ->capture_default_str();
  app.add_option("--op", options.op, "operation")
      ->check(CLI::IsMember(bench::op_names()))
      ->capture_default_str();
  app.add_option("--memory", options.memory,
                 "where the buffers are; all but host want a CUDA driver, and each rank takes the "
                 "GPU with its number among the ranks of its node, counted round and round")
      ->check(CLI::IsMember(bench::memory_names()))
      ->capture_default_str();
  app.add_flag_callback(
      "--stage", [&options] { options.path = bench::Path::through_host; },
      "what a program does whose MPI takes no device memory: copy to pinned host memory, call MPI "
      "there, copy back, all of it timed");
  app.add_option("--form", options.forms, "forms of the call")
      ->check(CLI::IsMember(bench::form_names()))
      ->delimiter(',')
      ->capture_default_str();
  auto* iterations = app.add_option("--iterations", options.effort.iterations,
                                    "timed calls per size (default: as many as --min-time takes)")
                         ->check(CLI::Range(std::uint64_t{1}, most_calls));
  app.add_option("--min-time", options.effort.min_seconds, "seconds of timed calls per size")
      ->excludes(iterations)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--warmup", options.effort.warmup, "calls per size before the clock starts")
      ->check(CLI::Range(std::uint64_t{0}, most_calls))
      ->capture_default_str();
  auto* compare = app.add_flag("--compare-nodes", options.compare_nodes,
                               "time each size within every node, across the nodes (one rank of "
                               "each) and with all ranks, and "
                               "say which of the first two limits the last");
  app.add_option(
         "--node-size", options.node_size,
         "for --compare-nodes: nodes are this many consecutive ranks (default: the ranks that "
         "share memory)")
      ->needs(compare)
      ->check(CLI::PositiveNumber);
  app.add_option("--overlap", options.overlap,
                 "time nonblocking calls with a computation between start and wait that takes as "
                 "long as the call, with so many calls of MPI_Test within it, and say how much of "
                 "the call that hides")
      ->excludes(compare)
      ->check(CLI::NonNegativeNumber);
  app.add_option("--json", options.json, "write the results to this file as well");
  app.add_flag("--progress", options.progress,
               "say on stderr which size is being measured (default: if it is a terminal)");
  app.footer(
      "Time is that of a call in an uninterrupted batch, on the slowest rank; min, median and "
      "95th\n"
      "percentile are over the batches. Bandwidths, from the median, are nccl-tests' algbw and\n"
      "busbw in GB/s. Every element of every size is checked, before and after the timing. "
      "'served\n"
      "by' is gpuar if it counted every timed call on every rank.");
}

// Rank 0's reporting; silent on the others.
class Reporter {
 public:
  Reporter(const Options& options, std::string gpu, int rank, int ranks)
      : options_(options), gpu_(std::move(gpu)), active_(rank == 0), ranks_(ranks) {
    options_.progress = active_ && (options_.progress || isatty(STDERR_FILENO) == 1);
  }

  void head() const {
    if (!active_) return;
    fmt::print("# gpuar_bench: {} ranks, {} of {}, {} memory, {}\n", ranks_, options_.op,
               options_.type, options_.memory, bench::name_of(options_.path));
    if (options_.compare_nodes) fmt::print("{:>7} ", "part");
    fmt::print("{:>12} {:>11} {:>11} {:>11} {:>11} {:>9} {:>9}  {}\n", "form", "bytes", "min us",
               "median us", "p95 us", "algbw", "busbw", "served by");
  }

  void starting(Form form, std::size_t bytes, std::size_t done, std::size_t all) const {
    if (!options_.progress) return;
    fmt::print(stderr, "gpuar_bench: {} of {}, {:.0f} s: {}, {} bytes\n", done + 1, all,
               MPI_Wtime() - start_, bench::name_of(form), bytes);
  }

  void add(const Part& part, const Sample& sample) {
    if (!active_) return;
    const double busbw = bench::bus_bandwidth(sample, part.ranks);
    if (options_.compare_nodes) fmt::print("{:>7} ", part.name);
    const char* served_by = sample.served_by_gpuar ? "gpuar" : "other";
    fmt::print("{:>12} {:>11} {:>11.2f} {:>11.2f} {:>11.2f} {:>9.3f} {:>9.3f}  {}\n",
               bench::name_of(sample.form), sample.bytes, sample.min_us, sample.median_us,
               sample.p95_us, bench::algorithm_bandwidth(sample), busbw, served_by);
    std::fflush(stdout);
    results_.push_back({{"part", part.name},
                        {"ranks", part.ranks},
                        {"form", bench::name_of(sample.form)},
                        {"bytes", sample.bytes},
                        {"calls", sample.calls},
                        {"min_us", sample.min_us},
                        {"median_us", sample.median_us},
                        {"p95_us", sample.p95_us},
                        {"algbw", bench::algorithm_bandwidth(sample)},
                        {"busbw", busbw},
                        {"before_ns", sample.before_ns},
                        {"after_ns", sample.after_ns},
                        {"served_by", served_by},
                        {"verified", true}});  // a wrong result ends the run
  }

  void head_of_overlap() const {
    if (!active_) return;
    fmt::print("# gpuar_bench: {} ranks, {} of {}, {} memory, {} calls of MPI_Test within\n",
               ranks_, options_.op, options_.type, options_.memory, *options_.overlap);
    fmt::print("{:>11} {:>11} {:>11} {:>11} {:>8}  {}\n", "bytes", "call us", "compute us",
               "both us", "hidden", "served by");
  }

  void add(const bench::Overlap& overlap, bool served_by_gpuar) {
    if (!active_) return;
    const char* served_by = served_by_gpuar ? "gpuar" : "other";
    fmt::print("{:>11} {:>11.2f} {:>11.2f} {:>11.2f} {:>6.0f} %  {}\n", overlap.bytes,
               overlap.call_us, overlap.compute_us, overlap.both_us, 100 * bench::hidden(overlap),
               served_by);
    std::fflush(stdout);
    results_.push_back({{"bytes", overlap.bytes},
                        {"call_us", overlap.call_us},
                        {"compute_us", overlap.compute_us},
                        {"both_us", overlap.both_us},
                        {"hidden", bench::hidden(overlap)},
                        {"served_by", served_by},
                        {"verified", true}});
  }

  void conclude(const std::vector<Sample>& samples) {
    if (!active_) return;
    const std::string sentence =
        bench::verdict(samples.at(0).median_us, samples.at(1).median_us, samples.at(2).median_us);
    fmt::print("# {}, {} bytes: {}\n", bench::name_of(samples[0].form), samples[0].bytes, sentence);
    std::fflush(stdout);
    verdicts_.push_back({{"form", bench::name_of(samples[0].form)},
                         {"bytes", samples[0].bytes},
                         {"verdict", sentence}});
  }

  void write_json() const {
    if (!active_ || options_.json.empty()) return;
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> mpi = {};
    int length = 0;
    MPI_Get_library_version(mpi.data(), &length);
    const nlohmann::json document = {{"tool", "gpuar_bench"},
                                     {"mpi", mpi.data()},
                                     {"ranks", ranks_},
                                     {"op", options_.op},
                                     {"type", options_.type},
                                     {"memory", options_.memory},
                                     {"path", bench::name_of(options_.path)},
                                     {"gpu", gpu_},
                                     {"results", results_},
                                     {"verdicts", verdicts_}};
    bench::write_json(options_.json, document);
  }

 private:
  Options options_;
  std::string gpu_;
  bool active_;
  int ranks_;
  double start_ = MPI_Wtime();
  nlohmann::json results_ = nlohmann::json::array();
  nlohmann::json verdicts_ = nlohmann::json::array();
};

// Gives this rank its GPU and returns the name; nothing for host memory.
std::string take_gpu(bench::MemoryKind memory) {
  if (memory == bench::MemoryKind::host) return {};
  MPI_Comm node = MPI_COMM_NULL;
  int rank = 0;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &rank);
  MPI_Comm_free(&node);
  return bench::use_gpu(rank);
}

// Buffers of the largest size for the ranks of a part; none on ranks that take no part.
std::unique_ptr<bench::Data> data_for(const Part& part, const Options& options, std::size_t bytes) {
  if (part.comm == MPI_COMM_NULL) return nullptr;
  int rank = 0, ranks = 0;
  MPI_Comm_rank(part.comm, &rank);
  MPI_Comm_size(part.comm, &ranks);
  return bench::make_data(options.type, options.op, bench::memory_named(options.memory), bytes,
                          rank, ranks);
}

// What one part takes for one size; valid on rank 0.
Sample measure(const Part& part, Form form, std::size_t bytes, const Options& options,
               bench::Data* data, const bench::ServedCounter& served) {
  std::optional<Sample> sample;
  if (data != nullptr) {
    sample = bench::measure(form, options.path, bytes, options.effort, *data, served, part.comm);
  }
  if (!options.compare_nodes) return *sample;
  bench::wait_for_others();
  return bench::slowest(sample ? &*sample : nullptr);
}

void run_overlap(const Options& options, const std::vector<std::size_t>& sizes) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  Reporter reporter(options, take_gpu(bench::memory_named(options.memory)), rank, ranks);
  const auto data = data_for({"all", ranks, MPI_COMM_WORLD}, options,
                             *std::max_element(sizes.begin(), sizes.end()));
  const bench::ServedCounter served;
  reporter.head_of_overlap();
  for (const std::size_t bytes : sizes) {
    const auto before = served.calls();
    const auto overlap =
        bench::measure_overlap(bytes, *options.overlap, options.effort, *data, MPI_COMM_WORLD);
    reporter.add(overlap, served.calls() > before);
  }
  reporter.write_json();
}

void run(const Options& options, const std::vector<std::size_t>& sizes) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::string gpu = take_gpu(bench::memory_named(options.memory));
  std::optional<bench::Nodes> nodes;
  if (options.compare_nodes) nodes.emplace(options.node_size);
  const auto parts = nodes ? nodes->parts() : std::vector<Part>{{"all", ranks, MPI_COMM_WORLD}};
  std::vector<std::unique_ptr<bench::Data>> data;
  const std::size_t largest = *std::max_element(sizes.begin(), sizes.end());
  data.reserve(parts.size());
  for (const Part& part : parts) data.push_back(data_for(part, options, largest));
  const bench::ServedCounter served;
  Reporter reporter(options, std::move(gpu), rank, ranks);
  reporter.head();
  std::size_t done = 0;
  for (const std::string& name : options.forms) {
    const Form form = bench::form_named(name);
    for (const std::size_t bytes : sizes) {
      reporter.starting(form, bytes, done++, options.forms.size() * sizes.size());
      std::vector<Sample> samples;
      for (std::size_t i = 0; i < parts.size(); ++i) {
        samples.push_back(measure(parts[i], form, bytes, options, data[i].get(), served));
        reporter.add(parts[i], samples.back());
      }
      if (nodes) reporter.conclude(samples);
    }
  }
  reporter.write_json();
}

void check_sizes(const std::vector<std::size_t>& sizes, const std::string& type) {
  for (const std::size_t bytes : sizes) {
    const std::size_t element = bench::bytes_of(type);
    const char* const wrong = bytes < element        ? "are less than one"
                              : bytes % element != 0 ? "are no whole number of"
                                                     : nullptr;
    if (wrong == nullptr) continue;
    throw CLI::ValidationError(
        "--sizes", fmt::format("{} bytes {} {}, which has {}", bytes, wrong, type, element));
  }
}

}  // namespace

// Only a mistake in declare() could throw outside of the try blocks.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  Options options;
  std::vector<std::size_t> sizes;
  CLI::App app("Times and checks MPI allreduce in its three forms.", "gpuar_bench");
  declare(app, options);
  try {
    app.parse(argc, argv);
    sizes = bench::parse_sizes("--sizes", options.sizes);
    check_sizes(sizes, options.type);
    bench::check_writable(options.json);
    bench::check_defined(options.type, options.op);
    if (options.path == bench::Path::through_host && options.memory != "device" &&
        options.memory != "managed") {
      throw CLI::ValidationError("--stage", "wants --memory device or managed");
    }
  } catch (const CLI::ParseError& error) {
    return bench::usage(app, error);
  } catch (const std::invalid_argument& error) {
    return bench::usage(app, CLI::ValidationError("--op", error.what()));
  }

  return bench::with_mpi("gpuar_bench", argc, argv, [&] {
    options.overlap ? run_overlap(options, sizes) : run(options, sizes);
  });
}
