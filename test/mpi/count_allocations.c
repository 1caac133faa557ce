// dladdr()
#define _GNU_SOURCE

#include "count_allocations.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

/* glibc's own names for what is replaced here. */
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

enum { most_frames = 24 };

static atomic_bool counting;
static atomic_ulong counted;
static atomic_ulong counted_of_others;
static void* frames[most_frames];
static int frame_count;

/* UCX fills pools of its own as it needs them, at moments that depend on timing; and Open MPI's
 * point-to-point components keep the harness's messages of ranks that are done already. */
static bool is_of_others(const void* caller) {
  Dl_info info;
  if (dladdr(caller, &info) == 0 || info.dli_fname == NULL) return false;
  const char* slash = strrchr(info.dli_fname, '/');
  const char* name = slash != NULL ? slash + 1 : info.dli_fname;
  const char* others[] = {"libuc", "mca_allocator", "mca_pml", "mca_btl"};
  for (size_t i = 0; i < sizeof others / sizeof *others; ++i) {
    if (strncmp(name, others[i], strlen(others[i])) == 0) return true;
  }
  return false;
}

/* backtrace() itself may allocate: it is called with counting off. */
static void count(const void* caller) {
  if (!atomic_load_explicit(&counting, memory_order_relaxed)) return;
  if (is_of_others(caller)) {
    atomic_fetch_add(&counted_of_others, 1);
    return;
  }
  if (atomic_fetch_add(&counted, 1) > 0) return;
  atomic_store(&counting, false);
  frame_count = backtrace(frames, most_frames);
  atomic_store(&counting, true);
}

void* malloc(size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_malloc(bytes);
}

void* calloc(size_t number, size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_calloc(number, bytes);
}

void* realloc(void* memory, size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_realloc(memory, bytes);
}

void* memalign(size_t alignment, size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}

int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  count(__builtin_return_address(0));
  *memory = __libc_memalign(alignment, bytes);
  return *memory == NULL ? ENOMEM : 0;
}

void start_counting_allocations(void) {
  void* warm_up[1];
  backtrace(warm_up, 1);
  frame_count = 0;
  atomic_store(&counted, 0);
  atomic_store(&counted_of_others, 0);
  atomic_store(&counting, true);
}

unsigned long stop_counting_allocations(void) {
  atomic_store(&counting, false);
  return atomic_load(&counted);
}

unsigned long allocations_of_others(void) {
  return atomic_load(&counted_of_others);
}

void print_first_allocation(void) {
  backtrace_symbols_fd(frames, frame_count, STDERR_FILENO);
}
