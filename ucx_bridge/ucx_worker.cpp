// Bringing UCX up and taking it down.
#include <ucp/api/ucp.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "ucx_bridge/ucx_memory.h"
#include "ucx_bridge/ucx_status.h"
#include "ucx_bridge/ucx_transport.h"
#include "ucx_bridge/ucx_words.h"

namespace gpuar {

namespace {

Status explain(std::string& why, const char* what, ucs_status_t status) {
  why = std::string(what) + ": " + ucs_status_string(status);
  return status == UCS_ERR_NO_MEMORY ? Status::no_memory : Status::failed;
}

}  // namespace

Status UcxTransport::open(ArrivalHandler handler, const UcxOptions& options, std::string& why) {
  if (worker_ != nullptr) {
    why = "the transport is open already";
    return Status::failed;
  }
  owner_ = getpid();
  handler_ = handler;
  log_ = options.log;
  eager_limit_ = options.eager_limit;
  mail_.limit = options.wakeup ? 0 : std::min(options.mailbox_limit, MailboxWriter::most_bytes);
  Status status = make_context(options, why);
  if (status == Status::ok) status = make_worker(why);
  if (status == Status::ok) status = prepare_worker(options, why);
  if (status != Status::ok) close();
  return status;
}

Status UcxTransport::make_context(const UcxOptions& options, std::string& why) {
  ucp_config_t* config = nullptr;
  ucs_status_t status = ucp_config_read(nullptr, nullptr, &config);
  if (status != UCS_OK)
    return explain(why, "UCX rejects its settings, check the UCX_* environment", status);
  use_net_devices(config, options.net_devices);
  widen_fragments(config);
  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM;
  if (options.wakeup) params.features |= UCP_FEATURE_WAKEUP;
  params.name = "gpuar";
  status = ucp_init(&params, config, &context_);
  ucp_config_release(config);
  if (status == UCS_OK) {
    ask_memory_types();
    only_tcp_ = !opens_infiniband(context_);
    return Status::ok;
  }
  context_ = nullptr;
  return explain(why, "UCX finds no usable transport, check UCX_TLS and UCX_NET_DEVICES", status);
}

void UcxTransport::use_net_devices(ucp_config* config, const std::string& devices) {
  uses_net_devices_ = !devices.empty() && leaves_net_devices(config) &&
                      ucp_config_modify(config, "NET_DEVICES", devices.c_str()) == UCS_OK;
}

// A fragment of shared memory is reduced from where it lies; of UCX's own 8 KiB, a longer message
// has to be put together first. Of the buffers for them as many as take the 4 MiB that UCX's own
// do.
void UcxTransport::widen_fragments(ucp_config* config) {
  constexpr std::size_t header_bytes = 256;
  const std::string bytes = std::to_string(fragment_bytes + header_bytes);
  has_wide_fragments_ = leaves_shared_memory(config) &&
                        ucp_config_modify(config, "MM_SEG_SIZE", bytes.c_str()) == UCS_OK &&
                        ucp_config_modify(config, "MM_FIFO_SIZE", "64") == UCS_OK &&
                        ucp_config_modify(config, "MM_RX_BUFS_GROW", "64") == UCS_OK;
}

void UcxTransport::ask_memory_types() {
  ucp_context_attr_t attr = {};
  attr.field_mask = UCP_ATTR_FIELD_MEMORY_TYPES;
  const bool asked = ucp_context_query(context_, &attr) == UCS_OK;
  carried_ = 0;
  for (const auto kind :
       {MemoryKind::host, MemoryKind::pinned, MemoryKind::device, MemoryKind::managed}) {
    const ucs_memory_type_t type = ucx_type(kind);
    const bool carried =
        type == UCS_MEMORY_TYPE_HOST || (asked && (attr.memory_types >> type & 1) != 0);
    if (carried) carried_ |= 1U << static_cast<unsigned>(kind);
  }
}

Status UcxTransport::make_worker(std::string& why) {
  ucp_worker_params_t params = {};
  params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  ucs_status_t status = ucp_worker_create(context_, &params, &worker_);
  if (status != UCS_OK) {
    worker_ = nullptr;
    return explain(why, "UCX makes no worker, check UCX_TLS and UCX_NET_DEVICES", status);
  }
  ucp_worker_attr_t attr = {};
  attr.field_mask = UCP_WORKER_ATTR_FIELD_THREAD_MODE | UCP_WORKER_ATTR_FIELD_MAX_AM_HEADER;
  status = ucp_worker_query(worker_, &attr);
  if (status != UCS_OK) return explain(why, "UCX does not describe its worker", status);
  if (attr.thread_mode < UCS_THREAD_MODE_SERIALIZED) {
    why = "this UCX serves a single thread only (it was built without thread support)";
    return Status::unsupported;
  }
  if (attr.max_am_header < sizeof(MessageHeader)) {
    why = "the transports that UCX chose carry message headers of " +
          std::to_string(attr.max_am_header) + " bytes only, check UCX_TLS";
    return Status::unsupported;
  }
  return Status::ok;
}

Status UcxTransport::prepare_worker(const UcxOptions& options, std::string& why) {
  ucp_am_handler_param_t handler = {};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB |
                       UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = message_id;
  handler.arg = this;
  handler.cb = [](void* self, const void* header, std::size_t header_length, void* data,
                  std::size_t length, const ucp_am_recv_param_t* param) {
    auto* const transport = static_cast<UcxTransport*>(self);
    return static_cast<ucs_status_t>(
        transport->arrived(header, header_length, data, length, *param));
  };
  ucs_status_t status = ucp_worker_set_am_recv_handler(worker_, &handler);
  if (status != UCS_OK) return explain(why, "UCX takes no active message handler", status);
  handler.id = mailbox_offer_id;
  handler.cb = [](void* self, const void*, std::size_t, void* data, std::size_t length,
                  const ucp_am_recv_param_t* param) {
    const bool here = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) == 0;
    if (here) static_cast<UcxTransport*>(self)->take_offer(data, length);
    return UCS_OK;
  };
  status = ucp_worker_set_am_recv_handler(worker_, &handler);
  if (status != UCS_OK) return explain(why, "UCX takes no active message handler", status);

