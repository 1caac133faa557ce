// The device's reductions: one kernel for each operation and type, made from the functors that the
// host uses. Compiled by nvcc without fused multiply-add, so that the bits are the host's; tests
// compile the same text for the host.
//
// A launch carries many reductions (Batch). A block finds the one it belongs to by its number. Each
// thread keeps several 16-byte accesses in flight, which is what it takes to use all of a device's
// bandwidth. Nothing waits for another thread, and memory is all that threads have in common.
#include <cstring>

#include "cuda_reduce/kernel_table.h"

#ifndef EXPORT_KERNEL  // a build for the host collects the kernels by this
#define EXPORT_KERNEL(name)
#endif

namespace gpuar::kernel {
namespace {

using Bytes = unsigned char*;
using ConstBytes = const unsigned char*;

// How one number is read and written: at its alignment, or anywhere.
struct Aligned {
  template <class T>
  GPUAR_HD static T load(ConstBytes at) {
    return *reinterpret_cast<const T*>(at);
  }
  template <class T>
  GPUAR_HD static void store(Bytes at, T number) {
    *reinterpret_cast<T*>(at) = number;
  }
};

struct Anywhere {
  template <class T>
  GPUAR_HD static T load(ConstBytes at) {
    T number;
    memcpy(&number, at, sizeof number);
    return number;
  }
  template <class T>
  GPUAR_HD static void store(Bytes at, T number) {
    memcpy(at, &number, sizeof number);
  }
};

// One element, member by member: padding is neither read nor written.
template <class How, class T>
struct Single {
  using Value = T;
  static constexpr std::size_t bytes = sizeof(T);
  GPUAR_HD static T load(ConstBytes at) { return How::template load<T>(at); }
  GPUAR_HD static void store(Bytes at, T value) { How::store(at, value); }
  template <gpuar_op op>
  GPUAR_HD static void fold(T& left, T right) {
    left = Functor<op>::apply(left, right);
  }
};

template <class How, class T>
struct Single<How, Complex<T>> {
  using Value = Complex<T>;
  static constexpr std::size_t bytes = sizeof(Value);
  GPUAR_HD static Value load(ConstBytes at) {
    return {How::template load<T>(at), How::template load<T>(at + sizeof(T))};
  }
  GPUAR_HD static void store(Bytes at, Value value) {
    How::store(at, value.re);
    How::store(at + sizeof(T), value.im);
  }
  template <gpuar_op op>
  GPUAR_HD static void fold(Value& left, Value right) {
    left = Functor<op>::apply(left, right);
  }
};

template <class How, class V, class I>
struct Single<How, Pair<V, I>> {
  using Value = Pair<V, I>;
  static constexpr std::size_t bytes = sizeof(Value);
  static constexpr std::size_t index_at = sizeof(V) > alignof(I) ? sizeof(V) : alignof(I);
  GPUAR_HD static Value load(ConstBytes at) {
    return {How::template load<V>(at), How::template load<I>(at + index_at)};
  }
  GPUAR_HD static void store(Bytes at, Value value) {
    How::store(at, value.value);
    How::store(at + index_at, value.index);
  }
  template <gpuar_op op>
  GPUAR_HD static void fold(Value& left, Value right) {
    left = Functor<op>::apply(left, right);
  }
};

// 16 bytes of elements, in one access.
template <class T>
struct Vector {
  static constexpr std::size_t bytes = 16;
  struct alignas(16) Value {
    T at[bytes / sizeof(T)];
  };
  GPUAR_HD static Value load(ConstBytes at) {
    const uint4 raw = *reinterpret_cast<const uint4*>(at);
    Value value;
    memcpy(&value, &raw, bytes);
    return value;
  }
  GPUAR_HD static void store(Bytes at, const Value& value) {
    uint4 raw;
    memcpy(&raw, &value, bytes);
    *reinterpret_cast<uint4*>(at) = raw;
  }
  template <gpuar_op op>
  GPUAR_HD static void fold(Value& left, const Value& right) {
#pragma unroll
    for (std::size_t i = 0; i < bytes / sizeof(T); ++i)
      left.at[i] = Functor<op>::apply(left.at[i], right.at[i]);
  }
};

// Elements without padding: a vector of them may be written as a whole.
template <class T>
constexpr bool is_dense = true;
template <class V, class I>
constexpr bool is_dense<Pair<V, I>> = sizeof(Pair<V, I>) == sizeof(V) + sizeof(I);

// What a vector is computed in: bits are bits, whatever the element.
constexpr bool is_bitwise(gpuar_op op) {
  return op == GPUAR_BAND || op == GPUAR_BOR || op == GPUAR_BXOR;
}
template <gpuar_op op, class T>
using Part = std::conditional_t<is_bitwise(op), std::uint32_t, T>;

// Single bytes fill many registers as they are taken apart: two vectors at a time fit.
template <class T>
constexpr int vectors_in_flight = sizeof(T) == 1 ? 2 : 4;

// The threads that share a task.
struct Team {
  std::size_t member;
  std::size_t size;
};

// Units (elements or vectors) of a task from byte `from` on, `skip` bytes left out after `head` of
// them. A thread loads `in_flight` units of each input before it stores any: `out` may be an input,
// so the compiler would not move a load before a store.
template <gpuar_op op, class Unit, int in_flight>
GPUAR_HD void reduce_units(const Task& task, Team team, std::size_t units, std::size_t from,
                           std::size_t head, std::size_t skip) {
  using Value = typename Unit::Value;
  const std::size_t step = team.size * in_flight;
  for (std::size_t first = team.member; first < units; first += step) {
    Value value[in_flight];
    std::size_t at[in_flight];
#pragma unroll
    for (int i = 0; i < in_flight; ++i) {
      const std::size_t unit = first + i * team.size;
      at[i] = from + unit * Unit::bytes + (unit < head ? 0 : skip);
      if (unit < units) value[i] = Unit::load(static_cast<ConstBytes>(task.inputs[0]) + at[i]);
    }
#pragma unroll 1
    for (unsigned input = 1; input < task.input_count; ++input) {
      const auto right = static_cast<ConstBytes>(task.inputs[input]);
      Value next[in_flight];
#pragma unroll
      for (int i = 0; i < in_flight; ++i)
        if (first + i * team.size < units) next[i] = Unit::load(right + at[i]);
#pragma unroll
      for (int i = 0; i < in_flight; ++i)
        if (first + i * team.size < units) Unit::template fold<op>(value[i], next[i]);
    }
#pragma unroll
    for (int i = 0; i < in_flight; ++i)
      if (first + i * team.size < units)
        Unit::store(static_cast<Bytes>(task.out) + at[i], value[i]);
  }
}

GPUAR_HD std::uintptr_t address(const void* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer);
}

// The bits in which the operands' addresses differ, below 16.
GPUAR_HD std::uintptr_t differing_bits(const Task& task) {
  std::uintptr_t differing = 0;
#pragma unroll 1
  for (unsigned input = 0; input < task.input_count; ++input)
    differing |= address(task.inputs[input]) ^ address(task.out);
  return differing & 15;
}

template <gpuar_op op, class T>
GPUAR_HD void reduce_task(const Task& task, Team team) {
  constexpr std::size_t unit = Vector<char>::bytes;
  const std::uintptr_t differing = differing_bits(task);
  if (((differing | address(task.out)) & (alignof(T) - 1)) != 0) {
    reduce_units<op, Single<Anywhere, T>, 1>(task, team, task.count, 0, task.count, 0);
    return;
  }
  std::size_t head = task.count;  // elements before the vectors
  std::size_t vectors = 0;
  if constexpr (is_dense<T>) {
    const std::size_t lead = -address(task.out) & (unit - 1);
    if (differing == 0 && lead % sizeof(T) == 0 && lead / sizeof(T) < task.count) {
      head = lead / sizeof(T);
      vectors = (task.count - head) / (unit / sizeof(T));
      using Lane = Part<op, T>;
      reduce_units<op, Vector<Lane>, vectors_in_flight<Lane>>(task, team, vectors, lead, vectors,
                                                              0);
    }
  }
  const std::size_t covered = vectors * (unit / sizeof(T));
  reduce_units<op, Single<Aligned, T>, 4>(task, team, task.count - covered, 0, head,
                                          vectors * unit);
}

// The task of this block, and this thread's place among those that share it.
GPUAR_HD const Task& find_task(const Batch& batch, Team& team) {
  unsigned index = 0;
  while (index + 1 < batch.task_count && batch.tasks[index + 1].first_block <= blockIdx.x) ++index;
  const Task& task = batch.tasks[index];
  const unsigned end =
      index + 1 < batch.task_count ? batch.tasks[index + 1].first_block : gridDim.x;
  team = {std::size_t{blockIdx.x - task.first_block} * blockDim.x + threadIdx.x,
          std::size_t{end - task.first_block} * blockDim.x};
  return task;
}

template <gpuar_op op, gpuar_type type>
GPUAR_HD void reduce_batch(const Batch& batch) {
  Team team;
  const Task& task = find_task(batch, team);
  reduce_task<op, Operand<op, type>>(task, team);
}

// Divisions are not worth vectors: the divider is what takes the time.
template <class How, class T>
GPUAR_HD void divide_task(const Task& task, Team team) {
  using Unit = Single<How, T>;
  for (std::size_t i = team.member; i < task.count; i += team.size) {
    const T sum = Unit::load(static_cast<ConstBytes>(task.inputs[0]) + i * sizeof(T));
    Unit::store(static_cast<Bytes>(task.out) + i * sizeof(T), Division::apply(sum, task.divide_by));
  }
}

template <class T>
GPUAR_HD void divide_batch(const Batch& batch) {
  Team team;
  const Task& task = find_task(batch, team);
  if (((address(task.inputs[0]) | address(task.out)) & (alignof(T) - 1)) == 0)
    divide_task<Aligned, T>(task, team);
  else
    divide_task<Anywhere, T>(task, team);
}

}  // namespace
}  // namespace gpuar::kernel

