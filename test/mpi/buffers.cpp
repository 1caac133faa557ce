// Buffers and counts: in place and apart, every small count, counts around powers of two, counts
// of zero, fewer elements than ranks, odd alignment, read-only send buffers.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <set>

#include "harness.h"

using namespace mpitest;

namespace {

// A sum over all ranks that wraps as unsigned integers do. The values of a call are fixed random
// ones plus a salt that changes with every call, so that a result left from an earlier call is
// noticed; the expected total needs no communication.
template <class T>
class WrappingSum {
 public:
  WrappingSum(Case& c, MPI_Datatype type, std::size_t most)
      : case_(c), type_(type), mine_(most), total_(most) {
    for (int rank = 0; rank < c.size; ++rank) {
      for (std::size_t i = 0; i < most; ++i) {
        const T value = static_cast<T>(mix(c.seed, static_cast<std::uint64_t>(rank), i));
        if (rank == c.rank) mine_[i] = value;
        total_[i] = static_cast<T>(total_[i] + value);
      }
    }
  }

  void check(Form form, Place place, std::size_t count, std::size_t shift = 0) {
    const T salt = static_cast<T>(mix(++calls_));
    Guarded in(count * sizeof(T), shift);
    Guarded out(count * sizeof(T), shift);
    fill(in, count, salt);
    if (place == Place::in_place) fill(out, count, salt);
    const void* from = place == Place::in_place ? MPI_IN_PLACE : in.data();
    const int rc = allreduce(form, from, out.data(), count, type_, MPI_SUM, case_.comm);
    const auto where = [&](const auto& what) {
      std::ostringstream text;
      text << what << ", " << name_of(form) << ", " << name_of(place) << ", count " << count
           << ", shift " << shift << ", " << sizeof(T) << "-byte elements";
      return text.str();
    };
    case_.expect(rc == MPI_SUCCESS, where("error returned"));
    const T total_salt = static_cast<T>(salt * static_cast<T>(case_.size));
    for (std::size_t i = 0; i < count; ++i) {
      const T got = load(out, i);
      if (got == static_cast<T>(total_[i] + total_salt)) continue;
      case_.expect(false, where("wrong element " + std::to_string(i)));
      break;
    }
    for (std::size_t i = 0; i < count; ++i) {
      if (load(in, i) == static_cast<T>(mine_[i] + salt)) continue;
      case_.expect(false, where("send buffer changed at " + std::to_string(i)));
      break;
    }
    case_.expect(in.damage() == Guarded::intact, where("wrote beside the send buffer"));
    case_.expect(out.damage() == Guarded::intact,
                 where("wrote beside the receive buffer at byte " + std::to_string(out.damage())));
  }

  void check_all(std::size_t count, std::size_t shift = 0) {
    for (const Form form : all_forms) {
      for (const Place place : both_places) check(form, place, count, shift);
    }
  }

 private:
  void fill(Guarded& buffer, std::size_t count, T salt) {
    for (std::size_t i = 0; i < count; ++i) {
      const T value = static_cast<T>(mine_[i] + salt);
      std::memcpy(buffer.data() + i * sizeof(T), &value, sizeof value);
    }
  }
  static T load(Guarded& buffer, std::size_t i) {
    T value;
    std::memcpy(&value, buffer.data() + i * sizeof(T), sizeof value);
    return value;
  }

