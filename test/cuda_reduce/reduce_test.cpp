// The host reductions against an independent plain loop: every operation, type and instruction set.
#include "cuda_reduce/reduce.h"
#include "cuda_reduce/functors.h"

#include <array>
#include <bit>
#include <cmath>
#include <set>
#include <string>

#include "test/catch.h"
#include "test/cuda_reduce/isa.h"
#include "test/cuda_reduce/reference.h"

namespace {

using gpuar::HostIsa;

std::vector<gpuar_op> all_ops() {
  std::vector<gpuar_op> ops;
  ops.reserve(GPUAR_OP_COUNT);
  for (int op = 0; op < GPUAR_OP_COUNT; ++op) ops.push_back(static_cast<gpuar_op>(op));
  return ops;
}

enum class Alias { none, out_is_left, out_is_right, left_is_right, all_one };
constexpr Alias all_aliases[] = {Alias::none, Alias::out_is_left, Alias::out_is_right,
                                 Alias::left_is_right, Alias::all_one};

// Elements at any byte offset, between guard bytes.
template <class T>
class Buffer {
 public:
  Buffer(std::size_t offset, std::size_t count)
      : offset_(guard + offset), bytes_(offset_ + count * sizeof(T) + guard) {
    for (std::size_t i = 0; i < bytes_.size(); ++i) bytes_[i] = static_cast<unsigned char>(i * 37);
  }
  void* data() { return bytes_.data() + offset_; }
  [[nodiscard]] const std::vector<unsigned char>& bytes() const { return bytes_; }

  // Stores the members that count and leaves padding as it is.
  void set(std::size_t i, const T& element) {
    unsigned char* at = bytes_.data() + offset_ + i * sizeof(T);
    if constexpr (reference::PairLike<T>) {
      put(at + offsetof(T, value), element.value);
      put(at + offsetof(T, index), element.index);
    } else if constexpr (reference::is_complex<T>) {
      put(at, element.real());
      put(at + sizeof(T) / 2, element.imag());
    } else {
      put(at, element);
    }
  }

  // Any NaN equals any NaN where arithmetic made it: one payload for all.
  void unify_nans() {
    for (std::size_t at = offset_; at + guard < bytes_.size(); at += sizeof(T)) {
      if constexpr (reference::is_complex<T>) {
        unify<typename T::value_type>(at);
        unify<typename T::value_type>(at + sizeof(T) / 2);
      } else if constexpr (std::is_floating_point_v<T> || reference::is_narrow<T>) {
        unify<T>(at);
      }
    }
  }

 private:
  static constexpr std::size_t guard = 64;
  template <class Member>
  static void put(unsigned char* at, Member member) {
    std::memcpy(at, &member, reference::value_bytes<Member>());
  }
  template <class Real>
  void unify(std::size_t at) {
    Real number;
    std::memcpy(&number, bytes_.data() + at, sizeof number);
    if constexpr (reference::is_narrow<Real>) {
      if (std::isnan(number.value())) put(bytes_.data() + at, Real::nearest(std::nan("")));
    } else if (std::isnan(number))
      put(bytes_.data() + at, std::numeric_limits<Real>::quiet_NaN());
  }

  std::size_t offset_;
  std::vector<unsigned char> bytes_;
};

struct Shape {
  std::size_t count, out_offset, left_offset, right_offset;
  Alias alias;
};

// One call on chosen elements: the results, every byte around and between them, and the operands.
template <class T>
void check(gpuar_op op, gpuar_type type, const Shape& shape, const std::vector<T>& values,
           std::size_t first, std::size_t stride) {
  Buffer<T> left(shape.left_offset, shape.count), right(shape.right_offset, shape.count),
      out(shape.out_offset, shape.count);
  const bool same = shape.alias == Alias::left_is_right || shape.alias == Alias::all_one;
  Buffer<T>& second = same ? left : right;
  Buffer<T>& target = shape.alias == Alias::none || shape.alias == Alias::left_is_right ? out
                      : shape.alias == Alias::out_is_right                              ? right
                                                                                        : left;
  std::vector<T> results;
  for (std::size_t i = 0; i < shape.count; ++i) {
    const T& a = values[i % values.size()];
    const T& b = same ? a : values[(first + i * stride) % values.size()];
    left.set(i, a);
    right.set(i, b);
    results.push_back(reference::reduce(op, a, b));
  }
  Buffer<T> expected = target;
  for (std::size_t i = 0; i < shape.count; ++i) expected.set(i, results[i]);
  const auto left_before = left.bytes(), right_before = right.bytes();

  const gpuar::ReduceFn reduce = gpuar::host_reduce(op, type);
  REQUIRE(reduce != nullptr);
  reduce(target.data(), left.data(), second.data(), shape.count);

  if (op == GPUAR_SUM || op == GPUAR_PROD) {
    target.unify_nans();
    expected.unify_nans();
  }
  const bool right_bytes = target.bytes() == expected.bytes();
  const bool operands_kept = (&target == &left || left.bytes() == left_before) &&
                             (&target == &right || right.bytes() == right_before);
  if (right_bytes && operands_kept) return;  // capturing costs more than the reduction
  CAPTURE(shape.count, shape.out_offset, shape.left_offset, shape.right_offset,
          static_cast<int>(shape.alias), first, stride);
  INFO(gpuar::name_of(op) << " on " << gpuar::name_of(type));
  CHECK(right_bytes);
  CHECK(operands_kept);
}

template <class Body>
void for_each_defined(Body&& body) {
  reference::for_each_type([&]<class T>(gpuar_type type) {
    for (const gpuar_op op : all_ops())
      if (gpuar::host_reduce(op, type) != nullptr) body.template operator()<T>(op, type);
  });
}

}  // namespace

