// The UCX transport between two workers of one process: real UCX, real shared memory.
#include "ucx_bridge/ucx_transport.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "test/ucx_bridge/endpoint_pair.h"
#include "test/ucx_bridge/ucx_variable.h"

using namespace gpuar;
using namespace gpuar::test;

TEST_CASE("ucx transport: all sizes arrive whole, eager and rendezvous", "[ucx]") {
  const std::size_t limit = GENERATE(as<std::size_t>(), 1, 8192, 20000);
  UcxOptions options;
  options.eager_limit = limit;
  Pair pair(options);
  const std::vector<std::size_t> sizes = {
      0,    1,    3,    8,    31,        64,    92,        100,   1000,     2048,
      8000, 8192, 8256, 9000, limit - 1, limit, limit + 1, 65536, 1u << 20, 4u << 20};
  std::uint32_t sequence = 0;
  for (const std::size_t bytes : sizes) pair.a.send(sequence++, bytes);
  auto& receiver = pair.b.receiver;
  REQUIRE(pair.until([&] { return receiver.arrived == sizes.size(); }));
  const auto above = std::count_if(sizes.begin(), sizes.end(), [&](auto s) { return s > limit; });
  CHECK(receiver.rendezvous == static_cast<std::size_t>(above));
  receiver.finish_kept_last_first();
  REQUIRE(pair.until([&] { return pair.a.sends_over(); }));
  REQUIRE(pair.until([&] { return receiver.fetches_over(); }));
  CHECK(receiver.wrong == 0);
  CHECK(receiver.fetches_right());
  for (const Op& op : pair.a.sends) {
    CHECK(op.status == Status::ok);
    CHECK(op.times_done <= 1);
  }
  CHECK(pair.a.transport.messages_sent() == sizes.size());
  CHECK(pair.a.transport.bytes_sent() == receiver.bytes);
}

TEST_CASE("ucx transport: the eager limit follows what reaches the peer", "[ucx]") {
  {
    const UcxTls tls("tcp,self");
    Pair pair;
    pair.a.send(0, UcxTransport::tcp_eager_limit);
    pair.a.send(1, UcxTransport::tcp_eager_limit + 1);
    auto& receiver = pair.b.receiver;
    REQUIRE(pair.until([&] { return receiver.arrived == 2; }));
    CHECK(UcxTransport::describe(pair.a.peer).rfind("tcp/", 0) == 0);
    CHECK(receiver.rendezvous == 1);
    receiver.finish_kept_last_first();
    REQUIRE(pair.until([&] { return pair.a.sends_over() && receiver.fetches_over(); }));
    CHECK(receiver.wrong == 0);
    CHECK(receiver.fetches_right());
  }
  {
    const UcxTls tls("shm,self");
    Pair pair;
    pair.a.send(0, UcxTransport::fragment_bytes);
    pair.a.send(1, UcxTransport::fragment_bytes + 1);
    auto& receiver = pair.b.receiver;
    REQUIRE(pair.until([&] { return receiver.arrived == 2; }));
    CHECK(receiver.rendezvous == 1);
    receiver.finish_kept_last_first();
    REQUIRE(pair.until([&] { return pair.a.sends_over() && receiver.fetches_over(); }));
  }
}

TEST_CASE("ucx transport: network devices are the user's to choose, then ours", "[ucx]") {
  UcxOptions options;
  options.net_devices = "lo";
  const auto used = [&options] {
    Receiver receiver;
    UcxTransport transport;
    std::string why;
    REQUIRE(transport.open(receiver.handler(), options, why) == Status::ok);
    return transport.uses_net_devices();
  };
  {
    const UcxTls not_through_memory("^posix,sysv,cma");
    Pair pair(options);
    pair.a.send(0, 100000);
    REQUIRE(pair.until([&] { return pair.b.receiver.arrived == 1; }));
    pair.b.receiver.finish_kept_last_first();
    REQUIRE(pair.until([&] { return pair.a.sends_over() && pair.b.receiver.fetches_over(); }));
    CHECK(pair.a.transport.uses_net_devices());
    CHECK(UcxTransport::describe(pair.a.peer) == "tcp/lo");
  }
  {
    const UcxVariable chosen("UCX_NET_DEVICES", "lo");
    CHECK_FALSE(used());
  }
  for (const auto& [transports, ours] :
       {std::pair("tcp,self", false), std::pair("sysv,cma,self", false), std::pair("all", true)}) {
    const UcxTls tls(transports);
    CAPTURE(transports);
    CHECK(used() == ours);
  }
  options.net_devices.clear();
  CHECK_FALSE(used());
}

