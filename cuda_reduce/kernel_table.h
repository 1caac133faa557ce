// What the host and the kernels agree on: the parameter block of a launch, and which kernel serves
// an operation on a type.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "cuda_reduce/functors.h"

namespace gpuar::kernel {

constexpr unsigned threads_per_block = 256;
constexpr std::size_t max_inputs = 8;

// One reduction: out[i] = ((inputs[0][i] ∘ inputs[1][i]) ∘ …) for i < count.
struct Task {
  void* out;
  const void* inputs[max_inputs];
  std::uint64_t count;
  std::uint32_t input_count;
  std::uint32_t first_block;  // it has the blocks from here to the next task's first
  std::int32_t divide_by;     // of a division, which has one input
  std::uint32_t unused;       // by name, so that no chance bits go to the device
};

// The one parameter of every kernel. Parameters of 4 KiB are the most that all drivers take.
struct Batch {
  static constexpr unsigned capacity = 40;
  Task tasks[capacity];
  std::uint64_t task_count;
};
static_assert(sizeof(Batch) <= 4096 && std::has_unique_object_representations_v<Batch>);

// Devices have neither x87 numbers nor binary128.
template <class T>
constexpr bool on_device = !std::is_same_v<T, long double> && !std::is_same_v<T, Float128>;
template <class T>
constexpr bool on_device<Complex<T>> = on_device<T>;
template <class V, class I>
constexpr bool on_device<Pair<V, I>> = on_device<V>;

template <gpuar_op op, gpuar_type type>
constexpr bool exists =
    is_defined(op, Element<type>::family) && on_device<typename Element<type>::Type>;

// The type whose kernel serves an operation on `type`: the first that is computed alike, so that
// signed and unsigned integers, logicals and bytes share kernels. GPUAR_TYPE_COUNT: there is none.
template <gpuar_op op, gpuar_type type, gpuar_type candidate = gpuar_type(0)>
constexpr gpuar_type stand_in() {
  if constexpr (!exists<op, type>) {
    return GPUAR_TYPE_COUNT;
  } else if constexpr (exists<op, candidate> &&
                       std::is_same_v<Operand<op, type>, Operand<op, candidate>>) {
    return candidate;
  } else {
    return stand_in<op, type, gpuar_type(candidate + 1)>();
  }
}

// [op][type]: stand_in().
using StandIns = std::array<std::array<gpuar_type, GPUAR_TYPE_COUNT>, GPUAR_OP_COUNT>;

template <int op, int... type>
constexpr std::array<gpuar_type, GPUAR_TYPE_COUNT> stand_ins_of(
    std::integer_sequence<int, type...>) {
  return {stand_in<gpuar_op(op), gpuar_type(type)>()...};
}
template <int... op>
constexpr StandIns make_stand_ins(std::integer_sequence<int, op...>) {
  return {stand_ins_of<op>(std::make_integer_sequence<int, GPUAR_TYPE_COUNT>{})...};
}
inline constexpr StandIns stand_ins =
    make_stand_ins(std::make_integer_sequence<int, GPUAR_OP_COUNT>{});

// The kernels are kept by operation and type; divisions have a row of their own.
constexpr std::size_t kernel_index(gpuar_op op, gpuar_type type) {
  return static_cast<std::size_t>(op) * GPUAR_TYPE_COUNT + type;
}
constexpr std::size_t divide_index(gpuar_type type) {
  return std::size_t{GPUAR_OP_COUNT} * GPUAR_TYPE_COUNT + type;
}
constexpr std::size_t kernel_places = divide_index(GPUAR_TYPE_COUNT);

template <gpuar_type type>
constexpr bool divides =
    has_average(Element<type>::family) && on_device<typename Element<type>::Type>;

template <int... type>
constexpr std::size_t count_divisions(std::integer_sequence<int, type...>) {
  return (std::size_t{divides<gpuar_type(type)>} + ...);
}

// How many kernels that makes.
constexpr std::size_t count_kernels() {
  std::size_t kernels = 0;
  for (const auto& of_op : stand_ins)
    for (int type = 0; type < GPUAR_TYPE_COUNT; ++type) kernels += of_op[type] == type ? 1 : 0;
  return kernels + count_divisions(std::make_integer_sequence<int, GPUAR_TYPE_COUNT>{});
}

}  // namespace gpuar::kernel