TEST_CASE("reductions exist for the pairs of operation and type that MPI defines, and no others",
          "[reduce]") {
  const auto defined = [](gpuar_op op, gpuar_type type) {
    const bool integer = type <= GPUAR_UINT64;
    const bool real = type >= GPUAR_FLOAT16 && type <= GPUAR_FLOAT128;
    const bool complex = type >= GPUAR_COMPLEX_FLOAT32 && type <= GPUAR_COMPLEX_FLOAT128;
    const bool logical = type == GPUAR_BOOL || (type >= GPUAR_LOGICAL8 && type <= GPUAR_LOGICAL64);
    const std::string name = gpuar::name_of(op);
    if (name == "sum" || name == "prod") return integer || real || complex;
    if (name == "min" || name == "max") return integer || real;
    if (name == "land" || name == "lor" || name == "lxor") return integer || logical;
    if (name == "band" || name == "bor" || name == "bxor") return integer || type == GPUAR_BYTE;
    return type >= GPUAR_FLOAT32_INT;  // minloc, maxloc
  };
  for_each_isa([&] {
    std::size_t found = 0;
    for (const gpuar_op op : all_ops()) {
      for (int i = 0; i < GPUAR_TYPE_COUNT; ++i) {
        const auto type = static_cast<gpuar_type>(i);
        INFO(gpuar::name_of(op) << " on " << gpuar::name_of(type));
        CHECK((gpuar::host_reduce(op, type) != nullptr) == defined(op, type));
        found += gpuar::host_reduce(op, type) != nullptr ? 1 : 0;
      }
    }
    CHECK(found == 8 * 10 + 6 * 4 + 4 * 2 + 5 * 3 + 3 + 8 * 2);
  });
}

// By itself: the standard library knows little of this type.
TEST_CASE("quadruple precision is not long double", "[reduce]") {
  using gpuar::Float128;
  const Float128 tiny = 0x1p-100;  // beside 1, lost in any other type
  const std::vector<Float128> left = {1, Float128(1.5), -2, 0};
  const std::vector<Float128> right = {tiny, 3, Float128(-2) + tiny, tiny};
  for_each_isa([&] {
    for (const gpuar_op op : {GPUAR_SUM, GPUAR_PROD, GPUAR_MIN, GPUAR_MAX}) {
      std::vector<Float128> out(left.size());
      gpuar::host_reduce(op, GPUAR_FLOAT128)(out.data(), left.data(), right.data(), out.size());
      for (std::size_t i = 0; i < out.size(); ++i) {
        const Float128 a = left[i];
        const Float128 b = right[i];
        const Float128 smaller = b < a ? b : a;
        const Float128 want = op == GPUAR_SUM    ? a + b
                              : op == GPUAR_PROD ? a * b
                              : op == GPUAR_MIN  ? smaller
                                                 : a + b - smaller;
        CHECK((out[i] == want));
      }
    }
    std::vector<Float128> sum(4);
    gpuar::host_reduce(GPUAR_SUM, GPUAR_COMPLEX_FLOAT128)(sum.data(), left.data(), right.data(), 2);
    for (std::size_t i = 0; i < 4; ++i) CHECK((sum[i] == left[i] + right[i]));
  });
}

TEST_CASE("every value meets every value", "[reduce]") {
  for_each_isa([] {
    for_each_defined([]<class T>(gpuar_op op, gpuar_type type) {
      const auto values = reference::values<T>();
      const std::size_t n = values.size();
      for (std::size_t shift = 0; shift < n; ++shift)
        check<T>(op, type, {n, 0, 0, 0, Alias::none}, values, shift, 1);
    });
  });
}

