// Run-time dispatch of the host reductions.
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <utility>

#include "cuda_reduce/functors.h"
#include "cuda_reduce/host_kernels.h"
#include "cuda_reduce/reduce.h"

namespace gpuar {
namespace {

HostIsa widest_that_runs() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  // Asks for the processor's feature and for the operating system saving the registers.
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  __get_cpuid(1, &eax, &ebx, &ecx, &edx);
  if ((ecx & bit_F16C) == 0) return HostIsa::baseline;
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
    return HostIsa::avx512;
  if (__builtin_cpu_supports("avx2")) return HostIsa::avx2;
#endif
  return HostIsa::baseline;
}

std::atomic<HostIsa>& current_isa() {
  static std::atomic<HostIsa> isa{widest_that_runs()};
  return isa;
}

// What `pick` finds in the table of the widest set in use that has it.
template <class Pick>
auto find_kernel(Pick pick) {
#if defined(__x86_64__)
  const HostIsa widest = current_isa().load(std::memory_order_relaxed);
  if (widest >= HostIsa::avx512 && pick(avx512::kernels)) return pick(avx512::kernels);
  if (widest >= HostIsa::avx2 && pick(avx2::kernels)) return pick(avx2::kernels);
#endif
  return pick(baseline::kernels);
}

struct ElementSizes {
  std::size_t of[GPUAR_TYPE_COUNT];
};

template <int... type>
constexpr ElementSizes element_sizes(std::integer_sequence<int, type...>) {
  return {{sizeof(typename Element<static_cast<gpuar_type>(type)>::Type)...}};
}

}  // namespace

ReduceFn host_reduce(gpuar_op op, gpuar_type type) {
  if (op >= GPUAR_OP_COUNT || type >= GPUAR_TYPE_COUNT) return nullptr;
  return find_kernel([=](const HostKernels& kernels) { return kernels.at[op][type]; });
}

DivideFn host_divide(gpuar_type type) {
  if (type >= GPUAR_TYPE_COUNT) return nullptr;
  return find_kernel([=](const HostKernels& kernels) { return kernels.divide[type]; });
}

HostIsa limit_host_isa(HostIsa widest) {
  const HostIsa isa = std::min(widest, widest_that_runs());
  current_isa().store(isa, std::memory_order_relaxed);
  return isa;
}

const char* host_isa() {
  switch (current_isa().load(std::memory_order_relaxed)) {
    case HostIsa::baseline:
      return "baseline";
    case HostIsa::avx2:
      return "avx2";
    case HostIsa::avx512:
      return "avx512";
  }
  return "unknown";
}

std::size_t element_bytes(gpuar_type type) {
  static constexpr ElementSizes sizes =
      element_sizes(std::make_integer_sequence<int, GPUAR_TYPE_COUNT>{});
  return type < GPUAR_TYPE_COUNT ? sizes.of[type] : 0;
}

const char* name_of(gpuar_op op) {
  switch (op) {
    case GPUAR_SUM:
      return "sum";
    case GPUAR_PROD:
      return "prod";
    case GPUAR_MIN:
      return "min";
    case GPUAR_MAX:
      return "max";
    case GPUAR_LAND:
      return "land";
    case GPUAR_LOR:
      return "lor";
    case GPUAR_LXOR:
      return "lxor";
    case GPUAR_BAND:
      return "band";
    case GPUAR_BOR:
      return "bor";
    case GPUAR_BXOR:
      return "bxor";
    case GPUAR_MINLOC:
      return "minloc";
    case GPUAR_MAXLOC:
      return "maxloc";
    case GPUAR_OP_COUNT:
      break;
  }
  return "unknown operation";
}

const char* name_of(gpuar_type type) {
  switch (type) {
    case GPUAR_INT8:
      return "int8";
    case GPUAR_INT16:
      return "int16";
    case GPUAR_INT32:
      return "int32";
    case GPUAR_INT64:
      return "int64";
    case GPUAR_UINT8:
      return "uint8";
    case GPUAR_UINT16:
      return "uint16";
    case GPUAR_UINT32:
      return "uint32";
    case GPUAR_UINT64:
      return "uint64";
    case GPUAR_FLOAT16:
      return "float16";
    case GPUAR_BFLOAT16:
      return "bfloat16";
    case GPUAR_FLOAT32:
      return "float32";
    case GPUAR_FLOAT64:
      return "float64";
    case GPUAR_LONG_DOUBLE:
      return "long double";
    case GPUAR_FLOAT128:
      return "float128";
    case GPUAR_COMPLEX_FLOAT32:
      return "complex float32";
    case GPUAR_COMPLEX_FLOAT64:
      return "complex float64";
    case GPUAR_COMPLEX_LONG_DOUBLE:
      return "complex long double";
    case GPUAR_COMPLEX_FLOAT128:
      return "complex float128";
    case GPUAR_BOOL:
      return "bool";
    case GPUAR_BYTE:
      return "byte";
    case GPUAR_LOGICAL8:
      return "logical8";
    case GPUAR_LOGICAL16:
      return "logical16";
    case GPUAR_LOGICAL32:
      return "logical32";
    case GPUAR_LOGICAL64:
      return "logical64";
    case GPUAR_FLOAT32_INT:
      return "(float32, int)";
    case GPUAR_FLOAT64_INT:
      return "(float64, int)";
    case GPUAR_LONG_DOUBLE_INT:
      return "(long double, int)";
    case GPUAR_LONG_INT:
      return "(long, int)";
    case GPUAR_SHORT_INT:
      return "(short, int)";
    case GPUAR_INT32_INT32:
      return "(int32, int32)";
    case GPUAR_FLOAT32_FLOAT32:
      return "(float32, float32)";
    case GPUAR_FLOAT64_FLOAT64:
      return "(float64, float64)";
    case GPUAR_TYPE_COUNT:
      break;
  }
  return "unknown type";
}

}  // namespace gpuar
