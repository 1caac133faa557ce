// kernel_times: how fast one GPU reduces, beside how fast it copies. No MPI: the core's own
// reductions, posted as the engine posts them.
//
// Sets of buffers are used in turn, together larger than the GPU's cache. Copy and reduction
// alternate; a ratio is the median over the rounds of neighbours in time. Bandwidth counts bytes
// read and written: two buffers for a copy, one more than it has inputs for a reduction. Every
// element of one set is compared with the host's reduction, bit by bit.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <vector>

#include "bench/cuda_driver.h"
#include "bench/device_buffer.h"
#include "bench/json_file.h"
#include "cuda_reduce/gpu.h"
#include "cuda_reduce/reduce.h"

namespace {

using bench::cuda_driver;

struct Case {
  gpuar_op op;
  gpuar_type type;
  std::size_t inputs;
};

struct Options {
  std::vector<std::size_t> sizes = {16U << 20U, 64U << 20U, 256U << 20U};
  std::size_t arena_bytes = std::size_t{1} << 30U;
  double min_seconds = 0.02;
  unsigned rounds = 5;
  std::string json;
};

struct FloatInt {
  float value;
  int index;
};

// Small whole numbers, other ones in each buffer: sums are exact in any type.
constexpr std::size_t period = 11;
template <class T>
T number(std::size_t element, std::size_t buffer) {
  return static_cast<T>(1 + (element * 7 + buffer * 5) % period);
}

template <class T>
std::vector<std::byte> filled(std::size_t count, std::size_t buffer) {
  std::vector<T> piece(period * 1024);
  for (std::size_t i = 0; i < piece.size(); ++i) {
    if constexpr (std::is_same_v<T, FloatInt>) {
      piece[i] = {number<float>(i, buffer), static_cast<int>(buffer)};
    } else {
      piece[i] = number<T>(i, buffer);
    }
  }
  std::vector<std::byte> bytes(count * sizeof(T));
  for (std::size_t at = 0; at < bytes.size(); at += piece.size() * sizeof(T)) {
    std::memcpy(bytes.data() + at, piece.data(),
                std::min(piece.size() * sizeof(T), bytes.size() - at));
  }
  return bytes;
}

std::vector<std::byte> input_values(gpuar_type type, std::size_t count, std::size_t buffer) {
  switch (type) {
    case GPUAR_FLOAT64:
      return filled<double>(count, buffer);
    case GPUAR_INT32:
      return filled<std::int32_t>(count, buffer);
    case GPUAR_FLOAT32_INT:
      return filled<FloatInt>(count, buffer);
    default:
      return filled<float>(count, buffer);
  }
}

// The buffers of one case and size: sets of one output and the inputs.
class Arena {
 public:
  Arena(const Case& what, std::size_t bytes, std::size_t arena_bytes)
      : what_(what),
        count_(bytes / gpuar::element_bytes(what.type)),
        bytes_(count_ * gpuar::element_bytes(what.type)),
        pitch_((bytes + 255) / 256 * 256),
        sets_(std::max<std::size_t>(2, arena_bytes / (pitch_ * (what.inputs + 1)))),
        memory_(bench::MemoryKind::device, sets_ * (what.inputs + 1) * pitch_) {
    for (std::size_t input = 0; input < what.inputs; ++input) {
      const auto values = input_values(what.type, count_, input);
      for (std::size_t set = 0; set < sets_; ++set) {
        memory_.write(offset(set, input + 1), values.data(), bytes_);
      }
    }
  }

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  [[nodiscard]] void* output(std::size_t turn) const { return at(turn % sets_, 0); }

  [[nodiscard]] gpuar::GpuReduction reduction(std::size_t turn) const {
    gpuar::GpuReduction reduction;
    reduction.op = what_.op;
    reduction.type = what_.type;
    reduction.out = output(turn);
    reduction.input_count = what_.inputs;
    reduction.count = count_;
    for (std::size_t i = 0; i < what_.inputs; ++i) reduction.inputs[i] = at(turn % sets_, i + 1);
    return reduction;
  }

  void copy(std::size_t turn, bench::CudaStream stream) const {
    const auto address = [&](std::size_t buffer) {
      return reinterpret_cast<bench::CudaAddress>(at(turn % sets_, buffer));
    };
    bench::check_cuda(cuda_driver().copy_across(address(0), address(1), bytes_, stream),
                      "copying on the device");
  }

