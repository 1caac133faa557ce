/* Parameters and performance variables: as Open MPI has them, and through it MPI_T. */
#include "coll_gpuar/component/coll_gpuar.h"

/* --- Parameters ------------------------------------------------------------------------------- */

static void add_scoped(const char* name, mca_base_var_type_t type, mca_base_var_info_lvl_t level,
                       mca_base_var_scope_t scope, void* storage, const char* help) {
  const mca_base_var_flag_t flags =
      MCA_BASE_VAR_SCOPE_READONLY == scope ? 0 : MCA_BASE_VAR_FLAG_SETTABLE;
  (void)mca_base_component_var_register(&mca_coll_gpuar_component.collm_version, name, help, type,
                                        NULL, 0, flags, level, scope, storage);
}

/* Read when MPI starts: MPI_T refuses to write it. */
static void add(const char* name, mca_base_var_type_t type, mca_base_var_info_lvl_t level,
                void* storage, const char* help) {
  add_scoped(name, type, level, MCA_BASE_VAR_SCOPE_READONLY, storage, help);
}

/* Read at each call, and of no consequence for other ranks: MPI_T may write it at any time. */
static void add_live(const char* name, mca_base_var_type_t type, mca_base_var_info_lvl_t level,
                     void* storage, const char* help) {
  add_scoped(name, type, level, MCA_BASE_VAR_SCOPE_LOCAL, storage, help);
}

