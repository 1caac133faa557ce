// Which GPU a rank uses, and which network ports it should use with it. Pure functions of what was
// discovered.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "topo/devices.h"

namespace gpuar {

// What may tell, before MPI_Init has ended, which GPU a process is going to use.
struct GpuHints {
  std::uint64_t current = 0;           // PCI address of the device of the current CUDA context
  std::optional<std::string> visible;  // CUDA_VISIBLE_DEVICES
  std::int32_t local_rank = -1;        // among the job's processes of this host; -1: unknown
  std::int32_t local_ranks = -1;
};

struct GpuGuess {
  std::int32_t index = -1;  // of Devices::gpus; -1: cannot be told
  std::string why;          // "the program's current CUDA device"
};

// The GPU of this rank. A wrong guess costs speed, never a result, and where the hints could mean
// several GPUs there is none: "0" in CUDA_VISIBLE_DEVICES may be the first GPU of the host, or the
// only one that a container shows.
GpuGuess guess_gpu(const Devices& devices, const GpuHints& hints);

struct NicAdvice {
  // What UCX_NET_DEVICES should be; empty: UCX had better choose by itself.
  std::vector<std::string> devices;
  std::string why;  // for people: which ports and why, or in a sentence why none
};

// The ports that a rank with this GPU should use: of the InfiniBand and RoCE ports whose link is up
// and at least half as fast as the fastest, those that are nearest to the GPU. If the host has a
// rank for each GPU, GPUs with the same nearest ports share them out. Interfaces for TCP all stay,
// and none is ever left out for another: which of them reaches which peer is not known here, and a
// peer without InfiniBand is reached by TCP alone.
NicAdvice advise_nics(const Devices& devices, const GpuGuess& gpu, std::int32_t local_ranks);

}  // namespace gpuar
