/* What differs between Open MPI 4.1, 5.0 and 6.0, and nothing else. No other file of the component
 * asks for a version. */
#ifndef GPUAR_OMPI_COMPAT_H
#define GPUAR_OMPI_COMPAT_H

#include "ompi_config.h"

#include "mpi.h"
#include "ompi/attribute/attribute.h"
#include "ompi/communicator/communicator.h"
#include "ompi/datatype/ompi_datatype.h"
#include "ompi/group/group.h"
#include "ompi/mca/coll/base/base.h"
#include "ompi/mca/coll/base/coll_base_util.h"
#include "ompi/mca/coll/coll.h"
#include "ompi/op/op.h"
#include "ompi/proc/proc.h"
#include "ompi/request/request.h"
#include "ompi/runtime/mpiruntime.h"
#include "ompi/runtime/params.h"
#include "opal/mca/base/base.h"
#include "opal/mca/base/mca_base_pvar.h"
#include "opal/mca/base/mca_base_var.h"
#include "opal/runtime/opal_progress.h"
#include "opal/util/argv.h"
#include "opal/util/proc.h"

#include "mpi-ext.h" /* needs mpi.h; names MPIX_SHORT_FLOAT where there is one */

#if OMPI_MAJOR_VERSION < 5
#include "opal/mca/pmix/pmix.h"
#include "opal/threads/mutex.h"
#else
#include "opal/mca/pmix/pmix-internal.h"
#include "opal/mca/threads/mutex.h"
#endif

#if OMPI_MAJOR_VERSION < 5
/* Set from mpi_yield_when_idle, which is on by itself where ranks outnumber cores. */
extern bool ompi_mpi_yield_when_idle;
#endif

/* "Open MPI v4.1.": how MPI_Get_library_version begins in every release that this build fits. */
#define GPUAR_TEXT_OF(number) #number
#define GPUAR_RELEASE_OF(major, minor) \
  "Open MPI v" GPUAR_TEXT_OF(major) "." GPUAR_TEXT_OF(minor) "."
#define GPUAR_OPEN_MPI_RELEASE GPUAR_RELEASE_OF(OMPI_MAJOR_VERSION, OMPI_MINOR_VERSION)

/* --- The coll interface ----------------------------------------------------------------------- */

#if OMPI_MAJOR_VERSION < 5
#define GPUAR_COLL_BASE_VERSION MCA_COLL_BASE_VERSION_2_0_0
#elif OMPI_MAJOR_VERSION < 6
#define GPUAR_COLL_BASE_VERSION MCA_COLL_BASE_VERSION_2_4_0
#else
#define GPUAR_COLL_BASE_VERSION MCA_COLL_BASE_VERSION_3_0_0
#endif

#if OMPI_MAJOR_VERSION < 6
typedef int coll_gpuar_count;
#else
typedef size_t coll_gpuar_count;
#endif

/* Components without which a communicator lacks functions, whatever else is loaded. */
#if OMPI_MAJOR_VERSION >= 5 && OPAL_ENABLE_FT_MPI
#define GPUAR_ESSENTIAL_COMPONENTS "basic", "libnbc", "ftagree"
#else
#define GPUAR_ESSENTIAL_COMPONENTS "basic", "libnbc"
#endif

/* Up to 5.0 the framework copies a module's functions into the communicator. From 6.0 on the module
 * does so itself and puts back what was there when it goes. */
#if OMPI_MAJOR_VERSION < 6
typedef struct coll_gpuar_previous {
  char unused;
} coll_gpuar_previous;
#define GPUAR_INSTALL(comm, api, function, module, previous) ((void)(previous))
#define GPUAR_UNINSTALL(comm, api, module, previous) ((void)(comm), (void)(previous))
#else
typedef mca_coll_base_comm_coll_t coll_gpuar_previous;
#define GPUAR_INSTALL(comm, api, function, module, previous)                              \
  do {                                                                                    \
    MCA_COLL_SAVE_API(comm, api, (previous)->coll_##api, (previous)->coll_##api##_module, \
                      "gpuar");                                                           \
    MCA_COLL_INSTALL_API(comm, api, function, module, "gpuar");                           \
  } while (0)
#define GPUAR_UNINSTALL(comm, api, module, previous)                                           \
  do {                                                                                         \
    if ((comm)->c_coll->coll_##api##_module == (module)) {                                     \
      MCA_COLL_INSTALL_API(comm, api, (previous)->coll_##api, (previous)->coll_##api##_module, \
                           "gpuar");                                                           \
    }                                                                                          \
  } while (0)
#endif

/* --- Functions -------------------------------------------------------------------------------- */

/* From 5.0 on it returns a number of events. */
static inline void coll_gpuar_progress_open_mpi(void) {
  (void)opal_progress();
}

/* Whether the program has given up an ompi_communicator_t, by MPIX_Comm_revoke. */
static inline bool coll_gpuar_is_revoked(const void* comm) {
#if OMPI_MAJOR_VERSION >= 5 && OPAL_ENABLE_FT_MPI
  return ompi_comm_is_revoked((ompi_communicator_t*)comm);
#else
  (void)comm;
  return false;
#endif
}

/* The class of an error for want of a process, or because the communicator was revoked. */
static inline int coll_gpuar_failure_class(bool revoked) {
#if OMPI_MAJOR_VERSION < 5
  (void)revoked;
  return MPI_ERR_OTHER; /* it has no name for either */
#else
  return revoked ? MPI_ERR_REVOKED : MPI_ERR_PROC_FAILED;
#endif
}