TEST_CASE("every count, alignment and aliasing", "[reduce]") {
  std::vector<std::size_t> counts{127, 128, 129, 255, 511, 1021, 4099};
  for (std::size_t count = 0; count <= 70; ++count) counts.push_back(count);
  for_each_isa([&] {
    for_each_defined([&]<class T>(gpuar_op op, gpuar_type type) {
      const auto values = reference::values<T>();
      for (const std::size_t count : counts) {
        for (const Alias alias : all_aliases) {
          const Shape shape{count, count * 5 % 64, count * 11 % 64, count * 3 % 64, alias};
          check<T>(op, type, shape, values, count, 7);
        }
      }
    });
  });
}

TEST_CASE("all instruction sets give the same bits on arbitrary input", "[reduce]") {
  for_each_defined([]<class T>(gpuar_op op, gpuar_type type) {
    constexpr std::size_t count = 3001;
    const auto values = reference::values<T>();
    std::mt19937_64 random(7);
    Buffer<T> left(1, count), right(2, count);
    for (std::size_t i = 0; i < count; ++i) {
      left.set(i, values[random() % values.size()]);
      right.set(i, values[random() % values.size()]);
    }
    std::vector<Buffer<T>> results;
    for_each_isa([&] {
      Buffer<T>& out = results.emplace_back(3, count);
      gpuar::host_reduce(op, type)(out.data(), left.data(), right.data(), count);
      out.unify_nans();
    });
    INFO(gpuar::name_of(op) << " on " << gpuar::name_of(type));
    for (const auto& result : results) REQUIRE((result.bytes() == results.front().bytes()));
  });
}

TEST_CASE("unsigned 64-bit minimum and maximum above 2^63", "[reduce]") {
  for_each_isa([] {
    const std::uint64_t small[] = {1, 0x7fffffffffffffff, 0, 5};
    const std::uint64_t large[] = {0x8000000000000001, 0x8000000000000000, 0xffffffffffffffff, 6};
    std::uint64_t out[4];
    gpuar::host_reduce(GPUAR_MIN, GPUAR_UINT64)(out, large, small, 4);
    CHECK(std::memcmp(out, small, sizeof out) == 0);
    gpuar::host_reduce(GPUAR_MAX, GPUAR_UINT64)(out, small, large, 4);
    CHECK(std::memcmp(out, large, sizeof out) == 0);
  });
}

TEST_CASE("minimum and maximum keep the right operand when neither is smaller", "[reduce]") {
  for_each_isa([] {
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const std::array left{nan, 1.0, -0.0, 0.0}, right{1.0, nan, 0.0, -0.0};
    using Bits = std::array<std::uint64_t, 4>;
    std::array<double, 4> out{};
    for (const gpuar_op op : {GPUAR_MIN, GPUAR_MAX}) {
      gpuar::host_reduce(op, GPUAR_FLOAT64)(out.data(), left.data(), right.data(), out.size());
      CHECK(std::bit_cast<Bits>(out) == std::bit_cast<Bits>(right));
    }
  });
}

TEST_CASE("logical operations take any nonzero value for true and give 0 or 1", "[reduce]") {
  for_each_isa([] {
    const std::uint8_t left[] = {0, 0, 2, 0x80}, right[] = {0, 4, 0, 0x7f};
    const std::pair<gpuar_op, std::vector<std::uint8_t>> cases[] = {
        {GPUAR_LAND, {0, 0, 0, 1}}, {GPUAR_LOR, {0, 1, 1, 1}}, {GPUAR_LXOR, {0, 1, 1, 0}}};
    for (const auto& [op, expected] : cases) {
      std::vector<std::uint8_t> out(4);
      gpuar::host_reduce(op, GPUAR_BOOL)(out.data(), left, right, 4);
      CHECK(out == expected);
    }
  });
}

TEST_CASE("names, sizes and the limit on the instruction set", "[reduce]") {
  std::set<std::string> names;
  reference::for_each_type([&]<class T>(gpuar_type type) {
    INFO(gpuar::name_of(type));
    CHECK(gpuar::element_bytes(type) == sizeof(T));
    CHECK(names.insert(gpuar::name_of(type)).second);
  });
  for (const gpuar_type type : {GPUAR_FLOAT128, GPUAR_COMPLEX_FLOAT128}) {
    CHECK(gpuar::element_bytes(type) == (type == GPUAR_FLOAT128 ? 16 : 32));
    CHECK(names.insert(gpuar::name_of(type)).second);
  }
  CHECK(names.size() == GPUAR_TYPE_COUNT);
  for (const gpuar_op op : all_ops()) CHECK(names.insert(gpuar::name_of(op)).second);

  const std::string widest = gpuar::host_isa();
  {
    const WithIsa limit(HostIsa::baseline);
    CHECK(limit.runs());
    CHECK(gpuar::host_isa() == std::string("baseline"));
  }
  CHECK(gpuar::host_isa() == widest);
}
