// gpuar_tune: times every algorithm of gpuar on the machine it runs on, and writes what it finds
// into a tuning file, for communicators of as many ranks and nodes as it ran with.

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mpi.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <optional>
#include <stdexcept>

#include "bench/ask_gpuar.h"
#include "bench/cuda_driver.h"
#include "bench/data.h"
#include "bench/device_limit.h"
#include "bench/measure.h"
#include "bench/served.h"
#include "bench/sizes.h"
#include "bench/tuning_table.h"
#include "bench/usage.h"

namespace {

using bench::Candidate;
using bench::SizeTimings;
using bench::Timing;

struct Options {
  std::string sizes = "8:16M:4";
  std::string memory = "host";
  std::string form = "blocking";
  std::vector<std::string> algorithms;  // empty: all
  std::string segments;                 // besides the cost model's
  unsigned rounds = 3;
  double min_seconds = 0.01;
  double margin = 1.03;
  std::string output = "gpuar-tuning.toml";
  bool append = false;
  bool progress = false;
};

void declare(CLI::App& app, Options& options) {
  app.add_option("--sizes", options.sizes,
                 "bytes: a range MIN:MAX[:FACTOR] or a list A,B,…; K, M and G are powers of 1024")
      ->capture_default_str();
  app.add_option("--memory", options.memory,
                 "where the buffers are; what is measured in device memory is used for calls on it")
      ->check(CLI::IsMember({"host", "device"}))
      ->capture_default_str();
  app.add_option("--form", options.form, "form of the call")
      ->check(CLI::IsMember(bench::form_names()))
      ->capture_default_str();
  app.add_option("--algorithms", options.algorithms,
                 "try only these, named as coll_gpuar_algorithm takes them (default: all)")
      ->delimiter(',');
  app.add_option("--segments", options.segments,
                 "try these segment sizes, too, a list as of --sizes (default: only the cost "
                 "model's)");
  app.add_option("--rounds", options.rounds,
                 "times that each is measured to choose by, and again to judge the choice by")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--min-time", options.min_seconds, "seconds of timed calls each time")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option(
         "--margin", options.margin,
         "the cost model's own choice stays if it takes at most so many times the fastest's "
         "time")
      ->check(CLI::Range(1.0, 10.0))
      ->capture_default_str();
  app.add_option("--output", options.output, "the file to write")->capture_default_str();
  app.add_flag("--append", options.append,
               "add to the file, which may hold tables for other numbers of ranks and nodes");
  app.add_flag("--progress", options.progress,
               "say on stderr what is being measured (default: if it is a terminal)");
  app.footer(
      "Run it as the job will run: mpirun --mca coll gpuar -n RANKS gpuar_tune. Use the file by\n"
      "--mca coll_gpuar_tuning_file FILE. A time is that of a call, the median of the fastest\n"
      "round's batches; regret is the time over that of the fastest algorithm, measured after the\n"
      "choice was made.");
}

struct Contender {
  Candidate candidate;
  MPI_Comm comm;
};

class Tuner {
 public:
  Tuner(const Options& options, const std::vector<std::size_t>& sizes) : options_(options) {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
    options_.progress = rank_ == 0 && (options_.progress || isatty(STDERR_FILENO) == 1);
    if (!gpuar_.tuning_file().empty()) {
      throw std::runtime_error(
          "coll_gpuar_tuning_file is set; tune without it, or what is called "
          "the cost model's choice would be the file's");
    }
    const auto memory = bench::memory_named(options_.memory);
    if (memory != bench::MemoryKind::host) bench::use_gpu(local_rank());
    largest_ = *std::max_element(sizes.begin(), sizes.end());
    data_ = bench::make_data("float", "sum", memory, largest_, rank_, ranks_);
    model_ = duplicate({"auto"});
    settle(model_, sizes.back());
    nodes_ = gpuar_.ask(model_, 1, data_->element_bytes()).nodes;
    make_contenders();
  }
  ~Tuner() {
    for (Contender& contender : contenders_) MPI_Comm_free(&contender.comm);
    if (model_ != MPI_COMM_NULL) MPI_Comm_free(&model_);
  }
  Tuner(const Tuner&) = delete;
  Tuner& operator=(const Tuner&) = delete;

  SizeTimings measure(std::size_t bytes, std::size_t done, std::size_t all) {
    std::vector<const Contender*> field = fit_for(bytes);
    if (options_.progress) {
      fmt::print(stderr, "gpuar_tune: {} of {}, {:.0f} s: {} bytes, {} candidates\n", done + 1, all,
                 MPI_Wtime() - start_, bytes, field.size());
    }
    const Candidate model = models_choice(bytes);
    std::vector<double> choosing = rounds(field, bytes, 1);
    leave_out_hopeless(field, choosing, model);
    const std::vector<double> more = rounds(field, bytes, options_.rounds - 1);
    const std::vector<double> judging = rounds(field, bytes, options_.rounds);
    SizeTimings size{bytes, {}, 0};
    for (std::size_t i = 0; i < field.size(); ++i) {
      if (field[i]->candidate == model) size.model = i;
      size.timings.push_back({field[i]->candidate, std::min(choosing[i], more[i]), judging[i]});
    }
    return size;
  }

