// What the component tells gpuar's tools of this process: where it sits, what it has, by which
// transports it reaches others.
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>

#include "coll_gpuar/process.h"
#include "cuda_reduce/kernel_image.h"

namespace {

using nlohmann::json;

const char* name_of(gpuar::NicKind kind) {
  constexpr std::array<const char*, 3> names{"InfiniBand", "RoCE", "Ethernet"};
  return names[static_cast<std::size_t>(kind)];
}

json about(const gpuar::ProcessPlace& place) {
  return {{"package", place.package},
          {"numa", place.numa},
          {"core", place.core},
          {"threads", place.threads},
          {"host_threads", place.host_threads},
          {"l3", place.l3},
          {"gpu", place.gpu == 0 ? "" : gpuar::pci_text(place.gpu)}};
}

json about(const gpuar::Devices& devices) {
  json gpus = json::array();
  for (const gpuar::GpuDevice& gpu : devices.gpus) {
    gpus.push_back(
        {{"address", gpuar::pci_text(gpu.address)}, {"package", gpu.package}, {"numa", gpu.numa}});
  }
  json nics = json::array();
  for (const gpuar::Nic& nic : devices.nics) {
    nics.push_back({{"name", nic.name},
                    {"kind", name_of(nic.kind)},
                    {"usable", nic.usable},
                    {"gbit", static_cast<double>(nic.mbit) / 1e3}});
  }
  return {{"gpus", gpus}, {"nics", nics}, {"interfaces", devices.interfaces}};
}

json about(const gpuar_core& core) {
  const gpuar::UcxTransport& ucx = core.transport;
  json memory = {"host"};
  if (ucx.carries(gpuar::MemoryKind::device)) memory.push_back("device");
  if (ucx.carries(gpuar::MemoryKind::managed)) memory.push_back("managed");
  return {{"version", GPUAR_VERSION},
          {"ucx",
           {{"about", ucx.describe_library()},
            {"memory", memory},
            {"transports", ucx.transports()},
            {"net_devices", core.nics.devices},
            {"net_devices_used", ucx.uses_net_devices()},
            {"net_devices_why", core.nics.why}}},
          {"host", core.record.place.host},
          {"host_id", std::to_string(core.record.place.host_id)},
          {"place", about(core.record.place)},
          {"devices", about(gpuar::discover_devices())},
          {"gpudirect", gpuar::has_gpudirect_module()},
          {"kernels", gpuar::kernel::image() != nullptr},
          {"device_limit", core.live->device_limit},
          {"local_ranks", core.params.local_ranks},
          {"yield", core.yield}};
}

}  // namespace

extern "C" {

const char* gpuar_core_about(gpuar_core* core) {
  const CoreLock lock(*core);
  core->told = about(*core).dump(-1, ' ', false, json::error_handler_t::replace);
  return core->told.c_str();
}

const char* gpuar_comm_peers(gpuar_comm* comm) {
  gpuar_core& core = *comm->core;
  const CoreLock lock(core);
  json peers = json::array();
  for (void* const peer : comm->peers) {
    peers.push_back(
        peer ? gpuar::UcxTransport::describe(static_cast<gpuar::UcxTransport::Peer>(peer)) : "");
  }
  core.told = peers.dump();
  return core.told.c_str();
}

}  // extern "C"
