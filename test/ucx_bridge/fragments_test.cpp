// Fragments of shared memory: how long they are, and that nobody copies them once more.
#include <cinttypes>
#include <cstdio>
#include <fstream>
#include <string>

#include "test/ucx_bridge/endpoint_pair.h"
#include "test/ucx_bridge/ucx_variable.h"

using namespace gpuar;
using namespace gpuar::test;

namespace {

// Whether it lies in memory that processes share ("... rw-s ...").
bool is_shared(const void* address) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    char rights[5] = {};
    if (std::sscanf(line.c_str(), "%" SCNxPTR "-%" SCNxPTR " %4s", &begin, &end, rights) != 3)
      continue;
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    if (begin <= at && at < end) return rights[3] == 's';
  }
  return false;
}

}  // namespace

// Put together from several, it would lie in memory of the receiver's own.
TEST_CASE("ucx transport: a fragment is handed over where it lies, in shared memory", "[ucx]") {
  for (const char* const transports : {"sysv,self", "posix,self"}) {
    const UcxTls tls(transports);
    Pair pair;
    INFO(transports);
    pair.a.send(0, UcxTransport::fragment_bytes);
    auto& receiver = pair.b.receiver;
    REQUIRE(pair.until([&] { return receiver.arrived == 1; }));
    REQUIRE(receiver.kept.size() == 1);
    CHECK(is_shared(receiver.kept.front().arrival.data));
    CHECK_FALSE(is_shared(pair.a.sends.front().data.data()));
    receiver.finish_kept_last_first();
  }
}

TEST_CASE("ucx transport: the length of fragments is the user's to choose, then ours", "[ucx]") {
  const auto is_fragment = [] {
    Pair pair;
    pair.a.send(0, UcxTransport::default_eager_limit + 1);
    REQUIRE(pair.until([&] { return pair.b.receiver.arrived == 1; }));
    pair.b.receiver.finish_kept_last_first();
    REQUIRE(pair.until([&] { return pair.a.sends_over() && pair.b.receiver.fetches_over(); }));
    return pair.b.receiver.rendezvous == 0;
  };
  for (const char* const with : {"all", "sm,tcp", "posix,cma,self", "^tcp", "^posix"}) {
    const UcxTls tls(with);
    INFO(with);
    CHECK(is_fragment());
  }
  const UcxVariable chosen("UCX_MM_SEG_SIZE", "9000");
  CHECK_FALSE(is_fragment());
}
