#include "test/fuzz/kinds.h"

#include <utility>

#include "test/mpi/association.h"
#include "test/mpi/compose.h"
#include "test/mpi/layouts.h"
#include "test/mpi/predefined.h"

namespace fuzz {

Handles Handles::made(MPI_Op op, MPI_Datatype made_type, MPI_Datatype type) {
  Handles handles(op, made_type == MPI_DATATYPE_NULL ? type : made_type);
  handles.made_op_ = op;
  handles.made_type_ = made_type;
  return handles;
}

Handles::Handles(Handles&& other) noexcept {
  *this = std::move(other);
}

Handles& Handles::operator=(Handles&& other) noexcept {
  std::swap(op_, other.op_);
  std::swap(type_, other.type_);
  std::swap(made_op_, other.made_op_);
  std::swap(made_type_, other.made_type_);
  return *this;
}

void Handles::free() {
  if (made_op_ != MPI_OP_NULL) MPI_Op_free(&made_op_);
  if (made_type_ != MPI_DATATYPE_NULL) MPI_Type_free(&made_type_);
}

namespace {

constexpr std::size_t no_limit = ~std::size_t{0};

std::string name_of(const char* op, const char* type) {
  return std::string(op) + " of " + type;
}

template <class T>
void put(std::byte* base, std::size_t i, const T& value) {
  std::memcpy(base + i * sizeof(T), &value, sizeof value);
}

template <class T>
T get(const std::byte* base, std::size_t i) {
  T value;
  std::memcpy(&value, base + i * sizeof(T), sizeof value);
  return value;
}

// Elements of type T one after the other.
template <class T>
class Plain : public Kind {
 public:
  using Kind::Kind;
  [[nodiscard]] Extent extent(int /*self*/, std::size_t count) const override {
    return {0, count * sizeof(T)};
  }
};

// Elements that are drawn for each call.
template <class T>
class Drawn : public Plain<T> {
 public:
  using Plain<T>::Plain;
  void fill(std::byte* base, int self, const Sample& sample) const override {
    for (std::size_t i = 0; i < sample.count; ++i) put<T>(base, i, value(self, i, sample.salt));
  }
  [[nodiscard]] virtual T value(int rank, std::size_t i, std::uint64_t salt) const = 0;
};

// What each rank contributes, drawn once: drawing costs more than all else that a call does. The
// period is a prime, which no chunk or segment is a multiple of.
template <class T>
class Series {
 public:
  template <class Value>
  Series(int ranks, Value value) {
    values_.reserve(static_cast<std::size_t>(ranks) * period);
    for (int rank = 0; rank < ranks; ++rank) {
      for (std::size_t i = 0; i < period; ++i) {
        values_.push_back(static_cast<T>(value(rank, i)));
      }
    }
  }

  static std::size_t first(const Sample& sample) { return sample.salt % period; }
  static std::size_t next(std::size_t at) { return at + 1 == period ? 0 : at + 1; }
  [[nodiscard]] const T* of(int rank) const {
    return values_.data() + static_cast<std::size_t>(rank) * period;
  }

 private:
  static constexpr std::size_t period = 1021;
  std::vector<T> values_;
};

// One that predefined.h visits.
template <class T, class Combine, class Same>
class Predefined : public Plain<T> {
 public:
  Predefined(const mpitest::predefined::NamedType& type, const char* op_name, MPI_Op op,
             Series<T> series, Combine combine, Same same)
      : Plain<T>(name_of(op_name, type.name), sizeof(T), no_limit),
        op_(op),
        type_(type.handle),
        series_(std::move(series)),
        combine_(combine),
        same_(same) {}

  [[nodiscard]] Handles handles(int /*self*/) const override { return {op_, type_}; }
  void fill(std::byte* base, int self, const Sample& sample) const override {
    const T* mine = series_.of(self);
    std::size_t at = series_.first(sample);
    for (std::size_t i = 0; i < sample.count; ++i, at = series_.next(at)) put(base, i, mine[at]);
  }
  [[nodiscard]] long wrong(const std::byte* base, int /*self*/, std::span<const int> members,
                           const Sample& sample) const override {
    std::vector<const T*> of;
    for (const int rank : members) of.push_back(series_.of(rank));
    std::size_t at = series_.first(sample);
    for (std::size_t i = 0; i < sample.count; ++i, at = series_.next(at)) {
      T expected = of[0][at];
      for (std::size_t k = 1; k < of.size(); ++k) expected = combine_(expected, of[k][at]);
      if (!same_(get<T>(base, i), expected)) return static_cast<long>(i);
    }
    return -1;
  }

