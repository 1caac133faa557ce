#include "bench/data.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <stdexcept>
#include <string_view>
#include <type_traits>

namespace bench {
namespace {

// Inputs repeat after a prime number of elements: no segment or vector length divides it, so a
// piece that lands in the wrong place shows.
constexpr std::size_t period = 1009;

template <class T>
T input_value(std::string_view op, int rank, std::size_t element) {
  const std::size_t mixed = (element % period) * 31 + static_cast<std::size_t>(rank) * 7;
  // Small whole numbers: sums are exact in every type, in any order. Products are powers of two.
  if (op == "prod") return mixed % 13 == 0 ? T(2) : T(1);
  return static_cast<T>(1 + mixed % 11);
}

template <class T>
T combine(std::string_view op, T left, T right) {
  if (op == "prod") return static_cast<T>(left * right);
  if (op == "min") return std::min(left, right);
  if (op == "max") return std::max(left, right);
  if constexpr (std::is_integral_v<T>) {
    if (op == "band") return static_cast<T>(left & right);
    if (op == "bor") return static_cast<T>(left | right);
    if (op == "bxor") return static_cast<T>(left ^ right);
  }
  return static_cast<T>(left + right);
}

struct NamedOp {
  std::string_view name;
  MPI_Op op;
  bool integers_only;
};

std::array<NamedOp, 7> all_ops() {
  return {{{"sum", MPI_SUM, false},
           {"prod", MPI_PROD, false},
           {"min", MPI_MIN, false},
           {"max", MPI_MAX, false},
           {"band", MPI_BAND, true},
           {"bor", MPI_BOR, true},
           {"bxor", MPI_BXOR, true}}};
}

template <class T>
class TypedData final : public Data {
 public:
  TypedData(MPI_Datatype type, NamedOp op, MemoryKind memory, std::size_t max_bytes, int rank,
            int ranks)
      : type_(type),
        op_(op),
        in_(memory, max_bytes),
        out_(memory, max_bytes),
        piece_(std::min(piece_elements, max_bytes / sizeof(T))),
        expected_(std::min(period, piece_.size())) {
    for (std::size_t i = 0; i < piece_.size(); ++i) piece_[i] = input_value<T>(op.name, rank, i);
    for_pieces(max_bytes / sizeof(T), [&](std::size_t first, std::size_t count) {
      in_.write(first * sizeof(T), piece_.data(), count * sizeof(T));
    });
    for (std::size_t i = 0; i < expected_.size(); ++i) {
      expected_[i] = input_value<T>(op.name, 0, i);
      for (int r = 1; r < ranks; ++r) {
        expected_[i] = combine(op.name, expected_[i], input_value<T>(op.name, r, i));
      }
    }
  }

  MPI_Datatype type() const override { return type_; }
  MPI_Op op() const override { return op_.op; }
  std::size_t element_bytes() const override { return sizeof(T); }
  const Buffer& in() const override { return in_; }
  Buffer& out() override { return out_; }

  void spoil(std::size_t count) override {
    std::fill(piece_.begin(), piece_.end(), static_cast<T>(-1));
    for_pieces(count, [&](std::size_t first, std::size_t length) {
      out_.write(first * sizeof(T), piece_.data(), length * sizeof(T));
    });
  }

  std::optional<Mismatch> first_mismatch(std::size_t count) override {
    std::optional<Mismatch> mismatch;
    for_pieces(count, [&](std::size_t first, std::size_t length) {
      if (mismatch) return;
      out_.read(first * sizeof(T), piece_.data(), length * sizeof(T));
      mismatch = mismatch_in_piece(first, length);
    });
    return mismatch;
  }

 private:
  // Through host memory in pieces of whole periods: results may be larger than the host likes.
  static constexpr std::size_t piece_elements = period * 1024;

  template <class Body>
  static void for_pieces(std::size_t count, Body body) {
    for (std::size_t first = 0; first < count; first += piece_elements) {
      body(first, std::min(piece_elements, count - first));
    }
  }

  std::optional<Mismatch> mismatch_in_piece(std::size_t first, std::size_t length) const {
    for (std::size_t start = 0; start < length; start += period) {
      const std::size_t end = std::min(period, length - start);
      for (std::size_t i = 0; i < end; ++i) {
        const T found = piece_[start + i];
        if (found != expected_[i]) {
          return Mismatch{first + start + i, fmt::format("{}", expected_[i]),
                          fmt::format("{}", found)};
        }
      }
    }
    return std::nullopt;
  }

  MPI_Datatype type_;
  NamedOp op_;
  Buffer in_, out_;
  std::vector<T> piece_, expected_;
};

struct NamedType {
  std::string_view name;
  std::size_t bytes;
  bool integer;
  std::unique_ptr<Data> (*make)(NamedOp op, MemoryKind memory, std::size_t max_bytes, int rank,
                                int ranks);
};

// MPI_Datatype values are not compile-time constants in Open MPI: hence a function for each.
template <class T, class Mpi>
constexpr NamedType named(std::string_view name, Mpi) {
  return {name, sizeof(T), std::is_integral_v<T>,
          [](NamedOp op, MemoryKind memory, std::size_t max_bytes, int rank, int ranks) {
            return std::unique_ptr<Data>(
                std::make_unique<TypedData<T>>(Mpi{}(), op, memory, max_bytes, rank, ranks));
          }};
}

constexpr std::array all_types = {
    named<float>("float", [] { return MPI_FLOAT; }),
    named<double>("double", [] { return MPI_DOUBLE; }),
    named<std::int8_t>("int8", [] { return MPI_INT8_T; }),
    named<std::int16_t>("int16", [] { return MPI_INT16_T; }),
    named<std::int32_t>("int32", [] { return MPI_INT32_T; }),
    named<std::int64_t>("int64", [] { return MPI_INT64_T; }),
    named<std::uint8_t>("uint8", [] { return MPI_UINT8_T; }),
    named<std::uint64_t>("uint64", [] { return MPI_UINT64_T; }),
};

NamedOp find_op(const std::string& name) {
  for (const NamedOp& op : all_ops()) {
    if (op.name == name) return op;
  }
  throw std::invalid_argument(fmt::format("no operation {}", name));
}

const NamedType& find_type(const std::string& name) {
  for (const NamedType& type : all_types) {
    if (type.name == name) return type;
  }
  throw std::invalid_argument(fmt::format("no type {}", name));
}

}  // namespace

std::vector<std::string> type_names() {
  std::vector<std::string> names;
  names.reserve(std::size(all_types));
  for (const NamedType& type : all_types) names.emplace_back(type.name);
  return names;
}

std::vector<std::string> op_names() {
  std::vector<std::string> names;
  for (const NamedOp& op : all_ops()) names.emplace_back(op.name);
  return names;
}

void check_defined(const std::string& type, const std::string& op) {
  if (find_op(op).integers_only && !find_type(type).integer) {
    throw std::invalid_argument(fmt::format("MPI does not define {} on {}", op, type));
  }
}

std::size_t bytes_of(const std::string& type) {
  return find_type(type).bytes;
}

std::unique_ptr<Data> make_data(const std::string& type, const std::string& op, MemoryKind memory,
                                std::size_t max_bytes, int rank, int ranks) {
  return find_type(type).make(find_op(op), memory, max_bytes, rank, ranks);
}

}  // namespace bench
