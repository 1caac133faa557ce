// The parameter that says up to which size a call on device memory goes through the host.
#pragma once

#include <cstddef>

namespace bench {

// coll_gpuar_device_limit, written through MPI_T for as long as this lives.
class DeviceLimit {
 public:
  // Throws std::runtime_error where there is no such variable.
  DeviceLimit();
  ~DeviceLimit();
  DeviceLimit(const DeviceLimit&) = delete;
  DeviceLimit& operator=(const DeviceLimit&) = delete;

  void set(std::size_t bytes);

 private:
  void* handle_ = nullptr;  // MPI_T_cvar_handle
  std::size_t before_ = 0;
};

}  // namespace bench