static void register_parameters(void) {
  gpuar_params* params = &coll_gpuar.params;
  *params = (gpuar_params){
      .priority = 85,
      .algorithm = "auto",
      .expect = "auto",
      .mailbox_size = 4096,
      .spin = 1000,
      .device_limit = GPUAR_DEVICE_LIMIT,
      .pool_size = (size_t)256 << 20,
      .tuning_file = "",
      .report = "",
      .trace = "",
      .trace_events = 65536,
      .check_timeout = 60,
      .test_node_size = "",
      .test_fault = "",
      .log = coll_gpuar_log,
  };
  coll_gpuar.print_counters = false;
  coll_gpuar.release_pools = 0;

  add("priority", MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_6, &params->priority,
      "Priority among coll components, a number (default: 85, above Open MPI's own staging of GPU "
      "buffers at 78). Must be the same on all ranks");
  add("algorithm", MCA_BASE_VAR_TYPE_STRING, OPAL_INFO_LVL_3, &params->algorithm,
      "Name of the algorithm to use wherever it can serve; \"hierarchy\" or \"leaders\", along the "
      "nodes (\"deep_hierarchy\" or \"deep_leaders\": along packages, too), with any algorithm "
      "across "
      "them or a named one, as in \"hierarchy:ring\"; or \"auto\": chosen by the cost model "
      "(default: "
      "auto). Must be the same on all ranks");
  add("tuning_file", MCA_BASE_VAR_TYPE_STRING, OPAL_INFO_LVL_3, &params->tuning_file,
      "Name of a file, written by gpuar_tune, that says which algorithm serves which sizes; what "
      "it "
      "leaves open is chosen by the cost model (default: empty, none). Must have the same content "
      "on all ranks");
  add("segment_size", MCA_BASE_VAR_TYPE_SIZE_T, OPAL_INFO_LVL_5, &params->segment_size,
      "Segment size in bytes; 0: chosen by the cost model (default: 0). Must be the same on all "
      "ranks");
  add("pipeline_depth", MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_5, &params->pipeline_depth,
      "Number of segments in flight; 0: chosen (default: 0). Must be the same on all ranks");
  add("eager_limit", MCA_BASE_VAR_TYPE_SIZE_T, OPAL_INFO_LVL_5, &params->eager_limit,
      "Bytes up to which a message is sent without rendezvous; 0: the transport's own limit "
      "(default: 0)");
  add("mailbox_size", MCA_BASE_VAR_TYPE_SIZE_T, OPAL_INFO_LVL_5, &params->mailbox_size,
      "Bytes up to which a message to a process of the same machine goes through a mailbox in "
      "shared memory, at most 4096; 0: none does (default: 4096)");
  add("reproducible", MCA_BASE_VAR_TYPE_BOOL, OPAL_INFO_LVL_3, &params->reproducible,
      "Whether results follow one association that depends on ranks alone, so that bits are equal "
      "for every form of the call and placement (default: false). Must be the same on all ranks");
  add("progress_thread", MCA_BASE_VAR_TYPE_BOOL, OPAL_INFO_LVL_4, &params->progress_thread,
      "Whether a thread moves messages while the program computes (default: false)");
  add_live(
      "spin", MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_6, &params->spin,
      "Number of polls of gpuar's own worker before a blocking call turns to Open MPI's progress "
      "(default: 1000; when Open MPI yields while idle, at most 16, each followed by a yield, "
      "again "
      "and again)");
  add("expect", MCA_BASE_VAR_TYPE_STRING, OPAL_INFO_LVL_5, &params->expect,
      "Name of the kind of memory that long messages are planned for, \"host\" or \"device\"; any "
      "kind is served right. \"ask\": the ranks of a communicator ask each other before their "
      "first long message; \"auto\": they do where all their hosts have a GPU (default: auto). "
      "Must be the same on all ranks");
  add_live("device_limit", MCA_BASE_VAR_TYPE_SIZE_T, OPAL_INFO_LVL_5, &params->device_limit,
           "Bytes up to which a message in device memory is carried through pinned host memory and "
           "reduced there; longer ones are reduced on the device (default: 65536)");
  add("pool_size", MCA_BASE_VAR_TYPE_SIZE_T, OPAL_INFO_LVL_5, &params->pool_size,
      "Bytes of idle scratch memory kept on each device, and of pinned host memory in all "
      "(default: 268435456)");
  add_live(
      "sync_device", MCA_BASE_VAR_TYPE_BOOL, OPAL_INFO_LVL_3, &params->sync_device,
      "Whether a call on device memory first waits for all work queued in that memory's context, "
      "as if the program had synchronised (default: false: it has, as MPI requires)");
  add_live(
      "verbose", MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_3, &params->verbose,
      "Level of messages to standard error; 0: only what goes wrong, 1: where the ranks of each "
      "communicator sit, how device memory travels, and for every new shape of call the reason for "
      "its algorithm, 2: also every rank's network ports and the transports to its peers "
      "(default: 0)");
  add_live(
      "counters", MCA_BASE_VAR_TYPE_BOOL, OPAL_INFO_LVL_4, &coll_gpuar.print_counters,
      "Whether every process prints one line of counters to standard error at finalize (default: "
      "false)");
  add("check", MCA_BASE_VAR_TYPE_BOOL, OPAL_INFO_LVL_3, &params->check,
      "Whether the ranks compare what they call before the data of a call moves, so that a rank "
      "that "
      "calls with another count, type, operation or in another order is named instead of a hang or "
      "a wrong result (default: false). Must be the same on all ranks");
  add("check_timeout", MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_3, &params->check_timeout,
      "With coll_gpuar_check, seconds after which a call that waits for other ranks finds out "
      "which "
      "of them have not made it, names them and fails; a number of 1 or more (default: 60)");
  add("timeout", MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_3, &params->timeout,
      "Seconds after which a call in which nothing moves fails and names the ranks that it waits "
      "for; 0: it waits for ever, and only a process that is found gone is an error. A number "
      "larger than any rank may be late by (default: 0)");
  add("report", MCA_BASE_VAR_TYPE_STRING, OPAL_INFO_LVL_3, &params->report,
      "Name of the file to write at finalize with a report on all calls: how long they took, how "
      "much of that was waiting for late ranks, and for which; JSON if it ends in .json; \"1\": a "
      "table to standard error; empty: no report (default: empty). All ranks must ask for one, or "
      "none");
  add("trace", MCA_BASE_VAR_TYPE_STRING, OPAL_INFO_LVL_3, &params->trace,
      "Name of the files to write at finalize, one for each rank, with a timeline of calls, "
      "messages, "
      "reductions and waits, for gpuar_trace, Perfetto or Chrome: trace.json gives trace.0.json, "
      "trace.1.json, ...; empty: no trace (default: empty). All ranks must ask for one, or none");
  add("trace_events", MCA_BASE_VAR_TYPE_SIZE_T, OPAL_INFO_LVL_5, &params->trace_events,
      "Number of events that each process keeps for coll_gpuar_trace, 80 bytes each; the latest "
      "(default: 65536)");
  add_live("release_pools", MCA_BASE_VAR_TYPE_INT, OPAL_INFO_LVL_5, &coll_gpuar.release_pools,
           "Number to write through MPI_T, another than before, for gpuar to give its idle scratch "
           "memory, on the host and on devices, back to the system, when MPI next makes progress "
           "with no call under way (default: 0)");
  add("test_node_size", MCA_BASE_VAR_TYPE_STRING, OPAL_INFO_LVL_9, &params->test_node_size,
      "For tests: ranks per pretended node, one number or a comma-separated list of numbers; "
      "after a slash, the same of packages within nodes; empty: "
      "the nodes that there are (default: empty). Must be the same on all ranks");
  add("test_fault", MCA_BASE_VAR_TYPE_STRING, OPAL_INFO_LVL_9, &params->test_fault,
      "For tests: name of a deliberate defect; \"decline\": no communicator is served, "
      "\"through_host\": nothing is reduced on a device (default: empty, none)");
}

