// Programs that hold device memory themselves. What the driver was asked to do is read from the
// simulated driver, and counts only what gpuar's component did: UCX's copies are its own.
#include <dlfcn.h>

#include "harness.h"
#include "on_device/driver.h"
#include "persistent.h"

using namespace mpitest;
using on_device::Kind;

namespace {

on_device::Driver& driver() {
  static auto* const one = new on_device::Driver(1);
  return *one;
}

// Device memory with room for `count` floats.
class Floats {
 public:
  Floats(std::size_t count, float value) : count_(count) {
    const std::vector<float> values(count, value);
    driver().copy_up(Kind::device, 0, memory_, bytes_of(values.data()), count * sizeof(float));
  }
  ~Floats() { driver().free(Kind::device, 0, memory_); }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;

  [[nodiscard]] std::vector<float> read() const {
    std::vector<float> values(count_);
    auto* to = reinterpret_cast<std::byte*>(values.data());
    driver().copy_down(Kind::device, 0, to, memory_, count_ * sizeof(float));
    return values;
  }
  void* data() { return memory_; }

 private:
  static const std::byte* bytes_of(const float* values) {
    return reinterpret_cast<const std::byte*>(values);
  }
  std::size_t count_;
  std::byte* memory_ = driver().allocate(Kind::device, 0, count_ * sizeof(float));
};

void sum(Case& c, std::size_t count, float value) {
  Floats in(count, value * static_cast<float>(c.rank + 1));
  Floats out(count, -1);
  MPI_Allreduce(in.data(), out.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM, c.comm);
  const int weight = c.size * (c.size + 1) / 2;
  const float expected = value * static_cast<float>(weight);
  const std::vector<float> got = out.read();
  const auto wrong = std::find_if(got.begin(), got.end(), [&](float x) { return x != expected; });
  c.expect(wrong == got.end(), count, " floats: element ", wrong - got.begin(), " is wrong");
}

// --- Memory --------------------------------------------------------------------------------------

// Programs allocate, reduce and free for days: neither gpuar's scratch nor what UCX remembers of
// freed memory may grow.
void flat_memory(Case& c) {
  constexpr std::size_t counts[] = {2, 1000, 30000, 70000};
  const auto rounds = static_cast<std::size_t>(option("rounds", 1000));
  const auto one = [&](std::size_t round) {
    sum(c, counts[round % std::size(counts)], static_cast<float>(round % 64));
  };
  const std::size_t warm_up = 2 * std::size(counts);
  for (std::size_t round = 0; round < warm_up; ++round) one(round);
  const std::size_t before = driver().free_memory(0);
  for (std::size_t round = 0; round < rounds && !c.failed(); ++round) one(round);
  const std::size_t after = driver().free_memory(0);
  c.expect(after >= before, before - after, " bytes of device memory are gone after ", rounds,
           " rounds");
}

// --- What the driver was asked for ---------------------------------------------------------------

using Counter = unsigned long long (*)(const char*);
using Reset = void (*)();

template <class Function>
Function simulated(const char* name) {
  auto* const function = reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
  if (!function) on_device::die("this case needs the simulated driver");
  return function;
}

struct Asked {
  unsigned long long down, up, across, launches;
};

// What gpuar's component asks the driver for in one sum, with pools and connections made before.
Asked asked_for_a_sum(Case& c, std::size_t count) {
  driver();
  const auto counter = simulated<Counter>("simgpu_counter");
  for (int warm_up = 0; warm_up < 2; ++warm_up) sum(c, count, 1);
  MPI_Barrier(c.comm);
  simulated<Reset>("simgpu_reset_counters")();
  sum(c, count, 3);
  const Asked asked{counter("copies_d2h@mca_coll_gpuar"), counter("copies_h2d@mca_coll_gpuar"),
                    counter("copies_d2d@mca_coll_gpuar"), counter("launches@mca_coll_gpuar")};
  std::ostringstream line;
  line << "ASKED rank " << c.rank << ": " << count * sizeof(float) << " bytes: down=" << asked.down
       << " up=" << asked.up << " across=" << asked.across << " launches=" << asked.launches
       << "\n";
  std::fputs(line.str().c_str(), stdout);
  std::fflush(stdout);
  return asked;
}

// Only where UCX carries device memory.
void large_stays_on_the_device(Case& c) {
  const Asked asked = asked_for_a_sum(c, std::size_t{4} << 20);
  c.expect(asked.down == 0 && asked.up == 0, "16 MiB: ", asked.down, " copies down and ", asked.up,
           " up, instead of none");
  c.expect(asked.launches > 0, "16 MiB: nothing was reduced on the device");
}

void small_needs_no_launch(Case& c) {
  const Asked asked = asked_for_a_sum(c, 2);
  c.expect(asked.launches == 0, "8 bytes: ", asked.launches, " launches, instead of none");
  c.expect(asked.down <= 1 && asked.up <= 1 && asked.across == 0, "8 bytes: ", asked.down,
           " copies down, ", asked.up, " up, ", asked.across,
           " across, instead of at most one each way");
}

// --- Work of the program -------------------------------------------------------------------------

// The send buffer is still being written when the call is made: right only with
// coll_gpuar_sync_device.
void queued_work(Case& c) {
  constexpr std::size_t counts[] = {100, 100000};
  for (const std::size_t count : counts) {
    const std::size_t bytes = count * sizeof(float);
    Floats in(count, 0);
    Floats out(count, -1);
    std::byte* const pinned = driver().allocate(Kind::pinned, 0, bytes);
    for (int call = 0; call < 10; ++call) {
      const auto value = static_cast<float>(call + 1);
      const std::vector<float> values(count, value);
      std::memcpy(pinned, values.data(), bytes);
      driver().queue_copy_up(0, static_cast<std::byte*>(in.data()), pinned, bytes);
      MPI_Allreduce(in.data(), out.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM, c.comm);
      const float right = value * static_cast<float>(c.size);
      c.expect(out.read().back() == right, count, " floats: call ", call, " did not wait");
    }
    driver().free(Kind::pinned, 0, pinned);
  }
}

// Every second element of ten, with gaps between them: packed by gpuar.
struct WithGaps {
  WithGaps() {
    MPI_Type_vector(5, 1, 2, MPI_FLOAT, &type);
    MPI_Type_commit(&type);
    MPI_Op_create(add, 1, &sum);
  }
  ~WithGaps() {
    MPI_Op_free(&sum);
    MPI_Type_free(&type);
  }
  WithGaps(const WithGaps&) = delete;
  WithGaps& operator=(const WithGaps&) = delete;
  static void add(void* in, void* inout, int* /*count*/, MPI_Datatype* /*type*/) {
    for (int i = 0; i < 10; i += 2) static_cast<float*>(inout)[i] += static_cast<float*>(in)[i];
  }

