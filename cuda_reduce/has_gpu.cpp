#include <unistd.h>

#include <algorithm>
#include <array>

#include "cuda_reduce/gpu.h"

namespace gpuar {

// The control devices of the driver on servers, of Tegra systems and of WSL.
bool machine_has_gpu() {
  constexpr std::array<const char*, 3> devices{"/dev/nvidiactl", "/dev/nvhost-ctrl", "/dev/dxg"};
  return std::any_of(devices.begin(), devices.end(),
                     [](const char* device) { return access(device, F_OK) == 0; });
}

}  // namespace gpuar
