// The switches of the simulator, all from the environment, read once:
//
//   SIMGPU_DEVICES=N       GPUs in the machine (1); CUDA_VISIBLE_DEVICES chooses among them
//   SIMGPU_UUID_BASE=TEXT  tells the GPUs of one machine from another's
//   SIMGPU_MEM_MB=N        memory of each GPU (2048)
//   SIMGPU_SMS=N           multiprocessors of each (2): small grids, since threads run in turn
//   SIMGPU_DELAY_US=N      each operation of a stream first sleeps up to so long (0)
//   SIMGPU_SEED=N          seed of these delays (1)
//   SIMGPU_INLINE=1        operations run in the call where nothing is ahead of them
//   SIMGPU_POISON=BYTES    so much of a fresh allocation is filled with 0xCB (65536)
//   SIMGPU_IPC=0|open      memory handles of other processes are refused: all, or opening them
//   SIMGPU_PEER=0          the GPUs cannot access each other's memory
//   SIMGPU_STRICT=1|OBJECT abort at misuse and gaps, and fail at exit over objects that were left;
//                          with OBJECT: only what shared objects of such a name did
//   SIMGPU_FAIL=RULE,…     failures to inject (see failures.h)
//   SIMGPU_KERNELS=PATH:…  shared libraries of host kernels (libgpuar_simkernels.so beside this)
//   SIMGPU_PLACEHOLDER=1   a module's image may be a text that begins with "placeholder"
//   SIMGPU_REPORT=FILE     counters are appended there at exit; %p in the name is the process id
//   SIMGPU_TRACE=1         allocations and refusals on standard error
#pragma once
#include <cstddef>
#include <string>
#include <vector>

namespace simgpu {

enum class Ipc { kOffered, kOpenRefused, kRefused };
enum class Execution { kThreads, kInline };

struct Settings {
  std::vector<int> visible;  // physical numbers of the devices that this process sees
  int devices = 1;
  std::string uuid_base;
  size_t memory = 0;
  int multiprocessors = 0;
  unsigned delay_us = 0;
  unsigned seed = 0;
  size_t poison = 0;
  Execution execution = Execution::kThreads;
  Ipc ipc = Ipc::kOffered;
  bool peers = true;
  bool strict = false;
  std::string strict_object;  // empty: all
  std::string kernels;
  bool placeholder = false;
  std::string report;
  bool trace = false;
};

const Settings& settings();

}  // namespace simgpu
