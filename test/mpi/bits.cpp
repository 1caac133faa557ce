// The bits of floating point results: the same on every rank, the same at every call, and, in
// reproducible mode, those of one documented association.
#include <algorithm>
#include <cstdio>

#include "association.h"

using namespace mpitest;

namespace {

struct Kind {
  const char* type_name;
  MPI_Datatype type;
  const char* op_name;
  MPI_Op op;
};

// Calls body<T>(case, kind) for every floating point type with MPI_SUM and MPI_PROD.
template <class Body>
void for_every_kind(Body body) {
  const auto both_ops = [&](auto tag, const char* name, MPI_Datatype type) {
    body(tag, Kind{name, type, "MPI_SUM", MPI_SUM});
    body(tag, Kind{name, type, "MPI_PROD", MPI_PROD});
  };
  both_ops(float{}, "MPI_FLOAT", MPI_FLOAT);
  both_ops(double{}, "MPI_DOUBLE", MPI_DOUBLE);
  both_ops(0.0L, "MPI_LONG_DOUBLE", MPI_LONG_DOUBLE);
  both_ops(std::complex<float>{}, "MPI_C_FLOAT_COMPLEX", MPI_C_FLOAT_COMPLEX);
  both_ops(std::complex<double>{}, "MPI_C_DOUBLE_COMPLEX", MPI_C_DOUBLE_COMPLEX);
  both_ops(std::complex<long double>{}, "MPI_C_LONG_DOUBLE_COMPLEX", MPI_C_LONG_DOUBLE_COMPLEX);
}

// The counts of elements, up to the option `most`.
std::span<const std::size_t> counts() {
  static constexpr std::size_t all[] = {1, 7, 64, 1000, 9973, 70000};
  const auto most = static_cast<std::size_t>(option("most", 70000));
  return {all, static_cast<std::size_t>(std::upper_bound(all, std::end(all), most) - all)};
}

// This rank's numbers: the first `count` of a series drawn once.
template <class T>
std::vector<T> contribution(const Case& c, std::size_t count) {
  static const std::vector<T> series = [&] {
    std::vector<T> values(counts().back());
    for (std::size_t i = 0; i < values.size(); ++i) {
      values[i] = random_number<T>(c.seed, c.rank, i);
    }
    return values;
  }();
  return {series.begin(), series.begin() + static_cast<std::ptrdiff_t>(count)};
}

template <class T>
std::vector<T> result(const Case& c, const Kind& kind, Form form, Place place, std::size_t count) {
  const std::vector<T> in = contribution<T>(c, count);
  std::vector<T> out = place == Place::in_place ? in : std::vector<T>(count);
  const void* from = place == Place::in_place ? MPI_IN_PLACE : in.data();
  allreduce(form, from, out.data(), count, kind.type, kind.op, c.comm);
  return out;
}

// Every other rank sends its bytes to rank 0, which compares them with its own.
void compare_with_rank_0(Case& c, const std::string& bytes, const std::string& what) {
  const int length = static_cast<int>(bytes.size());
  if (c.rank != 0) {
    MPI_Send(bytes.data(), length, MPI_BYTE, 0, 11, c.comm);
    return;
  }
  std::string theirs(bytes.size(), '\0');
  for (int rank = 1; rank < c.size; ++rank) {
    MPI_Recv(theirs.data(), length, MPI_BYTE, rank, 11, c.comm, MPI_STATUS_IGNORE);
    c.expect(theirs == bytes, what, ": rank ", rank, " has other bits than rank 0");
  }
}

std::string label(const Kind& kind, Form form, std::size_t count) {
  std::ostringstream text;
  text << kind.op_name << " of " << kind.type_name << ", " << name_of(form) << ", count " << count;
  return text.str();
}

void equal_on_every_rank(Case& c) {
  for_every_kind([&](auto tag, const Kind& kind) {
    using T = decltype(tag);
    for (const std::size_t count : counts()) {
      for (const Form form : all_forms) {
        const Place place = count % 2 == 0 ? Place::apart : Place::in_place;
        compare_with_rank_0(c, value_bytes(result<T>(c, kind, form, place, count)),
                            label(kind, form, count));
      }
    }
  });
}

// The same call twenty times, with ranks that come late by random times.
void equal_at_every_call(Case& c) {
  for (const std::size_t count : {counts()[1], counts()[3], counts().back()}) {
    for (const Form form : all_forms) {
      const Kind kind{"MPI_FLOAT", MPI_FLOAT, "MPI_SUM", MPI_SUM};
      std::string first;
      for (std::uint64_t call = 0; call < 20; ++call) {
        const std::uint64_t bits = mix(c.seed, static_cast<std::uint64_t>(c.rank), call);
        if (bits % 3 == 0) sleep_seconds(static_cast<double>(bits % 2000) * 1e-6);
        const std::string bytes = value_bytes(result<float>(c, kind, form, Place::apart, count));
        if (call == 0) first = bytes;
        c.expect(bytes == first, label(kind, form, count), ": other bits at call ", call);
      }
    }
  }
}

// In reproducible mode alone: runs only by name.
void documented_association(Case& c) {
  for_every_kind([&](auto tag, const Kind& kind) {
    using T = decltype(tag);
    for (const std::size_t count : counts()) {
      std::vector<T> expected(count);
      for (std::size_t i = 0; i < count; ++i) {
        std::vector<T> ranks;
        ranks.reserve(static_cast<std::size_t>(c.size));
        for (int rank = 0; rank < c.size; ++rank) {
          ranks.push_back(random_number<T>(c.seed, rank, i));
        }
        expected[i] = associate(ranks, kind.op);
      }
      for (const Form form : all_forms) {
        for (const Place place : both_places) {
          const std::vector<T> got = result<T>(c, kind, form, place, count);
          c.expect(value_bytes(got) == value_bytes(expected), label(kind, form, count), ", ",
                   name_of(place), ": reduced in another order");
        }
      }
    }
  });
}

// Prints `DIGEST op type form count hash`: a lane compares algorithms and placements.
void digest(Case& c) {
  for_every_kind([&](auto tag, const Kind& kind) {
    using T = decltype(tag);
    for (const std::size_t count : counts()) {
      for (const Form form : all_forms) {
        const std::string bytes = value_bytes(result<T>(c, kind, form, Place::apart, count));
        std::uint64_t hash = 0;
        for (const char byte : bytes) hash = mix(hash + static_cast<unsigned char>(byte));
        compare_with_rank_0(c, bytes, label(kind, form, count));
        if (c.rank == 0) {
          std::printf("DIGEST %s %s %s %zu %016llx\n", kind.op_name, kind.type_name, name_of(form),
                      count, static_cast<unsigned long long>(hash));
        }
      }
    }
  });
}

constexpr Entry cases[] = {
    {"equal_on_every_rank", equal_on_every_rank},
    {"equal_at_every_call", equal_at_every_call},
    {"documented_association", documented_association, When::by_name},
    {"digest", digest, When::by_name},
};

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv, cases);
}
