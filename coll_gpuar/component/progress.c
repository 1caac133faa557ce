/* gpuar's place in Open MPI's progress and in MPI_Finalize. */
#include "coll_gpuar/component/coll_gpuar.h"

static int progress_active(void) {
  return gpuar_active(coll_gpuar.core) ? gpuar_progress(coll_gpuar.core) : 0;
}

/* With no call under way there is little to find, and polling costs microseconds where TCP is in
 * play: every other MPI call would pay. */
static int progress_idle(void) {
  return gpuar_active(coll_gpuar.core) ? 0 : gpuar_progress(coll_gpuar.core);
}

static int never_copy(ompi_communicator_t* comm, int key, void* extra, void* in, void* out,
                      int* flag, ompi_communicator_t* to) {
  (void)comm;
  (void)key;
  (void)extra;
  (void)in;
  (void)out;
  (void)to;
  *flag = 0;
  return MPI_SUCCESS;
}

static int flush_at_finalize(ompi_communicator_t* comm, int key, void* attribute, void* extra) {
  (void)comm;
  (void)key;
  (void)attribute;
  (void)extra;
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
  copy.attr_communicator_copy_fn = never_copy;
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
