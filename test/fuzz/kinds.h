// What a call can compute: each kind is an operation on a type, what the ranks contribute, and the
// result as a plain program computes it.
#pragma once

#include <mpi.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace fuzz {

// The bytes that the elements of a buffer span, relative to the address that MPI is given.
struct Extent {
  std::ptrdiff_t first = 0;
  std::size_t bytes = 0;
};

// The values of one call: `salt` tells them from those of any other.
struct Sample {
  std::uint64_t salt = 0;
  std::size_t count = 0;
};

// Operation and type of one call. Those of users are made for it, and freed with it or before.
class Handles {
 public:
  Handles() = default;
  Handles(MPI_Op op, MPI_Datatype type) : op_(op), type_(type) {}
  // To be freed: an operation, and a type unless it is null; then `type` is MPI's own.
  static Handles made(MPI_Op op, MPI_Datatype made_type, MPI_Datatype type);
  Handles(Handles&& other) noexcept;
  Handles& operator=(Handles&& other) noexcept;
  ~Handles() { free(); }

  [[nodiscard]] MPI_Op op() const { return op_; }
  [[nodiscard]] MPI_Datatype type() const { return type_; }
  void free();

 private:
  MPI_Op op_ = MPI_OP_NULL;
  MPI_Datatype type_ = MPI_DATATYPE_NULL;
  MPI_Op made_op_ = MPI_OP_NULL;
  MPI_Datatype made_type_ = MPI_DATATYPE_NULL;
};

// Ranks are those of MPI_COMM_WORLD. `base` is always the address that MPI is given.
class Kind {
 public:
  Kind(std::string name, std::size_t element_bytes, std::size_t most)
      : name_(std::move(name)), element_bytes_(element_bytes), most_(most) {}
  Kind(const Kind&) = delete;
  Kind& operator=(const Kind&) = delete;
  virtual ~Kind() = default;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::size_t element_bytes() const { return element_bytes_; }  // on the wire
  [[nodiscard]] std::size_t most() const { return most_; }                    // elements of a call

  [[nodiscard]] virtual Handles handles(int self) const = 0;
  [[nodiscard]] virtual Extent extent(int self, std::size_t count) const = 0;
  // Writes what this rank contributes.
  virtual void fill(std::byte* base, int self, const Sample& sample) const = 0;
  // The first element that is not what the members, in the order of their communicator, give
  // together; -1 if all are. Before the call every byte was `background`.
  [[nodiscard]] virtual long wrong(const std::byte* base, int self, std::span<const int> members,
                                   const Sample& sample) const = 0;

 private:
  std::string name_;
  std::size_t element_bytes_;
  std::size_t most_;
};

inline constexpr std::byte background{0x5A};

enum class Floats { exact, rounding };

// For so many ranks. `rounding` adds sums and products that only the one association of
// reproducible mode gives.
std::vector<std::unique_ptr<Kind>> make_kinds(int ranks, Floats floats);

}  // namespace fuzz
