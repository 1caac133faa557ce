#include "module.h"

#include <dlfcn.h>
#include <elf.h>
#include <sys/mman.h>

#include <cstring>
#include <mutex>

#include "context.h"
#include "failures.h"
#include "memory.h"
#include "settings.h"

namespace simgpu {
namespace {

std::vector<void*>& kernel_libraries() {
  static auto* const all = new std::vector<void*>;
  return *all;
}

std::string folder() {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&kernel_libraries), &info) == 0) return "";
  const std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/') + 1);
}

void open_library(const std::string& path) {
  void* const library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr)
    kernel_libraries().push_back(library);
  else
    misuse(CUDA_SUCCESS, "no kernels: %s", dlerror());
}

void open_kernel_libraries() {
  static std::once_flag once;
  std::call_once(once, [] {
    const Shown shown;  // the libraries' initialisers are not ours
    std::string list = settings().kernels;
    if (list.empty()) list = folder() + "libgpuar_simkernels.so";
    for (size_t from = 0; from < list.size();) {
      const size_t to = std::min(list.find(':', from), list.size());
      if (to > from) open_library(list.substr(from, to - from));
      from = to + 1;
    }
  });
}

template <class Value>
Value read_at(const void* base, size_t offset) {
  Value value;
  memcpy(&value, static_cast<const char*>(base) + offset, sizeof value);
  return value;
}

constexpr uint32_t kWrapper = 0x466243b1, kFatbin = 0xba55ed50;

// The bytes of an image, whose length only its format tells; empty if it has none that is known.
std::string image_bytes(const void* image) {
  if (read_at<uint32_t>(image, 0) == kWrapper) image = read_at<const void*>(image, 8);
  const auto* const bytes = static_cast<const char*>(image);
  const auto magic = read_at<uint32_t>(image, 0);
  if (magic == kFatbin)
    return {bytes, read_at<uint16_t>(image, 6) + static_cast<size_t>(read_at<uint64_t>(image, 8))};
  if (memcmp(bytes, ELFMAG, SELFMAG) == 0) {
    const auto header = read_at<Elf64_Ehdr>(image, 0);
    return {bytes,
            static_cast<size_t>(header.e_shoff) + size_t{header.e_shentsize} * header.e_shnum};
  }
  if (strncmp(bytes, "//", 2) == 0 || strncmp(bytes, ".version", 8) == 0) return bytes;  // PTX
  return {};
}

CUresult load(CUmodule* out, const void* image) {
  return with_context([&](Context& context) {
    if (image == nullptr || out == nullptr) return CUDA_ERROR_INVALID_VALUE;
    auto module = std::shared_ptr<Module>(new Module{context, {}, false, current_caller()});
    module->placeholder =
        settings().placeholder && strncmp(static_cast<const char*>(image), "placeholder", 11) == 0;
    if (!module->placeholder) module->image = image_bytes(image);
    if (!module->placeholder && module->image.empty())
      return misuse(CUDA_ERROR_INVALID_IMAGE, "a module's image is no fatbin, cubin or PTX");
    open_kernel_libraries();
    return store(out, modules().add(std::move(module)));
  });
}

const simgpu_kernel* find_kernel(const std::string& name) {
  for (void* const library : kernel_libraries())
    if (void* const found = dlsym(library, ("simgpu_kernel_" + name).c_str()))
      return static_cast<const simgpu_kernel*>(found);
  return nullptr;
}

// A kernel's parameters as they were at the launch, with device addresses translated.
struct Arguments {
  std::vector<uint64_t> words;
  std::vector<size_t> offsets;  // of the parameters, in words
};

// Every word that is an address the device must know, wherever it lies in a parameter: kernels get
// arrays of pointers by value. Unused slots must be null.
CUresult translate(uint64_t& word, unsigned parameter, size_t offset, const Context& context) {
  const auto refuse = [&](const char* why) {
    return misuse(CUDA_ERROR_INVALID_VALUE, "kernel parameter %u, byte %zu: %p %s", parameter,
                  offset, reinterpret_cast<void*>(word), why);
  };
  constexpr uint64_t kLow = uint64_t{1} << 32, kHigh = uint64_t{1} << 47;
  if (word < kLow || word >= kHigh) return CUDA_SUCCESS;
  std::optional<Allocation> a = find_allocation(word);
  if (!a && in_window(word)) a = find_allocation(word - 1);  // the end of a buffer is an address
  if (!a) {
    if (in_window(word)) return refuse("is a device address without an allocation");
    unsigned char resident;
    const uint64_t page = word & ~uint64_t{4095};
    if (mincore(reinterpret_cast<void*>(page), 1, &resident) == 0)
      return refuse("is host memory that is not pinned");
    return CUDA_SUCCESS;
  }
  if (!a->on_device()) return CUDA_SUCCESS;
  if (a->freeing) return refuse("is freed already");
  bool accessible = a->kind == Kind::kManaged || a->kind == Kind::kImported;
  if (a->kind == Kind::kDevice)
    accessible = a->device == context.device || context.peers.count(a->device) != 0;
  if (a->kind == Kind::kPool || a->kind == Kind::kMapped)
    accessible = a->accessible_from(context.device);
  if (!accessible) return refuse("is memory that this device has no access to");
  word = alias(*a, word);
  return CUDA_SUCCESS;
}

