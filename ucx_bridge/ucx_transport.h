// The transport of real runs: UCX Active Messages.
//
// One context and one worker per process, an endpoint per remote process made at the first send to
// it. A message is one Active Message: the MessageHeader, compact if it fits, is its user header,
// the payload its data. Short messages to a process of the same machine go through a mailbox
// instead, once there is one. Nothing here locks: the engine serialises all calls.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "ucx_bridge/mailbox.h"
#include "ucx_bridge/transport.h"

struct ucp_am_recv_param;
struct ucp_config;
struct ucp_context;
struct ucp_ep;
struct ucp_mem;
struct ucp_rkey;
struct ucp_worker;

namespace gpuar {

struct UcxOptions {
  std::size_t eager_limit = 0;  // bytes up to which a message is eager; 0: measured defaults
  // Network devices as UCX_NET_DEVICES has them ("mlx5_0:1,eth0"), used unless the user has set
  // that, or transports that have no use for them; empty: UCX chooses.
  std::string net_devices;
  bool wakeup = false;  // event_fd() and arm() are wanted (a progress thread): no mailboxes then
  // Bytes up to which a message goes through a mailbox, at most MailboxWriter::most_bytes; 0: none.
  std::size_t mailbox_limit = MailboxWriter::most_bytes;
  void (*log)(const char* line) = nullptr;  // one line of trouble, no newline
};

// Of a remote process, as seen from this one.
enum class Where : std::uint8_t { here, elsewhere };  // on this host, or on another one

class UcxTransport {
 public:
  // A remote process. Its endpoint appears at the first send.
  struct Process {
    std::vector<std::byte> address;
    Where where = Where::here;
    ucp_ep* endpoint = nullptr;
    std::size_t eager_limit = 0;         // of what lies in host memory
    std::size_t device_eager_limit = 0;  // of what does not: eager data arrives in host memory
    MailboxWriter outbox;
    bool has_mailbox = false;      // the outbox has a reader
    std::uint8_t short_sends = 0;  // up to the one with which a mailbox is offered
    std::vector<std::byte> offer;
    void* closing = nullptr;
    bool watched = false;  // by UCX: the connection is found broken when it breaks
    bool broken = false;
    bool lost = false;
  };
  using Peer = Process*;

  // Where eager and rendezvous meet. Half a round trip in µs between two processes on two cores
  // that share no cache, UCX 1.13 over sysv and cma, the eager receiver copying:
  //
  //   KiB          1     2     4     6     8     12    16    32    64    128   256   512   1024
  //   eager        0.65  0.85  1.09  1.47  1.74  2.44  2.90  5.06  8.39  14.5  26.1  54.0  > 150
  //   rendezvous   1.40  1.50  1.57  1.72  1.71  1.87  2.02  2.87  4.03  6.34  11.0  22.6  76.2
  //
  // 8 KiB is also what one fragment carries; longer eager messages are put together in a block that
  // UCX allocates. All eager data from about 100 bytes on can be held, so it need not be copied.
  static constexpr std::size_t default_eager_limit = std::size_t{8} << 10;

  // The same through shared memory with fragments that are as long as UCX can make them (it counts
  // their bytes with 16 bits). The sender copies, the receiver reduces from where the data lies,
  // and no system call finds the pages of the other process. A whole allreduce of 2 ranks on cores
  // that share a cache, by recursive doubling, in µs:
  //
  //   KiB                             16    32    60    128   256   512   1024  2048  4096
  //   one fragment, or pieces of it   1.6   2.3   4.1   8.8   17.9  37    76    168   447
  //   fragments of 8 KiB              2.9   5.3   7.8   15.6  31.7
  //   rendezvous                      4.5   6.0   8.8   15.9  31.5  65    128   275   690
  static constexpr std::size_t fragment_bytes = std::size_t{62} << 10;

