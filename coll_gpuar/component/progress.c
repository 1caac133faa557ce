/* gpuar's place in Open MPI's progress and in MPI_Finalize. */
#include <stdatomic.h>

#include "coll_gpuar/component/coll_gpuar.h"

static int progress_active(void) {
  return gpuar_active(coll_gpuar.core) ? gpuar_progress(coll_gpuar.core) : 0;
}

/* With no call under way there is little to find, and polling costs microseconds where TCP is in
 * play: every other MPI call would pay. What the last call left to UCX leaves within the first
 * polls; after that one now and then is enough to meet peers that come early. */
static int progress_idle(void) {
  enum { first_polls = 1000, then_one_in = 128 };
  static atomic_uint empty;       /* polls without an event, or left out; */
  static atomic_ullong last_call; /* threads may lose a count of either */
  if (gpuar_active(coll_gpuar.core)) return 0;
  coll_gpuar_release_if_asked();
  const gpuar_counters* counters = gpuar_get_counters();
  const uint64_t call = counters->blocking + counters->nonblocking + counters->persistent;
  const bool is_new = call != atomic_load_explicit(&last_call, memory_order_relaxed);
  const unsigned before = is_new ? 0 : atomic_load_explicit(&empty, memory_order_relaxed);
  atomic_store_explicit(&last_call, call, memory_order_relaxed);
  atomic_store_explicit(&empty, before + 1, memory_order_relaxed);
  if (before >= first_polls && 0 != before % then_one_in) return 0;
  const int events = gpuar_progress(coll_gpuar.core);
  if (events > 0) atomic_store_explicit(&empty, 0, memory_order_relaxed);
  return events;
}

static int flush_at_finalize(ompi_communicator_t* comm, int key, void* attribute, void* extra) {
  (void)comm;
  (void)key;
  (void)attribute;
  (void)extra;
  coll_gpuar_trace();
  coll_gpuar_report();
  gpuar_core_flush(coll_gpuar.core);
  return MPI_SUCCESS;
}

/* MPI_Finalize deletes the attributes of MPI_COMM_SELF first, then meets the other processes: what
 * is flushed here has left before anybody takes anything down. The last set is deleted first, so
 * the user's own callbacks still find gpuar at work. */
static void flush_before_finalize(void) {
  ompi_communicator_t* self = &ompi_mpi_comm_self.comm;
  if (NULL == self->c_local_group) return; /* an MPI without the world model: close flushes */
  ompi_attribute_fn_ptr_union_t copy;
  ompi_attribute_fn_ptr_union_t delete_with;
  copy.attr_communicator_copy_fn = coll_gpuar_never_copy;
  delete_with.attr_communicator_delete_fn = flush_at_finalize;
  int key = MPI_KEYVAL_INVALID;
  if (OMPI_SUCCESS != ompi_attr_create_keyval(COMM_ATTR, copy, delete_with, &key, NULL, 0, NULL)) {
    return;
  }
  (void)ompi_attr_set_c(COMM_ATTR, self, &self->c_keyhash, key, NULL, false);
  (void)ompi_attr_free_keyval(COMM_ATTR, &key, false);
}

void coll_gpuar_begin_service(void) {
  OPAL_THREAD_LOCK(&coll_gpuar.lock);
  const bool first = !coll_gpuar.serving;
  coll_gpuar.serving = true;
  OPAL_THREAD_UNLOCK(&coll_gpuar.lock);
  if (!first) return;
  opal_progress_register(progress_active);
  opal_progress_register_lp(progress_idle);
  flush_before_finalize();
}

void coll_gpuar_end_service(void) {
  if (!coll_gpuar.serving) return;
  opal_progress_unregister(progress_active);
  opal_progress_unregister(progress_idle);
  coll_gpuar.serving = false;
}
