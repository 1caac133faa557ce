// Mailboxes between processes of one machine, in memory that UCX allocates and maps.
//
// A sender offers a mailbox to a peer that it has sent some short messages, by an Active Message of
// the transport's own that carries the memory's key and the sender's address. The peer maps it and
// marks it attached, and from then on short messages go there. Nothing waits for any of this: until
// then, and whenever the mailbox is full, a message goes by Active Message as all others do. The
// engine matches messages by their headers alone, so it is all the same which way each of them
// took.
#include <ucp/api/ucp.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>

#include "ucx_bridge/ucx_transport.h"

namespace gpuar {

namespace {

// What an offer says; the key and the sender's address follow.
struct OfferHeader {
  std::uint64_t mailbox;  // its address in the sender's memory
  std::uint32_t key_bytes;
  std::uint32_t address_bytes;
};

constexpr const char* sharing[] = {"sysv/", "posix/", "xpmem/"};

constexpr std::size_t most_mailboxes = 32;  // that a process offers: some 2 MiB, touched where used

constexpr std::uint8_t short_sends_before_offer = 4;

bool shares_memory(const std::string& transports) {
  return std::any_of(std::begin(sharing), std::end(sharing),
                     [&](const char* name) { return transports.find(name) != std::string::npos; });
}

}  // namespace

// UCX gives shared memory where it has a transport for it; else the peer will not be able to map
// it.
bool UcxTransport::make_mailboxes() {
  if (mail_.memory != nullptr) return mail_.boxes != nullptr;
  ucp_mem_map_params_t params = {};
  params.field_mask = UCP_MEM_MAP_PARAM_FIELD_LENGTH | UCP_MEM_MAP_PARAM_FIELD_FLAGS;
  params.length = most_mailboxes * sizeof(Mailbox);
  params.flags = UCP_MEM_MAP_ALLOCATE | UCP_MEM_MAP_NONBLOCK;
  if (ucp_mem_map(context_, &params, &mail_.memory) != UCS_OK) {
    mail_.memory = nullptr;
    return false;
  }
  ucp_mem_attr_t attr = {};
  attr.field_mask = UCP_MEM_ATTR_FIELD_ADDRESS | UCP_MEM_ATTR_FIELD_LENGTH;
  if (ucp_mem_query(mail_.memory, &attr) != UCS_OK || attr.length < params.length) return false;
  mail_.boxes = static_cast<Mailbox*>(attr.address);
  return true;
}

// A short message goes by Active Message while there is no mailbox: time to offer one?
void UcxTransport::consider_mailbox(Process& peer) {
  if (peer.short_sends < short_sends_before_offer) {
    if (++peer.short_sends < short_sends_before_offer) return;
    try {
      offer_mailbox(peer);
    } catch (const std::bad_alloc&) {  // no mailbox, then
    }
  } else if (peer.outbox.attached()) {
    peer.has_mailbox = true;
  }
}

void UcxTransport::offer_mailbox(Process& peer) {
  if (!shares_memory(describe(&peer)) || mail_.offered == most_mailboxes || !make_mailboxes())
    return;
  void* key = nullptr;
  std::size_t key_bytes = 0;
  if (ucp_rkey_pack(context_, mail_.memory, &key, &key_bytes) != UCS_OK) return;
  Mailbox* const box = new (mail_.boxes + mail_.offered) Mailbox{};
  const OfferHeader header{reinterpret_cast<std::uint64_t>(box),
                           static_cast<std::uint32_t>(key_bytes),
                           static_cast<std::uint32_t>(address_.size())};
  const auto append = [&](const void* data, std::size_t bytes) {
    const auto* const first = static_cast<const std::byte*>(data);
    peer.offer.insert(peer.offer.end(), first, first + bytes);
  };
  append(&header, sizeof header);
  append(key, key_bytes);
  append(address_.data(), address_.size());
  ucp_rkey_buffer_release(key);

  ucp_request_param_t param = {};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;
  void* const request = ucp_am_send_nbx(peer.endpoint, mailbox_offer_id, nullptr, 0,
                                        peer.offer.data(),  // kept in `peer`
                                        peer.offer.size(), &param);
  if (UCS_PTR_IS_PTR(request)) ucp_request_free(request);
  if (UCS_PTR_IS_ERR(request)) return;
  peer.outbox = MailboxWriter(*box);
  ++mail_.offered;
}

// Within UCX's progress: put aside until that is over.
void UcxTransport::take_offer(const void* data, std::size_t bytes) {
  const auto* const first = static_cast<const std::byte*>(data);
  try {
    mail_.offers.emplace_back(first, first + bytes);
    mail_.news = true;
  } catch (const std::bad_alloc&) {  // then its mailbox stays unattached
  }
}

void UcxTransport::accept_offers() {
  mail_.news = false;
  std::erase_if(mail_.offers,
                [this](const std::vector<std::byte>& offer) { return settle(offer); });
}

// True if the offer is over: accepted, or of no use. False if its sender is not known here yet:
// connect() makes it known.
bool UcxTransport::settle(const std::vector<std::byte>& offer) {
  OfferHeader header;
  if (offer.size() < sizeof header) return true;
  std::memcpy(&header, offer.data(), sizeof header);
  if (offer.size() != sizeof header + header.key_bytes + header.address_bytes) return true;
  const std::byte* const key = offer.data() + sizeof header;
  const auto sender =
      std::find_if(processes_.begin(), processes_.end(), [&](const Process& process) {
        return std::equal(process.address.begin(), process.address.end(), key + header.key_bytes,
                          offer.data() + offer.size());
      });
  if (sender == processes_.end()) return false;
  if (sender->endpoint == nullptr && make_endpoint(*sender) != Status::ok) return true;
  ucp_rkey* unpacked = nullptr;
  if (ucp_ep_rkey_unpack(sender->endpoint, key, &unpacked) != UCS_OK) return true;
  void* box = nullptr;
  if (ucp_rkey_ptr(unpacked, header.mailbox, &box) != UCS_OK) {
    ucp_rkey_destroy(unpacked);
    return true;
  }
  try {
    mail_.keys.reserve(mail_.keys.size() + 1);
    mail_.inboxes.reserve(mail_.inboxes.size() + 1);
  } catch (const std::bad_alloc&) {
    ucp_rkey_destroy(unpacked);
    return true;
  }
  mail_.keys.push_back(unpacked);
  mail_.inboxes.emplace_back(*static_cast<Mailbox*>(box));
  return true;
}

void UcxTransport::close_mailboxes() {
  for (ucp_rkey* const key : mail_.keys) ucp_rkey_destroy(key);
  mail_.keys.clear();
  mail_.inboxes.clear();
}

}  // namespace gpuar
