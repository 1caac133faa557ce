/* What processes publish for each other, and how it is looked up. */
#include <stdio.h>
#include <string.h>

#include "coll_gpuar/component/coll_gpuar.h"

static const char record_key[] = "coll.gpuar.record";
static const char address_key[] = "coll.gpuar.address";

static opal_process_name_t name_of(uint64_t process) {
  opal_process_name_t name;
  _Static_assert(sizeof name == sizeof process, "a process name has 64 bits");
  memcpy(&name, &process, sizeof name);
  return name;
}

uint64_t coll_gpuar_process(const ompi_communicator_t* comm, int rank) {
  const opal_process_name_t name = ompi_group_get_proc_name(comm->c_remote_group, rank);
  uint64_t process = 0;
  memcpy(&process, &name, sizeof name);
  return process;
}

/* After the usual exchange this host's server has the data of all processes of the job, and what it
 * does not have was not published. Data of another job, or of a job that exchanges on demand, lies
 * with the server of that process. */
static bool may_lie_elsewhere(const opal_process_name_t* name) {
  return name->jobid != OPAL_PROC_MY_NAME.jobid || opal_pmix_base_async_modex ||
         !opal_pmix_collect_all_data;
}

static size_t look_up(uint64_t process, const char* key, void* out, size_t capacity) {
  const opal_process_name_t name = name_of(process);
  const size_t size = coll_gpuar_modex_get(&name, key, true, out, capacity);
  if (0 != size || !may_lie_elsewhere(&name)) return size;
  return coll_gpuar_modex_get(&name, key, false, out, capacity);
}

static size_t look_up_record(void* context, uint64_t process, void* out, size_t capacity) {
  (void)context;
  return look_up(process, record_key, out, capacity);
}

static size_t look_up_address(void* context, uint64_t process, void* out, size_t capacity) {
  (void)context;
  return look_up(process, address_key, out, capacity);
}

static void look_up_host(void* context, uint64_t process, char* out, size_t capacity) {
  (void)context;
  const opal_proc_t* proc = (const opal_proc_t*)ompi_proc_for_name(name_of(process));
  const char* host = NULL != proc ? opal_get_proc_hostname(proc) : NULL;
  snprintf(out, capacity, "%s", NULL != host ? host : "");
}

const gpuar_directory coll_gpuar_directory = {
    .record = look_up_record,
    .address = look_up_address,
    .host = look_up_host,
    .context = NULL,
};

void coll_gpuar_publish(void) {
  if (NULL == coll_gpuar.core) {
    uint8_t refusal[GPUAR_RECORD_MAX];
    const size_t size = gpuar_refusal(&coll_gpuar.params, coll_gpuar.refusal, refusal);
    if (size > 0) (void)coll_gpuar_modex_put(record_key, refusal, size);
    return;
  }
  const void* bytes = NULL;
  size_t size = gpuar_core_record(coll_gpuar.core, &bytes);
  (void)coll_gpuar_modex_put(record_key, bytes, size);
  size = gpuar_core_address(coll_gpuar.core, &bytes);
  (void)coll_gpuar_modex_put(address_key, bytes, size);
}

bool coll_gpuar_speaks_for(const ompi_communicator_t* comm) {
  const uint64_t mine = coll_gpuar_process(comm, ompi_comm_rank((ompi_communicator_t*)comm));
  for (int rank = 0; rank < ompi_comm_size((ompi_communicator_t*)comm); ++rank) {
    const uint64_t process = coll_gpuar_process(comm, rank);
    if (process >= mine) continue;
    const opal_process_name_t name = name_of(process);
    uint8_t record[GPUAR_RECORD_MAX];
    if (0 != coll_gpuar_modex_get(&name, record_key, true, record, sizeof record)) return false;
  }
  return true;
}
