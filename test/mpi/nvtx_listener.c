/* What a profiler does with NVTX, in few lines: named by NVTX_INJECTION64_PATH, it is loaded by the
 * first range, and says at the end how many there were and what the last one was called. */
#include <nvtx3/nvToolsExt.h>
#include <stdio.h>

static unsigned long begun, ended;
static char last[128];
static const char* domain = "";

static nvtxDomainHandle_t create(const char* name) {
  domain = name;
  return (nvtxDomainHandle_t)&domain;
}

static nvtxRangeId_t begin(nvtxDomainHandle_t where, const nvtxEventAttributes_t* what) {
  if (where == (nvtxDomainHandle_t)&domain) ++begun;
  snprintf(last, sizeof last, "%s", what->message.ascii);
  return begun;
}

static void end(nvtxDomainHandle_t where, nvtxRangeId_t range) {
  if (where == (nvtxDomainHandle_t)&domain && range != 0) ++ended;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    NvtxGetExportTableFunc_t get_table) {
  const NvtxExportTableCallbacks* callbacks = get_table(NVTX_ETID_CALLBACKS);
  NvtxFunctionTable table = NULL;
  unsigned size = 0;
  if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE2, &table, &size))
    return 0;
  *table[NVTX_CBID_CORE2_DomainCreateA] = (NvtxFunctionPointer)create;
  *table[NVTX_CBID_CORE2_DomainRangeStartEx] = (NvtxFunctionPointer)begin;
  *table[NVTX_CBID_CORE2_DomainRangeEnd] = (NvtxFunctionPointer)end;
  return 1;
}

__attribute__((destructor)) static void tell(void) {
  printf("RANGES %s %lu %lu %s\n", domain, begun, ended, last);
}
