// The device's reductions against the host's, bit for bit: every operation and type.
#include <cmath>

#include "cuda_reduce/reduce.h"
#include "test/cuda_reduce/device/driver.h"
#include "test/cuda_reduce/reference.h"

using gpuar::Cuda;
using gpuar::GpuReduction;
using gpuar::Status;

namespace {

// Operands of many reductions in one piece of memory, each between guard bytes.
class Arena {
 public:
  // Room for `bytes` at an address that is `misalignment` beyond a multiple of 64.
  std::size_t place(std::size_t bytes, std::size_t misalignment) {
    const std::size_t at = (bytes_.size() + guard + 63) / 64 * 64 + misalignment;
    const std::size_t old = bytes_.size();
    bytes_.resize(at + bytes + guard);
    for (std::size_t i = old; i < bytes_.size(); ++i)
      bytes_[i] = static_cast<unsigned char>(i * 37);
    return at;
  }
  std::vector<unsigned char>& bytes() { return bytes_; }

 private:
  static constexpr std::size_t guard = 32;
  std::vector<unsigned char> bytes_;
};

// Calls visit(offset, T) for each number of an element: padding is none.
template <class T, class Visit>
void for_each_number(Visit&& visit) {
  if constexpr (reference::PairLike<T>) {
    visit(offsetof(T, value), decltype(T::value){});
    visit(offsetof(T, index), decltype(T::index){});
  } else if constexpr (reference::is_complex<T>) {
    visit(0, typename T::value_type{});
    visit(sizeof(T) / 2, typename T::value_type{});
  } else {
    visit(0, T{});
  }
}

template <class T>
void set(unsigned char* at, const T& element) {
  const auto* from = reinterpret_cast<const unsigned char*>(&element);
  for_each_number<T>([&](std::size_t offset, auto number) {
    std::memcpy(at + offset, from + offset, sizeof number);
  });
}

template <class T>
bool is_nan(T number) {
  if constexpr (reference::is_narrow<T>)
    return std::isnan(number.value());
  else
    return std::isnan(number);
}

// Any NaN equals any NaN: gives `to` the bits of `from` where both are one.
template <class T>
void unify_nans(unsigned char* to, const unsigned char* from) {
  for_each_number<T>([&](std::size_t offset, auto number) {
    using Number = decltype(number);
    if constexpr (std::is_floating_point_v<Number> || reference::is_narrow<Number>) {
      auto other = number;
      std::memcpy(&number, to + offset, sizeof number);
      std::memcpy(&other, from + offset, sizeof other);
      if (is_nan(number) && is_nan(other)) std::memcpy(to + offset, &other, sizeof other);
    }
  });
}

struct Task {
  std::size_t count;
  std::size_t input_count;
  std::size_t out;
  std::size_t inputs[gpuar::max_reduce_inputs];
  int in_place;  // the input that `out` is; -1: none
};

// How the operands lie: what the kernels tell apart.
enum class Lie { aligned, shifted_alike, apart, odd_bytes };

template <class T>
Task make_task(Arena& arena, std::size_t count, std::size_t inputs, Lie lie, int in_place) {
  const auto values = reference::values<T>();
  const auto misalignment = [&](std::size_t operand) -> std::size_t {
    switch (lie) {
      case Lie::aligned:
        return 0;
      case Lie::shifted_alike:
        return sizeof(T) < 16 ? sizeof(T) * (1 + count % 3) : alignof(T);
      case Lie::apart:
        return alignof(T) * operand;
      case Lie::odd_bytes:
        return 1 + operand * 2;
    }
    return 0;
  };
  Task task{count, inputs, 0, {}, in_place};
  for (std::size_t k = 0; k < inputs; ++k) {
    task.inputs[k] = arena.place(count * sizeof(T), misalignment(k + 1));
    for (std::size_t i = 0; i < count; ++i)
      set(arena.bytes().data() + task.inputs[k] + i * sizeof(T),
          values[(i * (2 * k + 1) + 13 * k + count) % values.size()]);
  }
  task.out =
      in_place >= 0 ? task.inputs[in_place] : arena.place(count * sizeof(T), misalignment(0));
  return task;
}

// What the host makes of it, in a chain: rounded at each step.
template <class T>
void reduce_on_host(gpuar_op op, gpuar_type type, const Task& task, unsigned char* base) {
  std::vector<unsigned char> partial(base + task.inputs[0],
                                     base + task.inputs[0] + task.count * sizeof(T));
  const auto reduce = gpuar::host_reduce(op, type);
  for (std::size_t k = 1; k < task.input_count; ++k)
    reduce(partial.data(), partial.data(), base + task.inputs[k], task.count);
  for (std::size_t i = 0; i < task.count; ++i) {
    T element;
    std::memcpy(static_cast<void*>(&element), partial.data() + i * sizeof(T), sizeof element);
    set(base + task.out + i * sizeof(T), element);
  }
}

template <class T>
std::vector<Task> make_tasks(Arena& arena) {
  constexpr std::size_t vector = 16 / sizeof(T);
  std::vector<Task> tasks;
  for (const Lie lie : {Lie::aligned, Lie::shifted_alike, Lie::apart, Lie::odd_bytes}) {
    std::size_t inputs = 2;
    for (const std::size_t count : {std::size_t{1}, vector, vector + 1, 3 * vector + 2,
                                    4 * vector - 1, std::size_t{63}, std::size_t{1027}}) {
      const int in_place = static_cast<int>(tasks.size() % 3) - 1;
      tasks.push_back(make_task<T>(arena, count, inputs, lie, in_place));
      inputs = inputs == gpuar::max_reduce_inputs ? 2 : inputs + 1;
    }
  }
  return tasks;
}

// All tasks at once, on memory of that kind.
template <class T>
void check(Cuda& cuda, gpuar_op op, gpuar_type type, device::Kind kind) {
  INFO(gpuar::name_of(op) << " on " << gpuar::name_of(type));
  Arena arena;
  const std::vector<Task> tasks = make_tasks<T>(arena);
  const device::Memory memory(kind, arena.bytes().size());
  memory.upload(arena.bytes().data());
  const device::Memory on_device(device::Kind::device, 64);
  gpuar::Gpu& gpu = device::gpu_of(cuda, on_device);

  std::vector<device::Op> ops(tasks.size());
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    GpuReduction reduction;
    reduction.op = op;
    reduction.type = type;
    reduction.out = memory.data() + tasks[t].out;
    for (std::size_t k = 0; k < tasks[t].input_count; ++k)
      reduction.inputs[k] = memory.data() + tasks[t].inputs[k];
    reduction.input_count = tasks[t].input_count;
    reduction.count = tasks[t].count;
    REQUIRE(gpu.reduce(reduction, ops[t]) == Status::in_progress);
  }
  device::drain(cuda);
  const std::vector<unsigned char> got = memory.download();
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    REQUIRE(ops[t].status == Status::ok);
    reduce_on_host<T>(op, type, tasks[t], arena.bytes().data());
    for (std::size_t i = 0; i < tasks[t].count; ++i)
      unify_nans<T>(arena.bytes().data() + tasks[t].out + i * sizeof(T),
                    got.data() + tasks[t].out + i * sizeof(T));
  }
  if (got == arena.bytes()) return;
  for (const Task& task : tasks) {
    const std::size_t bytes = task.count * sizeof(T);
    const bool right = std::equal(got.begin() + static_cast<std::ptrdiff_t>(task.out),
                                  got.begin() + static_cast<std::ptrdiff_t>(task.out + bytes),
                                  arena.bytes().begin() + static_cast<std::ptrdiff_t>(task.out));
    CAPTURE(task.count, task.input_count, task.in_place, task.out % 64);
    CHECK(right);
  }
  FAIL_CHECK("bytes differ, in an operand, in padding or around them");
}

