// Short messages between processes of one machine.
#include "ucx_bridge/mailbox.h"

#include <chrono>
#include <memory>
#include <thread>

#include "test/ucx_bridge/endpoint_pair.h"

using namespace gpuar;
using namespace gpuar::test;

namespace {

bool has_mailbox(const Side& side) {
  return UcxTransport::describe(side.peer).find("mailbox") != std::string::npos;
}

// Exchanges short messages until both sides have a mailbox; false if they get none.
bool until_mailboxes(Pair& pair) {
  for (std::uint32_t i = 0; i < 100; ++i) {
    const std::size_t so_far = pair.b.receiver.arrived;
    pair.a.send(i, 8);
    pair.b.send(i, 8);
    if (!pair.until([&] { return pair.b.receiver.arrived > so_far; })) return false;
    pair.finish_kept();
    if (has_mailbox(pair.a) && has_mailbox(pair.b)) return true;
  }
  return false;
}

struct Taker {
  std::vector<Bytes> headers;
  std::vector<Bytes> payloads;

  void operator()(const std::byte* header, std::size_t header_bytes, const std::byte* data,
                  std::size_t bytes) {
    headers.emplace_back(header, header + header_bytes);
    payloads.emplace_back(data, data + bytes);
  }
};

}  // namespace

TEST_CASE("mailbox: letters come in order, of any length", "[mailbox]") {
  const auto box = std::make_unique<Mailbox>();
  MailboxWriter writer(*box);
  CHECK_FALSE(writer.attached());
  MailboxReader reader(*box);
  CHECK(writer.attached());
  std::uint32_t number = 0;
  for (std::size_t bytes = 0; bytes <= MailboxWriter::most_bytes; ++bytes) {
    for (const std::size_t header_bytes : {16, 24, 32, 40}) {
      const Bytes header = pattern(++number, header_bytes);
      const Bytes data = pattern(number + 1, bytes);
      REQUIRE(writer.put(header.data(), header_bytes, data.data(), bytes));
      Taker taker;
      REQUIRE(reader.take(std::ref(taker)));
      REQUIRE(taker.headers.front() == header);
      REQUIRE(taker.payloads.front() == data);
      REQUIRE_FALSE(reader.take(std::ref(taker)));
    }
  }
}

TEST_CASE("mailbox: one that is full takes no letter, and loses none", "[mailbox]") {
  const auto box = std::make_unique<Mailbox>();
  MailboxWriter writer(*box);
  MailboxReader reader(*box);
  std::uint32_t put = 0;
  std::uint32_t taken = 0;
  const auto take = [&](const std::byte* header, std::size_t, const std::byte*, std::size_t bytes) {
    CHECK(std::memcmp(header, &taken, sizeof taken) == 0);
    CHECK(bytes == 0);
    ++taken;
  };
  for (int round = 0; round < 100; ++round) {
    while (writer.put(&put, sizeof put, &put, 0)) ++put;
    CHECK(put - taken <= Mailbox::letters);
    for (int i = 0; i < round % 20; ++i) reader.take(take);
  }
  while (reader.take(take)) {
  }
  CHECK(taken == put);
  CHECK(put > 300);
}

TEST_CASE("mailbox: what a writer claims is no longer than the letter", "[mailbox]") {
  const auto box = std::make_unique<Mailbox>();
  MailboxReader reader(*box);
  box->letter[0].turn = 1;
  box->letter[0].header_bytes = 0xffff;
  box->letter[0].bytes = 0xffff;
  Taker taker;
  REQUIRE(reader.take(std::ref(taker)));
  CHECK(taker.headers.front().size() == sizeof Letter{}.first_line);
  CHECK(taker.payloads.front().size() == sizeof Letter{}.lines);
}

