#include "topo/place.h"

#include <hwloc.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "test/catch.h"
#include "test/topo/machines.h"

using namespace gpuar;
using gpuar::test::Environment;

namespace {

// The topology of a machine of this description, as an XML file that lives as long as this.
class MachineFile {
 public:
  explicit MachineFile(const char* description) {
    const int fd = mkstemp(path_.data());
    REQUIRE(fd >= 0);
    close(fd);
    hwloc_topology_t topology = nullptr;
    REQUIRE(hwloc_topology_init(&topology) == 0);
    REQUIRE(hwloc_topology_set_synthetic(topology, description) == 0);
    REQUIRE(hwloc_topology_load(topology) == 0);
    REQUIRE(hwloc_topology_export_xml(topology, path_.c_str(), 0) == 0);
    hwloc_topology_destroy(topology);
  }
  ~MachineFile() { std::remove(path_.c_str()); }
  MachineFile(const MachineFile&) = delete;
  MachineFile& operator=(const MachineFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/gpuar-topology-XXXXXX";
};

// Binds this thread to one processor; gives the old binding back.
class Bound {
 public:
  explicit Bound(int cpu) {
    REQUIRE(sched_getaffinity(0, sizeof old_, &old_) == 0);
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);
  }
  ~Bound() { sched_setaffinity(0, sizeof old_, &old_); }
  Bound(const Bound&) = delete;
  Bound& operator=(const Bound&) = delete;

 private:
  cpu_set_t old_{};
};

int some_allowed_cpu() {
  cpu_set_t allowed;
  REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  int last = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) last = cpu;
  }
  return last;
}

}  // namespace

TEST_CASE("a host is its name and its boot", "[place]") {
  CHECK(host_identity("a", "x") == host_identity("a", "x"));
  CHECK(host_identity("a", "x") != host_identity("b", "x"));  // namespaces of one machine
  CHECK(host_identity("a", "x") != host_identity("a", "y"));  // machines of one name
  CHECK(host_identity("ab", "c") != host_identity("a", "bc"));
  CHECK(machine_of(host_identity("a", "x")) == machine_of(host_identity("b", "x")));
  CHECK(machine_of(host_identity("a", "x")) != machine_of(host_identity("a", "y")));
}

TEST_CASE("this machine", "[place]") {
  cpu_set_t allowed;
  REQUIRE(sched_getaffinity(0, sizeof allowed, &allowed) == 0);
  const ProcessPlace place = discover_place();
  char name[256] = {};
  REQUIRE(gethostname(name, sizeof name - 1) == 0);
  CHECK(place.host == name);
  CHECK(place.threads == CPU_COUNT(&allowed));
  CHECK(place.host_threads >= place.threads);
  CHECK(discover_place() == place);
}

TEST_CASE("a binding is seen", "[place]") {
  const ProcessPlace before = discover_place();
  {
    const Bound bound(some_allowed_cpu());
    const ProcessPlace place = discover_place();
    CHECK(place.threads == 1);
    CHECK(place.package >= 0);
    CHECK(place.numa >= 0);
    CHECK(place.host_threads == before.host_threads);
    CHECK(place.host_id == before.host_id);
    CHECK((place.core >= 0) == (before.host_threads > 1));
  }
  CHECK(discover_place() == before);
}

TEST_CASE("a machine from HWLOC_XMLFILE", "[place]") {
  const MachineFile machine("package:2 numa:2 l3:2 core:4 pu:1");
  const Environment file("HWLOC_XMLFILE", machine.path());

  SECTION("is not ours to be bound on") {
    const ProcessPlace place = discover_place();
    CHECK(place.host_threads == 32);
    CHECK(place.threads == 32);
    CHECK(place.package == -1);
    CHECK(place.numa == -1);
    CHECK(place.core == -1);
  }
  SECTION("unless it says that it is") {
    const Environment ours("HWLOC_THISSYSTEM", "1");
    const int cpu = std::min(some_allowed_cpu(), 31);
    const Bound bound(cpu);
    const ProcessPlace place = discover_place();
    CHECK(place.host_threads == 32);
    CHECK(place.threads == 1);
    CHECK(place.core == cpu);
    CHECK(place.l3 == cpu / 4);
    CHECK(place.numa == cpu / 8);
    CHECK(place.package == cpu / 16);
  }
}

TEST_CASE("the last-level caches of the host are added up", "[place]") {
  const MachineFile machine("package:2 l3:2(size=16777216) core:4 pu:1");
  const Environment file("HWLOC_XMLFILE", machine.path());
  CHECK(discover_place().host_cache_kib == 4 * 16384);
  const MachineFile without("package:1 core:4 pu:1");
  const Environment other("HWLOC_XMLFILE", without.path());
  CHECK(discover_place().host_cache_kib == -1);
}

TEST_CASE("without a topology the place is unknown, but the host is not", "[place]") {
  const Environment none("HWLOC_COMPONENTS", "-linux,-no_os,-x86,stop");
  const ProcessPlace place = discover_place();
  ProcessPlace unknown;
  unknown.host = place.host;
  unknown.host_id = place.host_id;
  CHECK(place == unknown);
  CHECK_FALSE(place.host.empty());
}

TEST_CASE("discovery takes a few milliseconds", "[place]") {
  auto best = std::chrono::steady_clock::duration::max();
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    discover_place();
    best = std::min(best, std::chrono::steady_clock::now() - start);
  }
  CHECK(best < std::chrono::milliseconds(10));
}
