#include "cuda_reduce/kernel_image.h"

#include <cctype>

#include "cuda_reduce/kernel_table.h"
#include "cuda_reduce/reduce.h"

#if GPUAR_KERNELS
extern "C" const unsigned char gpuar_kernel_image[];  // kernel_image.S, made by the build
#endif

namespace gpuar::kernel {
namespace {

// "(float32, int)" as part of an identifier: float32_int.
std::string identifier(const char* text) {
  std::string result;
  for (; *text != '\0'; ++text) {
    if (std::isalnum(static_cast<unsigned char>(*text)) != 0)
      result += *text;
    else if (!result.empty() && result.back() != '_')
      result += '_';
  }
  if (!result.empty() && result.back() == '_') result.pop_back();
  return result;
}

template <int... type>
bool divides_any_of(gpuar_type asked, std::integer_sequence<int, type...>) {
  return ((asked == type && divides<gpuar_type(type)>) || ...);
}

}  // namespace

const void* image() {
#if GPUAR_KERNELS
  return gpuar_kernel_image;
#else
  return nullptr;
#endif
}

bool is_on_device(gpuar_op op, gpuar_type type) {
  return op < GPUAR_OP_COUNT && type < GPUAR_TYPE_COUNT && stand_ins[op][type] != GPUAR_TYPE_COUNT;
}

bool divides_on_device(gpuar_type type) {
  return divides_any_of(type, std::make_integer_sequence<int, GPUAR_TYPE_COUNT>{});
}

std::string name_of_division(gpuar_type type) {
  return "gpuar_divide_" + identifier(name_of(type));
}

std::string name_of_kernel(gpuar_op op, gpuar_type type) {
  if (!is_on_device(op, type)) return "";
  return "gpuar_" + identifier(name_of(op)) + "_" + identifier(name_of(stand_ins[op][type]));
}

}  // namespace gpuar::kernel