TEST_CASE("mailbox: a writer and a reader at once", "[mailbox]") {
  const auto box = std::make_unique<Mailbox>();
  constexpr std::uint32_t messages = 20000;
  std::thread writing([&] {
    MailboxWriter writer(*box);
    for (std::uint32_t i = 0; i < messages;) {
      const Bytes data = pattern(i, i % 200);
      if (writer.put(&i, sizeof i, data.data(), data.size())) {
        ++i;
      } else {
        std::this_thread::yield();
      }
    }
  });
  MailboxReader reader(*box);
  std::uint32_t right = 0;
  for (std::uint32_t i = 0; i < messages;) {
    const bool one = reader.take(
        [&](const std::byte* header, std::size_t, const std::byte* data, std::size_t bytes) {
          const Bytes expected = pattern(i, i % 200);
          if (std::memcmp(header, &i, sizeof i) == 0 && Bytes(data, data + bytes) == expected)
            ++right;
        });
    if (one) {
      ++i;
    } else {
      std::this_thread::yield();
    }
  }
  writing.join();
  CHECK(right == messages);
}

TEST_CASE("ucx transport: short messages go through mailboxes, once there are some",
          "[ucx][mailbox]") {
  Pair pair;
  REQUIRE(until_mailboxes(pair));
  std::uint32_t sequence = 1000;
  for (std::size_t bytes = 0; bytes <= MailboxWriter::most_bytes + 1; ++bytes) {
    const std::size_t so_far = pair.b.receiver.arrived;
    const std::uint64_t carried = pair.a.transport.bytes_sent();
    const Op& op = pair.a.send(sequence++, bytes);
    CHECK(pair.a.transport.bytes_sent() == carried + bytes);
    REQUIRE(pair.until([&] { return pair.b.receiver.arrived > so_far && op.over(); }));
  }
  pair.finish_kept();
  CHECK(pair.b.receiver.wrong == 0);
}

TEST_CASE("ucx transport: more short messages than a mailbox holds", "[ucx][mailbox]") {
  Pair pair;
  REQUIRE(until_mailboxes(pair));
  const std::size_t so_far = pair.b.receiver.arrived;
  constexpr std::uint32_t messages = 10 * Mailbox::letters;
  for (std::uint32_t i = 0; i < messages; ++i) pair.a.send(i, i);
  CHECK(pair.until([&] { return pair.b.receiver.arrived == so_far + messages; }));
  pair.finish_kept();
  CHECK(pair.b.receiver.wrong == 0);
}

TEST_CASE("ucx transport: no mailboxes unless they are wanted", "[ucx][mailbox]") {
  UcxOptions options;
  SECTION("none at all") {
    options.mailbox_limit = 0;
  }
  SECTION("a thread that sleeps would not see a letter") {
    options.wakeup = true;
  }
  Pair pair(options);
  CHECK_FALSE(until_mailboxes(pair));
}

TEST_CASE("ucx transport: no mailboxes without shared memory", "[ucx][mailbox]") {
  setenv("UCX_TLS", "tcp,self", 1);
  Pair pair;
  unsetenv("UCX_TLS");
  CHECK_FALSE(until_mailboxes(pair));
}

TEST_CASE("ucx transport: a mailbox is offered before the peer knows its sender",
          "[ucx][mailbox]") {
  Pair pair;
  Side late;
  std::string why;
  REQUIRE(late.transport.open(late.receiver.handler(), {}, why) == Status::ok);
  late.receiver.transport = &late.transport;
  pair.a.peer = Pair::connect(pair.a, late);
  const auto arrive = [&](std::uint32_t count) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (late.receiver.arrived < count && std::chrono::steady_clock::now() < end) {
      pair.a.transport.progress();
      late.transport.progress();
    }
    return late.receiver.arrived == count;
  };
  for (std::uint32_t i = 0; i < 20; ++i) {
    pair.a.send(i, 8);
    REQUIRE(arrive(i + 1));
  }
  CHECK_FALSE(has_mailbox(pair.a));
  late.peer = Pair::connect(late, pair.a);
  late.transport.progress();
  pair.a.send(20, 8);
  CHECK(has_mailbox(pair.a));
  pair.a.send(21, 8);
  late.transport.progress();
  CHECK(late.receiver.arrived >= 21);
  late.transport.close();
}
