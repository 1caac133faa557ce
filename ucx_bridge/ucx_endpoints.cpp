// Connections to other processes: made at the first send, watched where UCX can, cut, closed.
#include <ucp/api/ucp.h>

#include <new>
#include <utility>

#include "ucx_bridge/ucx_status.h"
#include "ucx_bridge/ucx_transport.h"

namespace gpuar {

namespace {

constexpr double close_seconds = 2.0;

// Whether every transport in a list like "tcp/lo, tcp/eth0" is TCP.
bool tcp_only(const std::string& transports) {
  for (std::size_t at = 0; at != std::string::npos; at = transports.find(", ", at)) {
    if (at > 0) at += 2;
    if (transports.compare(at, 4, "tcp/") != 0) return false;
  }
  return true;
}

}  // namespace

void UcxTransport::close_endpoints() {
  ucp_request_param_t param = {};  // no flag: flush first
  for (Process& process : processes_) {
    if (process.endpoint == nullptr) continue;
    ucs_status_ptr_t request = ucp_ep_close_nbx(process.endpoint, &param);
    process.endpoint = nullptr;
    if (UCS_PTR_IS_PTR(request)) process.closing = request;
  }
  const auto deadline = deadline_in(close_seconds);
  for (Process& process : processes_) {
    if (process.closing == nullptr) continue;
    while (ucp_request_check_status(process.closing) == UCS_INPROGRESS && Clock::now() < deadline)
      ucp_worker_progress(worker_);
    ucp_request_free(process.closing);
    process.closing = nullptr;
  }
}

UcxTransport::Peer UcxTransport::connect(const void* address, std::size_t bytes, Where where) {
  const auto* const first = static_cast<const std::byte*>(address);
  try {
    Process& process = processes_.emplace_back();
    process.address.assign(first, first + bytes);
    process.where = where;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  mail_.news = !mail_.offers.empty();
  return &processes_.back();
}

// UCX's peer error mode finds broken connections. It would take shared memory away, so processes of
// this host are without it (the core sees for itself whether they are there); and InfiniBand's
// rendezvous, so it is for TCP alone. The handler is for all: without one, a transfer that fails
// (the memory of a process that has just died cannot be read) is the end of this process too.
Status UcxTransport::make_endpoint(Process& peer) {
  if (peer.lost) return Status::unreachable;
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                      UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(peer.address.data());
  peer.watched = only_tcp_ && peer.where == Where::elsewhere;
  params.err_mode = peer.watched ? UCP_ERR_HANDLING_MODE_PEER : UCP_ERR_HANDLING_MODE_NONE;
  params.err_handler.arg = &peer;
  params.err_handler.cb = [](void* process, ucp_ep_h endpoint, ucs_status_t) {
    auto* const broken = static_cast<Process*>(process);
    if (broken->endpoint == endpoint) broken->broken = true;
  };
  const ucs_status_t status = ucp_ep_create(worker_, &params, &peer.endpoint);
  if (status != UCS_OK) {
    peer.endpoint = nullptr;
    return translate(status);
  }
  peer.eager_limit = eager_limit_ != 0 ? eager_limit_ : eager_limit_to(peer);
  const bool by_fragments = eager_limit_ == 0 && peer.eager_limit == fragment_bytes;
  peer.device_eager_limit = by_fragments ? default_eager_limit : peer.eager_limit;
  return Status::ok;
}

std::size_t UcxTransport::eager_limit_to(Process& peer) const try {
  const std::string by = describe(&peer);
  if (tcp_only(by)) return tcp_eager_limit;
  const bool by_fragments = by.starts_with("sysv/") || by.starts_with("posix/");
  return by_fragments && has_wide_fragments_ ? fragment_bytes : default_eager_limit;
} catch (const std::bad_alloc&) {
  return default_eager_limit;
}

void UcxTransport::lose(Peer peer) {
  if (peer->lost) return;
  peer->lost = true;
  peer->has_mailbox = false;
  drop_endpoint(*peer);
}

void UcxTransport::renew(Peer peer) {
  if (!peer->broken || peer->lost) return;
  peer->broken = false;
  drop_endpoint(*peer);
}

// An endpoint that UCX does not watch cannot be closed without its peer: the worker ends it.
void UcxTransport::drop_endpoint(Process& peer) {
  ucp_ep* const endpoint = std::exchange(peer.endpoint, nullptr);
  if (endpoint == nullptr || !peer.watched) return;
  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  ucs_status_ptr_t request = ucp_ep_close_nbx(endpoint, &param);
  if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
}

}  // namespace gpuar