  // Each of some sizes through the host and on the device, by the cost model's choice.
  std::vector<bench::LimitTiming> measure_limit() {
    std::vector<bench::LimitTiming> timings;
    bench::DeviceLimit limit;
    const auto best = [&](std::size_t bytes, std::size_t up_to) {
      limit.set(up_to);
      const Contender model{{"auto"}, model_};
      return rounds({&model}, bytes, options_.rounds).front();
    };
    for (std::size_t bytes = 1024; bytes <= std::min(largest_, largest_limit); bytes *= 4) {
      const double through_host = best(bytes, bytes);
      timings.push_back({bytes, through_host, best(bytes, 0)});
    }
    if (!timings.empty()) device_limit_ = bench::limit_of(timings);
    return timings;
  }

  [[nodiscard]] bench::TunedLayout layout() const {
    std::array<char, MPI_MAX_PROCESSOR_NAME> host = {};
    int length = 0;
    MPI_Get_processor_name(host.data(), &length);
    return {ranks_, nodes_, options_.memory != "host", device_limit_,
            fmt::format("{} rank{} on {} node{}, {} memory, {}; rank 0 on {}", ranks_,
                        ranks_ == 1 ? "" : "s", nodes_, nodes_ == 1 ? "" : "s", options_.memory,
                        options_.form, host.data())};
  }

  // Whether the component will look at a table of this memory for such calls.
  [[nodiscard]] bool is_planned_for_this_memory(std::size_t bytes) const {
    const std::size_t element = data_->element_bytes();
    const bool for_device = gpuar_.ask(model_, bytes / element, element).for_device != 0;
    return for_device == (options_.memory != "host");
  }

  [[nodiscard]] bool speaks() const { return rank_ == 0; }

 private:
  static int local_rank() {
    MPI_Comm node = MPI_COMM_NULL;
    int rank = 0;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &rank);
    MPI_Comm_free(&node);
    return rank;
  }

  static MPI_Comm duplicate(const Candidate& candidate) {
    MPI_Info info = MPI_INFO_NULL;
    MPI_Info_create(&info);
    MPI_Info_set(info, "gpuar_algorithm", candidate.algorithm.c_str());
    if (candidate.segment != 0) {
      MPI_Info_set(info, "gpuar_segment_size", std::to_string(candidate.segment).c_str());
    }
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &comm);
    MPI_Info_free(&info);
    return comm;
  }

  // On device memory, the first long call is where a communicator learns of it.
  void settle(MPI_Comm comm, std::size_t bytes) {
    const auto count = static_cast<int>(bytes / data_->element_bytes());
    MPI_Allreduce(data_->in().data(), data_->out().data(), count, data_->type(), data_->op(), comm);
  }

  [[nodiscard]] std::vector<std::string> names() const {
    std::vector<std::string> all = gpuar_.algorithms();
    const std::vector<std::string> flat = all;
    for (const std::string& composition : gpuar_.compositions()) {
      for (const std::string& across : flat)
        all.push_back(fmt::format("{}:{}", composition, across));
    }
    for (const std::string& name : options_.algorithms) {
      if (std::find(all.begin(), all.end(), name) == all.end()) {
        throw std::runtime_error(
            fmt::format("unknown algorithm {}; there are {}", name, fmt::join(all, ", ")));
      }
    }
    return all;
  }

  void make_contenders() {
    std::vector<std::size_t> segments{0};
    if (!options_.segments.empty()) {
      const auto given = bench::parse_sizes("--segments", options_.segments);
      segments.insert(segments.end(), given.begin(), given.end());
    }
    for (const std::string& name : names()) {
      for (const std::size_t segment : segments) {
        const Candidate candidate{name, segment};
        if (is_asked_for(candidate)) contenders_.push_back({candidate, duplicate(candidate)});
      }
    }
  }

  // Any may be the cost model's choice, so all are there without a segment.
  [[nodiscard]] bool is_asked_for(const Candidate& candidate) const {
    const auto& asked = options_.algorithms;
    return candidate.segment == 0 || asked.empty() ||
           std::find(asked.begin(), asked.end(), candidate.algorithm) != asked.end();
  }

  Candidate models_choice(std::size_t bytes) const {
    return {gpuar_.ask(model_, bytes / data_->element_bytes(), data_->element_bytes()).algorithm};
  }

  // Those that serve calls of this size as they are named.
  std::vector<const Contender*> fit_for(std::size_t bytes) {
    const Candidate model = models_choice(bytes);
    const std::size_t element = data_->element_bytes();
    std::vector<const Contender*> fit;
    for (const Contender& contender : contenders_) {
      const Candidate& candidate = contender.candidate;
      const auto& asked = options_.algorithms;
      const bool wanted = asked.empty() || candidate == model ||
                          std::find(asked.begin(), asked.end(), candidate.algorithm) != asked.end();
      if (!wanted || candidate.segment >= bytes) continue;
      const gpuar_answer answer = gpuar_.ask(contender.comm, bytes / element, element);
      if (answer.algorithm == candidate.algorithm) fit.push_back(&contender);
    }
    return fit;
  }

  // The fastest of some rounds for each, by their medians: a network may give away its first batch
  // (a token bucket does, a switch's buffer). Infinite if there are none.
  std::vector<double> rounds(const std::vector<const Contender*>& field, std::size_t bytes,
                             unsigned number) {
    std::vector<double> best(field.size(), std::numeric_limits<double>::infinity());
    bench::Effort effort;
    effort.min_seconds = options_.min_seconds;
    effort.warmup = 2;
    for (unsigned round = 0; round < number; ++round) {
      for (std::size_t i = 0; i < field.size(); ++i) {
        const std::size_t which = (i + round) % field.size();  // no place is always the first
        const bench::Sample sample =
            bench::measure(bench::form_named(options_.form), bench::Path::direct, bytes, effort,
                           *data_, served_, field[which]->comm);
        if (!sample.served_by_gpuar) throw std::runtime_error("gpuar did not serve all calls");
        best[which] = std::min(best[which], sample.median_us);
      }
    }
    return best;
  }

  static void leave_out_hopeless(std::vector<const Contender*>& field, std::vector<double>& times,
                                 const Candidate& keep) {
    constexpr double hopeless = 2.0;
    const double limit = hopeless * *std::min_element(times.begin(), times.end());
    std::size_t kept = 0;
    for (std::size_t i = 0; i < field.size(); ++i) {
      if (times[i] > limit && !(field[i]->candidate == keep)) continue;
      field[kept] = field[i];
      times[kept++] = times[i];
    }
    field.resize(kept);
    times.resize(kept);
  }

  static constexpr std::size_t largest_limit = std::size_t{1} << 20;

  Options options_;
  std::size_t largest_ = 0;  // bytes of a call
  std::optional<std::size_t> device_limit_;
  bench::Gpuar gpuar_;
  bench::ServedCounter served_;
  std::unique_ptr<bench::Data> data_;
  int rank_ = 0, ranks_ = 0, nodes_ = 1;
  MPI_Comm model_ = MPI_COMM_NULL;
  std::vector<Contender> contenders_;
  double start_ = MPI_Wtime();
};