/* The copy function of an attribute that is for one communicator alone. */
static inline int coll_gpuar_never_copy(ompi_communicator_t* comm, int key, void* extra, void* in,
#if OMPI_MAJOR_VERSION < 5
                                        void* out, int* flag, ompi_communicator_t* to) {
  (void)to;
#else
                                        void* out, int* flag) {
#endif
  (void)comm;
  (void)key;
  (void)extra;
  (void)in;
  (void)out;
  *flag = 0;
  return MPI_SUCCESS;
}

/* An operation's function, to be compared: its parameters are const in 6.0. */
typedef void coll_gpuar_function(void);
static inline coll_gpuar_function* coll_gpuar_function_of(const ompi_op_t* op) {
  return (coll_gpuar_function*)op->o_func.c_fn;
}

/* --- Communicators ---------------------------------------------------------------------------- */

/* The context id: the same on all members of an intracommunicator. */
static inline void coll_gpuar_context_id(const ompi_communicator_t* comm, uint64_t* high,
                                         uint64_t* low) {
#if OMPI_MAJOR_VERSION < 5
  *high = 0;
  *low = comm->c_contextid;
#else
  *high = comm->c_contextid.cid_base;
  *low = comm->c_contextid.cid_sub.u64;
#endif
}

/* The text of a key in a communicator's info, cut at `capacity` - 1 bytes. False if there is none
 * such. */
static inline bool coll_gpuar_hint(const opal_infosubscriber_t* comm, const char* key, char* out,
                                   size_t capacity) {
  int found = 0;
  if (NULL == comm->s_info) return false;
#if OMPI_MAJOR_VERSION < 5
  (void)opal_info_get(comm->s_info, key, (int)capacity - 1, out, &found);
#else
  opal_cstring_t* text = NULL;
  (void)opal_info_get(comm->s_info, key, &text, &found);
  if (found) {
    (void)snprintf(out, capacity, "%s", text->string);
    OBJ_RELEASE(text);
  }
#endif
  return 0 != found;
}

/* What a function that watches a communicator's info takes and returns. */
#if OMPI_MAJOR_VERSION < 5
#define GPUAR_INFO_CONST
typedef char coll_gpuar_info_text;
#else
#define GPUAR_INFO_CONST const
typedef const char coll_gpuar_info_text;
#endif

/* Open MPI 4.1 reports a failed request of a collective to MPI_COMM_WORLD's error handler; of the
 * request kinds that it knows, only those of point-to-point find their communicator's. A
 * communicator that the user has freed has no say any more. */
static inline void coll_gpuar_report_to_communicator(ompi_request_t* request) {
#if OMPI_MAJOR_VERSION < 5
  if (!OMPI_COMM_IS_FREED(request->req_mpi_object.comm)) request->req_type = OMPI_REQUEST_PML;
#else
  (void)request;
#endif
}

/* --- The exchange of process data ------------------------------------------------------------- */

static inline int coll_gpuar_modex_put(const char* key, const void* bytes, size_t size) {
  int rc = OPAL_SUCCESS;
#if OMPI_MAJOR_VERSION < 5
  OPAL_MODEX_SEND_STRING(rc, OPAL_PMIX_GLOBAL, (char*)(uintptr_t)key, bytes, size);
#else
  OPAL_MODEX_SEND_STRING(rc, PMIX_GLOBAL, key, bytes, size);
#endif
  return rc;
}

/* Reads what a process published. `immediate`: take what this host's server knows, and do not wait
 * for another's. Copies at most `capacity` bytes; returns the size, 0 if there is nothing. */
static inline size_t coll_gpuar_modex_get(const opal_process_name_t* name, const char* key,
                                          bool immediate, void* out, size_t capacity) {
  size_t size = 0;
#if OMPI_MAJOR_VERSION < 5
  opal_list_t hints;
  OBJ_CONSTRUCT(&hints, opal_list_t);
  if (immediate) {
    opal_value_t* hint = OBJ_NEW(opal_value_t);
    hint->key = strdup(OPAL_PMIX_IMMEDIATE);
    hint->type = OPAL_BOOL;
    hint->data.flag = true;
    opal_list_append(&hints, &hint->super);
  }
  opal_value_t* value = NULL;
  if (OPAL_SUCCESS == opal_pmix.get(name, key, immediate ? &hints : NULL, &value) &&
      NULL != value) {
    size = (size_t)value->data.bo.size;
    memcpy(out, value->data.bo.bytes, size < capacity ? size : capacity);
    OBJ_RELEASE(value);
  }
  OPAL_LIST_DESTRUCT(&hints);
#else
  pmix_proc_t process;
  OPAL_PMIX_CONVERT_NAME(&process, name);
  pmix_info_t hint;
  PMIX_INFO_LOAD(&hint, PMIX_IMMEDIATE, NULL, PMIX_BOOL);
  pmix_value_t* value = NULL;
  if (PMIX_SUCCESS == PMIx_Get(&process, key, &hint, immediate ? 1 : 0, &value) && NULL != value) {
    size = value->data.bo.size;
    memcpy(out, value->data.bo.bytes, size < capacity ? size : capacity);
    PMIX_VALUE_RELEASE(value);
  }
  PMIX_INFO_DESTRUCT(&hint);
#endif
  return size;
}

#endif
