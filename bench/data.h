// The operations and types of the benchmark, and buffers whose result is known for every element.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bench/device_buffer.h"

namespace bench {

// Names for --type and --op, in the order that --help shows.
std::vector<std::string> type_names();
std::vector<std::string> op_names();

struct Mismatch {
  std::size_t element;
  std::string expected, found;
};

// One operation on one type with this rank's input and output for up to `max_bytes`, in one kind of
// memory.
class Data {
 public:
  virtual ~Data() = default;
  [[nodiscard]] virtual MPI_Datatype type() const = 0;
  [[nodiscard]] virtual MPI_Op op() const = 0;
  [[nodiscard]] virtual std::size_t element_bytes() const = 0;
  [[nodiscard]] virtual const Buffer& in() const = 0;
  [[nodiscard]] virtual Buffer& out() = 0;

  // Overwrites the output, so that a call that does nothing is found out.
  virtual void spoil(std::size_t count) = 0;
  // The first of `count` elements of the output that is not the reduction of all ranks' inputs.
  [[nodiscard]] virtual std::optional<Mismatch> first_mismatch(std::size_t count) = 0;
};

// Throws std::invalid_argument where MPI does not define the operation on the type.
void check_defined(const std::string& type, const std::string& op);

// Of one element.
std::size_t bytes_of(const std::string& type);

// For names that check_defined accepts. Kinds of memory other than the host's: see Buffer.
std::unique_ptr<Data> make_data(const std::string& type, const std::string& op, MemoryKind memory,
                                std::size_t max_bytes, int rank, int ranks);

}  // namespace bench
