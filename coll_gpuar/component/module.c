/* One communicator: whether gpuar serves it, and the blocking call. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll_gpuar/component/coll_gpuar.h"

static void construct(coll_gpuar_module* module) {
  module->comm = NULL;
  memset(&module->previous, 0, sizeof module->previous);
}

static void destruct(coll_gpuar_module* module) {
  gpuar_comm_release(module->comm);
}

OBJ_CLASS_INSTANCE(coll_gpuar_module, mca_coll_base_module_t, construct, destruct);

/* --- Whether gpuar serves a communicator ------------------------------------------------------ */

static void count_one(uint64_t* counter) {
  __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

/* Why a communicator is not served. `reason` is equal where one mend would help both. */
typedef struct refusal {
  uint64_t reason;
  char why[COLL_GPUAR_WHY_BYTES];
} refusal;

/* Each reason is printed once, and not many of them: a job may have thousands of communicators. */
static bool is_new_reason(uint64_t reason) {
  enum { max_reasons = 8 };
  static uint64_t reasons[max_reasons];
  static int used;
  OPAL_THREAD_LOCK(&coll_gpuar.lock);
  bool is_new = used < max_reasons;
  for (int i = 0; i < used; ++i) is_new = is_new && reasons[i] != reason;
  if (is_new) reasons[used++] = reason;
  OPAL_THREAD_UNLOCK(&coll_gpuar.lock);
  return is_new;
}

static void decline(const ompi_communicator_t* comm, const refusal* refused) {
  count_one(&gpuar_get_counters()->fallbacks);
  if (!is_new_reason(refused->reason) || !coll_gpuar_speaks_for(comm)) return;
  char line[2 * COLL_GPUAR_WHY_BYTES];
  snprintf(line, sizeof line, "gpuar: does not serve communicator %s (%d ranks): %s", comm->c_name,
           ompi_comm_size((ompi_communicator_t*)comm), refused->why);
  coll_gpuar_log(line);
}

static int describe_and_create(ompi_communicator_t* comm, const coll_gpuar_hints* hints,
                               gpuar_comm** out, refusal* refused) {
  const int size = ompi_comm_size(comm);
  uint64_t* processes = malloc((size_t)size * sizeof *processes);
  if (NULL == processes) return GPUAR_ERR_NO_MEMORY;
  for (int rank = 0; rank < size; ++rank) processes[rank] = coll_gpuar_process(comm, rank);
  gpuar_comm_desc desc = {
      .rank = ompi_comm_rank(comm),
      .size = size,
      .processes = processes,
      .name = comm->c_name,
      .directory = &coll_gpuar_directory,
      .is_revoked = coll_gpuar_is_revoked,
      .handle = comm,
  };
  memcpy(desc.hints, hints->given, sizeof desc.hints);
  coll_gpuar_context_id(comm, &desc.id_high, &desc.id_low);
  const int status = gpuar_comm_create(coll_gpuar.core, &desc, out, &refused->reason, refused->why,
                                       sizeof refused->why);
  free(processes);
  return status;
}

static int create(ompi_communicator_t* comm, const coll_gpuar_hints* hints, gpuar_comm** out,
                  refusal* refused) {
  const char* fault = coll_gpuar.params.test_fault; /* NULL where the value is empty */
  if (NULL != fault && 0 == strcmp(fault, "decline")) {
    snprintf(refused->why, sizeof refused->why, "coll_gpuar_test_fault is \"decline\"");
    return GPUAR_ERR_DECLINED;
  }
  if (NULL == coll_gpuar.core) {
    if (ompi_comm_size(comm) > 1) count_one(&gpuar_get_counters()->fallbacks_refusing);
    snprintf(refused->why, sizeof refused->why, "rank %d on host %s: %.384s", ompi_comm_rank(comm),
             opal_process_info.nodename, coll_gpuar.refusal);
    return GPUAR_ERR_DECLINED;
  }
  gpuar_core_set_threads(coll_gpuar.core, ompi_mpi_thread_multiple, ompi_mpi_yield_when_idle);
  return describe_and_create(comm, hints, out, refused);
}

/* The other members serve the communicator by gpuar: another component here would leave them
 * waiting. */
static void* no_way_back(const ompi_communicator_t* comm) {
  char line[COLL_GPUAR_WHY_BYTES];
  snprintf(line, sizeof line,
           "gpuar: rank %d of MPI_COMM_WORLD has no memory to make communicator %s, which the "
           "other ranks have made: the job ends",
           coll_gpuar.world_rank, comm->c_name);
  coll_gpuar_log(line);
  (void)PMPI_Abort(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
  return NULL;
}

static int enable(mca_coll_base_module_t* base_module, ompi_communicator_t* comm);
static int disable(mca_coll_base_module_t* base_module, ompi_communicator_t* comm);
static int allreduce(const void* send, void* receive, coll_gpuar_count count,
                     ompi_datatype_t* datatype, ompi_op_t* op, ompi_communicator_t* comm,
                     mca_coll_base_module_t* base_module);

mca_coll_base_module_t* coll_gpuar_comm_query(ompi_communicator_t* comm, int* priority) {
  *priority = -1;
  if (MPI_COMM_WORLD == comm) {
    coll_gpuar_own_ops_publish();
    coll_gpuar_tools_publish();
  }
  if (OMPI_COMM_IS_INTER(comm)) {
    count_one(&gpuar_get_counters()->declined);
    return NULL;
  }
  refusal refused = {.why = "out of memory"};
  gpuar_comm* core_comm = NULL;
  coll_gpuar_hints hints;
  coll_gpuar_hints_read(comm, &hints);
  int status = create(comm, &hints, &core_comm, &refused);
  if (GPUAR_ERR_NO_MEMORY == status)
    status = create(comm, &hints, &core_comm, &refused); /* it may have passed */
  if (GPUAR_ERR_NO_MEMORY == status) return no_way_back(comm);
  coll_gpuar_hints_settle(comm, &hints, core_comm);
  if (GPUAR_OK != status) {
    /* Alone there is nobody to speak to: no word about it. */
    ompi_comm_size(comm) > 1 ? decline(comm, &refused) : count_one(&gpuar_get_counters()->declined);
    return NULL;
  }
  coll_gpuar_module* module = OBJ_NEW(coll_gpuar_module);
  if (NULL == module) return no_way_back(comm);
  module->comm = core_comm;
  if (MPI_COMM_WORLD == comm) coll_gpuar.serves_world = true;
  module->super.coll_module_enable = enable;
  module->super.coll_module_disable = disable;
  module->super.coll_allreduce = allreduce;
  module->super.coll_iallreduce = coll_gpuar_iallreduce;
  module->super.coll_allreduce_init = coll_gpuar_allreduce_init;
  coll_gpuar_begin_service();
  *priority = coll_gpuar.params.priority;
  return &module->super;
}

coll_gpuar_module* coll_gpuar_module_of(const ompi_communicator_t* comm) {
  return allreduce == comm->c_coll->coll_allreduce
             ? (coll_gpuar_module*)comm->c_coll->coll_allreduce_module
             : NULL;
}

static int enable(mca_coll_base_module_t* base_module, ompi_communicator_t* comm) {
  coll_gpuar_module* module = (coll_gpuar_module*)base_module;
  (void)comm;
  GPUAR_INSTALL(comm, allreduce, allreduce, base_module, &module->previous);
  GPUAR_INSTALL(comm, iallreduce, coll_gpuar_iallreduce, base_module, &module->previous);
  GPUAR_INSTALL(comm, allreduce_init, coll_gpuar_allreduce_init, base_module, &module->previous);
  return OMPI_SUCCESS;
}

/* May be called once for every function that a communicator holds of the module. */
static int disable(mca_coll_base_module_t* base_module, ompi_communicator_t* comm) {
  coll_gpuar_module* module = (coll_gpuar_module*)base_module;
  GPUAR_UNINSTALL(comm, allreduce, base_module, &module->previous);
  GPUAR_UNINSTALL(comm, iallreduce, base_module, &module->previous);
  GPUAR_UNINSTALL(comm, allreduce_init, base_module, &module->previous);
  return OMPI_SUCCESS;
}

/* --- Errors ----------------------------------------------------------------------------------- */

/* Whoever decided that it is an error has said so: the core, or binding.c. */
int coll_gpuar_error_class(int status) {
  switch (status) {
    case GPUAR_ERR_NO_MEMORY:
      return MPI_ERR_NO_MEM;
    case GPUAR_ERR_TRUNCATED:
      return MPI_ERR_TRUNCATE;
    case GPUAR_ERR_UNDEFINED:
      return MPI_ERR_OP;
    case GPUAR_ERR_PROCESS_FAILED:
    case GPUAR_ERR_REVOKED:
      return coll_gpuar_failure_class(GPUAR_ERR_REVOKED == status);
    default:
      return MPI_ERR_OTHER;
  }
}

/* A broken communicator is kept for good, also when the program frees it: messages of its calls may
 * still be on their way. They need a receiver, or their senders wait for ever; and its id must not
 * be given to another communicator, which would take them for its own. */
bool coll_gpuar_breaks_communicator(int status) {
  return GPUAR_OK != status && GPUAR_ERR_UNDEFINED != status;
}

/* --- MPI_Allreduce ---------------------------------------------------------------------------- */

static int allreduce(const void* send, void* receive, coll_gpuar_count count,
                     ompi_datatype_t* datatype, ompi_op_t* op, ompi_communicator_t* comm,
                     mca_coll_base_module_t* base_module) {
  if (coll_gpuar_is_empty((size_t)count, datatype)) return OMPI_SUCCESS;
  coll_gpuar_module* module = (coll_gpuar_module*)base_module;
  coll_gpuar_binding binding;
  int status = coll_gpuar_bind(&binding, module->comm, send, receive, (size_t)count, datatype, op,
                               ompi_comm_size(comm));
  if (GPUAR_OK == status) {
    status = coll_gpuar_binding_load(&binding);
    if (GPUAR_OK == status) {
      status = gpuar_allreduce(module->comm, &binding.args, coll_gpuar_progress_open_mpi);
    }
    if (GPUAR_OK == status) status = coll_gpuar_binding_store(&binding);
    coll_gpuar_binding_release(&binding);
  }
  if (OPAL_LIKELY(GPUAR_OK == status)) return OMPI_SUCCESS;
  if (coll_gpuar_breaks_communicator(status)) OBJ_RETAIN(comm);
  return coll_gpuar_error_class(status);
}
