/* MPI_Iallreduce and MPI_Allreduce_init: requests over the core's calls. */
#include "coll_gpuar/component/coll_gpuar.h"

/* The base's class, always: Open MPI casts a collective's request to it to retain the operation and
 * the datatype. */
OBJ_CLASS_INSTANCE(coll_gpuar_request, ompi_coll_base_nbc_request_t, NULL, NULL);

/* --- The pool: requests that no call uses -------------------------------------------------------
 */

static opal_mutex_t lock = OPAL_MUTEX_STATIC_INIT;
static coll_gpuar_request* idle;

static coll_gpuar_request* take_from_pool(void) {
  OPAL_THREAD_LOCK(&lock);
  coll_gpuar_request* request = idle;
  if (NULL != request) idle = request->next;
  OPAL_THREAD_UNLOCK(&lock);
  return NULL != request ? request : OBJ_NEW(coll_gpuar_request);
}

static void put_into_pool(coll_gpuar_request* request) {
  OPAL_THREAD_LOCK(&lock);
  request->next = idle;
  idle = request;
  OPAL_THREAD_UNLOCK(&lock);
}

void coll_gpuar_requests_drain(void) {
  while (NULL != idle) {
    coll_gpuar_request* request = idle;
    idle = request->next;
    OBJ_RELEASE(request);
  }
}

/* --- Completion and release ---------------------------------------------------------------------
 */

/* The request is done: after this the user may free it at any moment. */
static void complete(coll_gpuar_request* request, int status) {
  ompi_request_t* mpi_request = &request->super.super;
  if (GPUAR_OK == status) status = coll_gpuar_binding_store(&request->binding);
  if (!mpi_request->req_persistent) coll_gpuar_binding_release(&request->binding);
  if (GPUAR_OK != status) {
    request->failed = true;
    mpi_request->req_status.MPI_ERROR = coll_gpuar_error_class(status);
    coll_gpuar_report_to_communicator(mpi_request);
  }
  ompi_request_complete(mpi_request, true);
}

static void done(void* user, int status) {
  complete(user, status);
}

/* An active request keeps its communicator, and with it the module, alive: MPI_Comm_free is legal
 * meanwhile. A failed one keeps it for good (see coll_gpuar_breaks_communicator); Open MPI 4.1 also
 * asks the communicator for its error handler after it has freed the request. */
static void give_back(coll_gpuar_request* request) {
  ompi_communicator_t* comm = request->super.super.req_mpi_object.comm;
  const bool failed = request->failed;
  OMPI_REQUEST_FINI(&request->super.super);
  put_into_pool(request);
  if (!failed) OBJ_RELEASE(comm);
}

static int free_request(ompi_request_t** mpi_request) {
  coll_gpuar_request* request = (coll_gpuar_request*)*mpi_request;
  if (!REQUEST_COMPLETE(&request->super.super)) return MPI_ERR_REQUEST;
  if (request->super.super.req_persistent && NULL != request->call) {
    gpuar_call_free(request->call);
    coll_gpuar_binding_release(&request->binding);
  }
  give_back(request);
  *mpi_request = MPI_REQUEST_NULL;
  return OMPI_SUCCESS;
}

/* --- The calls ----------------------------------------------------------------------------------
 */

static void start_one(coll_gpuar_request* request) {
  ompi_request_t* mpi_request = &request->super.super;
  mpi_request->req_status = ompi_status_empty;
  mpi_request->req_complete = REQUEST_PENDING;
  mpi_request->req_state = OMPI_REQUEST_ACTIVE;
  if (NULL == request->call) {
    ompi_request_complete(mpi_request, true);
    return;
  }
  int status = coll_gpuar_binding_load(&request->binding);
  if (GPUAR_OK == status) status = gpuar_call_start(request->call);
  if (GPUAR_OK != status) complete(request, status);
}

static int start(size_t count, ompi_request_t** requests) {
  for (size_t i = 0; i < count; ++i) start_one((coll_gpuar_request*)requests[i]);
  return OMPI_SUCCESS;
}