void write(const Options& options, const std::string& table) {
  const bool fresh = !options.append || !std::filesystem::exists(options.output);
  std::ofstream file(options.output, fresh ? std::ios::trunc : std::ios::app);
  file << (fresh ? bench::head_text() : "") << table;
  file.close();
  if (!file) throw std::runtime_error(fmt::format("cannot write {}", options.output));
}

void run(const Options& options, std::vector<std::size_t> sizes) {
  Tuner tuner(options, sizes);
  std::erase_if(sizes, [&](auto bytes) { return !tuner.is_planned_for_this_memory(bytes); });
  if (sizes.empty()) {
    throw std::runtime_error(
        fmt::format("no call of these sizes is planned for {} memory here; see "
                    "coll_gpuar_expect",
                    options.memory));
  }
  const bool device = options.memory != "host";
  const auto limits = device ? tuner.measure_limit() : std::vector<bench::LimitTiming>{};
  const bench::TunedLayout layout = tuner.layout();
  std::vector<SizeTimings> timings;
  timings.reserve(sizes.size());
  for (const std::size_t bytes : sizes) {
    timings.push_back(tuner.measure(bytes, timings.size(), sizes.size()));
  }
  if (!tuner.speaks()) return;
  fmt::print("# gpuar_tune: {}\n{}", layout.about, bench::summary_text(timings, options.margin));
  if (!limits.empty()) {
    fmt::print("{}through the host up to {} bytes\n", bench::limits_text(limits),
               layout.device_limit.value_or(0));
  }
  write(options, bench::table_text(layout, timings, options.margin));
  fmt::print("written: {}; to use it: --mca coll_gpuar_tuning_file {}\n", options.output,
             std::filesystem::absolute(options.output).string());
}

// Ascending; at least one element.
std::vector<std::size_t> sizes_of(const Options& options) {
  std::vector<std::size_t> sizes = bench::parse_sizes("--sizes", options.sizes);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  constexpr std::size_t least = sizeof(float);
  std::erase_if(sizes, [](std::size_t bytes) { return bytes < least; });
  if (sizes.empty()) {
    throw CLI::ValidationError("--sizes", fmt::format("none is at least {} bytes", least));
  }
  return sizes;
}

}  // namespace

// Only a mistake in declare() could throw outside of the try blocks.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  Options options;
  std::vector<std::size_t> sizes;
  CLI::App app("Measures which algorithm of gpuar is fastest here, and writes a tuning file.",
               "gpuar_tune");
  declare(app, options);
  try {
    app.parse(argc, argv);
    sizes = sizes_of(options);
    if (!options.segments.empty()) bench::parse_sizes("--segments", options.segments);
  } catch (const CLI::ParseError& error) {
    return bench::usage(app, error);
  }

  return bench::with_mpi("gpuar_tune", argc, argv, [&] { run(options, sizes); });
}