 private:
  MPI_Op op_;
  MPI_Datatype type_;
  Series<T> series_;
  Combine combine_;
  Same same_;
};

// Numbers that round: only one association gives these bits.
template <class T>
class Rounding : public Drawn<T> {
 public:
  Rounding(const char* op_name, MPI_Op op, const char* type_name, MPI_Datatype type)
      : Drawn<T>(name_of(op_name, type_name) + ", rounding", sizeof(T), 2000),
        op_(op),
        type_(type) {}
  [[nodiscard]] Handles handles(int /*self*/) const override { return {op_, type_}; }
  [[nodiscard]] T value(int rank, std::size_t i, std::uint64_t salt) const override {
    return mpitest::random_number<T>(salt, rank, i);
  }
  [[nodiscard]] long wrong(const std::byte* base, int /*self*/, std::span<const int> members,
                           const Sample& sample) const override {
    std::vector<T> values(members.size());
    for (std::size_t i = 0; i < sample.count; ++i) {
      for (std::size_t k = 0; k < members.size(); ++k) {
        values[k] = value(members[k], i, sample.salt);
      }
      const T expected = mpitest::associate(values, op_);
      if (mpitest::value_bytes(get<T>(base, i)) != mpitest::value_bytes(expected)) {
        return static_cast<long>(i);
      }
    }
    return -1;
  }

 private:
  MPI_Op op_;
  MPI_Datatype type_;
};

// A user's operation on a predefined type; it does not commute.
class Composition : public Drawn<std::uint32_t> {
 public:
  Composition() : Drawn("affine maps composed", sizeof(std::uint32_t), no_limit) {}
  [[nodiscard]] Handles handles(int /*self*/) const override {
    MPI_Op op = MPI_OP_NULL;
    MPI_Op_create(mpitest::compose, 0, &op);
    return Handles::made(op, MPI_DATATYPE_NULL, MPI_UINT32_T);
  }
  [[nodiscard]] std::uint32_t value(int rank, std::size_t i, std::uint64_t salt) const override {
    const auto bits = mpitest::mix(salt, static_cast<std::uint64_t>(rank), i);
    return static_cast<std::uint32_t>(bits) | 0x10000U;
  }
  [[nodiscard]] long wrong(const std::byte* base, int /*self*/, std::span<const int> members,
                           const Sample& sample) const override {
    for (std::size_t i = 0; i < sample.count; ++i) {
      std::uint32_t expected = value(members.back(), i, sample.salt);
      for (std::size_t k = members.size() - 1; k > 0; --k) {
        std::uint32_t left = value(members[k - 1], i, sample.salt);
        int one = 1;
        mpitest::compose(&left, &expected, &one, nullptr);
      }
      if (get<std::uint32_t>(base, i) != expected) return static_cast<long>(i);
    }
    return -1;
  }
};

// A user's operation on matrices of a derived type.
struct MatrixOperation {
  const char* name;
  int commutes;
  mpitest::layouts::Matrix (*combine)(const mpitest::layouts::Matrix&,
                                      const mpitest::layouts::Matrix&);
};
constexpr MatrixOperation product{"matrix product", 0, mpitest::layouts::multiply};
constexpr MatrixOperation sum{"matrix sum", 1, mpitest::layouts::add};

// MPI gives an operation no context: one function for each layout.
template <const MatrixOperation& operation, std::size_t layout>
void matrix_op(void* in, void* inout, int* count, MPI_Datatype* /*type*/) {
  mpitest::layouts::combine_elements(in, inout, *count, mpitest::layouts::all[layout],
                                     operation.combine);
}

constexpr std::size_t layout_count = std::size(mpitest::layouts::all);

template <const MatrixOperation& operation, std::size_t... layouts>
constexpr std::array<MPI_User_function*, layout_count> functions(
    std::index_sequence<layouts...> /*all*/) {
  return {matrix_op<operation, layouts>...};
}

enum class Layouts { same, another_on_each_rank };

template <const MatrixOperation& operation>
class Matrices : public Kind {
 public:
  Matrices(Layouts layouts, std::size_t first)
      : Kind(std::string(operation.name) + ", " + mpitest::layouts::all[first].name +
                 (layouts == Layouts::same ? "" : " on rank 0, others on others"),
             sizeof(mpitest::layouts::Matrix),
             layouts == Layouts::same ? mpitest::layouts::all[first].most : 12),
        layouts_(layouts),
        first_(first) {}

