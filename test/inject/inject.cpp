// Preloaded into an MPI program: makes one thing fail that gpuar asks for, and counts all of them.
//
//   GPUAR_INJECT=N         the N-th fails, from 1; 0: none, they are counted
//   GPUAR_INJECT_RANK=R    on this rank of MPI_COMM_WORLD alone; without: on all
//   GPUAR_INJECT_KIND=K    what counts: "memory" (malloc and its like, which operator new uses),
//                          "ucx" (calls of UCX that may fail), "cma" (UCX's reads and writes of
//                          other processes' memory), or "all", as without
//
// Whatever the component asks for counts, or UCX's transport cma, and nothing that others do: the
// return address tells.
// At the end each process prints `INJECTED rank count what left`: how many there were, what failed,
// and how many blocks of the component's were never freed.
#include <dlfcn.h>
#include <link.h>
#include <sys/uio.h>
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* block, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void __libc_free(void* block);
}

namespace {

std::uintptr_t component_begin = 0;
std::uintptr_t component_end = 0;
std::atomic<long> counted{0};
std::atomic<const char*> failed{nullptr};

bool is_component(const void* address) {
  const auto at = reinterpret_cast<std::uintptr_t>(address);
  return at - component_begin < component_end - component_begin;
}

int look_at(dl_phdr_info* object, std::size_t /*bytes*/, void* /*unused*/) {
  if (object->dlpi_name == nullptr || std::strstr(object->dlpi_name, "mca_coll_gpuar") == nullptr)
    return 0;
  component_begin = object->dlpi_addr;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& part = object->dlpi_phdr[i];
    const std::uintptr_t end = object->dlpi_addr + part.p_vaddr + part.p_memsz;
    if (part.p_type == PT_LOAD && end > component_end) component_end = end;
  }
  return 1;
}

long number_of(const char* name, long otherwise) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::strtol(text, nullptr, 10) : otherwise;
}

bool is_kind(const char* kind) {
  static const char* const wanted = std::getenv("GPUAR_INJECT_KIND");
  return wanted == nullptr || std::strcmp(wanted, "all") == 0 || std::strcmp(wanted, kind) == 0;
}

// Whether this one, of the component's, has to fail.
bool fails(const char* kind, const char* what) {
  static const long which = number_of("GPUAR_INJECT", 0);
  static const long victim = number_of("GPUAR_INJECT_RANK", -1);
  static const bool mine = victim < 0 || victim == number_of("OMPI_COMM_WORLD_RANK", 0);
  if (!is_kind(kind)) return false;
  const bool now = ++counted == which && mine;
  if (now) failed = what;
  return now;
}

// Blocks that the component took and nobody has freed: a table of fixed size, open addressing.
class Blocks {
 public:
  void add(void* block) {
    if (block == nullptr) return;
    for (std::size_t at = place(block);; at = (at + 1) % size) {
      void* seen = table_[at].load();
      if ((seen == nullptr || seen == gone()) && table_[at].compare_exchange_strong(seen, block)) {
        ++count_;
        return;
      }
    }
  }
  void remove(void* block) {
    if (block == nullptr) return;
    for (std::size_t at = place(block);; at = (at + 1) % size) {
      void* seen = table_[at].load();
      if (seen == nullptr) return;
      if (seen == block && table_[at].compare_exchange_strong(seen, gone())) {
        --count_;
        return;
      }
    }
  }
  [[nodiscard]] long count() const { return count_.load(); }

 private:
  static constexpr std::size_t size = std::size_t{1} << 18;
  static std::size_t place(void* block) {
    return (reinterpret_cast<std::uintptr_t>(block) >> 4) * 0x9e3779b97f4a7c15U % size;
  }
  static void* gone() { return reinterpret_cast<void*>(std::uintptr_t{1}); }

  std::atomic<void*> table_[size] = {};
  std::atomic<long> count_{0};
};
Blocks blocks;

template <class Take>
void* take(const void* caller, const char* what, Take get) {
  if (component_end == 0 || !is_component(caller)) return get();
  if (fails("memory", what)) return nullptr;
  void* const block = get();
  blocks.add(block);
  return block;
}

struct Report {
  ~Report() {
    if (component_end == 0) return;
    const char* const what = failed.load();
    char line[160];
    const int length = std::snprintf(line, sizeof line, "INJECTED %ld %ld %s %ld\n",
                                     number_of("OMPI_COMM_WORLD_RANK", 0), counted.load(),
                                     what != nullptr ? what : "nothing", blocks.count());
    if (write(STDERR_FILENO, line, static_cast<std::size_t>(length)) < 0) return;
  }
} report;

// Whether it is UCX's: Open MPI has a transport of the kind, too.
bool is_cma(const void* caller) {
  Dl_info info;
  return dladdr(caller, &info) != 0 && std::strstr(info.dli_fname, "libuct_cma") != nullptr;
}

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

#define CALLER __builtin_return_address(0)

