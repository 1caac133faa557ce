#include "test/topo/machines.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace gpuar::test {
namespace {

using Kind = Pci::Kind;

class XmlWriter {
 public:
  explicit XmlWriter(const Machine& machine) : machine_(machine) {}

  std::string text() && {
    const int numas = machine_.packages * machine_.numas_per_package;
    text_ =
        R"(<?xml version="1.0"?><!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology version="2.0">)";
    open(processors("Machine", 0, 0, numas));
    for (int package = 0; package < machine_.packages; ++package) write_package(package);
    close();
    return std::move(text_) + "</topology>";
  }

 private:
  void write_package(int package) {
    const int per = machine_.numas_per_package;
    open(processors("Package", package, package * per, per));
    for (int i = 0; i < per; ++i) {
      const int numa = package * per + i;
      if (per > 1) open(processors("Group", -1, numa, 1));
      empty(processors("NUMANode", numa, numa, 1) + R"( local_memory="1073741824")");
      for (int core = 0; core < machine_.cores_per_numa; ++core) {
        const int thread = numa * machine_.cores_per_numa + core;
        open(object("Core", thread, 1U << static_cast<unsigned>(thread),
                    1U << static_cast<unsigned>(numa)));
        empty(object("PU", thread, 1U << static_cast<unsigned>(thread),
                     1U << static_cast<unsigned>(numa)));
        close();
      }
      for (const Root& root : machine_.roots) {
        if (root.numa == numa) write_root(root);
      }
      if (per > 1) close();
    }
    close();
  }

  void write_root(const Root& root) {
    if (root.first_bus != 0) next_bus_ = root.first_bus;
    const int first = next_bus_;
    const int last = first + buses(root.devices) - 1;
    open(fmt::format(
        R"(type="Bridge" bridge_type="0-1" depth="0" bridge_pci="0000:[{:02x}-{:02x}]")", first,
        last));
    for (const Pci& device : root.devices) write(device, 1);
    close();
  }

  // Every device has a bus of its own, behind a port of its switch or root, as PCI Express has it;
  // a switch has one for itself.
  static int buses(const std::vector<Pci>& devices) {
    int count = 0;
    for (const Pci& device : devices) count += 1 + buses(device.below);
    return count;
  }

  void write(const Pci& device, int depth) {
    const int bus = next_bus_++;
    if (device.kind == Kind::pci_switch) {
      open(fmt::format(
          R"(type="Bridge" bridge_type="1-1" depth="{}" bridge_pci="0000:[{:02x}-{:02x}]" )"
          R"(pci_busid="0000:{:02x}:00.0" pci_type="0604 [10b5:9781] [10b5:9781] b0 00")",
          depth, bus + 1, bus + buses(device.below), bus));
      for (const Pci& below : device.below) write(below, depth + 1);
      close();
      return;
    }
    const char* type = "0302 [10de:2330] [10de:16c1] a1 00";
    if (device.kind == Kind::display) type = "0300 [1a03:2000] [1a03:2000] 41 00";
    if (device.kind == Kind::hca) type = "0207 [15b3:1021] [15b3:0041] 00 00";
    if (device.kind == Kind::ethernet) type = "0200 [8086:1563] [8086:0001] 01 00";
    open(fmt::format(R"(type="PCIDev" pci_busid="0000:{:02x}:00.0" pci_type="{}")", bus, type));
    if (device.kind == Kind::ethernet)
      empty("type=\"OSDev\" osdev_type=\"2\" name=\"" + device.name + "\"");
    if (device.kind == Kind::hca) write_hca(device);
    close();
  }

  void write_hca(const Pci& device) {
    open(fmt::format(R"(type="OSDev" osdev_type="3" name="{}")", device.name));
    for (std::size_t port = 0; port < device.port_state.size(); ++port) {
      info(port, "State", std::to_string(device.port_state[port]));
      info(port, "LID", device.routed ? "0x7" : "0x0");
    }
    close();
  }

  void info(std::size_t port, const char* what, const std::string& value) {
    text_ += fmt::format(R"(<info name="Port{}{}" value="{}"/>)", port + 1, what, value);
  }

