/* The component's own declarations: how its files see each other. */
#ifndef COLL_GPUAR_H
#define COLL_GPUAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "coll_gpuar/component/ompi_compat.h"
#include "coll_gpuar/core.h"

enum { COLL_GPUAR_WHY_BYTES = 512 };

/* The state of the component in this process. */
typedef struct coll_gpuar_state {
  gpuar_params params;
  bool print_counters;

  bool open;
  pid_t opened_by;
  int world_rank;
  gpuar_core* core; /* NULL: it did not come up, and `refusal` says why */
  char refusal[COLL_GPUAR_WHY_BYTES];
  opal_mutex_t lock; /* guards `serving` and the list of printed reasons */
  bool serving;      /* a communicator was accepted: progress and flush are set up */
} coll_gpuar_state;

extern coll_gpuar_state coll_gpuar;

void coll_gpuar_log(const char* line);

/* --- component.c, include_list.c ------------------------------------------------------------- */

/* The one symbol that Open MPI looks up. */
extern __attribute__((visibility("default"))) mca_coll_base_component_t mca_coll_gpuar_component;

/* Makes `--mca coll gpuar` leave MPI the components that it cannot do without. */
int coll_gpuar_complete_include_list(void);

/* --- directory.c ------------------------------------------------------------------------------ */

extern const gpuar_directory coll_gpuar_directory;

/* Publishes this process's record and address. To be called before Open MPI's exchange. */
void coll_gpuar_publish(void);

/* The 64-bit name of a member. */
uint64_t coll_gpuar_process(const ompi_communicator_t* comm, int rank);

/* True if no lower rank of the communicator has gpuar: this one speaks for it. */
bool coll_gpuar_speaks_for(const ompi_communicator_t* comm);

/* --- progress.c ------------------------------------------------------------------------------- */

/* Registers with Open MPI's progress and its finalization, once, at the first accepted
 * communicator. */
void coll_gpuar_begin_service(void);
void coll_gpuar_end_service(void);

/* --- module.c --------------------------------------------------------------------------------- */

typedef struct coll_gpuar_module {
  mca_coll_base_module_t super;
  gpuar_comm* comm;
  coll_gpuar_previous previous;
} coll_gpuar_module;
OBJ_CLASS_DECLARATION(coll_gpuar_module);

mca_coll_base_module_t* coll_gpuar_comm_query(ompi_communicator_t* comm, int* priority);

/* The MPI error class for a status of the core. */
int coll_gpuar_error_class(int status);

/* --- buffers.c: pooled memory ----------------------------------------------------------------- */

typedef struct coll_gpuar_buffer {
  struct coll_gpuar_buffer* next;
  unsigned size_class;
  _Alignas(64) unsigned char bytes[];
} coll_gpuar_buffer;

/* A buffer of at least that many bytes, aligned to a cache line; NULL if there is no memory. */
coll_gpuar_buffer* coll_gpuar_buffer_take(size_t bytes);
void coll_gpuar_buffer_put(coll_gpuar_buffer* buffer); /* safe on NULL */
void coll_gpuar_buffers_drain(void);

/* --- types.c, binding.c ----------------------------------------------------------------------- */

/* Fills the tables of what gpuar reduces itself. */
void coll_gpuar_types_init(void);

/* True if gpuar reduces this with its own functors; then also as what. */
bool coll_gpuar_types_find(const ompi_op_t* op, const ompi_datatype_t* datatype, gpuar_op* op_out,
                           gpuar_type* type_out);

/* The arguments of one call, as MPI gave them and as the core takes them. */
typedef struct coll_gpuar_binding {
  gpuar_args args;
  ompi_op_t* op;
  ompi_datatype_t* datatype;
  size_t count;
  const void* send; /* the receive buffer, if in place */
  void* receive;
  coll_gpuar_buffer* packed; /* elements without gaps; NULL if the user's memory is that already */
} coll_gpuar_binding;

/* True if the call moves no byte: zero elements, or elements of zero size. */
bool coll_gpuar_is_empty(size_t count, const ompi_datatype_t* datatype);

/* Binds, retaining op and datatype. The binding must not move until released. Failures of these are
 * logged. */
int coll_gpuar_bind(coll_gpuar_binding* binding, const void* send, void* receive, size_t count,
                    ompi_datatype_t* datatype, ompi_op_t* op);
void coll_gpuar_binding_release(coll_gpuar_binding* binding);

/* Before a start: packs the input. After success: unpacks the result. GPUAR_OK or less. */
int coll_gpuar_binding_load(coll_gpuar_binding* binding);
int coll_gpuar_binding_store(coll_gpuar_binding* binding);

/* --- requests.c ------------------------------------------------------------------------------- */

typedef struct coll_gpuar_request {
  ompi_coll_base_nbc_request_t super;
  struct coll_gpuar_request* next; /* in the pool */
  coll_gpuar_binding binding;
  gpuar_call* call; /* persistent only; NULL if the call moves no byte */
  bool failed;
} coll_gpuar_request;
OBJ_CLASS_DECLARATION(coll_gpuar_request);

void coll_gpuar_requests_drain(void);

int coll_gpuar_iallreduce(const void* send, void* receive, coll_gpuar_count count,
                          ompi_datatype_t* datatype, ompi_op_t* op, ompi_communicator_t* comm,
                          ompi_request_t** request, mca_coll_base_module_t* module);

int coll_gpuar_allreduce_init(const void* send, void* receive, coll_gpuar_count count,
                              ompi_datatype_t* datatype, ompi_op_t* op, ompi_communicator_t* comm,
                              struct ompi_info_t* info, ompi_request_t** request,
                              mca_coll_base_module_t* module);

#endif