  // Of the set that was reduced last in turn 0.
  void check_result() const {
    std::vector<std::byte> expected = input_values(what_.type, count_, 0);
    const gpuar::ReduceFn reduce = gpuar::host_reduce(what_.op, what_.type);
    for (std::size_t input = 1; input < what_.inputs; ++input) {
      const auto right = input_values(what_.type, count_, input);
      reduce(expected.data(), expected.data(), right.data(), count_);
    }
    std::vector<std::byte> found(bytes_);
    memory_.read(offset(0, 0), found.data(), bytes_);
    const auto [wrong, unused] = std::mismatch(found.begin(), found.end(), expected.begin());
    if (wrong == found.end()) return;
    throw std::runtime_error(fmt::format("{} of {}, {} inputs: byte {} of {} is not the host's",
                                         gpuar::name_of(what_.op), gpuar::name_of(what_.type),
                                         what_.inputs, wrong - found.begin(), bytes_));
  }

 private:
  [[nodiscard]] std::size_t offset(std::size_t set, std::size_t buffer) const {
    return (set * (what_.inputs + 1) + buffer) * pitch_;
  }
  [[nodiscard]] void* at(std::size_t set, std::size_t buffer) const {
    return static_cast<std::byte*>(memory_.data()) + offset(set, buffer);
  }