  // A part of the machine that holds these NUMA domains.
  std::string processors(const char* type, int index, int first, int count) const {
    const auto some = [](int from, int n) { return ((std::uint64_t{1} << n) - 1) << from; };
    const int cores = machine_.cores_per_numa;
    return object(type, index, some(first * cores, count * cores), some(first, count));
  }

  static std::string object(const char* type, int index, std::uint64_t cpus, std::uint64_t nodes) {
    const std::string os_index = index < 0 ? "" : fmt::format(R"( os_index="{}")", index);
    std::string text = fmt::format(R"(type="{}"{})", type, os_index);
    for (const char* prefix : {"", "complete_"}) {
      text += fmt::format(R"( {0}cpuset="0x{1:08x}" {0}nodeset="0x{2:08x}")", prefix, cpus, nodes);
    }
    if (index == 0 && std::string(type) == "Machine") {
      text += fmt::format(R"( allowed_cpuset="0x{:08x}" allowed_nodeset="0x{:08x}")", cpus, nodes);
    }
    return text;
  }

  void open(const std::string& attributes) {
    text_ += fmt::format("<object {} gp_index=\"{}\">", attributes, ++objects_);
  }
  void empty(const std::string& attributes) {
    open(attributes);
    close();
  }
  void close() { text_ += "</object>\n"; }

  const Machine& machine_;
  std::string text_;
  int objects_ = 0;
  int next_bus_ = 0x10;
};

}  // namespace

Pci behind_switch(std::vector<Pci> below) {
  return {Kind::pci_switch, {}, std::move(below)};
}
Pci gpu() {
  return {};
}
Pci hca(const std::string& name) {
  return {Kind::hca, name, {}};
}
Pci ethernet(const std::string& name) {
  return {Kind::ethernet, name, {}};
}
Pci server_display() {
  return {Kind::display, {}, {}};
}

std::string xml_of(const Machine& machine) {
  return XmlWriter(machine).text();
}

Machine dgx_like() {
  Machine machine{2, 4, 4, {}};
  for (int i = 0; i < 4; ++i) {
    const std::string first = "hca" + std::to_string(2 * i);
    const std::string second = "hca" + std::to_string(2 * i + 1);
    machine.roots.push_back({1 + 2 * i, {behind_switch({gpu(), gpu(), hca(first), hca(second)})}});
  }
  Pci storage = hca("hca8");
  storage.routed = false;
  machine.roots.push_back({0, {storage, server_display()}});
  machine.roots.push_back({4, {ethernet("eth0"), ethernet("eth1")}});
  return machine;
}

Machine two_sockets() {
  Machine machine{2, 1, 8, {}};
  for (int package = 0; package < 2; ++package) {
    machine.roots.push_back({package, {behind_switch({gpu()}), behind_switch({gpu()})}});
    machine.roots.push_back({package, {hca("hca" + std::to_string(package))}});
  }
  return machine;
}

Machine one_gpu() {
  return {2, 1, 4, {{0, {gpu()}}, {1, {hca("hca0"), ethernet("eth0")}}}};
}

Machine without_gpu() {
  return {2, 1, 4, {{0, {server_display(), hca("hca0")}}, {1, {hca("hca1")}}}};
}

Machine asymmetric() {
  Pci down = hca("hca2");
  down.port_state = {1, 4};
  return {2,
          1,
          4,
          {{0, {behind_switch({gpu(), gpu(), gpu(), hca("hca0")})}},
           {1, {behind_switch({gpu()}), hca("hca1"), down}}}};
}

Machine two_cores() {
  return {2, 1, 1, {}};
}

Environment::Environment(const char* name, const std::string& value) : name_(name) {
  if (const char* old = std::getenv(name)) old_ = old;
  setenv(name, value.c_str(), 1);
}

Environment::~Environment() {
  if (old_) {
    setenv(name_, old_->c_str(), 1);
  } else {
    unsetenv(name_);
  }
}

TextFile::TextFile(const std::string& text) {
  const int file = mkstemp(path_.data());
  if (file < 0) throw std::runtime_error("no temporary file can be made");
  close(file);
  std::ofstream(path_) << text;
}

TextFile::~TextFile() {
  std::remove(path_.c_str());
}

}  // namespace gpuar::test
