/* The component's own declarations: how its files see each other. */
#ifndef COLL_GPUAR_H
#define COLL_GPUAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "coll_gpuar/component/ompi_compat.h"
#include "coll_gpuar/core.h"

enum { COLL_GPUAR_WHY_BYTES = 512, COLL_GPUAR_HINT_BYTES = 96 };

/* The state of the component in this process. */
typedef struct coll_gpuar_state {
  gpuar_params params;
  bool print_counters;
  int release_pools; /* set to anything else: they are released */

  bool open;
  pid_t opened_by;
  int world_rank;
  gpuar_core* core; /* NULL: it did not come up, and `refusal` says why */
  char refusal[COLL_GPUAR_WHY_BYTES];
  opal_mutex_t lock; /* guards `serving` and the list of printed reasons */
  bool serves_world; /* gpuar serves MPI_COMM_WORLD: on all of its processes alike */
  bool serving;      /* a communicator was accepted: progress and flush are set up */
} coll_gpuar_state;

extern coll_gpuar_state coll_gpuar;

void coll_gpuar_log(const char* line);

/* --- component.c, include_list.c ------------------------------------------------------------- */

/* The one symbol that Open MPI looks up. */
extern __attribute__((visibility("default"))) mca_coll_base_component_t mca_coll_gpuar_component;

/* Makes `--mca coll gpuar` leave MPI the components that it cannot do without. */
int coll_gpuar_complete_include_list(void);

/* --- variables.c ------------------------------------------------------------------------------ */

/* gpuar's parameters and counters, which are MPI_T's control and performance variables. */
void coll_gpuar_register_variables(void);

/* Releases the pools if a program has asked for it since the last time. */
void coll_gpuar_release_if_asked(void);

/* --- directory.c ------------------------------------------------------------------------------ */

extern const gpuar_directory coll_gpuar_directory;

/* Publishes this process's record and address. To be called before Open MPI's exchange. */
void coll_gpuar_publish(void);

/* The 64-bit name of a member. */
uint64_t coll_gpuar_process(const ompi_communicator_t* comm, int rank);

/* True if this is the first process of the job that has gpuar and is in the communicator: it speaks
 * for it, whatever the order of ranks is. */
bool coll_gpuar_speaks_for(const ompi_communicator_t* comm);

/* --- hints.c ---------------------------------------------------------------------------------- */

typedef struct coll_gpuar_hints {
  const char* given[GPUAR_HINTS]; /* NULL: not given */
  char texts[GPUAR_HINTS][COLL_GPUAR_HINT_BYTES];
} coll_gpuar_hints;

/* The hints that a communicator was made with. */
void coll_gpuar_hints_read(const ompi_communicator_t* comm, coll_gpuar_hints* hints);

/* Lets the communicator's info say which of them are in use; NULL: none, it is not served. */
void coll_gpuar_hints_settle(ompi_communicator_t* comm, const coll_gpuar_hints* hints,
                             const gpuar_comm* served);

/* --- tools.c ---------------------------------------------------------------------------------- */

/* Lets gpuar's tools find the table of tools.h; when, see coll_gpuar_own_ops_publish(). */
void coll_gpuar_tools_publish(void);

/* --- progress.c ------------------------------------------------------------------------------- */

/* Registers with Open MPI's progress and its finalization, once, at the first accepted
 * communicator. */
void coll_gpuar_begin_service(void);
void coll_gpuar_end_service(void);

/* --- report.c --------------------------------------------------------------------------------- */

/* Gathers the parts of the report and writes it, while MPI_COMM_WORLD still works. */
void coll_gpuar_report(void);

/* Writes this process's file of the trace, if there is one. */
void coll_gpuar_trace(void);

/* --- module.c --------------------------------------------------------------------------------- */

/* The module that gpuar made for a communicator; NULL if another component serves it. */
struct coll_gpuar_module* coll_gpuar_module_of(const ompi_communicator_t* comm);

typedef struct coll_gpuar_module {
  mca_coll_base_module_t super;
  gpuar_comm* comm;
  coll_gpuar_previous previous;
} coll_gpuar_module;
OBJ_CLASS_DECLARATION(coll_gpuar_module);

mca_coll_base_module_t* coll_gpuar_comm_query(ompi_communicator_t* comm, int* priority);

/* The MPI error class for a status of the core. */
int coll_gpuar_error_class(int status);

/* Whether a call that ends so leaves its communicator broken. The caller then keeps a reference. */
bool coll_gpuar_breaks_communicator(int status);

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
size_t coll_gpuar_buffers_idle_bytes(void);

/* --- types.c, binding.c ----------------------------------------------------------------------- */

