// The UCX transport between two processes: each answers what the other sends, then both close at
// about the same time.
#include <sys/wait.h>
#include <unistd.h>

#include "test/ucx_bridge/endpoint_pair.h"

using namespace gpuar;
using namespace gpuar::test;

namespace {

constexpr std::size_t sizes[] = {0, 8, 1000, 8192, 8193, 100000, 3u << 20};
constexpr std::uint32_t rounds = 20;

bool send_address(int to, std::span<const std::byte> address) {
  const std::size_t bytes = address.size();
  return write(to, &bytes, sizeof bytes) == sizeof bytes &&
         write(to, address.data(), bytes) == static_cast<ssize_t>(bytes);
}

Bytes receive_address(int from) {
  std::size_t bytes = 0;
  if (read(from, &bytes, sizeof bytes) != sizeof bytes) return {};
  Bytes address(bytes);
  std::size_t got = 0;
  while (got < bytes) {
    const ssize_t n = read(from, address.data() + got, bytes - got);
    if (n <= 0) return {};
    got += static_cast<std::size_t>(n);
  }
  return address;
}

// One side of the exchange; null, or what went wrong. No Catch2: it also runs in the child.
const char* exchange(int to, int from) {
  Side side;
  std::string why;
  if (side.transport.open(side.receiver.handler(), {}, why) != Status::ok) return "open failed";
  side.receiver.transport = &side.transport;
  if (!send_address(to, side.transport.address())) return "no address sent";
  const Bytes address = receive_address(from);
  if (address.empty()) return "no address received";
  side.peer = side.transport.connect(address.data(), address.size(), Where::here);

  std::uint32_t sequence = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (std::uint32_t round = 0; round < rounds; ++round) {
    for (const std::size_t bytes : sizes) {
      side.send(sequence++, bytes);
      const auto over = [&] {
        return side.receiver.arrived >= sequence && side.sends_over() &&
               side.receiver.fetches_over();
      };
      while (!over()) {
        side.transport.progress();
        side.receiver.finish_kept_last_first();
        if (std::chrono::steady_clock::now() > deadline) return "timed out";
      }
      if (!side.receiver.fetches_right()) return "wrong data fetched";
      side.sends.clear();
      side.receiver.fetches.clear();
    }
  }
  return side.receiver.wrong == 0 ? nullptr : "wrong eager data";
}

}  // namespace

TEST_CASE("ucx transport: two processes", "[ucx]") {
  int to_child[2];
  int to_parent[2];
  REQUIRE(pipe(to_child) == 0);
  REQUIRE(pipe(to_parent) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const char* const wrong = exchange(to_parent[1], to_child[0]);
    if (wrong != nullptr) std::fprintf(stderr, "child: %s\n", wrong);
    _exit(wrong == nullptr ? 0 : 1);
  }
  const char* const wrong = exchange(to_child[1], to_parent[0]);
  for (const int fd : {to_child[0], to_child[1], to_parent[0], to_parent[1]}) ::close(fd);
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
  INFO((wrong != nullptr ? wrong : "ok"));
  CHECK(wrong == nullptr);
}