constexpr int counted_before = __COUNTER__;  // each kernel counts one on

// The kernels, named for people and for the loader: gpuar_sum_float32. Each family lists the types
// that stand for others too (kernel_table.h).
#define KERNEL(op, OP, type, TYPE)                                                    \
  static_assert(__COUNTER__ > counted_before &&                                       \
                gpuar::kernel::stand_in<GPUAR_##OP, GPUAR_##TYPE>() == GPUAR_##TYPE); \
  extern "C" __global__ void __launch_bounds__(gpuar::kernel::threads_per_block)      \
      gpuar_##op##_##type(const __grid_constant__ gpuar::kernel::Batch batch) {       \
    gpuar::kernel::reduce_batch<GPUAR_##OP, GPUAR_##TYPE>(batch);                     \
  }                                                                                   \
  EXPORT_KERNEL(gpuar_##op##_##type)

#define DIVISION(type, TYPE)                                                           \
  static_assert(__COUNTER__ > counted_before && gpuar::kernel::divides<GPUAR_##TYPE>); \
  extern "C" __global__ void __launch_bounds__(gpuar::kernel::threads_per_block)       \
      gpuar_divide_##type(const __grid_constant__ gpuar::kernel::Batch batch) {        \
    gpuar::kernel::divide_batch<gpuar::Element<GPUAR_##TYPE>::Type>(batch);            \
  }                                                                                    \
  EXPORT_KERNEL(gpuar_divide_##type)

#define ARITHMETIC(type, TYPE) \
  KERNEL(sum, SUM, type, TYPE) \
  KERNEL(prod, PROD, type, TYPE)
#define ORDERING(type, TYPE)   \
  KERNEL(min, MIN, type, TYPE) \
  KERNEL(max, MAX, type, TYPE)
#define BITS(type, TYPE)         \
  KERNEL(land, LAND, type, TYPE) \
  KERNEL(lor, LOR, type, TYPE)   \
  KERNEL(lxor, LXOR, type, TYPE) \
  KERNEL(band, BAND, type, TYPE) \
  KERNEL(bor, BOR, type, TYPE)   \
  KERNEL(bxor, BXOR, type, TYPE)
#define INTEGER(type, TYPE) ARITHMETIC(type, TYPE) BITS(type, TYPE)
#define FLOATING(type, TYPE) ARITHMETIC(type, TYPE) ORDERING(type, TYPE)
#define LOCATION(type, TYPE)         \
  KERNEL(minloc, MINLOC, type, TYPE) \
  KERNEL(maxloc, MAXLOC, type, TYPE)

// clang-format off
INTEGER(int8, INT8)
INTEGER(int16, INT16)
INTEGER(int32, INT32)
INTEGER(int64, INT64)
ORDERING(int8, INT8)
ORDERING(int16, INT16)
ORDERING(int32, INT32)
ORDERING(int64, INT64)
ORDERING(uint8, UINT8)
ORDERING(uint16, UINT16)
ORDERING(uint32, UINT32)
ORDERING(uint64, UINT64)
FLOATING(float32, FLOAT32)
FLOATING(float64, FLOAT64)
FLOATING(float16, FLOAT16)
FLOATING(bfloat16, BFLOAT16)
ARITHMETIC(complex_float32, COMPLEX_FLOAT32)
ARITHMETIC(complex_float64, COMPLEX_FLOAT64)
LOCATION(float32_int, FLOAT32_INT)
LOCATION(float64_int, FLOAT64_INT)
LOCATION(long_int, LONG_INT)
LOCATION(short_int, SHORT_INT)
LOCATION(int32_int32, INT32_INT32)
LOCATION(float32_float32, FLOAT32_FLOAT32)
LOCATION(float64_float64, FLOAT64_FLOAT64)
DIVISION(float16, FLOAT16)
DIVISION(bfloat16, BFLOAT16)
DIVISION(float32, FLOAT32)
DIVISION(float64, FLOAT64)
DIVISION(complex_float32, COMPLEX_FLOAT32)
DIVISION(complex_float64, COMPLEX_FLOAT64)
// clang-format on

static_assert(__COUNTER__ - counted_before - 1 == gpuar::kernel::count_kernels(),
              "the list above leaves kernels out");