  // The same to a process that only TCP reaches: a rendezvous costs a round trip more there.
  //
  //   KiB          1     4     8     16    32    64    128   256   384   512
  //   eager        3.8   4.5   5.2   6.7   9.3   18.7  30.5  50.9  75.4  111
  //   rendezvous   28.8  27.4  28.1  30.0  31.7  37.8  46.2  59.0  73.8  90.9
  //
  // On a busy link it costs more than that: its request waits behind the data that fills the queue
  // in front of the link. An allreduce of 8 MiB, 2 hosts of 2 ranks, 1 Gbit/s, in pieces of
  //
  //   KiB                     64    128   256
  //   eager, ms               73    70    73        the link alone takes 67
  //   rendezvous, ms                90    105
  //
  // A late receiver keeps what is eager in its memory, so it is not used for any size.
  static constexpr std::size_t tcp_eager_limit = std::size_t{256} << 10;

  UcxTransport() = default;
  ~UcxTransport() { close(); }
  UcxTransport(const UcxTransport&) = delete;
  UcxTransport& operator=(const UcxTransport&) = delete;

  // Brings UCX up; it reads its UCX_* environment. On failure `why` is a sentence for the user and
  // the transport is as before.
  Status open(ArrivalHandler handler, const UcxOptions& options, std::string& why);

  // Closes the endpoints, waiting for what is under way no longer than a bounded time, and takes
  // UCX down. Operations under way must outlive it: `done` may come from within, or never. Arrivals
  // still held are gone, new ones are dropped. In a forked child it forgets everything and touches
  // nothing.
  void close();

  // What others need to reach this process. Valid until close().
  std::span<const std::byte> address() const { return address_; }

  // Names a remote process by its address(), once per process: nothing is contacted yet. Valid
  // until close(). Null if memory is out.
  Peer connect(const void* address, std::size_t bytes, Where where);

  // The transport contract; see transport.h. A length other than the arrival's makes fetch() give
  // the arrival back and return `truncated`.
  Status send(Peer peer, TransportOp& op, const void* data, std::size_t bytes);
  Status send(Peer peer, TransportOp& op, const void* data, std::size_t bytes, MemoryKind kind);
  Status fetch(const Arrival& arrival, TransportOp& op, void* target, std::size_t bytes,
               MemoryKind kind = MemoryKind::host);
  // Device and managed memory only where this UCX has CUDA transports.
  bool carries(MemoryKind kind) const { return (carried_ >> static_cast<unsigned>(kind) & 1) != 0; }
  void release(const Arrival& arrival);
  unsigned progress();

  // Registers memory that will be sent from and fetched into again and again, so that no transfer
  // has to; unmap() before it is freed. A hint: where UCX cannot, transfers do as ever. Memory too
  // small for a rendezvous is left alone: such data is copied.
  void map(void* data, std::size_t bytes, MemoryKind kind);
  void unmap(void* data);
  std::size_t mapped() const { return mapped_.size(); }

  // Asks UCX to give `op` up. UCX cannot take an Active Message back, so `done` comes when the peer
  // has had it, or refused it; from a peer that died it never comes.
  void cancel(TransportOp& op);

  // The process is gone, or given up: nothing is sent to it any more. Where UCX watches the
  // connection it is cut, and what is under way ends from within progress(); elsewhere it never
  // ends. Whether a connection is found broken is up to the network: of a process on this host, and
  // of one that InfiniBand reaches, only when something under way fails; of one that nothing was
  // sent to, never.
  void lose(Peer peer);
  // Makes the endpoint, if there is none and it can be had: UCX answers a rendezvous through one of
  // its own otherwise, and should that break, it frees what later messages still name.
  void attach(Peer peer) {
    if (peer->endpoint == nullptr) [[unlikely]]
      static_cast<void>(make_endpoint(*peer));
  }
  static bool is_broken(Peer peer) { return peer->broken; }
  // What was under way with the process ended badly, here or there.
  static void mark_broken(Peer peer) { peer->broken = true; }
  // Gives a broken connection up: the next send makes another one.
  void renew(Peer peer);

  // Progresses until all eager data has left this process, at most `seconds`.
  Status flush(double seconds);

