// gpuar_bench: times and checks MPI_Allreduce, MPI_Iallreduce and persistent allreduce over a range
// of sizes, with whatever MPI serves them, and says who did.

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "bench/data.h"
#include "bench/measure.h"
#include "bench/served.h"

namespace {

using bench::Form;
using bench::Sample;

struct Options {
  std::string sizes = "8:64M";
  std::string type = "float";
  std::string op = "sum";
  std::vector<std::string> forms = bench::form_names();
  bench::Effort effort;
  std::string json;
  bool progress = false;
};

std::size_t parse_bytes(const std::string& text) {
  std::size_t digits = 0;
  std::size_t bytes = 0;
  try {
    bytes = std::stoull(text, &digits);
  } catch (const std::exception&) {
    throw CLI::ValidationError("--sizes", fmt::format("'{}' is not a size", text));
  }
  const std::string suffix = text.substr(digits);
  if (suffix == "K" || suffix == "KiB") return bytes << 10;
  if (suffix == "M" || suffix == "MiB") return bytes << 20;
  if (suffix == "G" || suffix == "GiB") return bytes << 30;
  if (suffix.empty() || suffix == "B") return bytes;
  throw CLI::ValidationError("--sizes", fmt::format("unknown unit '{}' in '{}'", suffix, text));
}

// "8,2K,1M" is a list; "8:64M" doubles from the first to the last; "8:64M:4" multiplies by 4.
std::vector<std::size_t> parse_sizes(const std::string& text) {
  const char separator = text.find(':') == std::string::npos ? ',' : ':';
  const std::vector<std::string> parts = CLI::detail::split(text, separator);
  std::vector<std::size_t> sizes;
  if (separator == ',') {
    for (const std::string& part : parts) sizes.push_back(parse_bytes(part));
    return sizes;
  }
  const std::size_t first = parse_bytes(parts[0]);
  const std::size_t last = parse_bytes(parts.at(1));
  const std::size_t factor = parts.size() > 2 ? parse_bytes(parts[2]) : 2;
  if (parts.size() > 3 || first == 0 || factor < 2 || last < first) {
    throw CLI::ValidationError("--sizes",
                               fmt::format("'{}' is not MIN:MAX or MIN:MAX:FACTOR", text));
  }
  for (std::size_t size = first; size <= last; size *= factor) sizes.push_back(size);
  return sizes;
}

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
  app.add_option("--form", options.forms, "forms of the call")
      ->check(CLI::IsMember(bench::form_names()))
      ->delimiter(',')
      ->capture_default_str();
  auto* iterations = app.add_option("--iterations", options.effort.iterations,
                                    "timed calls per size (default: as many as --min-time takes)");
  app.add_option("--min-time", options.effort.min_seconds, "seconds of timed calls per size")
      ->excludes(iterations)
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--warmup", options.effort.warmup, "calls per size before the clock starts")
      ->capture_default_str();
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
  Reporter(const Options& options, int rank, int ranks)
      : options_(options), active_(rank == 0), ranks_(ranks) {
    options_.progress = active_ && (options_.progress || isatty(STDERR_FILENO) == 1);
  }

  void head() const {
    if (!active_) return;
    fmt::print("# gpuar_bench: {} ranks, {} of {}\n", ranks_, options_.op, options_.type);
    fmt::print("{:>12} {:>11} {:>11} {:>11} {:>11} {:>9} {:>9}  {}\n", "form", "bytes", "min us",
               "median us", "p95 us", "algbw", "busbw", "served by");
  }

  void starting(Form form, std::size_t bytes, std::size_t done, std::size_t all) const {
    if (!options_.progress) return;
    fmt::print(stderr, "gpuar_bench: {} of {}, {:.0f} s: {}, {} bytes\n", done + 1, all,
               MPI_Wtime() - start_, bench::name_of(form), bytes);
  }

  void add(const Sample& sample) {
    if (!active_) return;
    const double busbw = bench::bus_bandwidth(sample, ranks_);
    const char* served_by = sample.served_by_gpuar ? "gpuar" : "other";
    fmt::print("{:>12} {:>11} {:>11.2f} {:>11.2f} {:>11.2f} {:>9.3f} {:>9.3f}  {}\n",
               bench::name_of(sample.form), sample.bytes, sample.min_us, sample.median_us,
               sample.p95_us, bench::algorithm_bandwidth(sample), busbw, served_by);
    std::fflush(stdout);
    results_.push_back({{"form", bench::name_of(sample.form)},
                        {"bytes", sample.bytes},
                        {"calls", sample.calls},
                        {"min_us", sample.min_us},
                        {"median_us", sample.median_us},
                        {"p95_us", sample.p95_us},
                        {"algbw", bench::algorithm_bandwidth(sample)},
                        {"busbw", busbw},
                        {"served_by", served_by},
                        {"verified", true}});  // a wrong result ends the run
  }

  void write_json() const {
    if (!active_ || options_.json.empty()) return;
    std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> mpi = {};
    int length = 0;
    MPI_Get_library_version(mpi.data(), &length);
    const nlohmann::json document = {{"tool", "gpuar_bench"}, {"mpi", mpi.data()},
                                     {"ranks", ranks_},       {"op", options_.op},
                                     {"type", options_.type}, {"results", results_}};
    std::ofstream file(options_.json);
    file << document.dump(1) << '\n';
    file.close();
    if (!file) throw std::runtime_error(fmt::format("cannot write {}", options_.json));
  }

 private:
  Options options_;
  bool active_;
  int ranks_;
  double start_ = MPI_Wtime();
  nlohmann::json results_ = nlohmann::json::array();
};

void run(const Options& options, const std::vector<std::size_t>& sizes) {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const auto data = bench::make_data(options.type, options.op,
                                     *std::max_element(sizes.begin(), sizes.end()), rank, ranks);
  const bench::ServedCounter served;
  Reporter reporter(options, rank, ranks);
  reporter.head();
  std::size_t done = 0;
  for (const std::string& name : options.forms) {
    const Form form = bench::form_named(name);
    for (const std::size_t bytes : sizes) {
      reporter.starting(form, bytes, done++, options.forms.size() * sizes.size());
      reporter.add(bench::measure(form, bytes, options.effort, *data, served, MPI_COMM_WORLD));
    }
  }
  reporter.write_json();
}

// Help and usage errors come before MPI is up, and once for all ranks.
int usage(const CLI::App& app, const CLI::ParseError& error) {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"}) {
    const char* rank = std::getenv(name);
    if (rank != nullptr && std::string(rank) != "0") return error.get_exit_code();
  }
  return app.exit(error);
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
    sizes = parse_sizes(options.sizes);
    bench::check_defined(options.type, options.op);
  } catch (const CLI::ParseError& error) {
    return usage(app, error);
  } catch (const std::invalid_argument& error) {
    return usage(app, CLI::ValidationError("--op", error.what()));
  }

  MPI_Init(&argc, &argv);
  try {
    run(options, sizes);
  } catch (const std::exception& error) {
    fmt::print(stderr, "gpuar_bench: {}\n", error.what());
    MPI_Abort(MPI_COMM_WORLD, EXIT_FAILURE);
  }
  MPI_Finalize();
  return EXIT_SUCCESS;
}