  MPI_Datatype type = MPI_DATATYPE_NULL;
  MPI_Op sum = MPI_OP_NULL;
};

void queued_work_with_gaps(Case& c) {
  const WithGaps gaps;
  Floats in(10, 0);
  Floats out(10, -1);
  std::byte* const pinned = driver().allocate(Kind::pinned, 0, 10 * sizeof(float));
  for (int call = 0; call < 10; ++call) {
    const auto value = static_cast<float>(call + 1);
    const std::vector<float> values(10, value);
    std::memcpy(pinned, values.data(), 10 * sizeof(float));
    driver().queue_copy_up(0, static_cast<std::byte*>(in.data()), pinned, 10 * sizeof(float));
    MPI_Allreduce(in.data(), out.data(), 1, gaps.type, gaps.sum, c.comm);
    const float right = value * static_cast<float>(c.size);
    c.expect(out.read()[0] == right, "elements with gaps: call ", call, " did not wait");
  }
  driver().free(Kind::pinned, 0, pinned);
}

// The work is queued on the second GPU; the result goes to the first.
void queued_work_on_another_gpu(Case& c) {
  on_device::Driver two(2);
  constexpr std::size_t counts[] = {100, 100000};
  for (const std::size_t count : counts) {
    const std::size_t bytes = count * sizeof(float);
    std::byte* const pinned = two.allocate(Kind::pinned, 1, bytes);
    std::byte* const in = two.allocate(Kind::device, 1, bytes);
    Floats out(count, -1);
    for (int call = 0; call < 10; ++call) {
      const auto value = static_cast<float>(call + 1);
      const std::vector<float> values(count, value);
      std::memcpy(pinned, values.data(), bytes);
      two.queue_copy_up(1, in, pinned, bytes);
      MPI_Allreduce(in, out.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM, c.comm);
      const float right = value * static_cast<float>(c.size);
      c.expect(out.read().back() == right, count, " floats: call ", call, " did not wait");
    }
    two.free(Kind::device, 1, in);
    two.free(Kind::pinned, 1, pinned);
  }
}

// --- A device that fails -------------------------------------------------------------------------

// One rank cannot read what it is to contribute: all get an error, and none waits for it.
void packing_fails_on_one_rank(Case& c) {
  const WithGaps gaps;
  driver();
  const auto fail = simulated<int (*)(const char*)>("simgpu_fail");
  for (int form = 0; form < 3; ++form) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_dup(c.comm, &comm);
    MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
    Floats in(10, 2);
    Floats out(10, -1);
    MPI_Barrier(c.comm);
    if (c.rank == 0) fail("cuMemcpyAsync@mca_coll_gpuar:1+");
    int rc = MPI_SUCCESS;
    MPI_Request request = MPI_REQUEST_NULL;
    if (form == 0) rc = MPI_Allreduce(in.data(), out.data(), 1, gaps.type, gaps.sum, comm);
    if (form == 1)
      rc = MPI_Iallreduce(in.data(), out.data(), 1, gaps.type, gaps.sum, comm, &request);
    if (form == 2) {
      rc = persistent_allreduce_init(in.data(), out.data(), 1, gaps.type, gaps.sum, comm, &request);
      if (rc == MPI_SUCCESS) rc = MPI_Start(&request);
    }
    if (rc == MPI_SUCCESS) rc = MPI_Wait(&request, MPI_STATUS_IGNORE);
    fail(nullptr);
    c.expect(rc != MPI_SUCCESS, "form ", form, ": no error");
    MPI_Comm_free(&comm);
    MPI_Barrier(c.comm);
  }
}

