#include "bench/device_limit.h"

#include <mpi.h>

#include <stdexcept>

namespace bench {

DeviceLimit::DeviceLimit() {
  int provided = 0, index = 0, count = 0;
  MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
  if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS ||
      MPI_T_cvar_get_index("coll_gpuar_device_limit", &index) != MPI_SUCCESS ||
      MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) != MPI_SUCCESS ||
      MPI_T_cvar_read(handle, &before_) != MPI_SUCCESS) {
    throw std::runtime_error("MPI_T does not show coll_gpuar_device_limit");
  }
  handle_ = handle;
}

DeviceLimit::~DeviceLimit() {
  auto* handle = static_cast<MPI_T_cvar_handle>(handle_);
  MPI_T_cvar_write(handle, &before_);
  MPI_T_cvar_handle_free(&handle);
  MPI_T_finalize();
}

void DeviceLimit::set(std::size_t bytes) {
  if (MPI_T_cvar_write(static_cast<MPI_T_cvar_handle>(handle_), &bytes) != MPI_SUCCESS) {
    throw std::runtime_error("coll_gpuar_device_limit cannot be written");
  }
}

}  // namespace bench
