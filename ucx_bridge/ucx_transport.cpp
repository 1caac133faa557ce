#include "ucx_bridge/ucx_transport.h"

#include <ucp/api/ucp.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

namespace gpuar {

namespace {

constexpr unsigned am_id = 0;
constexpr double close_seconds = 2.0;

using Clock = std::chrono::steady_clock;

Clock::time_point deadline_in(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

Status translate(ucs_status_t status) {
  switch (status) {
    case UCS_OK:
      return Status::ok;
    case UCS_INPROGRESS:
      return Status::in_progress;
    case UCS_ERR_NO_MEMORY:
      return Status::no_memory;
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_REJECTED:
      return Status::unreachable;
    case UCS_ERR_MESSAGE_TRUNCATED:
      return Status::truncated;
    case UCS_ERR_CANCELED:
      return Status::aborted;
    case UCS_ERR_UNSUPPORTED:
      return Status::unsupported;
    default:
      return Status::failed;
  }
}

Status explain(std::string& why, const char* what, ucs_status_t status) {
  why = std::string(what) + ": " + ucs_status_string(status);
  return status == UCS_ERR_NO_MEMORY ? Status::no_memory : Status::failed;
}

// While the call that starts an operation runs, op.request points here; after it, at UCX's
// request. So a completion that comes from within that call is told apart from a later one.
struct Starting {
  ucs_status_t status = UCS_INPROGRESS;
};

void complete(void* request, ucs_status_t status, void* user_data) {
  auto* const op = static_cast<TransportOp*>(user_data);
  if (op->request != request) {
    static_cast<Starting*>(op->request)->status = status;
    return;
  }
  op->request = nullptr;
  ucp_request_free(request);
  op->done(op, translate(status));
}

void complete_fetch(void* request, ucs_status_t status, std::size_t, void* user_data) {
  complete(request, status, user_data);
}

// What became of an operation that was just started.
Status outcome(TransportOp& op, ucs_status_ptr_t request, const Starting& starting) {
  if (UCS_PTR_IS_PTR(request)) {
    if (starting.status == UCS_INPROGRESS) {
      op.request = request;
      return Status::in_progress;
    }
    ucp_request_free(request);
  }
  op.request = nullptr;
  if (UCS_PTR_IS_PTR(request)) return translate(starting.status);
  return translate(UCS_PTR_RAW_STATUS(request));
}

struct FreeText {
  void operator()(char* text) const { std::free(text); }
};

// "#  lane[0]:  4:sysv/memory.0 md[4] -> ..." gives "sysv/memory".
std::string transport_of(const std::string& line) {
  const auto lane = line.find("lane[");
  const auto index = lane == std::string::npos ? lane : line.find(':', line.find("]:", lane) + 2);
  if (index == std::string::npos) return {};
  const auto end = line.find_first_of(" .", index);
  return line.substr(index + 1, end == std::string::npos ? end : end - index - 1);
}

// Whether every transport in a list like "tcp/lo, tcp/eth0" is TCP.
bool tcp_only(const std::string& transports) {
  for (std::size_t at = 0; at != std::string::npos; at = transports.find(", ", at)) {
    if (at > 0) at += 2;
    if (transports.compare(at, 4, "tcp/") != 0) return false;
  }
  return true;
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
  ucp_params_t params = {};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM;
  if (options.wakeup) params.features |= UCP_FEATURE_WAKEUP;
  params.name = "gpuar";
  status = ucp_init(&params, config, &context_);
  ucp_config_release(config);
  if (status == UCS_OK) return Status::ok;
  context_ = nullptr;
  return explain(why, "UCX finds no usable transport, check UCX_TLS and UCX_NET_DEVICES", status);
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
  handler.id = am_id;
  handler.arg = this;
  handler.cb = [](void* self, const void* header, std::size_t header_length, void* data,
                  std::size_t length, const ucp_am_recv_param_t* param) {
    auto* const transport = static_cast<UcxTransport*>(self);
    return static_cast<ucs_status_t>(
        transport->arrived(header, header_length, data, length, *param));
  };
  ucs_status_t status = ucp_worker_set_am_recv_handler(worker_, &handler);
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

void UcxTransport::close() {
  // UCX in a forked child shares its queues with the parent: any call would harm the parent.
  if (context_ != nullptr && owner_ == getpid()) {
    closing_ = true;
    if (worker_ != nullptr) {
      close_endpoints();
      ucp_worker_destroy(worker_);
    }
    ucp_cleanup(context_);
    closing_ = false;
  }
  worker_ = nullptr;
  context_ = nullptr;
  event_fd_ = -1;
  address_.clear();
  processes_.clear();
}

void UcxTransport::close_endpoints() {
  ucp_request_param_t param = {};  // no flag: flush first
  std::vector<void*> requests;
  for (Process& process : processes_) {
    if (process.endpoint == nullptr) continue;
    ucs_status_ptr_t request = ucp_ep_close_nbx(process.endpoint, &param);
    process.endpoint = nullptr;
    if (UCS_PTR_IS_PTR(request)) requests.push_back(request);
  }
  const auto deadline = deadline_in(close_seconds);
  for (void* request : requests) {
    while (ucp_request_check_status(request) == UCS_INPROGRESS && Clock::now() < deadline)
      ucp_worker_progress(worker_);
    ucp_request_free(request);
  }
}

UcxTransport::Peer UcxTransport::connect(const void* address, std::size_t bytes) {
  const auto* const first = static_cast<const std::byte*>(address);
  try {
    processes_.push_back({{first, first + bytes}, nullptr, 0});
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  return &processes_.back();
}

// Without UCX's peer error mode: it would take shared memory away.
Status UcxTransport::make_endpoint(Process& peer) {
  ucp_ep_params_t params = {};
  params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE;
  params.address = reinterpret_cast<const ucp_address_t*>(peer.address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_NONE;
  const ucs_status_t status = ucp_ep_create(worker_, &params, &peer.endpoint);
  if (status != UCS_OK) {
    peer.endpoint = nullptr;
    return translate(status);
  }
  peer.eager_limit = eager_limit_;
  if (eager_limit_ == 0)
    peer.eager_limit = tcp_only(describe(&peer)) ? tcp_eager_limit : default_eager_limit;
  return Status::ok;
}

Status UcxTransport::send(Peer peer, TransportOp& op, const void* data, std::size_t bytes) {
  if (peer->endpoint == nullptr) [[unlikely]] {
    const Status status = make_endpoint(*peer);
    if (status != Status::ok) return status;
  }
  ucp_request_param_t param;
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = bytes <= peer->eager_limit ? UCP_AM_SEND_FLAG_EAGER : UCP_AM_SEND_FLAG_RNDV;
  param.cb.send = complete;
  param.user_data = &op;

  const void* header = &op.header;
  std::size_t header_bytes = sizeof op.header;
  if (fits_compact(op.header)) [[likely]] {
    op.compact = compact(op.header);
    header = &op.compact;
    header_bytes = sizeof op.compact;
  }
  Starting starting;
  op.request = &starting;
  const Status status =
      outcome(op, ucp_am_send_nbx(peer->endpoint, am_id, header, header_bytes, data, bytes, &param),
              starting);
  if (status <= Status::in_progress) [[likely]] {
    ++messages_sent_;
    bytes_sent_ += bytes;
  }
  return status;
}

Status UcxTransport::fetch(const Arrival& arrival, TransportOp& op, void* target,
                           std::size_t bytes) {
  if (bytes != arrival.bytes) {
    release(arrival);
    return Status::truncated;
  }
  ucp_request_param_t param;
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA;
  param.cb.recv_am = complete_fetch;
  param.user_data = &op;

  Starting starting;
  op.request = &starting;
  return outcome(op, ucp_am_recv_data_nbx(worker_, arrival.data, target, bytes, &param), starting);
}

void UcxTransport::release(const Arrival& arrival) {
  if (arrival.data == delivering_) {
    delivering_ = nullptr;  // UCX releases it itself when the handler returns
    return;
  }
  if (worker_ != nullptr) ucp_am_data_release(worker_, arrival.data);
}

void UcxTransport::cancel(TransportOp& op) {
  if (op.request != nullptr) ucp_request_cancel(worker_, op.request);
}

unsigned UcxTransport::progress() {
  return ucp_worker_progress(worker_);
}

// UCX's rules for what a handler returns: UCS_OK ends the message (a rendezvous sender is told that
// it is done), UCS_INPROGRESS keeps it, also if its fetch has begun or even ended meanwhile.
int UcxTransport::arrived(const void* header, std::size_t header_length, void* data,
                          std::size_t length, const ucp_am_recv_param& param) {
  if (closing_) return UCS_OK;
  MessageHeader message;  // a copy: it lies behind the payload, at any alignment
  if (header_length == sizeof(CompactHeader)) [[likely]] {
    CompactHeader small;
    std::memcpy(&small, header, sizeof small);
    message = expand(small);
  } else if (header_length == sizeof message) {
    std::memcpy(&message, header, sizeof message);
  } else {
    refuse("a header of no known length", header_length);
    return UCS_OK;
  }
  if (kind_of(message) > MessageKind::abort) {
    refuse("an unknown kind of message", header_length);
    return UCS_OK;
  }
  const bool rendezvous = (param.recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  const bool holdable = rendezvous || (param.recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) != 0;
  delivering_ = data;
  const Taken taken =
      handler_.arrived(handler_.self, message, {data, length, rendezvous, holdable});
  const bool released = delivering_ == nullptr;
  delivering_ = nullptr;
  return taken == Taken::consumed || released ? UCS_OK : UCS_INPROGRESS;
}

void UcxTransport::refuse(const char* reason, std::size_t length) {
  if (refused_++ > 0 || log_ == nullptr) return;  // a flood of them is one piece of news
  char line[160];
  std::snprintf(line, sizeof line,
                "dropped a malformed message: %s (%zu bytes of header); do all ranks run the same "
                "version of gpuar?",
                reason, length);
  log_(line);
}

Status UcxTransport::flush(double seconds) {
  ucp_request_param_t param = {};
  ucs_status_ptr_t request = ucp_worker_flush_nbx(worker_, &param);
  if (!UCS_PTR_IS_PTR(request)) return translate(UCS_PTR_RAW_STATUS(request));
  const auto deadline = deadline_in(seconds);
  while (ucp_request_check_status(request) == UCS_INPROGRESS && Clock::now() < deadline)
    ucp_worker_progress(worker_);
  const Status status = translate(ucp_request_check_status(request));
  ucp_request_free(request);
  return status;
}

Status UcxTransport::arm() {
  const ucs_status_t status = ucp_worker_arm(worker_);
  return status == UCS_ERR_BUSY ? Status::in_progress : translate(status);
}

std::string UcxTransport::version() {
  return std::string("UCX ") + ucp_get_version_string();
}

std::string UcxTransport::describe(Peer peer) {
  if (peer->endpoint == nullptr) return "not connected";
  char* text = nullptr;
  std::size_t bytes = 0;
  std::FILE* const stream = open_memstream(&text, &bytes);
  if (stream == nullptr) return "unknown";
  ucp_ep_print_info(peer->endpoint, stream);
  std::fclose(stream);
  const std::unique_ptr<char, FreeText> owner(text);
  std::string found;
  for (const char* at = text; *at != '\0';) {
    const char* const end = at + std::strcspn(at, "\n");
    const std::string transport = transport_of({at, end});
    if (!transport.empty() && found.find(transport) == std::string::npos)
      found += (found.empty() ? "" : ", ") + transport;
    at = *end == '\n' ? end + 1 : end;
  }
  return found.empty() ? "unknown" : found;
}

}  // namespace gpuar
