/* The component as Open MPI loads it: open and close. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coll_gpuar/component/coll_gpuar.h"
#include "gpuar_version.h"

coll_gpuar_state coll_gpuar;

/* In one piece: standard error has no buffer, newer C libraries write what is formatted for it in
 * parts of 128 bytes, and mpirun mixes the parts of several ranks. */
void coll_gpuar_log(const char* line) {
  const size_t length = strlen(line);
  char* whole = malloc(length + 2);
  if (NULL == whole) return;
  (void)snprintf(whole, length + 2, "%s\n", line);
  (void)fwrite(whole, 1, length + 1, stderr);
  free(whole);
}

/* Open MPI's own name of the release that this component was compiled for. Several of a user's Open
 * MPI builds may search the folder in which it lies. */
char coll_gpuar_built_for[] = GPUAR_OPEN_MPI_RELEASE;

static bool is_for_this_open_mpi(void) {
  char running[MPI_MAX_LIBRARY_VERSION_STRING] = "";
  int length = 0;
  (void)MPI_Get_library_version(running, &length);
  if (0 == strncmp(running, coll_gpuar_built_for, strlen(coll_gpuar_built_for))) return true;
  const char* rank = getenv("OMPI_COMM_WORLD_RANK");
  if (NULL != rank && 0 != strcmp(rank, "0")) return false;
  running[strcspn(running, ",")] = '\0';
  char line[COLL_GPUAR_WHY_BYTES];
  snprintf(
      line, sizeof line,
      "gpuar: not used: this component was built for %.32sx, and this is %.64s; build gpuar for "
      "it, or leave it out with --mca coll ^gpuar",
      coll_gpuar_built_for, running);
  coll_gpuar_log(line);
  return false;
}

static int register_component(void) {
  if (!is_for_this_open_mpi()) return OPAL_ERR_NOT_AVAILABLE;
  static bool registering; /* completing the include list registers the components once more */
  if (registering) return OMPI_SUCCESS;
  registering = true;
  coll_gpuar_register_variables();
  const int rc = coll_gpuar_complete_include_list();
  registering = false;
  return rc;
}

/* --- Open and close --------------------------------------------------------------------------- */

/* Comes before Open MPI's exchange of process data, so that what is published here is known to all
 * when the first communicator is made. Never fails: a core that does not come up is told to the
 * other ranks, and all of them leave their communicators to other components. */
static int open_component(void) {
  coll_gpuar.core = NULL;
  coll_gpuar.refusal[0] = '\0';
  coll_gpuar.serving = false;
  coll_gpuar.serves_world = false;
  coll_gpuar.opened_by = getpid();
  coll_gpuar.world_rank = (int)OPAL_PROC_MY_NAME.vpid;
  OBJ_CONSTRUCT(&coll_gpuar.lock, opal_mutex_t);
  coll_gpuar.open = true;
  coll_gpuar.params.local_rank = opal_process_info.my_local_rank;
  coll_gpuar.params.local_ranks = (int)opal_process_info.num_local_peers + 1;
  (void)gpuar_core_open(&coll_gpuar.params, &coll_gpuar.core, coll_gpuar.refusal,
                        sizeof coll_gpuar.refusal);
  coll_gpuar_publish();
  return OMPI_SUCCESS;
}

static void print_counters(void) {
  const gpuar_counters* counters = gpuar_get_counters();
  char line[COLL_GPUAR_WHY_BYTES];
  snprintf(line, sizeof line,
           "gpuar: counters: rank %d: blocking=%" PRIu64 " nonblocking=%" PRIu64
           " persistent=%" PRIu64 " fallbacks=%" PRIu64 " declined=%" PRIu64 " ucx_bytes=%" PRIu64
           " ucx_messages=%" PRIu64 " device_calls=%" PRIu64 " through_host=%" PRIu64
           " launches=%" PRIu64 " copies=%" PRIu64 " missing=%" PRIu64 " refusing=%" PRIu64
           " different=%" PRIu64,
           coll_gpuar.world_rank, counters->blocking, counters->nonblocking, counters->persistent,
           counters->fallbacks, counters->declined, counters->bytes_sent, counters->messages_sent,
           counters->device_calls, counters->through_host, counters->kernel_launches,
           counters->device_copies, counters->fallbacks_missing, counters->fallbacks_refusing,
           counters->fallbacks_different);
  coll_gpuar_log(line);
}

static int close_component(void) {
  if (!coll_gpuar.open) return OMPI_SUCCESS;
  coll_gpuar.open = false;
  coll_gpuar_end_service();
  if (coll_gpuar.print_counters && getpid() == coll_gpuar.opened_by) print_counters();
  gpuar_core_close(coll_gpuar.core);
  coll_gpuar.core = NULL;
  coll_gpuar_requests_drain();
  coll_gpuar_buffers_drain();
  OBJ_DESTRUCT(&coll_gpuar.lock);
  return OMPI_SUCCESS;
}

static int init_query(bool progress_threads, bool mpi_threads) {
  (void)progress_threads;
  (void)mpi_threads;
  coll_gpuar_types_init();
  return OMPI_SUCCESS;
}

mca_coll_base_component_t mca_coll_gpuar_component = {
    .collm_version =
        {
            GPUAR_COLL_BASE_VERSION,
            .mca_component_name = "gpuar",
            MCA_BASE_MAKE_VERSION(component, GPUAR_VERSION_MAJOR, GPUAR_VERSION_MINOR,
                                  GPUAR_VERSION_PATCH),
            .mca_open_component = open_component,
            .mca_close_component = close_component,
            .mca_register_component_params = register_component,
        },
    .collm_data = {.param_field = MCA_BASE_METADATA_PARAM_NONE},
    .collm_init_query = init_query,
    .collm_comm_query = coll_gpuar_comm_query,
};
