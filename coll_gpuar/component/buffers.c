/* Pooled memory for packed elements and for operands of user-defined operations: powers of two,
 * kept for the next call up to a bound. */
#include <stdlib.h>

#include "coll_gpuar/component/coll_gpuar.h"

enum {
  smallest_class = 8, /* 256 bytes */
  classes = 64,
};
static const size_t keep_bytes = (size_t)64 << 20;

static opal_mutex_t lock = OPAL_MUTEX_STATIC_INIT;
static coll_gpuar_buffer* idle[classes];
static size_t idle_bytes;

static unsigned class_of(size_t bytes) {
  unsigned size_class = smallest_class;
  while (size_class + 1 < classes && ((size_t)1 << size_class) < bytes) ++size_class;
  return size_class;
}

static coll_gpuar_buffer* allocate(unsigned size_class) {
  coll_gpuar_buffer* buffer =
      aligned_alloc(_Alignof(coll_gpuar_buffer), sizeof *buffer + ((size_t)1 << size_class));
  if (NULL != buffer) buffer->size_class = size_class;
  return buffer;
}

coll_gpuar_buffer* coll_gpuar_buffer_take(size_t bytes) {
  const unsigned size_class = class_of(bytes);
  OPAL_THREAD_LOCK(&lock);
  coll_gpuar_buffer* buffer = idle[size_class];
  if (NULL != buffer) {
    idle[size_class] = buffer->next;
    idle_bytes -= (size_t)1 << size_class;
  }
  OPAL_THREAD_UNLOCK(&lock);
  return NULL != buffer ? buffer : allocate(size_class);
}

void coll_gpuar_buffer_put(coll_gpuar_buffer* buffer) {
  if (NULL == buffer) return;
  const size_t bytes = (size_t)1 << buffer->size_class;
  OPAL_THREAD_LOCK(&lock);
  const bool keep = bytes <= keep_bytes - idle_bytes;
  if (keep) {
    buffer->next = idle[buffer->size_class];
    idle[buffer->size_class] = buffer;
    idle_bytes += bytes;
  }
  OPAL_THREAD_UNLOCK(&lock);
  if (!keep) free(buffer);
}

void coll_gpuar_buffers_drain(void) {
  OPAL_THREAD_LOCK(&lock);
  for (unsigned size_class = 0; size_class < classes; ++size_class) {
    while (NULL != idle[size_class]) {
      coll_gpuar_buffer* buffer = idle[size_class];
      idle[size_class] = buffer->next;
      free(buffer);
    }
  }
  idle_bytes = 0;
  OPAL_THREAD_UNLOCK(&lock);
}

size_t coll_gpuar_buffers_idle_bytes(void) {
  return idle_bytes;
}