CUresult collect(const simgpu_kernel& kernel, void** parameters, Context& context,
                 Arguments& arguments) {
  const std::lock_guard lock(context.mutex);
  for (unsigned i = 0; i < kernel.parameters; i++) {
    const size_t at = arguments.words.size(), size = kernel.sizes[i];
    arguments.offsets.push_back(at);
    // A parameter may need 16-byte alignment.
    arguments.words.resize(at + (size + 15) / 16 * 2);
    memcpy(arguments.words.data() + at, parameters[i], size);
    for (size_t k = 0; k + 8 <= size; k += 8) {
      const CUresult r = translate(arguments.words[at + k / 8], i, k, context);
      if (r != CUDA_SUCCESS) return r;
    }
  }
  return CUDA_SUCCESS;
}

bool legal(const unsigned* grid, const unsigned* block) {
  for (int i = 0; i < 3; i++)
    if (grid[i] == 0 || block[i] == 0) return false;
  return grid[1] < 65536 && grid[2] < 65536 && block[2] <= 64 &&
         size_t{block[0]} * block[1] * block[2] <= 1024;
}

struct Launch {
  unsigned grid[3], block[3], shared_bytes;
};

CUresult launch(const Function& function, const Launch& shape, Context& context, Stream& stream,
                void** parameters) {
  if (&function.context != &context || &stream.context() != &context)
    return misuse(CUDA_ERROR_INVALID_HANDLE, "kernel and stream are not of the current context");
  if (!legal(shape.grid, shape.block) || shape.shared_bytes > 48 * 1024)
    return misuse(CUDA_ERROR_INVALID_VALUE, "no device has such a grid");
  auto arguments = std::make_shared<Arguments>();
  const CUresult r = collect(function.kernel, parameters, context, *arguments);
  if (r != CUDA_SUCCESS) return r;
  count(Tally::kLaunches, 1);
  const Caller* const caller = current_caller();
  submit(stream, [=, &kernel = function.kernel, &context] {
    if (failures_armed) {
      if (const CUresult failure = injected("kernel", caller); failure != CUDA_SUCCESS)
        context.failure = failure;
    }
    if (context.failure != CUDA_SUCCESS) return;
    std::vector<void*> places;
    for (const size_t offset : arguments->offsets)
      places.push_back(arguments->words.data() + offset);
    const Shown shown;
    kernel.run(shape.grid, shape.block, places.data());
  });
  return CUDA_SUCCESS;
}

}  // namespace

Handles<CUmodule, Module>& modules() {
  static auto* const all = new Handles<CUmodule, Module>;
  return *all;
}

Handles<CUfunction, Function>& functions() {
  static auto* const all = new Handles<CUfunction, Function>;
  return *all;
}

ENTRY(cuModuleLoadData)(CUmodule* out, const void* image) {
  return load(out, image);
}

ENTRY(cuModuleLoadDataEx)
(CUmodule* out, const void* image, unsigned, CUjit_option*, void**) {
  return load(out, image);
}

ENTRY(cuModuleLoadFatBinary)(CUmodule* out, const void* image) {
  return load(out, image);
}

ENTRY(cuModuleUnload)(CUmodule handle) {
  return with_context([&](Context&) {
    if (!modules().remove(handle)) return misuse(CUDA_ERROR_INVALID_HANDLE, "no such module");
    functions().remove_if([&](const Function& f) { return f.module == handle; });
    return CUDA_SUCCESS;
  });
}

ENTRY(cuModuleGetFunction)(CUfunction* out, CUmodule handle, const char* name) {
  return with_context([&](Context& context) {
    const std::shared_ptr<Module> module = modules().find(handle);
    if (!module || name == nullptr) return misuse(CUDA_ERROR_INVALID_HANDLE, "no such module");
    if (!module->placeholder && module->image.find(name) == std::string::npos) {
      trace("the image holds no kernel %s, or is compressed (nvcc --compress-mode=none)", name);
      return CUDA_ERROR_NOT_FOUND;
    }
    const simgpu_kernel* const kernel = find_kernel(name);
    if (kernel == nullptr) {
      trace("no kernel %s was compiled for the host", name);
      return CUDA_ERROR_NOT_FOUND;
    }
    return store(
        out, functions().add(std::shared_ptr<Function>(new Function{context, handle, *kernel})));
  });
}

ENTRY(cuFuncGetAttribute)(int* out, CUfunction_attribute what, CUfunction) {
  return with_driver(
      [&] { return store(out, what == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK ? 1024 : 0); });
}

ENTRY(cuFuncSetAttribute)(CUfunction, CUfunction_attribute, int) {
  return with_driver([] { return CUDA_SUCCESS; });
}

ENTRY(cuOccupancyMaxActiveBlocksPerMultiprocessor)
(int* out, CUfunction function, int, size_t) {
  return with_context([&](Context&) {
    if (!functions().find(function)) return misuse(CUDA_ERROR_INVALID_HANDLE, "no such kernel");
    return store(out, 2);
  });
}

ENTRY(cuLaunchKernel)
(CUfunction handle, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
 unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream_handle,
 void** parameters, void** extra) {
  return with_stream(stream_handle, [&](Context& context, Stream& stream) {
    const std::shared_ptr<Function> function = functions().find(handle);
    if (!function) return misuse(CUDA_ERROR_INVALID_HANDLE, "no such kernel");
    if (extra != nullptr) return CUDA_ERROR_NOT_SUPPORTED;
    if (function->kernel.parameters > 0 && parameters == nullptr) return CUDA_ERROR_INVALID_VALUE;
    const Launch shape = {{grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, shared_bytes};
    return launch(*function, shape, context, stream, parameters);
  });
}

}  // namespace simgpu
