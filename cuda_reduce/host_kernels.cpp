// All host kernels for one instruction set. The build compiles this file once per set, with
// GPUAR_HOST_ISA naming it and with the matching -m flags. Nothing here may be visible to the
// linker but the table: two versions of one function under one name would be merged.
#include "cuda_reduce/host_kernels.h"

#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>

#include "cuda_reduce/functors.h"
#if defined(__F16C__)
#include "cuda_reduce/host_f16c.h"
#endif

// Element i depends on element i alone, also where out is left or right. Without this promise the
// compilers check for overlap at run time, and take the scalar loop for every in-place call.
// Unrolling by 4 is what a loop of loads and stores needs to keep the first-level cache busy.
#if defined(__clang__)
#define GPUAR_VECTOR_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define GPUAR_VECTOR_LOOP _Pragma("GCC ivdep") _Pragma("GCC unroll 4")
#endif

namespace gpuar::GPUAR_HOST_ISA {
namespace {

template <class T>
struct [[gnu::packed, gnu::may_alias]] Unaligned {
  T value;
};

// Reads and writes one element at any address, members only: padding is never touched.
template <class T>
struct Access {
  GPUAR_HD static T load(const std::byte* at) {
    return reinterpret_cast<const Unaligned<T>*>(at)->value;
  }
  GPUAR_HD static void store(std::byte* at, T element) {
    reinterpret_cast<Unaligned<T>*>(at)->value = element;
  }
};

template <class T>
struct Access<Complex<T>> {
  GPUAR_HD static Complex<T> load(const std::byte* at) {
    return {Access<T>::load(at), Access<T>::load(at + sizeof(T))};
  }
  GPUAR_HD static void store(std::byte* at, Complex<T> element) {
    Access<T>::store(at, element.re);
    Access<T>::store(at + sizeof(T), element.im);
  }
};

template <class V, class I>
struct Access<Pair<V, I>> {
  using Layout = Pair<V, I>;  // offsetof is a macro: no comma
  static constexpr std::size_t index_at = offsetof(Layout, index);
  GPUAR_HD static Pair<V, I> load(const std::byte* at) {
    return {Access<V>::load(at), Access<I>::load(at + index_at)};
  }
  GPUAR_HD static void store(std::byte* at, Pair<V, I> element) {
    Access<V>::store(at, element.value);
    Access<I>::store(at + index_at, element.index);
  }
};

// Elements without a vector form: x87 numbers, and members of unequal size.
template <class T>
constexpr bool vectorizes = !std::is_same_v<T, long double>;
template <class T>
constexpr bool vectorizes<Complex<T>> = vectorizes<T>;
template <class V, class I>
constexpr bool vectorizes<Pair<V, I>> = sizeof(V) == sizeof(I);

template <gpuar_op op, class T>
GPUAR_HD void reduce_one(std::byte* out, const std::byte* left, const std::byte* right) {
  Access<T>::store(out, Functor<op>::apply(Access<T>::load(left), Access<T>::load(right)));
}

template <gpuar_op op, class T>
void reduce(void* out, const void* left, const void* right, std::size_t count) {
  auto* o = static_cast<std::byte*>(out);
  const auto* l = static_cast<const std::byte*>(left);
  const auto* r = static_cast<const std::byte*>(right);
  const std::size_t end = count * sizeof(T);
  std::size_t done = 0;
#if defined(__F16C__)
  if constexpr (std::is_same_v<T, Float16> && !orders_values(op)) {
    for (; done + eight_halves <= end; done += eight_halves) {
      store_halves(o + done, Functor<op>::apply(load_halves(l + done), load_halves(r + done)));
    }
  }
#endif
  if constexpr (vectorizes<T>) {
    GPUAR_VECTOR_LOOP
    for (std::size_t at = done; at < end; at += sizeof(T))
      reduce_one<op, T>(o + at, l + at, r + at);
  } else {
    for (std::size_t at = done; at < end; at += sizeof(T))
      reduce_one<op, T>(o + at, l + at, r + at);
  }
}

template <class T>
GPUAR_HD void divide_one(std::byte* out, const std::byte* in, std::int32_t ranks) {
  Access<T>::store(out, Division::apply(Access<T>::load(in), ranks));
}

template <class T>
void divide(void* out, const void* in, std::size_t count, std::int32_t ranks) {
  auto* o = static_cast<std::byte*>(out);
  const auto* i = static_cast<const std::byte*>(in);
  const std::size_t end = count * sizeof(T);
  std::size_t done = 0;
#if defined(__F16C__)
  if constexpr (std::is_same_v<T, Float16>) {
    for (; done + eight_halves <= end; done += eight_halves) {
      store_halves(o + done, load_halves(i + done) / static_cast<float>(ranks));
    }
  }
#endif
  if constexpr (vectorizes<T>) {
    GPUAR_VECTOR_LOOP
    for (std::size_t at = done; at < end; at += sizeof(T)) divide_one<T>(o + at, i + at, ranks);
  } else {
    for (std::size_t at = done; at < end; at += sizeof(T)) divide_one<T>(o + at, i + at, ranks);
  }
}

#if defined(__AVX512F__)
constexpr bool is_avx512 = true;
#else
constexpr bool is_avx512 = false;
#endif

// Pairs that this instruction set leaves to the next narrower one. AVX-512 always has fused
// multiply-add, and GCC 12 uses it for complex products in spite of -ffp-contract=off, which
// changes the rounding. Byte products are faster in 256 bits.
template <gpuar_op op, gpuar_type type>
constexpr bool left_to_narrower = is_avx512&& op == GPUAR_PROD &&
                                  (Element<type>::family == Family::complex ||
                                   sizeof(Operand<op, type>) == 1);

template <gpuar_op op, gpuar_type type>
constexpr ReduceFn kernel() {
  if constexpr (is_defined(op, Element<type>::family) && !left_to_narrower<op, type>) {
    return &reduce<op, Operand<op, type>>;
  } else {
    return nullptr;
  }
}

template <gpuar_type type>
constexpr DivideFn divide_kernel() {
  if constexpr (has_average(Element<type>::family)) {
    return &divide<typename Element<type>::Type>;
  } else {
    return nullptr;
  }
}

template <int... type>
constexpr void fill_divide(HostKernels& table, std::integer_sequence<int, type...>) {
  ((table.divide[type] = divide_kernel<static_cast<gpuar_type>(type)>()), ...);
}

template <int op, int... type>
constexpr void fill_row(HostKernels& table, std::integer_sequence<int, type...>) {
  ((table.at[op][type] = kernel<static_cast<gpuar_op>(op), static_cast<gpuar_type>(type)>()), ...);
}

template <int... op>
constexpr HostKernels make_table(std::integer_sequence<int, op...>) {
  HostKernels table{};
  (fill_row<op>(table, std::make_integer_sequence<int, GPUAR_TYPE_COUNT>{}), ...);
  fill_divide(table, std::make_integer_sequence<int, GPUAR_TYPE_COUNT>{});
  return table;
}

}  // namespace

constexpr HostKernels kernels = make_table(std::make_integer_sequence<int, GPUAR_OP_COUNT>{});

}  // namespace gpuar::GPUAR_HOST_ISA