static coll_gpuar_request* take(ompi_communicator_t* comm, ompi_request_start_fn_t start_with) {
  coll_gpuar_request* request = take_from_pool();
  if (NULL == request) return NULL;
  ompi_request_t* mpi_request = &request->super.super;
  OMPI_REQUEST_INIT(mpi_request, NULL != start_with);
  mpi_request->req_type = OMPI_REQUEST_COLL;
  mpi_request->req_status = ompi_status_empty;
  mpi_request->req_start = start_with;
  mpi_request->req_free = free_request;
  mpi_request->req_cancel = NULL;
  mpi_request->req_mpi_object.comm = comm;
  request->call = NULL;
  request->failed = false;
  OBJ_RETAIN(comm);
  return request;
}

static int refuse(coll_gpuar_request* request, int status) {
  request->failed = coll_gpuar_breaks_communicator(status);
  give_back(request);
  return coll_gpuar_error_class(status);
}

/* The other ranks count on this one: they are told. */
static int without_request(coll_gpuar_module* module, ompi_communicator_t* comm) {
  gpuar_abandon(module->comm, GPUAR_ERR_NO_MEMORY, "no memory for a request");
  OBJ_RETAIN(comm);
  return MPI_ERR_NO_MEM;
}

int coll_gpuar_iallreduce(const void* send, void* receive, coll_gpuar_count count,
                          ompi_datatype_t* datatype, ompi_op_t* op, ompi_communicator_t* comm,
                          ompi_request_t** mpi_request, mca_coll_base_module_t* base_module) {
  if (coll_gpuar_is_empty((size_t)count, datatype)) {
    *mpi_request = &ompi_request_empty;
    return OMPI_SUCCESS;
  }
  coll_gpuar_module* module = (coll_gpuar_module*)base_module;
  coll_gpuar_request* request = take(comm, NULL);
  if (NULL == request) return without_request(module, comm);
  coll_gpuar_binding* binding = &request->binding;
  int status = coll_gpuar_bind(binding, module->comm, send, receive, (size_t)count, datatype, op,
                               ompi_comm_size(comm));
  if (GPUAR_OK != status) return refuse(request, status);
  request->super.super.req_state = OMPI_REQUEST_ACTIVE;
  status = coll_gpuar_binding_load(binding);
  if (GPUAR_OK == status) {
    const gpuar_stream stream = coll_gpuar_stream_of(__builtin_return_address(0));
    status = gpuar_iallreduce(module->comm, stream, &binding->args, done, request);
  }
  if (GPUAR_OK != status) {
    coll_gpuar_binding_release(binding);
    return refuse(request, status);
  }
  *mpi_request = &request->super.super;
  return OMPI_SUCCESS;
}

int coll_gpuar_allreduce_init(const void* send, void* receive, coll_gpuar_count count,
                              ompi_datatype_t* datatype, ompi_op_t* op, ompi_communicator_t* comm,
                              struct ompi_info_t* info, ompi_request_t** mpi_request,
                              mca_coll_base_module_t* base_module) {
  (void)info;
  coll_gpuar_module* module = (coll_gpuar_module*)base_module;
  coll_gpuar_request* request = take(comm, start);
  if (NULL == request) return without_request(module, comm);
  *mpi_request = &request->super.super;
  if (coll_gpuar_is_empty((size_t)count, datatype)) return OMPI_SUCCESS;

  coll_gpuar_binding* binding = &request->binding;
  int status = coll_gpuar_bind(binding, module->comm, send, receive, (size_t)count, datatype, op,
                               ompi_comm_size(comm));
  if (GPUAR_OK == status) {
    status = gpuar_allreduce_init(module->comm, &binding->args, done, request, &request->call);
    if (GPUAR_OK == status) return OMPI_SUCCESS;
    coll_gpuar_binding_release(binding);
  }
  *mpi_request = MPI_REQUEST_NULL;
  return refuse(request, status);
}
