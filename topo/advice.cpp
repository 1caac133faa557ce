#include "topo/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace gpuar {
namespace {

using Ports = std::vector<const Nic*>;

// The GPUs that CUDA_VISIBLE_DEVICES leaves, in its order. None if it names one in another way than
// by number: UUIDs are the driver's to know.
std::vector<std::int32_t> visible_gpus(const std::optional<std::string>& visible,
                                       std::int32_t gpus) {
  std::vector<std::int32_t> indices;
  if (!visible) {
    for (std::int32_t i = 0; i < gpus; ++i) indices.push_back(i);
    return indices;
  }
  const char* at = visible->data();
  const char* const end = at + visible->size();
  while (at != end) {
    std::int32_t index = -1;
    const auto [rest, error] = std::from_chars(at, end, index);
    if (error != std::errc{} || index < 0 || index >= gpus) return {};
    indices.push_back(index);
    if (rest != end && *rest != ',') return {};
    at = rest == end ? end : rest + 1;
  }
  return indices;
}

Ports candidates(const Devices& devices) {
  Ports ports;
  for (const Nic& nic : devices.nics) {
    if (nic.kind != NicKind::ethernet && nic.usable) ports.push_back(&nic);
  }
  return ports;
}

// A slow port is there for something else: storage, management.
Ports fast_ones(Ports ports) {
  std::int64_t fastest = 0;
  for (const Nic* port : ports) fastest = std::max(fastest, port->mbit);
  std::erase_if(ports, [fastest](const Nic* port) { return 2 * port->mbit < fastest; });
  return ports;
}

Ports nearest(const Ports& ports, std::size_t gpu) {
  Ports near;
  for (const Nic* port : ports) {
    if (!near.empty() && near.front()->to_gpu[gpu] < port->to_gpu[gpu]) continue;
    if (!near.empty() && port->to_gpu[gpu] < near.front()->to_gpu[gpu]) near.clear();
    near.push_back(port);
  }
  return near;
}

// The share of the i-th of m users: each gets as many as there are for all, in blocks; where there
// are fewer ports than users, neighbours share one.
Ports share(const Ports& ports, std::size_t i, std::size_t m) {
  const std::size_t first = i * ports.size() / m;
  const std::size_t last = std::max(first + 1, (i + 1) * ports.size() / m);
  return {ports.begin() + static_cast<std::ptrdiff_t>(first),
          ports.begin() + static_cast<std::ptrdiff_t>(last)};
}

// `near`, less what the other GPUs to which the same ports are nearest should use.
Ports share_out(const Ports& near, const Ports& all, std::size_t gpu, std::size_t gpus) {
  std::size_t before = 0;
  std::size_t users = 0;
  for (std::size_t other = 0; other < gpus; ++other) {
    if (nearest(all, other) != near) continue;
    if (other < gpu) ++before;
    ++users;
  }
  return share(near, before, users);
}

const char* name_of(Nearness nearness) {
  switch (nearness) {
    case Nearness::same_switch:
      return "behind the same PCI switch as";
    case Nearness::same_root:
      return "on the same PCI root as";
    case Nearness::same_numa:
      return "in the same NUMA domain as";
    case Nearness::same_package:
      return "on the same package as";
    case Nearness::same_host:
      break;
  }
  return "on the host of";
}

std::string list(const Ports& ports) {
  std::string text;
  for (const Nic* port : ports) {
    if (!text.empty()) text += ", ";
    text += port->name;
    if (port->mbit > 0)
      text += fmt::format(" ({:g} Gbit/s)", static_cast<double>(port->mbit) / 1e3);
  }
  return text;
}

}  // namespace

GpuGuess guess_gpu(const Devices& devices, const GpuHints& hints) {
  const auto gpus = static_cast<std::int32_t>(devices.gpus.size());
  if (gpus == 0) return {-1, "this host has no GPU"};
  if (hints.current != 0) {
    for (std::int32_t i = 0; i < gpus; ++i) {
      if (devices.gpus[static_cast<std::size_t>(i)].address == hints.current) {
        return {i, "the program's current CUDA device"};
      }
    }
  }
  const auto visible = visible_gpus(hints.visible, gpus);
  if (gpus == 1 && visible.size() == 1) return {0, "the only GPU of this host"};
  const bool alone = hints.local_ranks == 1;
  if (hints.visible && visible.size() == 1 && (visible.front() != 0 || alone)) {
    return {visible.front(), "the only one in CUDA_VISIBLE_DEVICES"};
  }
  if (visible.size() > 1 && hints.local_ranks == static_cast<std::int32_t>(visible.size()) &&
      hints.local_rank >= 0 && hints.local_rank < hints.local_ranks) {
    return {
        visible[static_cast<std::size_t>(hints.local_rank)],
        fmt::format("local rank {} of {}, one for each GPU", hints.local_rank, hints.local_ranks)};
  }
  return {-1,
          "which GPU this rank uses is not known before MPI_Init (it is where a CUDA device is "
          "current, where CUDA_VISIBLE_DEVICES names one, or with one rank per GPU)"};
}

NicAdvice advise_nics(const Devices& devices, const GpuGuess& gpu, std::int32_t local_ranks) {
  const std::string left = "UCX chooses among all network devices: ";
  if (gpu.index < 0) return {{}, left + gpu.why};
  const Ports usable = candidates(devices);
  if (usable.empty()) return {{}, left + "no InfiniBand or RoCE port is up"};
  const auto index = static_cast<std::size_t>(gpu.index);
  const Ports fast = fast_ones(usable);
  Ports chosen = nearest(fast, index);
  const std::string where =
      fmt::format("{} GPU {} ({})", name_of(chosen[0]->to_gpu[index].nearness),
                  pci_text(devices.gpus[index].address), gpu.why);
  if (local_ranks >= static_cast<std::int32_t>(devices.gpus.size())) {
    chosen = share_out(chosen, fast, index, devices.gpus.size());
  }
  if (chosen.size() == usable.size()) {
    return {{}, fmt::format("{}{} are all there are, {}", left, list(chosen), where)};
  }
  NicAdvice advice;
  for (const Nic* port : chosen) advice.devices.push_back(port->name);
  advice.devices.insert(advice.devices.end(), devices.interfaces.begin(), devices.interfaces.end());
  advice.why = fmt::format("{}, {}", list(chosen), where);
  return advice;
}

}  // namespace gpuar