TEST_CASE("ucx transport: headers arrive unchanged, compact or not", "[ucx]") {
  const MessageHeader header = GENERATE(values<MessageHeader>({
      {{0x0123456789abcdef, 0xfedcba9876543210},
       0xaabbccdd,
       7,
       9,
       11,
       pack_kind(MessageKind::persistent, 16383)},
      {{0, 0xffffffff}, 0xffffffff, 0xffff, 0xffff, 0xffff, pack_kind(MessageKind::abort, 1)},
      {{0, 0x100000000}, 1, 2, 3, 4, 0},
      {{1, 2}, 1, 2, 3, 4, 0},
      {{0, 2}, 1, 0x10000, 3, 4, 0},
      {{0, 2}, 1, 2, 0x10000, 4, 0},
      {{0, 2}, 1, 2, 3, 4, 0, 0xfedcba9876543210},
      {{1, 2}, 1, 2, 3, 4, 0, 1},
      {},
  }));
  Pair pair;
  MessageHeader seen;
  seen.sequence = 0x5a5a5a5a;
  pair.b.receiver.take = [&](const MessageHeader& arrived, const Arrival&) {
    seen = arrived;
    return Taken::consumed;
  };
  const auto bytes = GENERATE(as<std::size_t>(), 3, 100000);
  Op& op = pair.a.sends.emplace_back();
  op.header = header;
  op.data.resize(bytes);
  const Status status = pair.a.transport.send(pair.a.peer, op, op.data.data(), bytes);
  REQUIRE((status == Status::ok || status == Status::in_progress));
  REQUIRE(pair.until([&] { return pair.b.receiver.arrived == 1; }));
  CHECK(std::memcmp(&seen, &header, sizeof seen) == 0);
  if (status == Status::in_progress) CHECK(pair.until([&] { return op.over(); }));
}

TEST_CASE("ucx transport: release and fetch from within the handler", "[ucx]") {
  UcxOptions options;
  options.eager_limit = 20000;  // so that eager data comes in several fragments too
  Pair pair(options);
  auto& receiver = pair.b.receiver;
  receiver.take = [&](const MessageHeader& header, const Arrival& arrival) {
    if (!arrival.holdable) return receiver.check(header, arrival), Taken::consumed;
    receiver.finish({header, arrival});
    return Taken::held;
  };
  constexpr std::uint32_t rounds = 200;
  for (std::uint32_t i = 0; i < rounds; ++i) {
    pair.a.send(4 * i, 64);
    pair.a.send(4 * i + 1, MailboxWriter::most_bytes + 1);
    pair.a.send(4 * i + 2, 16384);
    pair.a.send(4 * i + 3, 100000);
    REQUIRE(pair.until(
        [&] { return receiver.arrived == std::size_t{4} * (i + 1) && pair.a.sends_over(); }));
    pair.a.sends.clear();
  }
  REQUIRE(pair.until([&] { return receiver.fetches_over(); }));
  CHECK(receiver.wrong == 0);
  // Shared memory lets us hold what it carries; other transports may not.
  const bool shared_memory =
      UcxTransport::describe(pair.a.peer).find("/memory") != std::string::npos;
  if (shared_memory) CHECK(receiver.holdable_eager >= std::size_t{2} * rounds);
  CHECK(receiver.fetches.size() == rounds);
  CHECK(receiver.fetches_right());
}

TEST_CASE("ucx transport: many sends that nobody takes yet, then all at once", "[ucx]") {
  Pair pair;
  auto& receiver = pair.b.receiver;
  const auto volley = GENERATE(table<std::size_t, std::size_t>({
      {10000, 64},
      {2000, 8192},
      {300, 40000},
  }));
  const std::size_t count = std::get<0>(volley);
  const std::size_t bytes = std::get<1>(volley);
  for (std::uint32_t i = 0; i < count; ++i) {
    pair.a.send(i, bytes);
    pair.a.transport.progress();  // the sender alone
  }
  CHECK(receiver.arrived == 0);
  REQUIRE(pair.until([&] { return receiver.arrived == count; }));
  receiver.finish_kept_last_first();
  REQUIRE(pair.until([&] { return pair.a.sends_over(); }));
  REQUIRE(pair.until([&] { return receiver.fetches_over(); }));
  CHECK(receiver.wrong == 0);
  CHECK(receiver.fetches_right());
}