  Case what_;
  std::size_t count_, bytes_, pitch_, sets_;
  bench::Buffer memory_;
};

double now() {
  const auto time = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(time).count();
}

// Posts reductions and copies, and times them.
class Timer {
 public:
  Timer() : cuda_(core_options()) {
    gpu_name_ = bench::use_gpu(0);
    constexpr unsigned not_ordered_with_the_default_stream = 1;  // CU_STREAM_NON_BLOCKING
    bench::check_cuda(cuda_driver().create_stream(&stream_, not_ordered_with_the_default_stream),
                      "making a stream");
  }
  ~Timer() { cuda_.close(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  [[nodiscard]] const std::string& gpu_name() const { return gpu_name_; }
  [[nodiscard]] std::string driver() const { return cuda_.state(); }

  // Both: seconds for each of `times`, all of them posted at once.
  double reductions(const Arena& arena, const Case& what, std::size_t times) {
    gpuar::Gpu& gpu = gpu_of(arena, what);
    std::vector<Operation> operations(times);
    const double start = now();
    for (std::size_t turn = 0; turn < times; ++turn) {
      if (gpu.reduce(arena.reduction(turn), operations[turn].op) != gpuar::Status::in_progress) {
        throw std::runtime_error("a reduction could not be posted");
      }
      cuda_.launch();
    }
    while (cuda_.in_flight() > 0) cuda_.poll();
    const double seconds = (now() - start) / static_cast<double>(times);
    for (const Operation& operation : operations) {
      if (operation.status != gpuar::Status::ok) throw std::runtime_error("a reduction failed");
    }
    return seconds;
  }

  double copies(const Arena& arena, std::size_t times) {
    const double start = now();
    for (std::size_t turn = 0; turn < times; ++turn) arena.copy(turn, stream_);
    bench::check_cuda(cuda_driver().wait_for_stream(stream_), "waiting for copies");
    return (now() - start) / static_cast<double>(times);
  }

 private:
  struct Operation {
    gpuar::GpuOp op;
    gpuar::Status status = gpuar::Status::in_progress;
    Operation() {
      op.owner = this;
      op.done = [](void* owner, gpuar::Status status) {
        static_cast<Operation*>(owner)->status = status;
      };
    }
  };

  static gpuar::CudaOptions core_options() {
    cuda_driver();  // the core uses the driver once something else has loaded it
    gpuar::CudaOptions options;
    options.log = [](const char* line) { std::fprintf(stderr, "kernel_times: %s\n", line); };
    return options;
  }

  gpuar::Gpu& gpu_of(const Arena& arena, const Case& what) {
    const gpuar::Memory memory =
        cuda_.present() ? cuda_.memory_of(arena.output(0)) : gpuar::Memory{};
    if (memory.gpu == nullptr) {
      throw std::runtime_error("gpuar does not see device memory: " + cuda_.state());
    }
    if (!memory.gpu->can_reduce(what.op, what.type)) {
      throw std::runtime_error("this build of gpuar has no kernels that this GPU runs");
    }
    return *memory.gpu;
  }

  gpuar::Cuda cuda_;
  std::string gpu_name_;
  bench::CudaStream stream_ = nullptr;
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// As many as fill the time, from one that was not the first.
template <class Work>
std::size_t times_for(double min_seconds, Work work) {
  work(1);
  constexpr double most = 1000;
  return static_cast<std::size_t>(std::clamp(min_seconds / work(1), 1.0, most));
}

nlohmann::json measure(Timer& timer, const Case& what, std::size_t bytes, const Options& options) {
  const Arena arena(what, bytes, options.arena_bytes);
  const auto reduce = [&](std::size_t times) { return timer.reductions(arena, what, times); };
  const auto copy = [&](std::size_t times) { return timer.copies(arena, times); };
  const std::size_t reductions = times_for(options.min_seconds, reduce);
  const std::size_t copies = times_for(options.min_seconds, copy);
  std::vector<double> reduce_gbs, copy_gbs, ratios;
  for (unsigned round = 0; round < options.rounds; ++round) {
    const double moved = static_cast<double>(arena.bytes()) * 1e-9;
    copy_gbs.push_back(2 * moved / copy(copies));
    reduce_gbs.push_back(static_cast<double>(what.inputs + 1) * moved / reduce(reductions));
    ratios.push_back(reduce_gbs.back() / copy_gbs.back());
  }
  reduce(1);  // over what the copies left
  arena.check_result();
  const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
  return {{"op", gpuar::name_of(what.op)},
          {"type", gpuar::name_of(what.type)},
          {"inputs", what.inputs},
          {"bytes", arena.bytes()},
          {"reduce_gbs", median(reduce_gbs)},
          {"copy_gbs", median(copy_gbs)},
          {"ratio", median(ratios)},
          {"ratio_min", *least},
          {"ratio_max", *most},
          {"verified", true}};
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (std::size_t inputs = 2; inputs <= gpuar::max_reduce_inputs; ++inputs) {
    cases.push_back({GPUAR_SUM, GPUAR_FLOAT32, inputs});
  }
  cases.push_back({GPUAR_SUM, GPUAR_FLOAT64, 2});
  cases.push_back({GPUAR_MIN, GPUAR_INT32, 2});
  cases.push_back({GPUAR_MINLOC, GPUAR_FLOAT32_INT, 2});
  return cases;
}

void run(const Options& options) {
  Timer timer;
  fmt::print("# kernel_times: {}; {}\n", timer.gpu_name(), timer.driver());
  fmt::print("{:>8} {:>12} {:>7} {:>11} {:>12} {:>10} {:>7}  {}\n", "op", "type", "inputs", "bytes",
             "reduce GB/s", "copy GB/s", "ratio", "(min-max)");
  nlohmann::json results = nlohmann::json::array();
  for (const Case& what : all_cases()) {
    for (const std::size_t bytes : options.sizes) {
      const nlohmann::json row = results.emplace_back(measure(timer, what, bytes, options));
      fmt::print("{:>8} {:>12} {:>7} {:>11} {:>12.1f} {:>10.1f} {:>7.3f}  ({:.3f}-{:.3f})\n",
                 gpuar::name_of(what.op), gpuar::name_of(what.type), what.inputs,
                 row["bytes"].get<std::size_t>(), row["reduce_gbs"].get<double>(),
                 row["copy_gbs"].get<double>(), row["ratio"].get<double>(),
                 row["ratio_min"].get<double>(), row["ratio_max"].get<double>());
      std::fflush(stdout);
    }
  }
  if (options.json.empty()) return;
  bench::write_json(options.json,
                    {{"tool", "kernel_times"}, {"gpu", timer.gpu_name()}, {"results", results}});
}

}  // namespace

// Only a mistake in the declarations could throw outside of the try block.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  Options options;
  CLI::App app("Times a GPU's reductions beside its copies.", "kernel_times");
  app.add_option("--sizes", options.sizes, "bytes of one buffer, a list")->delimiter(',');
  app.add_option("--arena", options.arena_bytes, "bytes that the sets of buffers fill together");
  app.add_option("--min-time", options.min_seconds, "seconds of one timing");
  app.add_option("--rounds", options.rounds, "timings of each")->check(CLI::PositiveNumber);
  app.add_option("--json", options.json, "write the results to this file as well");
  CLI11_PARSE(app, argc, argv);
  try {
    run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "kernel_times: {}\n", error.what());
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
