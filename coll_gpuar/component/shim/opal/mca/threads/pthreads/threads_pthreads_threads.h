/* Stands in for the header of this name: see threads_pthreads_mutex.h beside it. */
#if __has_include_next("opal/mca/threads/pthreads/threads_pthreads_threads.h")
#include_next "opal/mca/threads/pthreads/threads_pthreads_threads.h"
#else
#ifndef GPUAR_THREADS_PTHREADS_THREADS_H
#define GPUAR_THREADS_PTHREADS_THREADS_H

#include "opal/mca/threads/threads.h"

#define OPAL_THREAD_YIELD_WHEN_IDLE_DEFAULT false

extern void (*opal_threads_pthreads_yield_fn)(void);

static inline void opal_thread_yield(void) {
  opal_threads_pthreads_yield_fn();
}

#endif
#endif