TEST_CASE("ucx transport: rendezvous in both directions at once", "[ucx]") {
  Pair pair;
  constexpr std::size_t count = 40;
  for (std::uint32_t i = 0; i < count; ++i) {
    pair.a.send(i, 200000 + i);
    pair.b.send(1000 + i, 300000 + i);
  }
  auto& at_a = pair.a.receiver;
  auto& at_b = pair.b.receiver;
  REQUIRE(pair.until([&] { return at_a.arrived == count && at_b.arrived == count; }));
  at_a.finish_kept_last_first();
  at_b.finish_kept_last_first();
  REQUIRE(pair.until([&] { return pair.a.sends_over() && pair.b.sends_over(); }));
  REQUIRE(pair.until([&] { return at_a.fetches_over() && at_b.fetches_over(); }));
  CHECK(at_a.fetches_right());
  CHECK(at_b.fetches_right());
}

TEST_CASE("ucx transport: a refused rendezvous completes at its sender", "[ucx]") {
  Pair pair;
  auto& receiver = pair.b.receiver;
  SECTION("in the handler") {
    receiver.take = [](const MessageHeader&, const Arrival&) { return Taken::consumed; };
  }
  SECTION("in the handler, by release") {
    receiver.take = [&](const MessageHeader&, const Arrival& arrival) {
      pair.b.transport.release(arrival);
      return Taken::held;
    };
  }
  SECTION("later") {}
  Op& op = pair.a.send(1, 1u << 20);
  REQUIRE(pair.until([&] { return receiver.arrived == 1; }));
  for (const auto& item : receiver.kept) pair.b.transport.release(item.arrival);
  REQUIRE(pair.until([&] { return op.over(); }));
  pair.a.send(2, 1u << 20);  // and the transport goes on
  CHECK(pair.until([&] { return receiver.arrived == 2; }));
  if (receiver.kept.size() == 2) pair.b.transport.release(receiver.kept.back().arrival);
  CHECK(pair.until([&] { return pair.a.sends_over(); }));
}

TEST_CASE("ucx transport: a fetch of another length says truncated and ends the message", "[ucx]") {
  Pair pair;
  Op& op = pair.a.send(1, 100000);
  auto& receiver = pair.b.receiver;
  REQUIRE(pair.until([&] { return receiver.kept.size() == 1; }));
  Op fetch;
  fetch.data.resize(100001);
  CHECK(pair.b.transport.fetch(receiver.kept.front().arrival, fetch, fetch.data.data(),
                               fetch.data.size()) == Status::truncated);
  CHECK(pair.until([&] { return op.over(); }));
  CHECK(fetch.times_done == 0);
}

TEST_CASE("ucx transport: a cancelled send still ends, once", "[ucx]") {
  Pair pair;
  auto& receiver = pair.b.receiver;
  Op& first = pair.a.send(1, 1u << 20);
  REQUIRE(pair.until([&] { return receiver.kept.size() == 1; }));
  pair.a.transport.cancel(first);
  pair.b.transport.release(receiver.kept.front().arrival);
  REQUIRE(pair.until([&] { return first.over(); }));
  CHECK(first.times_done == 1);
}