/* Fills the tables of what gpuar reduces itself. */
void coll_gpuar_types_init(void);

/* True if gpuar reduces this with its own functors; then also as what. */
bool coll_gpuar_types_find(const ompi_op_t* op, const ompi_datatype_t* datatype, gpuar_op* op_out,
                           gpuar_type* type_out);

/* The gpuar_type of a predefined datatype; -1 if gpuar has none. */
int coll_gpuar_types_element(const ompi_datatype_t* datatype);

/* The arguments of one call, as MPI gave them and as the core takes them. */
typedef struct coll_gpuar_binding {
  gpuar_args args;
  gpuar_comm* comm;
  ompi_op_t* op;
  ompi_datatype_t* datatype;
  size_t count;
  const void* send; /* the receive buffer, if in place */
  void* receive;
  coll_gpuar_buffer* packed; /* elements without gaps; NULL if the user's memory is that already */
  bool retained;             /* op and datatype, unless both are predefined */
} coll_gpuar_binding;

/* True if the call moves no byte: zero elements, or elements of zero size. */
bool coll_gpuar_is_empty(size_t count, const ompi_datatype_t* datatype);

/* Binds, retaining op and datatype. `ranks` is what an average divides by. The binding must not
 * move until released. Failures of these are logged. */
int coll_gpuar_bind(coll_gpuar_binding* binding, gpuar_comm* comm, const void* send, void* receive,
                    size_t count, ompi_datatype_t* datatype, ompi_op_t* op, int ranks);
void coll_gpuar_binding_release(coll_gpuar_binding* binding);

/* Before a start: packs the input; where that fails, the communicator fails on all ranks. After
 * success: unpacks the result. GPUAR_OK or less. */
int coll_gpuar_binding_load(coll_gpuar_binding* binding);
int coll_gpuar_binding_store(coll_gpuar_binding* binding);

/* True if an array of such elements is their bytes, in order and nothing else. */
bool coll_gpuar_is_packed(const ompi_datatype_t* datatype);

/* From the user's layout to `bytes` of packed elements and back. GPUAR_OK or less, logged. */
int coll_gpuar_pack(const ompi_datatype_t* datatype, size_t count, const void* from, void* to,
                    size_t bytes);
int coll_gpuar_unpack(const ompi_datatype_t* datatype, size_t count, const void* from, void* to,
                      size_t bytes);

/* --- own_ops.c: the operations of gpuar.h ----------------------------------------------------- */

typedef struct coll_gpuar_own_op {
  const char* key; /* in MPI_INFO_ENV, where gpuar.h looks for the function */
  MPI_User_function* function;
  gpuar_op op;
  bool average;
} coll_gpuar_own_op;

#define COLL_GPUAR_HALF_ONLY                                                                    \
  "GPUAR_SUM, GPUAR_MIN and GPUAR_MAX take fp16 or bf16 from gpuar_type(), and datatypes made " \
  "of one of them; other types have MPI_SUM, MPI_MIN, MPI_MAX"

#define COLL_GPUAR_FLOATING_ONLY                                                                \
  "GPUAR_AVERAGE takes MPI's floating and complex types, fp16 and bf16 from gpuar_type(), and " \
  "datatypes made of one of them"

/* Lets gpuar.h find the operations. MPI_INFO_ENV is there when MPI_COMM_WORLD chooses its
 * components, and not yet when they open. */
void coll_gpuar_own_ops_publish(void);

/* NULL if the operation is not one of gpuar.h. */
const coll_gpuar_own_op* coll_gpuar_own_op_find(const ompi_op_t* op);

/* The gpuar_type that all elements of a datatype have, derived or not; -1 if there are several, or
 * none that gpuar has; COLL_GPUAR_NO_ROOM if there is no memory to find out. */
enum { COLL_GPUAR_NO_ROOM = -2 };
int coll_gpuar_element_of(const ompi_datatype_t* datatype);
bool coll_gpuar_own_op_takes(const coll_gpuar_own_op* own, int element);

/* --- device.c: elements with gaps, in device memory --------------------------------------------
 */

/* As packing and unpacking by Open MPI's convertor. GPUAR_OK or less. */
int coll_gpuar_device_pack(const ompi_datatype_t* datatype, size_t count, const void* from,
                           void* to);
int coll_gpuar_device_unpack(const ompi_datatype_t* datatype, size_t count, const void* from,
                             void* to);

/* --- caller.c --------------------------------------------------------------------------------- */

/* Whose calls come from this address: the program's, or those that Open MPI makes itself. */
gpuar_stream coll_gpuar_stream_of(const void* return_address);

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
