#include "topo/advice.h"

#include <set>

#include "test/catch.h"
#include "test/topo/machines.h"

using namespace gpuar;
using namespace gpuar::test;

namespace {

using Names = std::vector<std::string>;

Devices discover(const Machine& machine) {
  const TextFile file(xml_of(machine));
  const Environment xml("HWLOC_XMLFILE", file.path());
  Devices devices = discover_devices();
  devices.interfaces = {"bond0", "lo"};
  return devices;
}

NicAdvice advise(const Devices& devices, std::int32_t gpu, std::int32_t local_ranks) {
  return advise_nics(devices, {gpu, "for this test"}, local_ranks);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

Devices& speed(Devices& devices, const std::string& name, std::int64_t mbit) {
  for (Nic& nic : devices.nics) {
    if (nic.name == name) nic.mbit = mbit;
  }
  return devices;
}

}  // namespace

TEST_CASE("which GPU a rank uses", "[advice]") {
  const Devices eight = discover(dgx_like());
  const auto guess = [&](const GpuHints& hints) { return guess_gpu(eight, hints).index; };
  const std::uint64_t fifth = eight.gpus[5].address;

  CHECK(guess({}) == -1);
  CHECK(guess({fifth, {}, 2, 8}) == 5);  // what the program did before MPI_Init comes first
  CHECK(guess({1, {}, 2, 8}) == 2);      // hwloc does not know that one
  CHECK(guess({0, {}, 2, 8}) == 2);
  CHECK(guess({0, {}, 2, 4}) == -1);  // which 4 of the 8?
  CHECK(guess({0, "0,2,4,6", 2, 4}) == 4);
  CHECK(guess({0, "7,6,5,4,3,2,1,0", 2, 8}) == 5);
  CHECK(guess({0, "3", 2, 8}) == 3);
  CHECK(guess({0, "0", 2, 8}) == -1);  // of a container, or the first of all?
  CHECK(guess({0, "0", 0, 1}) == 0);
  CHECK(guess({0, "", 0, 1}) == -1);
  CHECK(guess({0, "8", 0, 1}) == -1);
  CHECK(guess({0, "GPU-5bfda7ef", 0, 1}) == -1);
  CHECK(guess({0, "1,x", 0, 2}) == -1);
  CHECK(guess({0, {}, 8, 8}) == -1);
  CHECK(guess_gpu(discover(one_gpu()), {0, {}, 3, 4}).index == 0);
  CHECK(guess_gpu(discover(one_gpu()), {0, "", 0, 1}).index == -1);
  CHECK(guess_gpu(discover(without_gpu()), {0, {}, 0, 2}).index == -1);
  for (const Devices& devices : {eight, discover(without_gpu())}) {
    CHECK_FALSE(guess_gpu(devices, {}).why.empty());
  }
}

TEST_CASE("one rank per GPU: GPUs behind one switch share its ports out", "[advice]") {
  const Devices devices = discover(dgx_like());
  for (std::int32_t gpu = 0; gpu < 8; ++gpu) {
    CAPTURE(gpu);
    const NicAdvice advice = advise(devices, gpu, 8);
    CHECK(advice.devices == Names{"hca" + std::to_string(gpu) + ":1", "bond0", "lo"});
    CHECK(contains(advice.why, "behind the same PCI switch as GPU"));
    CHECK(contains(advice.why, pci_text(devices.gpus[static_cast<std::size_t>(gpu)].address)));
  }
}

TEST_CASE("fewer ranks than GPUs: all near ports are used", "[advice]") {
  const Devices devices = discover(dgx_like());
  CHECK(advise(devices, 3, 1).devices == Names{"hca2:1", "hca3:1", "bond0", "lo"});
}

TEST_CASE("GPUs with fewer ports than themselves share them", "[advice]") {
  const Devices devices = discover(asymmetric());
  for (std::int32_t gpu = 0; gpu < 3; ++gpu) {
    CHECK(advise(devices, gpu, 4).devices == Names{"hca0:1", "bond0", "lo"});
  }
  // hca2:1 is down; its second port is as near as hca1.
  CHECK(advise(devices, 3, 4).devices == Names{"hca1:1", "hca2:2", "bond0", "lo"});
}

TEST_CASE("two sockets: the HCA of the own one", "[advice]") {
  const Devices devices = discover(two_sockets());
  CHECK(advise(devices, 1, 4).devices == Names{"hca0:1", "bond0", "lo"});
  CHECK(advise(devices, 2, 4).devices == Names{"hca1:1", "bond0", "lo"});
  CHECK(contains(advise(devices, 2, 4).why, "same NUMA domain"));
}

TEST_CASE("where nothing would be left out, nothing is said to UCX", "[advice]") {
  CHECK(advise(discover(one_gpu()), 0, 1).devices.empty());
  CHECK(contains(advise(discover(one_gpu()), 0, 1).why, "hca0:1 are all there are"));
  CHECK(advise(discover(without_gpu()), -1, 1).devices.empty());
  CHECK(contains(advise(discover(without_gpu()), -1, 1).why, "for this test"));
  Devices ethernet = discover(dgx_like());
  std::erase_if(ethernet.nics, [](const Nic& nic) { return nic.kind != NicKind::ethernet; });
  CHECK(advise(ethernet, 0, 8).devices.empty());
  CHECK(contains(advise(ethernet, 0, 8).why, "no InfiniBand or RoCE port"));
}

TEST_CASE("a slow port is not taken for being near", "[advice]") {
  Devices devices = discover(two_sockets());
  speed(devices, "hca0:1", 25000);
  speed(devices, "hca1:1", 400000);
  CHECK(advise(devices, 0, 4).devices == Names{"hca1:1", "bond0", "lo"});
  CHECK(contains(advise(devices, 0, 4).why, "hca1:1 (400 Gbit/s)"));
  speed(devices, "hca0:1", 200000);  // half as fast is fast enough to be near
  CHECK(advise(devices, 0, 4).devices == Names{"hca0:1", "bond0", "lo"});
}

TEST_CASE("advice keeps its promises on every machine", "[advice]") {
  for (const Machine& machine :
       {dgx_like(), two_sockets(), one_gpu(), without_gpu(), asymmetric()}) {
    const Devices devices = discover(machine);
    const auto gpus = static_cast<std::int32_t>(devices.gpus.size());
    for (std::int32_t ranks : {1, gpus, 2 * gpus}) {
      std::set<std::string> used;
      for (std::int32_t gpu = -1; gpu < gpus; ++gpu) {
        const NicAdvice advice = advise(devices, gpu, ranks);
        CAPTURE(gpus, ranks, gpu, advice.why);
        CHECK_FALSE(advice.why.empty());
        if (advice.devices.empty()) continue;
        std::size_t ports = 0;
        for (const Nic& nic : devices.nics) {
          const bool named = std::count(advice.devices.begin(), advice.devices.end(), nic.name) > 0;
          if (named) used.insert(nic.name);
          if (!named) continue;
          ++ports;
          CHECK(nic.usable);
          CHECK(nic.kind != NicKind::ethernet);
        }
        CHECK(ports > 0);
        CHECK(advice.devices.size() == ports + devices.interfaces.size());
      }
      // With a rank for each GPU no port that is nearest to one of them stands idle.
      if (ranks == 1 || used.empty()) continue;
      for (const Nic& nic : devices.nics) {
        const bool near =
            nic.kind == NicKind::infiniband && nic.usable &&
            std::any_of(nic.to_gpu.begin(), nic.to_gpu.end(), [](const Proximity& proximity) {
              return proximity.nearness <= Nearness::same_numa;
            });
        CAPTURE(nic.name);
        CHECK((!near || used.count(nic.name) == 1));
      }
    }
  }
}
