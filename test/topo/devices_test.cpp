#include "topo/devices.h"

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "test/catch.h"
#include "test/topo/machines.h"
#include "topo/hwloc_topology.h"

using namespace gpuar;
using namespace gpuar::test;

namespace {

// With its last topology hwloc unloads its plugins, and LeakSanitizer calls leaked what
// libpciaccess still holds in static variables. So one topology stays to the end of the process;
// volatile, since nothing else reads it.
const Topology* volatile held = new Topology(load_topology(TopologyScope::processors));

Devices discover(const Machine& machine) {
  const TextFile file(xml_of(machine));
  const Environment xml("HWLOC_XMLFILE", file.path());
  return discover_devices();
}

std::vector<std::string> names(const Devices& devices) {
  std::vector<std::string> found;
  for (const Nic& nic : devices.nics) found.push_back(nic.name);
  return found;
}

const Nic& nic(const Devices& devices, const std::string& name) {
  for (const Nic& found : devices.nics) {
    if (found.name == name) return found;
  }
  throw std::runtime_error("no network device " + name);
}

Nearness nearness(const Devices& devices, const std::string& name, std::size_t gpu) {
  return nic(devices, name).to_gpu.at(gpu).nearness;
}

// A tree of files like the system's own.
class Files {
 public:
  Files() { REQUIRE(mkdtemp(root_.data()) != nullptr); }
  ~Files() { std::filesystem::remove_all(root_); }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ + "/" + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text << '\n';
  }
  void port(const std::string& device, int port, const std::string& state, const std::string& rate,
            const std::string& layer) const {
    const std::string folder =
        "sys/class/infiniband/" + device + "/ports/" + std::to_string(port) + "/";
    write(folder + "state", state);
    write(folder + "rate", rate);
    write(folder + "link_layer", layer);
  }
  void device_file(const std::string& device, const std::string& verbs) const {
    write("sys/class/infiniband/" + device + "/device/infiniband_verbs/" + verbs + "/dev", "231:0");
  }
  SystemRoots roots() const { return {root_ + "/sys", root_ + "/dev"}; }

 private:
  std::string root_ = "/tmp/gpuar-system-XXXXXX";
};

}  // namespace

TEST_CASE("a PCI address is read and written", "[devices]") {
  CHECK(pci_text(pci_address("0000:1b:00.0")) == "0000:1b:00.0");
  CHECK(pci_text(pci_address("0001:FF:1f.7")) == "0001:ff:1f.7");
  CHECK(pci_text(pci_address("00000000:4E:00.0")) == "0000:4e:00.0");  // as NVML has it
  CHECK(pci_text(pci_address("10000:01:00.0")) == "10000:01:00.0");
  CHECK(pci_address("0000:02:00.0") < pci_address("0000:10:00.0"));
  CHECK(pci_address("0000:ff:1f.7") < pci_address("0001:00:00.0"));
  for (const char* bad : {"", "1b:00.0", "0000:1b:00", "0000:1b:00.0x", "0000:1b:00.8",
                          "0000:1b:20.0", "GPU-1", "0000:1b:0g.0"}) {
    CAPTURE(bad);
    CHECK(pci_address(bad) == 0);
  }
}

TEST_CASE("8 GPUs and 8 HCAs behind 4 switches", "[devices]") {
  const Devices devices = discover(dgx_like());
  REQUIRE(devices.gpus.size() == 8);
  CHECK(names(devices) == std::vector<std::string>{"hca8:1", "hca0:1", "hca1:1", "hca2:1", "hca3:1",
                                                   "eth0", "eth1", "hca4:1", "hca5:1", "hca6:1",
                                                   "hca7:1"});
  for (std::size_t i = 0; i < 8; ++i) {
    CAPTURE(i);
    CHECK(devices.gpus[i].package == static_cast<int>(i / 4));
    CHECK(devices.gpus[i].numa == static_cast<int>(i / 2 * 2 + 1));
    CHECK(nearness(devices, "hca0:1", i) == (i < 2   ? Nearness::same_switch
                                             : i < 4 ? Nearness::same_package
                                                     : Nearness::same_host));
    CHECK(nearness(devices, "hca7:1", i) == (i >= 6   ? Nearness::same_switch
                                             : i >= 4 ? Nearness::same_package
                                                      : Nearness::same_host));
  }
  CHECK(pci_text(devices.gpus[0].address) == "0000:13:00.0");
  CHECK(nic(devices, "hca0:1").kind == NicKind::infiniband);
  CHECK(nic(devices, "hca8:1").kind == NicKind::roce);
  CHECK(nic(devices, "eth0").kind == NicKind::ethernet);
  CHECK(nic(devices, "hca0:1").to_gpu[0].hops == 2);
}

TEST_CASE("roots of one NUMA domain, and packages", "[devices]") {
  const Devices devices = discover(two_sockets());
  REQUIRE(devices.gpus.size() == 4);
  CHECK(nearness(devices, "hca0:1", 0) == Nearness::same_numa);
  CHECK(nearness(devices, "hca0:1", 1) == Nearness::same_numa);
  CHECK(nearness(devices, "hca0:1", 2) == Nearness::same_host);
  CHECK(nearness(devices, "hca1:1", 3) == Nearness::same_numa);
}

