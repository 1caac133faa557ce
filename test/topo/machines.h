// Machines for tests, as hwloc's XML: processors, and PCI trees with GPUs and network devices.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gpuar::test {

// A PCI device or a switch with what is below it. Addresses are given in the order of appearance:
// the first device behind the first root is 0000:10:00.0.
struct Pci {
  enum class Kind : std::uint8_t { pci_switch, gpu, hca, ethernet, display };
  Kind kind = Kind::gpu;
  std::string name;                   // of a network device
  std::vector<Pci> below;             // of a switch
  std::vector<int> port_state = {4};  // of an HCA, by port; 4: the link is up
  bool routed = true;                 // of an HCA: InfiniBand; false: Ethernet
};

Pci behind_switch(std::vector<Pci> below);
Pci gpu();
Pci hca(const std::string& name);
Pci ethernet(const std::string& name);
Pci server_display();  // a graphics chip that is no GPU to compute with

// A PCI root complex of one NUMA domain.
struct Root {
  int numa = 0;
  std::vector<Pci> devices;
  int first_bus = 0;  // 0: after those before it
};

struct Machine {
  int packages = 1;
  int numas_per_package = 1;
  int cores_per_numa = 4;  // of one hardware thread; at most 32 in all
  std::vector<Root> roots;
};

std::string xml_of(const Machine& machine);

// 2 packages of 4 NUMA domains; in 4 of these 2 GPUs and 2 HCAs behind one switch, hca0 to
// hca7, and a storage HCA and two Ethernet ports elsewhere.
Machine dgx_like();
// 2 packages, 2 GPUs and an HCA each, all behind roots of their own.
Machine two_sockets();
// A GPU and an HCA on different packages.
Machine one_gpu();
Machine without_gpu();
// 3 GPUs beside one HCA on package 0, 1 GPU on package 1 with two HCAs, one of them down.
Machine asymmetric();
// 2 packages of one core each, and nothing else.
Machine two_cores();

// An environment variable, for as long as this lives.
class Environment {
 public:
  Environment(const char* name, const std::string& value);
  ~Environment();
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  const char* name_;
  std::optional<std::string> old_;
};

// A file with the text, for as long as this lives.
class TextFile {
 public:
  explicit TextFile(const std::string& text);
  ~TextFile();
  TextFile(const TextFile&) = delete;
  TextFile& operator=(const TextFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_ = "/tmp/gpuar-topology-XXXXXX";
};

}  // namespace gpuar::test