// Divisions of sums of any bits, in place and apart, at and off the element's alignment.
template <class T>
void check_division(Cuda& cuda, gpuar_type type) {
  INFO("division of " << gpuar::name_of(type));
  constexpr std::size_t count = 1027;
  const auto values = reference::values<T>();
  for (const std::size_t shift : {std::size_t{0}, std::size_t{1}}) {
    const std::size_t bytes = count * sizeof(T) + shift;
    std::vector<unsigned char> sums(bytes);
    for (std::size_t i = 0; i < count; ++i)
      set(sums.data() + shift + i * sizeof(T), values[i * 7 % values.size()]);
    const device::Memory in(device::Kind::device, bytes), out(device::Kind::device, bytes);
    in.upload(sums.data());
    out.upload(sums.data());
    gpuar::Gpu& gpu = device::gpu_of(cuda, in);
    device::Op in_place, apart;
    REQUIRE(gpu.divide({type, out.data() + shift, in.data() + shift, count, 7}, apart) ==
            Status::in_progress);
    device::drain(cuda);
    REQUIRE(gpu.divide({type, in.data() + shift, in.data() + shift, count, 7}, in_place) ==
            Status::in_progress);
    device::drain(cuda);
    gpuar::host_divide(type)(sums.data() + shift, sums.data() + shift, count, 7);
    for (const device::Memory* memory : {&in, &out}) {
      std::vector<unsigned char> got = memory->download();
      for (std::size_t at = shift; at < bytes; at += sizeof(T))
        unify_nans<T>(sums.data() + at, got.data() + at);
      CHECK(got == sums);
    }
  }
}