  Case& case_;
  MPI_Datatype type_;
  std::vector<T> mine_;
  std::vector<T> total_;
  std::uint64_t calls_ = 0;
};

void every_count(Case& c) {
  const auto last = static_cast<std::size_t>(option("counts", 3000));
  WrappingSum<std::uint32_t> sum(c, MPI_UINT32_T, last);
  for (std::size_t count = 1; count <= last && !c.failed(); ++count) sum.check_all(count);
}

void every_count_of_bytes(Case& c) {
  const std::size_t last = 600;
  WrappingSum<std::uint8_t> sum(c, MPI_UINT8_T, last);
  for (std::size_t count = 1; count <= last && !c.failed(); ++count) sum.check_all(count);
}

void around_powers_of_two(Case& c) {
  const auto last_power = static_cast<std::size_t>(option("power", 20));
  WrappingSum<std::uint32_t> sum(c, MPI_UINT32_T, (std::size_t{1} << last_power) + 1);
  for (std::size_t power = 10; power <= last_power && !c.failed(); ++power) {
    const std::size_t middle = std::size_t{1} << power;
    for (const std::size_t count : {middle - 1, middle, middle + 1}) sum.check_all(count);
  }
}

void around_powers_of_two_of_bytes(Case& c) {
  const std::size_t last_power = 21;
  WrappingSum<std::uint8_t> sum(c, MPI_UINT8_T, (std::size_t{1} << last_power) + 1);
  for (std::size_t power = 10; power <= last_power && !c.failed(); ++power) {
    const std::size_t middle = std::size_t{1} << power;
    for (const std::size_t count : {middle - 1, middle, middle + 1}) sum.check_all(count);
  }
}

// Where a message takes another way: what a letter holds, a short and a long segment, a fragment,
// and what is eager over TCP. A message is the vector, a half of it, or a rank's part.
void around_thresholds(Case& c) {
  constexpr std::size_t kib = 1024;
  constexpr std::array<std::size_t, 5> thresholds{4 * kib, 30 * kib, 60 * kib, 62 * kib, 256 * kib};
  const auto ranks = static_cast<std::size_t>(c.size);
  const std::size_t most_parts = std::max<std::size_t>(ranks, 2);
  WrappingSum<std::uint8_t> bytes(c, MPI_UINT8_T, thresholds.back() * most_parts + 1);
  WrappingSum<std::uint64_t> longs(c, MPI_UINT64_T, thresholds.back() * most_parts / 8 + 1);
  for (const std::size_t threshold : thresholds) {
    for (const std::size_t parts : std::set<std::size_t>{1, 2, ranks}) {
      const std::size_t middle = threshold * parts;
      for (const std::size_t count : {middle - 1, middle, middle + 1}) bytes.check_all(count);
      for (const std::size_t count : {middle / 8 - 1, middle / 8, middle / 8 + 1})
        longs.check_all(count);
    }
  }
}

void fewer_elements_than_ranks(Case& c) {
  const std::size_t most = 2 * static_cast<std::size_t>(c.size) + 1;
  WrappingSum<std::uint64_t> sum(c, MPI_UINT64_T, most);
  for (std::size_t count = 0; count <= most; ++count) sum.check_all(count);
}

void hundred_chars(Case& c) {
  WrappingSum<std::uint8_t> sum(c, MPI_CHAR, 100);
  sum.check_all(100);
}

void odd_alignment(Case& c) {
  const std::size_t most = 5000;
  WrappingSum<std::uint16_t> shorts(c, MPI_UINT16_T, most);
  WrappingSum<std::uint32_t> ints(c, MPI_UINT32_T, most);
  WrappingSum<std::uint64_t> longs(c, MPI_UINT64_T, most);
  for (const std::size_t count : {1, 3, 17, 255, 4999}) {
    for (std::size_t shift = 1; shift < 16; ++shift) {
      shorts.check_all(count, shift);
      ints.check_all(count, shift);
      longs.check_all(count, shift);
    }
  }
}

void zero_count(Case& c) {
  std::uint64_t witness = 42;
  for (const Form form : all_forms) {
    for (int round = 0; round < 3; ++round) {
      int rc = allreduce(form, nullptr, nullptr, 0, MPI_INT, MPI_SUM, c.comm);
      c.expect(rc == MPI_SUCCESS, name_of(form), " with NULL buffers: error ", rc);
      rc = allreduce(form, MPI_IN_PLACE, nullptr, 0, MPI_DOUBLE, MPI_MAX, c.comm);
      c.expect(rc == MPI_SUCCESS, name_of(form), " in place with NULL: error ", rc);
      rc = allreduce(form, &witness, &witness + 1, 0, MPI_UINT64_T, MPI_SUM, c.comm);
      c.expect(rc == MPI_SUCCESS && witness == 42, name_of(form), " of nothing touched a buffer");
    }
  }
  WrappingSum<std::uint32_t> sum(c, MPI_UINT32_T, 9);
  sum.check_all(9);
}

void touch_nothing(void* /*in*/, void* /*inout*/, int* /*count*/, MPI_Datatype* /*type*/) {}

void zero_size_type(Case& c) {
  MPI_Datatype nothing = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(0, MPI_INT, &nothing);
  MPI_Type_commit(&nothing);
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(touch_nothing, 1, &op);
  for (const Form form : all_forms) {
    for (const std::size_t count : {1, 5}) {
      for (const Place place : both_places) {
        Guarded in(16);
        Guarded out(16);
        const void* from = place == Place::in_place ? MPI_IN_PLACE : in.data();
        const int rc = allreduce(form, from, out.data(), count, nothing, op, c.comm);
        const bool untouched = std::all_of(out.data(), out.data() + 16,
                                           [](std::byte b) { return b == std::byte{0xA5}; });
        c.expect(rc == MPI_SUCCESS && untouched && out.damage() == Guarded::intact, name_of(form),
                 ", ", name_of(place), ", ", count, " elements of no size: error ", rc,
                 untouched ? "" : ", wrote something");
      }
    }
  }
  MPI_Op_free(&op);
  MPI_Type_free(&nothing);
}

// A write into the send buffer, even one that is undone again, ends this program.
void read_only_send_buffer(Case& c) {
  const std::size_t bytes = std::size_t{1} << 20;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (!c.expect(memory != MAP_FAILED, "no memory")) return;
  auto* values = static_cast<std::int64_t*>(memory);
  const std::size_t most = bytes / sizeof(std::int64_t);
  for (std::size_t i = 0; i < most; ++i) {
    values[i] = static_cast<std::int64_t>(i) * (c.rank + 1);
  }
  mprotect(memory, bytes, PROT_READ);
  const std::int64_t weight = std::int64_t{c.size} * (c.size + 1) / 2;
  std::vector<std::int64_t> out(most);
  for (const Form form : all_forms) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{100}, std::size_t{5000}, most}) {
      std::fill(out.begin(), out.end(), -1);
      allreduce(form, values, out.data(), count, MPI_INT64_T, MPI_SUM, c.comm);
      for (std::size_t i = 0; i < count; ++i) {
        if (!c.expect(out[i] == static_cast<std::int64_t>(i) * weight, name_of(form), ", count ",
                      count, ", wrong element ", i)) {
          break;
        }
      }
    }
  }
  munmap(memory, bytes);
}

constexpr Entry cases[] = {
    {"every_count", every_count},
    {"every_count_of_bytes", every_count_of_bytes},
    {"around_powers_of_two", around_powers_of_two},
    {"around_powers_of_two_of_bytes", around_powers_of_two_of_bytes},
    {"around_thresholds", around_thresholds},
    {"fewer_elements_than_ranks", fewer_elements_than_ranks},
    {"hundred_chars", hundred_chars},
    {"odd_alignment", odd_alignment},
    {"zero_count", zero_count},
    {"zero_size_type", zero_size_type},
    {"read_only_send_buffer", read_only_send_buffer},
};

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv, cases);
}
