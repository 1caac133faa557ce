#include "bench/info_warnings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

namespace bench {
namespace {

using nlohmann::json;

bool is_rdma(const json& nic) {
  return nic.at("usable").get<bool>() && nic.at("kind") != "Ethernet";
}

std::vector<std::string> rdma_ports(const json& host) {
  std::vector<std::string> names;
  for (const json& nic : host.at("devices").at("nics")) {
    if (is_rdma(nic)) names.push_back(nic.at("name").get<std::string>());
  }
  return names;
}

bool has_gpu(const json& host) {
  return !host.at("devices").at("gpus").empty();
}

const json& process_of(const json& job, const json& rank) {
  return job.at("processes").at(rank.get<std::size_t>());
}

// "tcp/eth0, tcp/lo".
bool is_tcp_alone(const std::string& transports) {
  return transports.starts_with("tcp/") && transports.find(", ") == transports.find(", tcp/");
}

std::string ranks_text(const std::vector<int>& ranks) {
  constexpr std::size_t most = 8;
  const auto shown = std::min(most, ranks.size());
  const std::vector<int> first(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(shown));
  return fmt::format("{} {}{}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(first, ", "),
                     ranks.size() > shown ? fmt::format(" and {} more", ranks.size() - shown) : "");
}

class Finder {
 public:
  explicit Finder(const json& job) : job_(job) {}

  std::vector<Warning> find() {
    not_served();
    for (const json& host : job_.at("hosts")) {
      tcp_beside_rdma(host);
      no_gpudirect(host);
      one_port_for_all(host);
      pml(host);
      unbound(host);
      oversubscribed(host);
    }
    other_ucx();
    return std::move(found_);
  }

 private:
  void add(const char* id, std::string what, std::string remedy) {
    const bool known =
        std::any_of(found_.begin(), found_.end(), [&](const Warning& w) { return w.what == what; });
    if (!known) found_.push_back({id, std::move(what), std::move(remedy)});
  }

  void not_served() {
    if (job_.at("served").get<bool>()) return;
    add("not_served", "gpuar does not serve MPI_COMM_WORLD",
        "a line that begins with \"gpuar:\" says why, with rank and host");
  }

  void tcp_beside_rdma(const json& host) {
    const auto ports = rdma_ports(host);
    if (ports.empty()) return;
    std::vector<int> ranks;
    for (const json& rank : host.at("ranks")) {
      const json& peers = process_of(job_, rank).at("peers");
      if (std::any_of(peers.begin(), peers.end(), [](const json& transports) {
            return is_tcp_alone(transports.get<std::string>());
          })) {
        ranks.push_back(rank.get<int>());
      }
    }
    if (ranks.empty()) return;
    add("tcp_beside_rdma",
        fmt::format("{} of {} reach others by TCP, although {} {} up", ranks_text(ranks),
                    host.at("name").get<std::string>(), fmt::join(ports, ", "),
                    ports.size() == 1 ? "is" : "are"),
        "unset UCX_TLS and UCX_NET_DEVICES; ucx_info -d must show rc, dc or ud for these ports, "
        "else "
        "UCX was built without InfiniBand or this user may not open /dev/infiniband");
  }

  void no_gpudirect(const json& host) {
    if (!has_gpu(host)) return;
    const std::string name = host.at("name").get<std::string>();
    const json& memory = process_of(job_, host.at("ranks").at(0)).at("ucx").at("memory");
    if (std::find(memory.begin(), memory.end(), "device") == memory.end()) {
      add("ucx_without_cuda",
          fmt::format("{} has GPUs, but this UCX does not carry their memory: messages are staged "
                      "through pinned host memory",
                      name),
          "use a UCX built --with-cuda (-Ducx=PREFIX), whose CUDA modules are installed, and leave "
          "cuda in UCX_TLS");
    }
    if (!rdma_ports(host).empty() && !host.at("gpudirect").get<bool>()) {
      add("no_gpudirect",
          fmt::format("on {} no module lets the network ports reach GPU memory (GPUDirect RDMA): "
                      "messages between hosts pass through host memory",
                      name),
          "modprobe nvidia-peermem; a driver and a UCX that both know dma-buf do without");
    }
  }

  void one_port_for_all(const json& host) {
    const auto ports = rdma_ports(host);
    if (ports.size() < 2 || host.at("ranks").size() < 2) return;
    std::set<std::string> used;
    for (const json& rank : host.at("ranks")) {
      const std::string told = process_of(job_, rank).at("net_devices").get<std::string>();
      if (told.empty() || told == "all") return;  // UCX has all of them
      for (const std::string& port : ports) {
        if (told.find(port) != std::string::npos) used.insert(port);
      }
    }
    if (used.size() != 1) return;
    add("one_port_for_all",
        fmt::format("all ranks of {} use {} alone, of {}", host.at("name").get<std::string>(),
                    *used.begin(), fmt::join(ports, ", ")),
        "unset UCX_NET_DEVICES: gpuar then gives each rank the ports near its GPU, and UCX chooses "
        "where there is none");
  }

  void pml(const json& host) {
    const std::string pml = job_.at("pml").get<std::string>();
    if (pml == "ucx" || pml == "cm" || rdma_ports(host).empty()) return;
    add("pml",
        fmt::format("MPI's other messages are carried by pml {}, beside {} of {}", pml,
                    fmt::join(rdma_ports(host), ", "), host.at("name").get<std::string>()),
        "--mca pml ucx (allreduce is gpuar's own and does not depend on it)");
  }

  void unbound(const json& host) {
    std::vector<int> ranks;
    for (const json& rank : host.at("ranks")) {
      const json& place = process_of(job_, rank).at("place");
      if (place.at("core") == -1 && place.at("host_threads") > 1) ranks.push_back(rank.get<int>());
    }
    if (ranks.empty()) return;
    add("not_bound",
        fmt::format("{} of {} are not bound to cores: the system moves them about",
                    ranks_text(ranks), host.at("name").get<std::string>()),
        "mpirun --bind-to core, or srun --cpu-bind=cores");
  }

  void oversubscribed(const json& host) {
    const auto ranks = host.at("ranks").size();
    const auto threads = host.at("threads").get<std::int64_t>();
    if (threads <= 0 || ranks <= static_cast<std::size_t>(threads)) return;
    const bool yields = process_of(job_, host.at("ranks").at(0)).at("yield").get<bool>();
    add("oversubscribed",
        fmt::format("{} ranks share {} hardware threads on {}{}", ranks, threads,
                    host.at("name").get<std::string>(),
                    yields ? "" : ", and do not yield: short calls take milliseconds"),
        yields ? "fewer ranks on this host"
               : "fewer ranks on this host, or --mca "
                 "mpi_yield_when_idle 1");
  }

  void other_ucx() {
    for (const json& process : job_.at("processes")) {
      const std::string about = process.at("ucx").at("about").get<std::string>();
      const auto at = about.find("warning: ");
      if (at == std::string::npos) continue;
      add("other_ucx",
          fmt::format("rank {}: {}", process.at("rank").get<int>(),
                      about.substr(at + std::string("warning: ").size())),
          "build gpuar for the UCX that the program loads (-Ducx=PREFIX)");
    }
  }

  const json& job_;
  std::vector<Warning> found_;
};

}  // namespace

std::vector<Warning> warnings(const json& job) {
  return Finder(job).find();
}

}  // namespace bench