/* --- Performance variables -------------------------------------------------------------------- */

/* As it is at the moment of the reading. */
static int read_now(const mca_base_pvar_t* variable, void* value, void* object) {
  (void)object;
  if (NULL != coll_gpuar.core) gpuar_core_take_stock(coll_gpuar.core);
  *(unsigned long long*)value = *(const uint64_t*)variable->ctx;
  return OPAL_SUCCESS;
}

static int read_pool(const mca_base_pvar_t* variable, void* value, void* object) {
  (void)read_now(variable, value, object);
  *(unsigned long long*)value += coll_gpuar_buffers_idle_bytes();
  return OPAL_SUCCESS;
}

static void add_variable(const char* name, int class, mca_base_get_value_fn_t read,
                         uint64_t* storage, const char* help) {
  (void)mca_base_component_pvar_register(
      &mca_coll_gpuar_component.collm_version, name, help, OPAL_INFO_LVL_4, class,
      MCA_BASE_VAR_TYPE_UNSIGNED_LONG_LONG, NULL, MCA_BASE_VAR_BIND_NO_OBJECT,
      MCA_BASE_PVAR_FLAG_READONLY | MCA_BASE_PVAR_FLAG_CONTINUOUS, read, NULL, NULL, storage);
}

static void count(const char* name, uint64_t* storage, const char* help) {
  add_variable(name, MCA_BASE_PVAR_CLASS_COUNTER, read_now, storage, help);
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
  count("fallbacks_missing", &counters->fallbacks_missing,
        "Of the fallbacks, those because gpuar is not loaded on a member");
  count("fallbacks_refusing", &counters->fallbacks_refusing,
        "Of the fallbacks, those because gpuar did not come up on a member");
  count("fallbacks_different", &counters->fallbacks_different,
        "Of the fallbacks, those because gpuar is set up differently on a member");
  count("declined", &counters->declined, "Intercommunicators, left to other components");
  count("bytes_sent", &counters->bytes_sent, "Bytes handed to UCX");
  count("messages_sent", &counters->messages_sent, "Messages handed to UCX");
  count("device_calls", &counters->device_calls, "Calls served, of any form, on device memory");
  count("through_host", &counters->through_host,
        "Calls on device memory that were carried through host memory");
  count("kernel_launches", &counters->kernel_launches, "Launches of reductions on a device");
  count("device_copies", &counters->device_copies,
        "Copies from, to and within device memory that gpuar made itself");
  count("time_ns", &counters->time_ns,
        "Nanoseconds from the beginning of a call to its end, of all calls; only while a report "
        "or a trace is kept");
  count("wait_ns", &counters->wait_ns,
        "Of these, nanoseconds spent waiting for ranks that entered the call later");
  add_variable("pool_bytes", MCA_BASE_PVAR_CLASS_LEVEL, read_pool, &counters->pool_bytes,
               "Bytes of idle scratch memory that gpuar keeps on the host");
}

/* --- Both ------------------------------------------------------------------------------------- */

void coll_gpuar_register_variables(void) {
  register_parameters();
  register_counters();
}

void coll_gpuar_release_if_asked(void) {
  static int done;
  if (done == coll_gpuar.release_pools) return;
  done = coll_gpuar.release_pools;
  gpuar_core_release_pools(coll_gpuar.core);
  coll_gpuar_buffers_drain();
}
