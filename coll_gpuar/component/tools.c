/* The component's side of tools.h. */
#include <inttypes.h>
#include <stdio.h>

#include "coll_gpuar/component/coll_gpuar.h"
#include "ompi/info/info.h"
#include "ompi/mca/pml/base/base.h"

static int ask(void* comm, size_t count, size_t element_bytes, gpuar_answer* answer) {
  const coll_gpuar_module* module = coll_gpuar_module_of(comm);
  return NULL != module ? gpuar_comm_ask(module->comm, count, element_bytes, answer)
                        : GPUAR_ERR_DECLINED;
}

static const char* about(void) {
  return gpuar_core_about(coll_gpuar.core);
}

static const char* peers(void* comm) {
  const coll_gpuar_module* module = coll_gpuar_module_of(comm);
  return NULL != module ? gpuar_comm_peers(module->comm) : NULL;
}

void coll_gpuar_tools_publish(void) {
  static gpuar_tools table;
  if (NULL == coll_gpuar.core) return;
  table = (gpuar_tools){
      .algorithms = gpuar_algorithms(),
      .compositions = gpuar_compositions(),
      .tuning_file = gpuar_tuning_file(coll_gpuar.core),
      .pml = mca_pml_base_selected_component.pmlm_version.mca_component_name,
      .ask = ask,
      .about = about,
      .peers = peers,
  };
  char text[32];
  snprintf(text, sizeof text, "0x%" PRIxPTR, (uintptr_t)&table);
  (void)opal_info_set(&ompi_mpi_info_env.info.super, GPUAR_TOOLS_KEY, text);
}