template <class Body>
void for_each_pair(Body&& body) {
  reference::for_each_type([&]<class T>(gpuar_type type) {
    for (int op = 0; op < GPUAR_OP_COUNT; ++op)
      body.template operator()<T>(static_cast<gpuar_op>(op), type);
  });
}

}  // namespace

TEST_CASE("the device reduces all that the host does, but long double and binary128",
          "[device][reduce]") {
  const device::Context context;
  Cuda cuda(device::options());
  const device::Memory memory(device::Kind::device, 4096);
  gpuar::Gpu& gpu = device::gpu_of(cuda, memory);
  std::size_t pairs = 0;
  for_each_pair([&]<class T>(gpuar_op op, gpuar_type type) {
    const bool wide = type == GPUAR_LONG_DOUBLE || type == GPUAR_COMPLEX_LONG_DOUBLE ||
                      type == GPUAR_LONG_DOUBLE_INT;
    INFO(gpuar::name_of(op) << " on " << gpuar::name_of(type));
    CHECK(gpu.can_reduce(op, type) == (gpuar::host_reduce(op, type) != nullptr && !wide));
    pairs += gpu.can_reduce(op, type) ? 1 : 0;
  });
  CHECK_FALSE(gpu.can_reduce(GPUAR_SUM, GPUAR_FLOAT128));
  CHECK_FALSE(gpu.can_reduce(GPUAR_SUM, GPUAR_COMPLEX_FLOAT128));
  CHECK(pairs == 8 * 10 + 4 * 4 + 2 * 2 + 5 * 3 + 3 + 7 * 2);
}

TEST_CASE("every operation, type, number of inputs and alignment: the host's bits",
          "[device][reduce]") {
  const device::Context context;
  Cuda cuda(device::options());
  const device::Memory memory(device::Kind::device, 64);
  gpuar::Gpu& gpu = device::gpu_of(cuda, memory);
  for_each_pair([&]<class T>(gpuar_op op, gpuar_type type) {
    if (gpu.can_reduce(op, type)) check<T>(cuda, op, type, device::Kind::device);
  });
}

TEST_CASE("a finished sum is divided as on the host", "[device][reduce]") {
  const device::Context context;
  Cuda cuda(device::options());
  const device::Memory memory(device::Kind::device, 64);
  gpuar::Gpu& gpu = device::gpu_of(cuda, memory);
  int types = 0;
  reference::for_each_type([&]<class T>(gpuar_type type) {
    const bool wide = type == GPUAR_LONG_DOUBLE || type == GPUAR_COMPLEX_LONG_DOUBLE;
    CHECK(gpu.can_divide(type) == (gpuar::host_divide(type) != nullptr && !wide));
    if (!gpu.can_divide(type)) return;
    ++types;
    check_division<T>(cuda, type);
  });
  CHECK(types >= 4);
  device::Op op;
  CHECK(gpu.divide({GPUAR_INT32, memory.data(), memory.data(), 1, 2}, op) == Status::unsupported);
}

TEST_CASE("reductions of pinned and managed memory", "[device][reduce]") {
  const device::Context context;
  Cuda cuda(device::options());
  check<float>(cuda, GPUAR_SUM, GPUAR_FLOAT32, device::Kind::pinned);
  check<double>(cuda, GPUAR_PROD, GPUAR_FLOAT64, device::Kind::managed);
  check<reference::DoubleInt>(cuda, GPUAR_MINLOC, GPUAR_FLOAT64_INT, device::Kind::pool);
}

TEST_CASE("what no kernel does is refused", "[device][reduce]") {
  const device::Context context;
  Cuda cuda(device::options());
  const device::Memory memory(device::Kind::device, 64);
  GpuReduction reduction;
  reduction.inputs[0] = reduction.inputs[1] = reduction.out = memory.data();
  reduction.count = 1;
  device::Op op;
  gpuar::Gpu& gpu = device::gpu_of(cuda, memory);
  reduction.type = GPUAR_LONG_DOUBLE;
  CHECK(gpu.reduce(reduction, op) == Status::unsupported);
  reduction.type = GPUAR_FLOAT32;
  reduction.op = GPUAR_BAND;
  CHECK(gpu.reduce(reduction, op) == Status::unsupported);
  reduction.op = GPUAR_SUM;
  reduction.input_count = 1;
  CHECK(gpu.reduce(reduction, op) == Status::unsupported);
  reduction.input_count = 9;
  CHECK(gpu.reduce(reduction, op) == Status::unsupported);
  CHECK(cuda.in_flight() == 0);
}
