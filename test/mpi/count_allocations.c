#include "count_allocations.h"

#include <errno.h>
#include <execinfo.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

/* glibc's own names for what is replaced here. */
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);

enum { most_frames = 24 };

static atomic_bool counting;
static atomic_ulong counted;
static void* frames[most_frames];
static int frame_count;

/* backtrace() itself may allocate: it is called with counting off. */
static void count(void) {
  if (!atomic_load_explicit(&counting, memory_order_relaxed)) return;
  if (atomic_fetch_add(&counted, 1) > 0) return;
  atomic_store(&counting, false);
  frame_count = backtrace(frames, most_frames);
  atomic_store(&counting, true);
}

void* malloc(size_t bytes) {
  count();
  return __libc_malloc(bytes);
}

void* calloc(size_t number, size_t bytes) {
  count();
  return __libc_calloc(number, bytes);
}

void* realloc(void* memory, size_t bytes) {
  count();
  return __libc_realloc(memory, bytes);
}

void* memalign(size_t alignment, size_t bytes) {
  count();
  return __libc_memalign(alignment, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  return memalign(alignment, bytes);
}

int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  *memory = memalign(alignment, bytes);
  return *memory == NULL ? ENOMEM : 0;
}

void start_counting_allocations(void) {
  void* warm_up[1];
  backtrace(warm_up, 1);
  frame_count = 0;
  atomic_store(&counted, 0);
  atomic_store(&counting, true);
}

unsigned long stop_counting_allocations(void) {
  atomic_store(&counting, false);
  return atomic_load(&counted);
}

void print_first_allocation(void) {
  backtrace_symbols_fd(frames, frame_count, STDERR_FILENO);
}