extern "C" {

void* malloc(std::size_t bytes) {
  return take(CALLER, "malloc", [&] { return __libc_malloc(bytes); });
}
void* calloc(std::size_t count, std::size_t bytes) {
  return take(CALLER, "calloc", [&] { return __libc_calloc(count, bytes); });
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  return take(CALLER, "aligned_alloc", [&] { return __libc_memalign(alignment, bytes); });
}
void* realloc(void* block, std::size_t bytes) {
  if (component_end != 0) blocks.remove(block);
  return take(CALLER, "realloc", [&] { return __libc_realloc(block, bytes); });
}
void free(void* block) {
  if (component_end != 0) blocks.remove(block);
  __libc_free(block);
}

void* dlopen(const char* name, int mode) {
  static auto* const real = next<void*(const char*, int)>("dlopen");
  void* const handle = real(name, mode);
  if (component_end == 0) dl_iterate_phdr(look_at, nullptr);
  return handle;
}

#define STATUS_CALL(name, parameters, arguments)                               \
  ucs_status_t name parameters {                                               \
    static auto* const real = next<ucs_status_t parameters>(#name);            \
    const bool counts = component_end != 0 && is_component(CALLER);            \
    return counts && fails("ucx", #name) ? UCS_ERR_NO_MEMORY : real arguments; \
  }
#define REQUEST_CALL(name, parameters, arguments)                                               \
  ucs_status_ptr_t name parameters {                                                            \
    static auto* const real = next<ucs_status_ptr_t parameters>(#name);                         \
    const bool counts = component_end != 0 && is_component(CALLER);                             \
    if (counts && fails("ucx", #name))                                                          \
      return reinterpret_cast<ucs_status_ptr_t>(static_cast<std::intptr_t>(UCS_ERR_NO_MEMORY)); \
    return real arguments;                                                                      \
  }

STATUS_CALL(ucp_config_read, (const char* prefix, const char* file, ucp_config_t** config),
            (prefix, file, config))
STATUS_CALL(ucp_init_version,
            (unsigned major, unsigned minor, const ucp_params_t* params, const ucp_config_t* config,
             ucp_context_h* context),
            (major, minor, params, config, context))
STATUS_CALL(ucp_context_query, (ucp_context_h context, ucp_context_attr_t* attr), (context, attr))
STATUS_CALL(ucp_worker_create,
            (ucp_context_h context, const ucp_worker_params_t* params, ucp_worker_h* worker),
            (context, params, worker))
STATUS_CALL(ucp_worker_query, (ucp_worker_h worker, ucp_worker_attr_t* attr), (worker, attr))
STATUS_CALL(ucp_worker_set_am_recv_handler,
            (ucp_worker_h worker, const ucp_am_handler_param_t* param), (worker, param))
STATUS_CALL(ucp_worker_get_address,
            (ucp_worker_h worker, ucp_address_t** address, std::size_t* bytes),
            (worker, address, bytes))
STATUS_CALL(ucp_ep_create, (ucp_worker_h worker, const ucp_ep_params_t* params, ucp_ep_h* endpoint),
            (worker, params, endpoint))
STATUS_CALL(ucp_mem_map,
            (ucp_context_h context, const ucp_mem_map_params_t* params, ucp_mem_h* memory),
            (context, params, memory))
STATUS_CALL(ucp_mem_query, (ucp_mem_h memory, ucp_mem_attr_t* attr), (memory, attr))
STATUS_CALL(ucp_rkey_pack,
            (ucp_context_h context, ucp_mem_h memory, void** key, std::size_t* bytes),
            (context, memory, key, bytes))
STATUS_CALL(ucp_ep_rkey_unpack, (ucp_ep_h endpoint, const void* key, ucp_rkey_h* unpacked),
            (endpoint, key, unpacked))
STATUS_CALL(ucp_rkey_ptr, (ucp_rkey_h key, std::uint64_t remote, void** local),
            (key, remote, local))
REQUEST_CALL(ucp_am_send_nbx,
             (ucp_ep_h endpoint, unsigned id, const void* header, std::size_t header_bytes,
              const void* data, std::size_t bytes, const ucp_request_param_t* param),
             (endpoint, id, header, header_bytes, data, bytes, param))
REQUEST_CALL(ucp_am_recv_data_nbx,
             (ucp_worker_h worker, void* descriptor, void* data, std::size_t bytes,
              const ucp_request_param_t* param),
             (worker, descriptor, data, bytes, param))
REQUEST_CALL(ucp_ep_close_nbx, (ucp_ep_h endpoint, const ucp_request_param_t* param),
             (endpoint, param))
REQUEST_CALL(ucp_worker_flush_nbx, (ucp_worker_h worker, const ucp_request_param_t* param),
             (worker, param))

#define MEMORY_CALL(name)                                                                        \
  ssize_t name(pid_t process, const iovec* local, unsigned long locals, const iovec* remote,     \
               unsigned long remotes, unsigned long flags) {                                     \
    using Call =                                                                                 \
        ssize_t(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long); \
    static auto* const real = next<Call>(#name);                                                 \
    if (component_end != 0 && is_cma(CALLER) && fails("cma", #name)) {                           \
      errno = EPERM;                                                                             \
      return -1;                                                                                 \
    }                                                                                            \
    return real(process, local, locals, remote, remotes, flags);                                 \
  }
MEMORY_CALL(process_vm_readv)
MEMORY_CALL(process_vm_writev)

}  // extern "C"