TEST_CASE("a GPU apart from the network, and none at all", "[devices]") {
  const Devices one = discover(one_gpu());
  REQUIRE(one.gpus.size() == 1);
  CHECK(nearness(one, "hca0:1", 0) == Nearness::same_host);
  const Devices none = discover(without_gpu());
  CHECK(none.gpus.empty());
  CHECK(names(none) == std::vector<std::string>{"hca0:1", "hca1:1"});
  CHECK(nic(none, "hca0:1").to_gpu.empty());
}

TEST_CASE("GPUs are numbered by address, wherever they are", "[devices]") {
  const Devices devices = discover({2, 1, 4, {{0, {gpu()}, 0x80}, {1, {gpu()}, 0x20}}});
  REQUIRE(devices.gpus.size() == 2);
  CHECK(pci_text(devices.gpus[0].address) == "0000:20:00.0");
  CHECK(devices.gpus[0].package == 1);
  CHECK(pci_text(devices.gpus[1].address) == "0000:80:00.0");
}

TEST_CASE("links that are down, and devices on one root", "[devices]") {
  const Devices devices = discover(asymmetric());
  REQUIRE(devices.gpus.size() == 4);
  CHECK(nearness(devices, "hca0:1", 2) == Nearness::same_switch);
  CHECK(nearness(devices, "hca1:1", 3) == Nearness::same_root);
  CHECK(nic(devices, "hca1:1").usable);
  CHECK_FALSE(nic(devices, "hca2:1").usable);
  CHECK(nic(devices, "hca2:2").usable);
}

TEST_CASE("what the system says of links counts on the machine itself", "[devices]") {
  const Files files;
  files.port("hca0", 1, "4: ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand");
  files.device_file("hca0", "uverbs0");
  files.port("hca1", 1, "1: DOWN", "10 Gb/sec (4X SDR)", "InfiniBand");
  files.port("hca1", 2, "4: ACTIVE", "2.5 Gb/sec (1X SDR)", "Ethernet");
  files.device_file("hca1", "uverbs1");
  files.port("hca2", 1, "4: ACTIVE", "400 Gb/sec (4X NDR)", "InfiniBand");
  files.device_file("hca2", "uverbs2");
  files.write("dev/infiniband/uverbs0", "");
  files.write("dev/infiniband/uverbs1", "");  // but no uverbs2: listed, not to be opened
  files.write("sys/class/net/eth0/operstate", "up");
  files.write("sys/class/net/eth0/speed", "25000");
  files.write("sys/class/net/eth1/operstate", "down");
  files.write("sys/class/net/eth1/speed", "-1");
  const TextFile machine(xml_of(dgx_like()));
  const Environment xml("HWLOC_XMLFILE", machine.path());
  const Environment ours("HWLOC_THISSYSTEM", "1");
  const Devices devices = discover_devices(files.roots());

  CHECK(names(devices) ==
        std::vector<std::string>{"hca0:1", "hca1:1", "hca1:2", "hca2:1", "eth0", "eth1"});
  CHECK(nic(devices, "hca0:1").usable);
  CHECK(nic(devices, "hca0:1").mbit == 400000);
  CHECK_FALSE(nic(devices, "hca1:1").usable);
  CHECK(nic(devices, "hca1:2").usable);
  CHECK(nic(devices, "hca1:2").kind == NicKind::roce);
  CHECK(nic(devices, "hca1:2").mbit == 2500);
  CHECK_FALSE(nic(devices, "hca2:1").usable);
  CHECK(nic(devices, "eth0").usable);
  CHECK(nic(devices, "eth0").mbit == 25000);
  CHECK_FALSE(nic(devices, "eth1").usable);
  CHECK(nic(devices, "eth1").mbit == 0);
}

TEST_CASE("the devices of this machine are found in 30 ms", "[devices]") {
  auto best = std::chrono::steady_clock::duration::max();
  for (int i = 0; i < 5; ++i) {
    const auto start = std::chrono::steady_clock::now();
    const Devices devices = discover_devices();
    best = std::min(best, std::chrono::steady_clock::now() - start);
    CHECK_FALSE(devices.interfaces.empty());  // lo at least
  }
  CHECK(best < std::chrono::milliseconds(30));
}

TEST_CASE("without a topology there are no devices", "[devices]") {
  const Environment none("HWLOC_COMPONENTS", "-linux,-no_os,-x86,stop");
  const Devices devices = discover_devices();
  CHECK(devices.gpus.empty());
  CHECK(devices.nics.empty());
}

TEST_CASE("the module of GPUDirect, by either of its names", "[devices]") {
  for (const char* const name : {"nvidia_peermem", "nv_peer_mem"}) {
    const Files files;
    CHECK_FALSE(has_gpudirect_module(files.roots()));
    files.write(std::string("sys/module/") + name + "/initstate", "live");
    CHECK(has_gpudirect_module(files.roots()));
  }
}
