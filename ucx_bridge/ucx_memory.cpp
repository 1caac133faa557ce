// Memory that is registered with UCX once, for many transfers.
#include "ucx_bridge/ucx_memory.h"

#include <new>

#include "ucx_bridge/ucx_transport.h"

namespace gpuar {

void UcxTransport::map(void* data, std::size_t bytes, MemoryKind kind) {
  if (context_ == nullptr || bytes <= default_eager_limit || !carries(kind)) return;
  ucp_mem_map_params_t params = {};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
                      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE;
  params.address = data;
  params.length = bytes;
  params.memory_type = ucx_type(kind);
  ucp_mem_h handle = nullptr;
  if (ucp_mem_map(context_, &params, &handle) != UCS_OK) return;
  try {
    mapped_.emplace(data, handle);
  } catch (const std::bad_alloc&) {
    ucp_mem_unmap(context_, handle);
  }
}

void UcxTransport::unmap(void* data) {
  const auto found = mapped_.find(data);
  if (found == mapped_.end()) return;
  ucp_mem_unmap(context_, found->second);
  mapped_.erase(found);
}

}  // namespace gpuar
