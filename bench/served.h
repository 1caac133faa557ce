// Who served the calls: gpuar counts what it serves in MPI_T performance variables.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace bench {

class ServedCounter {
 public:
  ServedCounter();
  ~ServedCounter();
  ServedCounter(const ServedCounter&) = delete;
  ServedCounter& operator=(const ServedCounter&) = delete;

  // Allreduce calls that gpuar has served in this process so far; 0 where it is not loaded.
  [[nodiscard]] std::uint64_t calls() const;

 private:
  MPI_T_pvar_session session_ = MPI_T_PVAR_SESSION_NULL;
  std::vector<MPI_T_pvar_handle> handles_;
};

}  // namespace bench
