// Random calls on random communicators, each compared with what a plain program computes. All
// ranks draw the same from one seed, so that any batch can be had again alone. Options:
//
//   seed=N               of everything
//   first=N last=N       batches; those before `first` change the communicators only
//   seconds=N            ends after the batch that is under way then
//   keep=MASK            the calls of a batch that are made, a bit for each
//   most=N               no call has more elements
//   huge=BYTES           of the largest calls' contributions
//   threads=N            so many threads, each with communicators of its own, made before: Open MPI
//                        4.1 hangs by itself where several threads make some
//   storm=1              a dozen communicators come and go with every batch
//   rounding=1           also sums that round, with the bits of reproducible mode
//   planted=N            a fault: MPI_MAX of MPI_UINT16_T is taken for wrong from N elements on
//
// A difference prints one line and ends the job; rank 0 prints what was compared otherwise.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <thread>

#include "test/fuzz/batch.h"

using namespace fuzz;

namespace {

constexpr std::uint64_t batches_of_a_pool = 64;

struct Settings {
  std::uint64_t seed;
  std::uint64_t first;
  std::uint64_t last;
  double seconds;
  Limits limits;
};

std::uint64_t number(const char* key, long otherwise) {
  return static_cast<std::uint64_t>(mpitest::option(key, otherwise));
}

std::size_t thread_count() {
  return number("threads", 1);
}

Lifetimes lifetimes() {
  if (thread_count() > 1) return Lifetimes::fixed;
  return number("storm", 0) != 0 ? Lifetimes::storm : Lifetimes::calm;
}

Settings settings() {
  return {number("seed", 1),
          number("first", 0),
          number("last", 1L << 40),
          static_cast<double>(mpitest::option("seconds", 10)),
          {number("most", 1L << 40), std::size_t{1} << 15U, number("huge", 1L << 21), lifetimes()}};
}

using Kinds = std::vector<std::unique_ptr<Kind>>;

const Kind* find(const Kinds& kinds, const char* name) {
  const auto found = std::find_if(kinds.begin(), kinds.end(),
                                  [&](const auto& kind) { return kind->name() == name; });
  return found == kinds.end() ? nullptr : found->get();
}

Choices choices(const Kinds& kinds) {
  Choices choices;
  choices.keep = number("keep", -1);
  if (const std::uint64_t from = number("planted", 0); from > 0) {
    choices.planted = find(kinds, "MPI_MAX of MPI_UINT16_T");
    choices.planted_reference = find(kinds, "MPI_MIN of MPI_UINT16_T");
    choices.planted_from = from;
  }
  return choices;
}

// One thread's part: batches on communicators made of `root`.
class Stream {
 public:
  Stream(MPI_Comm root, const Settings& settings, const Kinds& kinds, std::uint64_t thread)
      : root_(root), settings_(settings), kinds_(kinds), choices_(choices(kinds)) {
    MPI_Comm_rank(root, &self_);
    settings_.seed = mpitest::mix(settings.seed, thread);
    renew_pool();
    if (settings.limits.lifetimes != Lifetimes::fixed) return;
    Draw changes(mpitest::mix(settings_.seed, 4));
    for (int i = 0; i < 12; ++i) pool_->change(changes);
  }

  void run() {
    end_ = mpitest::now_seconds() + settings_.seconds;
    const std::uint64_t first_pool = settings_.first / batches_of_a_pool;
    for (std::uint64_t pool = first_pool; pool * batches_of_a_pool <= settings_.last; ++pool) {
      if (!one_pool(pool * batches_of_a_pool)) break;
    }
  }

  [[nodiscard]] const Totals& totals() const { return totals_; }
  [[nodiscard]] long communicators() const { return communicators_ + pool_->made(); }

 private:
  // False once the time is over.
  bool one_pool(std::uint64_t begin) {
    if (settings_.limits.lifetimes != Lifetimes::fixed) renew_pool();
    const std::uint64_t end = std::min(begin + batches_of_a_pool, settings_.last + 1);
    bool go_on = true;
    for (std::uint64_t batch = begin; batch < end && go_on; ++batch) {
      mpitest::watch("batch=" + std::to_string(batch), self_);
      one_batch(batch, *pool_);
      if (batch % 8 == 7) go_on = all_go_on();
    }
    return go_on;
  }

  void renew_pool() {
    if (pool_) communicators_ += pool_->made();
    pool_.emplace(root_);
  }

  void one_batch(std::uint64_t batch, Pool& pool) {
    Draw changes(mpitest::mix(settings_.seed, batch, 3));
    const std::size_t count = draw_changes(settings_.seed, batch, settings_.limits.lifetimes);
    for (std::size_t i = 0; i < count; ++i) pool.change(changes);
    const BatchPlan plan = draw_batch(settings_.seed, batch, pool, kinds_, settings_.limits);
    if (batch < settings_.first) {
      if (plan.freed) pool.free(*plan.freed);
      return;
    }
    const auto rank = static_cast<std::uint64_t>(self_);
    Batch(plan, pool, self_, mpitest::mix(settings_.seed, batch, 1000 + rank), choices_)
        .run(totals_);
  }

  // Rank 0 decides.
  [[nodiscard]] bool all_go_on() const {
    int word = mpitest::now_seconds() < end_ ? 1 : 0;
    MPI_Bcast(&word, 1, MPI_INT, 0, root_);
    return word != 0;
  }

  MPI_Comm root_;
  Settings settings_;
  const Kinds& kinds_;
  Choices choices_;
  std::optional<Pool> pool_;
  int self_ = 0;
  double end_ = 0;
  Totals totals_;
  long communicators_ = 0;
};

void random_calls(mpitest::Case& c) {
  const Kinds kinds =
      make_kinds(c.size, mpitest::option("rounding", 0) != 0 ? Floats::rounding : Floats::exact);
  const std::size_t threads = thread_count();
  std::vector<MPI_Comm> roots(threads, c.comm);
  std::vector<std::unique_ptr<Stream>> streams;
  for (std::size_t i = 0; i < threads; ++i) {
    if (threads > 1) MPI_Comm_dup(c.comm, &roots[i]);
    streams.push_back(std::make_unique<Stream>(roots[i], settings(), kinds, i));
  }
  const double begin = mpitest::now_seconds();
  std::vector<std::thread> others;
  for (std::size_t i = 1; i < threads; ++i) others.emplace_back([&, i] { streams[i]->run(); });
  streams[0]->run();
  for (std::thread& other : others) other.join();
  Totals sum;
  long communicators = 0;
  for (std::size_t i = 0; i < threads; ++i) {
    sum.batches += streams[i]->totals().batches;
    sum.calls += streams[i]->totals().calls;
    sum.alone += streams[i]->totals().alone;
    sum.elements += streams[i]->totals().elements;
    communicators += streams[i]->communicators();
    streams[i].reset();
    if (threads > 1) MPI_Comm_free(&roots[i]);
  }
  if (c.rank != 0) return;
  std::printf(
      "COMPARED calls=%ld alone=%ld elements=%lld batches=%ld communicators=%ld seconds=%.1f\n",
      sum.calls, sum.alone, sum.elements, sum.batches, communicators,
      mpitest::now_seconds() - begin);
}

constexpr mpitest::Entry cases[] = {{"random_calls", random_calls}};

}  // namespace

int main(int argc, char** argv) {
  const bool threaded = std::any_of(argv, argv + argc, [](const char* word) {
    return std::string_view(word).starts_with("threads=");
  });
  return mpitest::run_cases(argc, argv, cases, threaded ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE);
}