  [[nodiscard]] Handles handles(int self) const override {
    static constexpr auto table = functions<operation>(std::make_index_sequence<layout_count>{});
    MPI_Op op = MPI_OP_NULL;
    MPI_Op_create(table[index(self)], operation.commutes, &op);
    return Handles::made(op, mpitest::layouts::make_type(layout(self)), MPI_DATATYPE_NULL);
  }
  [[nodiscard]] Extent extent(int self, std::size_t count) const override {
    if (count == 0) return {};
    mpitest::layouts::LaidOut buffer(layout(self), count);
    return {buffer.bytes().data() - buffer.base(), buffer.bytes().size()};
  }
  void fill(std::byte* base, int self, const Sample& sample) const override {
    const auto& at = layout(self);
    for (std::size_t i = 0; i < sample.count; ++i) {
      store(base + at.extent * static_cast<MPI_Aint>(i), at,
            mpitest::layouts::value_of(sample.salt, self, i));
    }
  }
  // Gaps are compared too.
  [[nodiscard]] long wrong(const std::byte* base, int self, std::span<const int> members,
                           const Sample& sample) const override {
    if (sample.count == 0) return -1;
    mpitest::layouts::LaidOut expected(layout(self), sample.count);
    for (std::size_t i = 0; i < sample.count; ++i) {
      auto total = mpitest::layouts::value_of(sample.salt, members[0], i);
      for (const int rank : members.subspan(1)) {
        total = operation.combine(total, mpitest::layouts::value_of(sample.salt, rank, i));
      }
      store(expected.element(i), layout(self), total);
    }
    const std::byte* first = base + (expected.bytes().data() - expected.base());
    const auto& bytes = expected.bytes();
    const auto differs = std::mismatch(bytes.begin(), bytes.end(), first).first;
    if (differs == bytes.end()) return -1;
    return static_cast<long>((differs - bytes.begin()) / layout(self).extent);
  }

 private:
  [[nodiscard]] std::size_t index(int self) const {
    const std::size_t turn = layouts_ == Layouts::same ? 0 : static_cast<std::size_t>(self);
    return (first_ + turn) % layout_count;
  }
  [[nodiscard]] const mpitest::layouts::Layout& layout(int self) const {
    return mpitest::layouts::all[index(self)];
  }

  Layouts layouts_;
  std::size_t first_;
};

template <class T>
void add_rounding(std::vector<std::unique_ptr<Kind>>& kinds, const char* name, MPI_Datatype type) {
  kinds.push_back(std::make_unique<Rounding<T>>("MPI_SUM", MPI_SUM, name, type));
  kinds.push_back(std::make_unique<Rounding<T>>("MPI_PROD", MPI_PROD, name, type));
}

}  // namespace

std::vector<std::unique_ptr<Kind>> make_kinds(int ranks, Floats floats) {
  std::vector<std::unique_ptr<Kind>> kinds;
  mpitest::predefined::all([&](const mpitest::predefined::NamedType& type, const char* op_name,
                               MPI_Op op, auto value, auto combine, auto same) {
    if (!mpitest::predefined::exists(type.handle)) return;
    using T = decltype(combine(value(0, 0), value(0, 0)));
    using Made = Predefined<T, decltype(combine), decltype(same)>;
    kinds.push_back(
        std::make_unique<Made>(type, op_name, op, Series<T>(ranks, value), combine, same));
  });
  for (int times = 0; times < 6; ++times) kinds.push_back(std::make_unique<Composition>());
  for (std::size_t layout = 0; layout < layout_count; ++layout) {
    for (const Layouts layouts : {Layouts::same, Layouts::another_on_each_rank}) {
      kinds.push_back(std::make_unique<Matrices<product>>(layouts, layout));
      kinds.push_back(std::make_unique<Matrices<sum>>(layouts, layout));
    }
  }
  if (floats == Floats::rounding) {
    for (int times = 0; times < 6; ++times) {
      add_rounding<float>(kinds, "MPI_FLOAT", MPI_FLOAT);
      add_rounding<double>(kinds, "MPI_DOUBLE", MPI_DOUBLE);
      add_rounding<long double>(kinds, "MPI_LONG_DOUBLE", MPI_LONG_DOUBLE);
      add_rounding<std::complex<float>>(kinds, "MPI_C_FLOAT_COMPLEX", MPI_C_FLOAT_COMPLEX);
      add_rounding<std::complex<double>>(kinds, "MPI_C_DOUBLE_COMPLEX", MPI_C_DOUBLE_COMPLEX);
    }
  }
  return kinds;
}

}  // namespace fuzz
