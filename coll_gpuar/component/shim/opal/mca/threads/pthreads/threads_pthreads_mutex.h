/* Stands in for the header of this name, which opal/mca/threads/mutex.h includes and no
 * installation of Open MPI 5.0 or 6.0 has: what Open MPI's mutexes and conditions are where its
 * threads are pthreads. Where the real one is on the path (-Dopenmpi_source), that one is used. */
#if __has_include_next("opal/mca/threads/pthreads/threads_pthreads_mutex.h")
#include_next "opal/mca/threads/pthreads/threads_pthreads_mutex.h"
#else
#ifndef GPUAR_THREADS_PTHREADS_MUTEX_H
#define GPUAR_THREADS_PTHREADS_MUTEX_H

#include <pthread.h>
#include <stdbool.h>

#include "opal/constants.h"

typedef pthread_mutex_t opal_thread_internal_mutex_t;
typedef pthread_cond_t opal_thread_internal_cond_t;

#define OPAL_THREAD_INTERNAL_MUTEX_INITIALIZER PTHREAD_MUTEX_INITIALIZER
#define OPAL_THREAD_INTERNAL_COND_INITIALIZER PTHREAD_COND_INITIALIZER
#ifdef PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#define OPAL_THREAD_INTERNAL_RECURSIVE_MUTEX_INITIALIZER PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP
#endif

static inline int opal_thread_internal_mutex_init(opal_thread_internal_mutex_t* mutex,
                                                  bool recursive) {
  pthread_mutexattr_t kind;
  if (0 != pthread_mutexattr_init(&kind)) return OPAL_ERR_IN_ERRNO;
  int failed = 0;
  if (recursive) failed = pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
  if (!failed) failed = pthread_mutex_init(mutex, &kind);
  (void)pthread_mutexattr_destroy(&kind);
  return failed ? OPAL_ERR_IN_ERRNO : OPAL_SUCCESS;
}

static inline void opal_thread_internal_mutex_lock(opal_thread_internal_mutex_t* mutex) {
  (void)pthread_mutex_lock(mutex);
}

static inline int opal_thread_internal_mutex_trylock(opal_thread_internal_mutex_t* mutex) {
  return 0 == pthread_mutex_trylock(mutex) ? 0 : 1;
}

static inline void opal_thread_internal_mutex_unlock(opal_thread_internal_mutex_t* mutex) {
  (void)pthread_mutex_unlock(mutex);
}

static inline void opal_thread_internal_mutex_destroy(opal_thread_internal_mutex_t* mutex) {
  (void)pthread_mutex_destroy(mutex);
}

static inline int opal_thread_internal_cond_init(opal_thread_internal_cond_t* condition) {
  return 0 == pthread_cond_init(condition, NULL) ? OPAL_SUCCESS : OPAL_ERR_IN_ERRNO;
}

static inline void opal_thread_internal_cond_wait(opal_thread_internal_cond_t* condition,
                                                  opal_thread_internal_mutex_t* mutex) {
  (void)pthread_cond_wait(condition, mutex);
}

static inline void opal_thread_internal_cond_broadcast(opal_thread_internal_cond_t* condition) {
  (void)pthread_cond_broadcast(condition);
}

static inline void opal_thread_internal_cond_signal(opal_thread_internal_cond_t* condition) {
  (void)pthread_cond_signal(condition);
}

static inline void opal_thread_internal_cond_destroy(opal_thread_internal_cond_t* condition) {
  (void)pthread_cond_destroy(condition);
}

#endif
#endif
