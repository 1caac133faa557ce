/* The component as Open MPI loads it: parameters, performance variables, open and close. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coll_gpuar/component/coll_gpuar.h"
#include "gpuar_version.h"

coll_gpuar_state coll_gpuar;

void coll_gpuar_log(const char* line) {
  fprintf(stderr, "%s\n", line);
}

/* --- Parameters ------------------------------------------------------------------------------- */

static void add(const char* name, mca_base_var_type_t type, mca_base_var_info_lvl_t level,
                void* storage, const char* help) {
  (void)mca_base_component_var_register(&mca_coll_gpuar_component.collm_version, name, help, type,
                                        NULL, 0, 0, level, MCA_BASE_VAR_SCOPE_READONLY, storage);
}

static void register_parameters(void) {
  gpuar_params* params = &coll_gpuar.params;
  *params = (gpuar_params){
      .priority = 85,
      .algorithm = "auto",
      .spin = 1000,
      .test_node_size = "",
      .test_fault = "",
      .log = coll_gpuar_log,
  };
  coll_gpuar.print_counters = false;

  add("priority", MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_6, &params->priority,
      "Priority among coll components, a number (default: 85, above Open MPI's own staging of GPU "
      "buffers at 78). Must be the same on all ranks");
  add("algorithm", MCA_BASE_VAR_TYPE_STRING, OPAL_INFO_LVL_3, &params->algorithm,
      "Name of the algorithm to use wherever it can serve, or \"auto\": chosen by the cost model "
      "(default: auto). Must be the same on all ranks");
  add("segment_size", MCA_BASE_VAR_TYPE_SIZE_T, OPAL_INFO_LVL_5, &params->segment_size,
      "Segment size in bytes; 0: chosen by the cost model (default: 0). Must be the same on all "
      "ranks");
  add("pipeline_depth", MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_5, &params->pipeline_depth,
      "Number of segments in flight; 0: chosen (default: 0). Must be the same on all ranks");
  add("eager_limit", MCA_BASE_VAR_TYPE_SIZE_T, OPAL_INFO_LVL_5, &params->eager_limit,
      "Bytes up to which a message is sent without rendezvous; 0: the transport's own limit "
      "(default: 0)");
  add("reproducible", MCA_BASE_VAR_TYPE_BOOL, OPAL_INFO_LVL_3, &params->reproducible,
      "Whether results follow one association that depends on ranks alone, so that bits are equal "
      "for every form of the call and placement (default: false). Must be the same on all ranks");
  add("progress_thread", MCA_BASE_VAR_TYPE_BOOL, OPAL_INFO_LVL_4, &params->progress_thread,
      "Whether a thread moves messages while the program computes (default: false)");
  add("spin", MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_6, &params->spin,
      "Number of polls of gpuar's own worker before a blocking call turns to Open MPI's progress "
      "(default: 1000; none when Open MPI yields while idle)");
  add("verbose", MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_3, &params->verbose,
      "Level of messages to standard error; 0: only what goes wrong, 1: one line for every new "
      "shape "
      "of call and the reason for its algorithm (default: 0)");
  add("counters", MCA_BASE_VAR_TYPE_BOOL, OPAL_INFO_LVL_4, &coll_gpuar.print_counters,
      "Whether every process prints one line of counters to standard error at finalize (default: "
      "false)");
  add("test_node_size", MCA_BASE_VAR_TYPE_STRING, OPAL_INFO_LVL_9, &params->test_node_size,
      "For tests: ranks per pretended node, one number or a comma-separated list of numbers; "
      "empty: "
      "the nodes that there are (default: empty). Must be the same on all ranks");
  add("test_fault", MCA_BASE_VAR_TYPE_STRING, OPAL_INFO_LVL_9, &params->test_fault,
      "For tests: name of a deliberate defect; \"decline\": no communicator is served (default: "
      "empty, none)");
}

static void count(const char* name, uint64_t* storage, const char* help) {
  (void)mca_base_component_pvar_register(
      &mca_coll_gpuar_component.collm_version, name, help, OPAL_INFO_LVL_4,
      MCA_BASE_PVAR_CLASS_COUNTER, MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL,
      MCA_BASE_VAR_BIND_NO_OBJECT, MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS,
      NULL, NULL, NULL, storage);
}

static void register_counters(void) {
  gpuar_counters* counters = gpuar_get_counters();
  count("blocking", &counters->blocking, "Calls of MPI_Allreduce served");
  count("nonblocking", &counters->nonblocking, "Calls of MPI_Iallreduce served");
  count("persistent", &counters->persistent, "Starts of MPI_Allreduce_init's requests served");
  count(
      "fallbacks", &counters->fallbacks,
      "Communicators left to other components because gpuar is missing or set up differently on a "
      "member");
  count("declined", &counters->declined_size,
        "Communicators of one process and intercommunicators, left to other components");
  count("bytes_sent", &counters->bytes_sent, "Bytes handed to UCX");
  count("messages_sent", &counters->messages_sent, "Messages handed to UCX");
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
  register_parameters();
  register_counters();
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
  coll_gpuar.opened_by = getpid();
  coll_gpuar.world_rank = (int)OPAL_PROC_MY_NAME.vpid;
  OBJ_CONSTRUCT(&coll_gpuar.lock, opal_mutex_t);
  coll_gpuar.open = true;
  (void)gpuar_core_open(&coll_gpuar.params, &coll_gpuar.core, coll_gpuar.refusal,
                        sizeof coll_gpuar.refusal);
  coll_gpuar_publish();
  return OMPI_SUCCESS;
}

static void print_counters(void) {
  const gpuar_counters* counters = gpuar_get_counters();
  fprintf(stderr,
          "gpuar: counters: rank %d: blocking=%" PRIu64 " nonblocking=%" PRIu64
          " persistent=%" PRIu64 " fallbacks=%" PRIu64 " declined=%" PRIu64 " ucx_bytes=%" PRIu64
          " ucx_messages=%" PRIu64 "\n",
          coll_gpuar.world_rank, counters->blocking, counters->nonblocking, counters->persistent,
          counters->fallbacks, counters->declined_size, counters->bytes_sent,
          counters->messages_sent);
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