// Run with failures to inject (SIMGPU_FAIL): an error on every rank, or the right result, but never
// a wrong one, nor a rank that waits for ever.
void failing_device(Case& c) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(c.comm, &comm);
  MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN);
  constexpr std::size_t count = 100000;
  int errors = 0;
  for (int call = 0; call < 4; ++call) {
    Floats in(count, 2);
    Floats out(count, -1);
    const int rc =
        MPI_Allreduce(in.data(), out.data(), static_cast<int>(count), MPI_FLOAT, MPI_SUM, comm);
    if (rc != MPI_SUCCESS) {
      ++errors;
      continue;
    }
    const std::vector<float> got = out.read();
    const auto right = static_cast<float>(2 * c.size);
    const bool all_right =
        std::all_of(got.begin(), got.end(), [&](float value) { return value == right; });
    c.expect(all_right, "call ", call, " succeeds with a wrong result");
  }
  if (c.rank == 0) std::printf("ERRORS %d\n", errors);
  MPI_Comm_free(&comm);
}

constexpr Entry cases[] = {
    {"queued_work", queued_work, When::by_name},
    {"queued_work_with_gaps", queued_work_with_gaps, When::by_name},
    {"queued_work_on_another_gpu", queued_work_on_another_gpu, When::by_name},
    {"packing_fails_on_one_rank", packing_fails_on_one_rank, When::by_name},
    {"failing_device", failing_device, When::by_name},
    {"flat_memory", flat_memory, When::by_name},
    {"large_stays_on_the_device", large_stays_on_the_device, When::by_name},
    {"small_needs_no_launch", small_needs_no_launch, When::by_name},
};

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv, cases);
}
