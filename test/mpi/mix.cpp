// A little of everything in a short time: calls of all forms, of several types and operations, in
// place and apart, short and long, under way at once. For lanes that run it in many set-ups.
#include <memory>

#include "harness.h"

using namespace mpitest;

namespace {

// One allreduce with values of its own. Requests of the persistent form are started twice.
class Job {
 public:
  Job(std::size_t count, MPI_Datatype type, MPI_Op op) : count_(count), type_(type), op_(op) {}
  virtual ~Job() = default;
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Fills the input; in place also the output, from which it is read then.
  virtual void fill(int rank, std::uint64_t salt) = 0;
  // Index of the first wrong element, or -1.
  [[nodiscard]] virtual long wrong(int ranks, std::uint64_t salt) const = 0;
  virtual const void* in() = 0;
  virtual void* out() = 0;

  void post(Form form, Place place, MPI_Comm comm, MPI_Request* request) {
    const void* from = place == Place::in_place ? MPI_IN_PLACE : in();
    if (form == Form::blocking) {
      MPI_Allreduce(from, out(), static_cast<int>(count_), type_, op_, comm);
    } else {
      start_allreduce(form, from, out(), count_, type_, op_, comm, request);
    }
  }
  [[nodiscard]] std::size_t count() const { return count_; }

 protected:
  std::size_t count_;

 private:
  MPI_Datatype type_;
  MPI_Op op_;
};

std::uint64_t value(int rank, std::size_t i, std::uint64_t salt) {
  return mix(static_cast<std::uint64_t>(rank), i, salt) % 1000;
}

// Small integers: every sum is exact, in any order.
template <class T>
class Sum : public Job {
 public:
  Sum(std::size_t count, MPI_Datatype type) : Job(count, type, MPI_SUM), in_(count), out_(count) {}
  void fill(int rank, std::uint64_t salt) override {
    for (std::size_t i = 0; i < count_; ++i) in_[i] = static_cast<T>(value(rank, i, salt));
    out_ = in_;
  }
  [[nodiscard]] long wrong(int ranks, std::uint64_t salt) const override {
    for (std::size_t i = 0; i < count_; ++i) {
      std::uint64_t sum = 0;
      for (int rank = 0; rank < ranks; ++rank) sum += value(rank, i, salt);
      if (out_[i] != static_cast<T>(sum)) return static_cast<long>(i);
    }
    return -1;
  }
  const void* in() override { return in_.data(); }
  void* out() override { return out_.data(); }

 private:
  std::vector<T> in_;
  std::vector<T> out_;
};

struct Located {
  double value;
  int where;
};

class Lowest : public Job {
 public:
  explicit Lowest(std::size_t count)
      : Job(count, MPI_DOUBLE_INT, MPI_MINLOC), in_(count), out_(count) {}
  void fill(int rank, std::uint64_t salt) override {
    for (std::size_t i = 0; i < count_; ++i) {
      in_[i] = {static_cast<double>(value(rank, i, salt) % 4), rank};
    }
    out_ = in_;
  }
  [[nodiscard]] long wrong(int ranks, std::uint64_t salt) const override {
    for (std::size_t i = 0; i < count_; ++i) {
      int where = 0;
      for (int rank = 1; rank < ranks; ++rank) {
        if (value(rank, i, salt) % 4 < value(where, i, salt) % 4) where = rank;
      }
      if (out_[i].where != where) return static_cast<long>(i);
    }
    return -1;
  }
  const void* in() override { return in_.data(); }
  void* out() override { return out_.data(); }

 private:
  std::vector<Located> in_;
  std::vector<Located> out_;
};

// x -> slope * x + offset, with a gap between the two: composition does not commute.
struct Affine {
  std::uint32_t slope;
  std::uint32_t gap;
  std::uint32_t offset;
};
constexpr std::uint32_t in_the_gap = 0xfeedbeef;

Affine then(const Affine& first, const Affine& second) {
  return {first.slope * second.slope, in_the_gap, first.offset * second.slope + second.offset};
}

void compose(void* left, void* right, int* count, MPI_Datatype* /*type*/) {
  const auto* a = static_cast<const Affine*>(left);
  auto* b = static_cast<Affine*>(right);
  for (int i = 0; i < *count; ++i) {
    const Affine both = then(a[i], b[i]);
    b[i].slope = both.slope;
    b[i].offset = both.offset;
  }
}

class Composed : public Job {
 public:
  Composed(std::size_t count, MPI_Datatype type, MPI_Op op)
      : Job(count, type, op), in_(count), out_(count) {}
  void fill(int rank, std::uint64_t salt) override {
    for (std::size_t i = 0; i < count_; ++i) in_[i] = map(rank, i, salt);
    out_ = in_;
  }
  [[nodiscard]] long wrong(int ranks, std::uint64_t salt) const override {
    for (std::size_t i = 0; i < count_; ++i) {
      Affine all = map(0, i, salt);
      for (int rank = 1; rank < ranks; ++rank) all = then(all, map(rank, i, salt));
      const Affine& got = out_[i];
      if (got.slope != all.slope || got.gap != in_the_gap || got.offset != all.offset) {
        return static_cast<long>(i);
      }
    }
    return -1;
  }
  const void* in() override { return in_.data(); }
  void* out() override { return out_.data(); }