  // For a thread that sleeps until something arrives (UcxOptions::wakeup). arm() returns
  // in_progress if something is there already: then progress first. event_fd() is -1 without.
  int event_fd() const { return event_fd_; }
  Status arm();

  // Whether UCX was given UcxOptions::net_devices.
  bool uses_net_devices() const { return uses_net_devices_; }

  std::uint64_t messages_sent() const { return messages_sent_; }
  std::uint64_t bytes_sent() const { return bytes_sent_; }

  // "UCX 1.13.1"
  static std::string version();
  // One sentence for people: the UCX that this process has mapped (another library may have brought
  // its own), what memory it carries, and a warning if gpuar was built for another one.
  std::string describe_library() const;
  // What UCX can use here, as "tcp/eth0", "sysv/memory".
  std::vector<std::string> transports() const;
  // The transports to `peer`, as "posix/memory, cma/memory, mailbox"; "not connected" before the
  // first send.
  static std::string describe(Peer peer);

 private:
  // Of Active Messages.
  static constexpr unsigned message_id = 0;
  static constexpr unsigned mailbox_offer_id = 1;

  struct Mailboxes {
    std::size_t limit = 0;
    ucp_mem* memory = nullptr;
    Mailbox* boxes = nullptr;  // those that this process may offer
    std::size_t offered = 0;
    std::vector<MailboxReader> inboxes;          // of others
    std::vector<ucp_rkey*> keys;                 // of the inboxes
    std::vector<std::vector<std::byte>> offers;  // of others, not settled
    bool news = false;                           // one of these may be settled now
    unsigned turns_before_ucx = 0;               // polls with letters since UCX had its turn
  };
  static constexpr unsigned most_turns_before_ucx = 8;

  Status make_context(const UcxOptions& options, std::string& why);
  void use_net_devices(ucp_config* config, const std::string& devices);
  void widen_fragments(ucp_config* config);
  void ask_memory_types();
  Status make_worker(std::string& why);
  Status prepare_worker(const UcxOptions& options, std::string& why);
  Status make_endpoint(Process& peer);
  [[nodiscard]] std::size_t eager_limit_to(Process& peer) const;
  static void drop_endpoint(Process& peer);
  Status send_from(MemoryKind kind, Peer peer, TransportOp& op, const void* data,
                   std::size_t bytes);
  void close_endpoints();
  bool make_mailboxes();
  void consider_mailbox(Process& peer);
  void offer_mailbox(Process& peer);
  void take_offer(const void* data, std::size_t bytes);
  void accept_offers();
  bool settle(const std::vector<std::byte>& offer);
  unsigned read_mailboxes();
  unsigned read_letter(MailboxReader& inbox);
  void close_mailboxes();
  void refuse(const char* reason, std::size_t length);
  Taken deliver(const void* header, std::size_t header_length, const Arrival& arrival);
  int arrived(const void* header, std::size_t header_length, void* data, std::size_t length,
              const ucp_am_recv_param& param);

  ucp_context* context_ = nullptr;
  ucp_worker* worker_ = nullptr;
  ArrivalHandler handler_;
  std::size_t eager_limit_ = 0;  // as asked for; 0: by what reaches the peer
  void* delivering_ = nullptr;   // data of the arrival whose handler is running, if not released
  std::uint64_t messages_sent_ = 0;
  std::uint64_t bytes_sent_ = 0;
  std::uint64_t under_way_ = 0;  // operations that UCX has not ended
  std::uint64_t refused_ = 0;
  void (*log_)(const char* line) = nullptr;
  std::vector<std::byte> address_;
  std::deque<Process> processes_;
  std::unordered_map<void*, ucp_mem*> mapped_;
  Mailboxes mail_;
  unsigned carried_ = 0;   // a bit for each MemoryKind
  bool only_tcp_ = false;  // no other network is open
  bool has_wide_fragments_ = false;
  int event_fd_ = -1;
  pid_t owner_ = 0;  // the process that opened it
  bool closing_ = false;
  bool uses_net_devices_ = false;
};

}  // namespace gpuar