  if (options.wakeup) {
    status = ucp_worker_get_efd(worker_, &event_fd_);
    if (status != UCS_OK) return explain(why, "UCX gives no event descriptor", status);
  }
  ucp_address_t* address = nullptr;
  std::size_t bytes = 0;
  status = ucp_worker_get_address(worker_, &address, &bytes);
  if (status != UCS_OK) return explain(why, "UCX gives no address", status);
  const auto* const first = reinterpret_cast<const std::byte*>(address);
  address_.assign(first, first + bytes);
  ucp_worker_release_address(worker_, address);
  return Status::ok;
}

// Later versions end the process where memory of an unfinished operation is still registered, that
// of a message to a process that died, say. Then their context is left as it is.
static bool forgives_unfinished() {
  unsigned major = 0, minor = 0, patch = 0;
  ucp_get_version(&major, &minor, &patch);
  return major == 1 && minor <= 13;
}

void UcxTransport::close() {
  // UCX in a forked child shares its queues with the parent: any call would harm the parent.
  if (context_ != nullptr && owner_ == getpid()) {
    closing_ = true;
    if (worker_ != nullptr) {
      close_mailboxes();
      close_endpoints();
      ucp_worker_destroy(worker_);
    }
    for (const auto& [data, handle] : mapped_) ucp_mem_unmap(context_, handle);
    if (mail_.memory != nullptr) ucp_mem_unmap(context_, mail_.memory);
    if (under_way_ == 0 || forgives_unfinished()) ucp_cleanup(context_);
    under_way_ = 0;
    closing_ = false;
  }
  worker_ = nullptr;
  context_ = nullptr;
  event_fd_ = -1;
  address_.clear();
  processes_.clear();
  mapped_.clear();
  mail_ = {};
}

}  // namespace gpuar