 private:
  static Affine map(int rank, std::size_t i, std::uint64_t salt) {
    const auto of = static_cast<std::uint32_t>(value(rank, i, salt));
    return {2 * of + 1, in_the_gap, of * of};
  }
  std::vector<Affine> in_;
  std::vector<Affine> out_;
};

// The operation and the type of Composed.
class AffineMaps {
 public:
  AffineMaps() {
    MPI_Op_create(compose, 0, &op);
    MPI_Type_vector(2, 1, 2, MPI_UINT32_T, &type);
    MPI_Type_commit(&type);
  }
  ~AffineMaps() {
    MPI_Type_free(&type);
    MPI_Op_free(&op);
  }
  AffineMaps(const AffineMaps&) = delete;
  AffineMaps& operator=(const AffineMaps&) = delete;
  MPI_Op op = MPI_OP_NULL;
  MPI_Datatype type = MPI_DATATYPE_NULL;
};

std::unique_ptr<Job> make_job(std::size_t i, std::size_t count, const AffineMaps& maps) {
  switch (i % 5) {
    case 0:
      return std::make_unique<Sum<float>>(count, MPI_FLOAT);
    case 1:
      return std::make_unique<Sum<std::int32_t>>(count, MPI_INT32_T);
    case 2:
      return std::make_unique<Lowest>(count);
    case 3:
      return std::make_unique<Sum<double>>(count, MPI_DOUBLE);
    default:
      return std::make_unique<Composed>(std::min<std::size_t>(count, 40), maps.type, maps.op);
  }
}

void round_of(Case& c, std::uint64_t round, std::span<const std::size_t> counts) {
  const AffineMaps maps;
  const auto jobs_at_once = static_cast<std::size_t>(option("calls", 18));
  std::vector<std::unique_ptr<Job>> jobs;
  std::vector<MPI_Request> requests(jobs_at_once, MPI_REQUEST_NULL);
  const auto form_of = [&](std::size_t i) { return all_forms[(i + round) % all_forms.size()]; };
  const auto check = [&](std::size_t i, std::uint64_t salt) {
    const long wrong = jobs[i]->wrong(c.size, salt);
    c.expect(wrong < 0, "round ", round, ", job ", i, ", ", name_of(form_of(i)), ", count ",
             jobs[i]->count(), ": element ", wrong, " is wrong");
  };
  for (std::size_t i = 0; i < jobs_at_once; ++i) {
    const Place place = both_places[(i / 3) % 2];
    jobs.push_back(make_job(i, counts[i % counts.size()], maps));
    jobs[i]->fill(c.rank, round);
    jobs[i]->post(form_of(i), place, c.comm, &requests[i]);
  }
  for (const std::size_t i : shuffled(c, jobs_at_once, round)) {
    MPI_Wait(&requests[i], MPI_STATUS_IGNORE);
    check(i, round);
    if (form_of(i) == Form::persistent) jobs[i]->fill(c.rank, round + 1);
  }
  for (const std::size_t i : shuffled(c, jobs_at_once, round + 1)) {
    if (form_of(i) == Form::persistent) MPI_Start(&requests[i]);
  }
  for (std::size_t i = 0; i < jobs_at_once; ++i) {
    if (form_of(i) != Form::persistent) continue;
    for (int done = 0; done == 0;) MPI_Test(&requests[i], &done, MPI_STATUS_IGNORE);
    check(i, round + 1);
    MPI_Request_free(&requests[i]);
  }
}

void rounds(Case& c, std::span<const std::size_t> counts) {
  const auto last = static_cast<std::uint64_t>(option("rounds", 6));
  for (std::uint64_t round = 0; round < last && !c.failed(); ++round) round_of(c, round, counts);
}

void short_ones(Case& c) {
  constexpr std::size_t counts[] = {1, 2, 33, 700};
  rounds(c, counts);
}

void long_ones(Case& c) {
  constexpr std::size_t counts[] = {3000, 20000, 150001, 1, 40000};
  rounds(c, counts);
}

constexpr Entry cases[] = {{"short_ones", short_ones}, {"long_ones", long_ones}};

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv, cases);
}