TEST_CASE("ucx transport: closing with traffic under way takes a bounded time", "[ucx]") {
  const auto start = std::chrono::steady_clock::now();
  {
    Pair pair;
    for (std::uint32_t i = 0; i < 8; ++i) {
      pair.a.send(i, 4000);
      pair.a.send(i, 100000);
      pair.b.send(i, 100000);
    }
    pair.until([&] { return pair.b.receiver.arrived >= 10; });
    auto& kept = pair.b.receiver.kept;
    for (const auto& item : kept)
      if (!item.arrival.rendezvous) pair.b.transport.release(item.arrival);
    pair.a.transport.close();
    pair.b.transport.close();
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  CHECK(took.count() < 10);
}

TEST_CASE("ucx transport: closed, it opens again; never opened, it closes", "[ucx]") {
  UcxTransport never_opened;
  never_opened.close();
  Receiver receiver;
  UcxTransport transport;
  for (int i = 0; i < 2; ++i) {
    std::string why;
    REQUIRE(transport.open(receiver.handler(), {}, why) == Status::ok);
    CHECK(transport.open(receiver.handler(), {}, why) == Status::failed);
    CHECK_FALSE(transport.address().empty());
    CHECK(transport.flush(1.0) == Status::ok);
    transport.close();
    CHECK(transport.address().empty());
  }
}

TEST_CASE("ucx transport: mapped memory is registered until it is unmapped", "[ucx]") {
  Bytes memory(1 << 20);
  {
    Pair pair;
    UcxTransport& transport = pair.a.transport;
    transport.map(memory.data(), memory.size(), MemoryKind::host);
    CHECK(transport.mapped() == 1);
    transport.map(memory.data() + 64, UcxTransport::default_eager_limit, MemoryKind::host);
    CHECK(transport.mapped() == 1);  // sent eagerly
    const auto unknown =
        transport.carries(MemoryKind::device) ? MemoryKind::host : MemoryKind::device;
    if (unknown == MemoryKind::device) transport.map(memory.data() + 64, 1 << 16, unknown);
    CHECK(transport.mapped() == 1);  // not what UCX does not carry
    Op op;
    const Bytes content = pattern(5, memory.size());
    std::copy(content.begin(), content.end(), memory.begin());
    op.header.sequence = 5;
    op.status = transport.send(pair.a.peer, op, memory.data(), memory.size());
    auto& receiver = pair.b.receiver;
    REQUIRE(pair.until([&] { return receiver.arrived == 1; }));
    receiver.finish_kept_last_first();
    REQUIRE(pair.until([&] { return op.over() && receiver.fetches_over(); }));
    CHECK(receiver.fetches_right());
    transport.unmap(memory.data());
    CHECK(transport.mapped() == 0);
    transport.unmap(memory.data());
    transport.map(memory.data(), memory.size(), MemoryKind::host);
  }  // closed with memory still mapped
  UcxTransport closed;
  closed.map(memory.data(), memory.size(), MemoryKind::host);
  CHECK(closed.mapped() == 0);
}

TEST_CASE("ucx transport: a UCX without transports is refused with a sentence", "[ucx]") {
  const UcxTls tls("nonesuch");
  Receiver receiver;
  UcxTransport transport;
  std::string why;
  const Status status = transport.open(receiver.handler(), {}, why);
  CHECK(status != Status::ok);
  CHECK(why.find("UCX_TLS") != std::string::npos);
}

TEST_CASE("ucx transport: says its version and the transports to a peer", "[ucx]") {
  Pair pair;
  CHECK(UcxTransport::version().rfind("UCX 1.", 0) == 0);
  CHECK(UcxTransport::describe(pair.a.peer) == "not connected");
  pair.a.send(0, 8);
  REQUIRE(pair.until([&] { return pair.b.receiver.arrived == 1; }));
  const std::string text = UcxTransport::describe(pair.a.peer);
  INFO(text);
  CHECK(text.find('/') != std::string::npos);
}

TEST_CASE("ucx transport: a sleeper wakes when something arrives", "[ucx]") {
  UcxOptions options;
  options.wakeup = true;
  Pair pair(options);
  CHECK(pair.b.transport.event_fd() >= 0);
  while (pair.b.transport.arm() == Status::in_progress) pair.b.transport.progress();
  pair.a.send(0, 8);
  REQUIRE(pair.until([&] { return pair.b.receiver.arrived == 1; }));
}

TEST_CASE("ucx transport: a forked child forgets UCX, the parent goes on", "[ucx]") {
  Pair pair;
  pair.a.send(0, 100);
  REQUIRE(pair.until([&] { return pair.b.receiver.arrived == 1; }));
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    pair.a.transport.close();
    pair.b.transport.close();
    _exit(pair.a.transport.address().empty() ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  pair.a.send(1, 8000);
  pair.a.send(2, 200000);
  REQUIRE(pair.until([&] { return pair.b.receiver.arrived == 3; }));
  pair.b.receiver.finish_kept_last_first();
  REQUIRE(pair.until([&] { return pair.a.sends_over(); }));
  CHECK(pair.b.receiver.wrong == 0);
}
