// What gpuar in this process says of itself.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <string>
#include <vector>

#include "coll_gpuar/tools.h"

namespace bench {

class Gpuar {
 public:
  // After MPI_Init. Throws std::runtime_error, saying what to try, where gpuar is not loaded.
  Gpuar();

  [[nodiscard]] std::vector<std::string> algorithms() const;
  [[nodiscard]] std::vector<std::string> compositions() const;
  [[nodiscard]] std::string tuning_file() const { return tools_->tuning_file; }

  [[nodiscard]] std::string pml() const { return tools_->pml; }
  // As tools.h has them. `peers` throws std::runtime_error as `ask`.
  [[nodiscard]] std::string about() const { return tools_->about(); }
  [[nodiscard]] std::string peers(MPI_Comm comm) const;

  // What it chooses for a call of a predefined operation. Throws std::runtime_error where another
  // component serves the communicator.
  [[nodiscard]] gpuar_answer ask(MPI_Comm comm, std::size_t count, std::size_t element_bytes) const;

 private:
  const gpuar_tools* tools_ = nullptr;
};

}  // namespace bench
