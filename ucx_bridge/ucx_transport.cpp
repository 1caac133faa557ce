#include "ucx_bridge/ucx_transport.h"

#include <ucp/api/ucp.h>

#include <cstdio>
#include <cstring>
#include <new>

#include "ucx_bridge/ucx_memory.h"
#include "ucx_bridge/ucx_status.h"

namespace gpuar {

namespace {

// While the call that starts an operation runs, op.request points here; after it, at UCX's
// request. So a completion that comes from within that call is told apart from a later one.
struct Starting {
  ucs_status_t status = UCS_INPROGRESS;
};

// How a transfer that had begun ended. If badly, for whatever reason, then nobody knows what the
// other side has, and whether it still waits.
Status ended(ucs_status_t ucx) {
  const Status status = translate(ucx);
  return status == Status::failed ? Status::unreachable : status;
}

void complete(void* request, ucs_status_t status, void* user_data) {
  auto* const op = static_cast<TransportOp*>(user_data);
  if (op->request != request) {
    static_cast<Starting*>(op->request)->status = status;
    return;
  }
  op->request = nullptr;
  --*op->under_way;
  ucp_request_free(request);
  op->done(op, ended(status));
}

void complete_fetch(void* request, ucs_status_t status, std::size_t, void* user_data) {
  complete(request, status, user_data);
}

// What became of an operation that was just started.
Status outcome(TransportOp& op, ucs_status_ptr_t request, const Starting& starting) {
  if (UCS_PTR_IS_PTR(request)) {
    if (starting.status == UCS_INPROGRESS) {
      op.request = request;
      ++*op.under_way;
      return Status::in_progress;
    }
    ucp_request_free(request);
  }
  op.request = nullptr;
  if (UCS_PTR_IS_PTR(request)) return ended(starting.status);
  return translate(UCS_PTR_RAW_STATUS(request));
}

}  // namespace

Status UcxTransport::send(Peer peer, TransportOp& op, const void* data, std::size_t bytes) {
  return send_from(MemoryKind::host, peer, op, data, bytes);
}

Status UcxTransport::send(Peer peer, TransportOp& op, const void* data, std::size_t bytes,
                          MemoryKind kind) {
  return send_from(kind, peer, op, data, bytes);
}

// Inlined into both: what host memory is for UCX is then known when this is compiled.
inline Status UcxTransport::send_from(MemoryKind kind, Peer peer, TransportOp& op, const void* data,
                                      std::size_t bytes) {
  if (peer->endpoint == nullptr) [[unlikely]] {
    const Status status = make_endpoint(*peer);
    if (status != Status::ok) return status;
  }
  const void* header = &op.header;
  std::size_t header_bytes = unstamped_bytes;
  if (fits_compact(op.header)) [[likely]] {
    op.compact = compact(op.header);
    header = &op.compact;
    header_bytes = compact_unstamped_bytes;
  }
  if (op.header.stamp != 0) [[unlikely]]
    header_bytes += sizeof op.header.stamp;
  if (kind == MemoryKind::host && bytes <= mail_.limit) {
    if (peer->has_mailbox && peer->outbox.put(header, header_bytes, data, bytes)) [[likely]] {
      ++messages_sent_;
      bytes_sent_ += bytes;
      return Status::ok;
    }
    if (!peer->has_mailbox) consider_mailbox(*peer);
  }
  ucp_request_param_t param;
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA |
                       UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.memory_type = ucx_type(kind);
  const std::size_t limit =
      kind <= MemoryKind::pinned ? peer->eager_limit : peer->device_eager_limit;
  param.flags = bytes <= limit ? UCP_AM_SEND_FLAG_EAGER : UCP_AM_SEND_FLAG_RNDV;
  param.cb.send = complete;
  param.user_data = &op;

  Starting starting;
  op.request = &starting;
  op.under_way = &under_way_;
  const Status status = outcome(
      op, ucp_am_send_nbx(peer->endpoint, message_id, header, header_bytes, data, bytes, &param),
      starting);
  if (status <= Status::in_progress) [[likely]] {
    ++messages_sent_;
    bytes_sent_ += bytes;
  }
  return status;
}

Status UcxTransport::fetch(const Arrival& arrival, TransportOp& op, void* target, std::size_t bytes,
                           MemoryKind kind) {
  if (bytes != arrival.bytes) {
    release(arrival);
    return Status::truncated;
  }
  ucp_request_param_t param;
  param.op_attr_mask =
      UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  param.memory_type = ucx_type(kind);
  param.cb.recv_am = complete_fetch;
  param.user_data = &op;

  Starting starting;
  op.request = &starting;
  op.under_way = &under_way_;
  const Status status =
      outcome(op, ucp_am_recv_data_nbx(worker_, arrival.data, target, bytes, &param), starting);
  // Its sender waits for an answer.
  if (status > Status::in_progress && starting.status == UCS_INPROGRESS) [[unlikely]]
    release(arrival);
  return status;
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
  if (mail_.news) [[unlikely]]
    accept_offers();
  const unsigned letters = read_mailboxes();
  // Most often a letter is what its reader waits for; what UCX has comes with the next turn.
  if (letters > 0 && mail_.turns_before_ucx++ < most_turns_before_ucx) return letters;
  mail_.turns_before_ucx = 0;
  return letters + ucp_worker_progress(worker_);
}

// Copied: a header lies behind the payload, at any alignment.
static bool read_header(const void* header, std::size_t length, MessageHeader& message) {
  CompactHeader small;
  if (length == compact_unstamped_bytes) [[likely]] {
    std::memcpy(static_cast<void*>(&small), header, compact_unstamped_bytes);
    message = expand(small);
  } else if (length == unstamped_bytes) {
    std::memcpy(static_cast<void*>(&message), header, unstamped_bytes);
  } else if (length == sizeof small) {
    std::memcpy(&small, header, sizeof small);
    message = expand(small);
  } else if (length == sizeof message) {
    std::memcpy(&message, header, sizeof message);
  } else {
    return false;
  }
  return true;
}

// UCX's rules for what a handler returns: UCS_OK ends the message (a rendezvous sender is told that
// it is done), UCS_INPROGRESS keeps it, also if its fetch has begun or even ended meanwhile.
int UcxTransport::arrived(const void* header, std::size_t header_length, void* data,
                          std::size_t length, const ucp_am_recv_param& param) {
  if (closing_) return UCS_OK;
  const bool rendezvous = (param.recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
  const bool holdable = rendezvous || (param.recv_attr & UCP_AM_RECV_ATTR_FLAG_DATA) != 0;
  delivering_ = data;
  const Taken taken = deliver(header, header_length, {data, length, rendezvous, holdable, false});
  const bool released = delivering_ == nullptr;
  delivering_ = nullptr;
  return taken == Taken::consumed || released ? UCS_OK : UCS_INPROGRESS;
}

inline Taken UcxTransport::deliver(const void* header, std::size_t header_length,
                                   const Arrival& arrival) {
  MessageHeader message;
  if (!read_header(header, header_length, message)) [[unlikely]] {
    refuse("a header of no known length", header_length);
    return Taken::consumed;
  }
  return handler_.arrived(handler_.self, message, arrival);
}

inline unsigned UcxTransport::read_mailboxes() {
  unsigned letters = 0;
  for (std::size_t i = 0; i < mail_.inboxes.size(); ++i) {
    if (mail_.inboxes[i].has_letter()) letters += read_letter(mail_.inboxes[i]);
  }
  return letters;
}

// Out of line: most polls find none, and shall be short.
[[gnu::noinline]] unsigned UcxTransport::read_letter(MailboxReader& inbox) {
  const auto give = [this](const void* header, std::size_t header_bytes, void* data,
                           std::size_t bytes) {
    deliver(header, header_bytes, {.data = data, .bytes = bytes, .prompt = true});
  };
  return inbox.take(give) ? 1 : 0;
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

}  // namespace gpuar
