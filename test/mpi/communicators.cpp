// Communicators of every kind, several at once, and what MPI itself does with them inside.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <numeric>

#include "compose.h"
#include "harness.h"

using namespace mpitest;

namespace {

// Which global rank is at each position of a communicator, asked by point-to-point messages.
std::vector<int> members(Case& c, MPI_Comm comm) {
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Group group = MPI_GROUP_NULL;
  MPI_Comm_group(c.comm, &world);
  MPI_Comm_group(comm, &group);
  int size = 0;
  MPI_Comm_size(comm, &size);
  std::vector<int> local(static_cast<std::size_t>(size));
  std::iota(local.begin(), local.end(), 0);
  std::vector<int> global(local.size());
  MPI_Group_translate_ranks(group, size, local.data(), world, global.data());
  MPI_Group_free(&group);
  MPI_Group_free(&world);
  return global;
}

// All three forms: a sum, and a product that shows the rank order of this communicator.
void check_all_forms(Case& c, MPI_Comm comm, const char* what) {
  if (comm == MPI_COMM_NULL) return;
  const std::vector<int> global = members(c, comm);
  MPI_Op op = MPI_OP_NULL;
  MPI_Op_create(compose, 0, &op);
  const auto value = [&](int rank, std::size_t i) {
    const auto bits = static_cast<std::uint32_t>(mix(c.seed, static_cast<std::uint64_t>(rank), i));
    return bits | 0x10000U;
  };
  for (const Form form : all_forms) {
    for (const std::size_t count : {1, 5, 1000, 50000}) {
      std::vector<std::uint32_t> in(count);
      std::vector<std::uint32_t> sum(count);
      std::vector<std::uint32_t> product(count);
      for (std::size_t i = 0; i < count; ++i) in[i] = value(c.rank, i);
      allreduce(form, in.data(), sum.data(), count, MPI_UINT32_T, MPI_SUM, comm);
      allreduce(form, in.data(), product.data(), count, MPI_UINT32_T, op, comm);
      for (std::size_t i = 0; i < count; ++i) {
        std::uint32_t expected_sum = 0;
        std::uint32_t expected_product = value(global.back(), i);
        for (const int rank : global) expected_sum += value(rank, i);
        for (std::size_t k = global.size() - 1; k > 0; --k) {
          std::uint32_t left = value(global[k - 1], i);
          int one = 1;
          compose(&left, &expected_product, &one, nullptr);
        }
        if (!c.expect(sum[i] == expected_sum && product[i] == expected_product, what, ", ",
                      name_of(form), ", count ", count, ", element ", i,
                      sum[i] == expected_sum ? ": rank order broken" : ": wrong sum")) {
          break;
        }
      }
    }
  }
  MPI_Op_free(&op);
}

void check_and_free(Case& c, MPI_Comm comm, const char* what) {
  check_all_forms(c, comm, what);
  if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
}

void self(Case& c) {
  check_all_forms(c, MPI_COMM_SELF, "MPI_COMM_SELF");
}

void duplicates(Case& c) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(c.comm, &comm);
  MPI_Comm second = MPI_COMM_NULL;
  MPI_Comm_dup(comm, &second);
  check_and_free(c, comm, "MPI_Comm_dup");
  check_and_free(c, second, "MPI_Comm_dup of a freed communicator");
}

MPI_Comm hinted(Case& c, const char* algorithm, const char* segment_size) {
  MPI_Info info = MPI_INFO_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "gpuar_algorithm", algorithm);
  if (segment_size != nullptr) MPI_Info_set(info, "gpuar_segment_size", segment_size);
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup_with_info(c.comm, info, &comm);
  MPI_Info_free(&info);
  return comm;
}

// A lane reads from gpuar's own messages what came of the hints.
void hints(Case& c) {
  const MPI_Comm ring = hinted(c, "ring", "4096");
  const MPI_Comm chosen = hinted(c, "auto", nullptr);
  const MPI_Comm nonsense = hinted(c, "rign", nullptr);
  check_and_free(c, ring, "a ring in the info");
  check_and_free(c, chosen, "auto in the info");
  check_and_free(c, nonsense, "nonsense in the info");
}

constexpr const char* none = "not there";

std::string in_use(MPI_Comm comm, const char* key) {
  MPI_Info info = MPI_INFO_NULL;
  std::array<char, MPI_MAX_INFO_VAL> text{};
  int found = 0;
  MPI_Comm_get_info(comm, &info);
  MPI_Info_get(info, key, static_cast<int>(text.size()) - 1, text.data(), &found);
  MPI_Info_free(&info);
  return found != 0 ? text.data() : none;
}

constexpr std::array<const char*, 5> hint_keys{"gpuar_algorithm", "gpuar_segment_size",
                                               "gpuar_pipeline_depth", "gpuar_reproducible",
                                               "gpuar_expect"};
using HintValues = std::array<std::string, hint_keys.size()>;

void check_in_use(Case& c, MPI_Comm comm, const char* when, const HintValues& wanted) {
  for (std::size_t i = 0; i < hint_keys.size(); ++i) {
    const std::string found = in_use(comm, hint_keys[i]);
    c.expect(found == wanted[i], when, ": ", hint_keys[i], " is ", found, " instead of ",
             wanted[i]);
  }
}

// MPI's rules for hints: what makes no sense is ignored; MPI_Comm_get_info tells what is in use;
// what comes too late changes nothing, and is not told. A duplicate inherits what the installed MPI
// hands on: 4.1 nothing.
void check_hints(Case& c, const HintValues& given, const HintValues& used,
                 const HintValues& later) {
  MPI_Info info = MPI_INFO_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm duplicate = MPI_COMM_NULL;
  MPI_Info_create(&info);
  for (std::size_t i = 0; i < hint_keys.size(); ++i)
    MPI_Info_set(info, hint_keys[i], given[i].c_str());
  MPI_Comm_dup_with_info(c.comm, info, &comm);
  check_in_use(c, comm, "new", used);
  MPI_Info_set(info, "gpuar_algorithm", "tree");
  MPI_Info_set(info, "gpuar_reproducible", "true");
  MPI_Comm_set_info(comm, info);
  check_in_use(c, comm, "after MPI_Comm_set_info", later);
  MPI_Comm_dup(comm, &duplicate);
  c.expect(in_use(duplicate, "gpuar_algorithm") == none, "inherited");
  MPI_Info_free(&info);
  check_and_free(c, duplicate, "a duplicate");
  check_and_free(c, comm, "hints in use");
}

void hints_in_use(Case& c) {
  check_hints(c, {"ring", "4096", "3", "false", "host"}, {"ring", "4096", "3", "false", "host"},
              {none, "4096", "3", none, "host"});
  check_hints(c, {"rign", "4k", "-3", "maybe", "disk"}, {none, none, none, none, none},
              {none, none, none, none, none});
}

// A lane reads why a ring is not taken; with the hint the bits do not depend on the form of the
// call.
void reproducible_ring(Case& c) {
  MPI_Info info = MPI_INFO_NULL;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Info_create(&info);
  MPI_Info_set(info, "gpuar_algorithm", "ring");
  MPI_Info_set(info, "gpuar_reproducible", "true");
  MPI_Comm_dup_with_info(c.comm, info, &comm);
  MPI_Info_free(&info);
  check_and_free(c, comm, "a reproducible communicator");
}

// Several duplications under way at once, and calls on another communicator meanwhile. Of different
// communicators: those of one may get different ids on each rank (open-mpi/ompi#2025).
void nonblocking_duplicates(Case& c) {
  MPI_Comm other = MPI_COMM_NULL;
  MPI_Comm_dup(c.comm, &other);
  std::array<MPI_Comm, 4> parents{};
  std::array<MPI_Comm, 4> comms{};
  std::array<MPI_Request, 5> requests{};
  for (MPI_Comm& parent : parents) MPI_Comm_dup(c.comm, &parent);
  std::vector<double> in(1000, c.rank);
  std::vector<double> out(1000);
  MPI_Iallreduce(in.data(), out.data(), 1000, MPI_DOUBLE, MPI_SUM, other, &requests[4]);
  for (std::size_t i = 0; i < comms.size(); ++i) MPI_Comm_idup(parents[i], &comms[i], &requests[i]);
  MPI_Waitall(5, requests.data(), MPI_STATUSES_IGNORE);
  c.expect(out[999] == c.size * (c.size - 1) / 2.0, "sum while MPI_Comm_idup is under way");
  for (const MPI_Comm comm : comms) check_and_free(c, comm, "MPI_Comm_idup");
  for (MPI_Comm& parent : parents) MPI_Comm_free(&parent);
  MPI_Comm_free(&other);
}

// Calls on the parent itself meanwhile, in every form. MPI_Comm_idup makes calls of its own there,
// at moments that differ between ranks. Stock Open MPI 4.1.4 crashes or hangs: runs only by name.
void parent_used_while_duplicated(Case& c) {
  const auto rank = static_cast<std::uint64_t>(c.rank);
  for (int round = 0; round < 100; ++round) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Request duplication = MPI_REQUEST_NULL;
    MPI_Comm_idup(c.comm, &comm, &duplication);
    for (int call = 0; call < 6; ++call) {
      const auto moment = static_cast<std::uint64_t>(round) * 6 + static_cast<std::uint64_t>(call);
      for (std::uint64_t polls = mix(c.seed, rank, moment) % 4; polls > 0; --polls) {
        int done = 0;
        MPI_Test(&duplication, &done, MPI_STATUS_IGNORE);
      }
      std::vector<int> in(1000, c.rank * (call + 1) + round);
      std::vector<int> apart(in.size());
      std::vector<int> out(in.size());
      MPI_Request busy = MPI_REQUEST_NULL;
      MPI_Iallreduce(in.data(), apart.data(), 1000, MPI_INT, MPI_MIN, c.comm, &busy);
      allreduce(all_forms[static_cast<std::size_t>(call) % all_forms.size()], in.data(), out.data(),
                in.size(), MPI_INT, MPI_SUM, c.comm);
      MPI_Wait(&busy, MPI_STATUS_IGNORE);
      const int sum = c.size * (c.size - 1) / 2 * (call + 1) + c.size * round;
      c.expect(out.front() == sum && out.back() == sum && apart.back() == round, "round ", round,
               ", call ", call, ": sum ", out.back(), ", least ", apart.back());
    }
    MPI_Wait(&duplication, MPI_STATUS_IGNORE);
    int one = 1;
    int all = 0;
    MPI_Allreduce(&one, &all, 1, MPI_INT, MPI_SUM, comm);
    c.expect(all == c.size, "round ", round, ": the duplicate counts ", all);
    MPI_Comm_free(&comm);
  }
}

void splits(Case& c) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_split(c.comm, 0, -c.rank, &comm);
  check_and_free(c, comm, "reversed ranks");
  MPI_Comm_split(c.comm, 0, c.rank % 2 * c.size + c.rank, &comm);
  check_and_free(c, comm, "even ranks, then odd ones");
  MPI_Comm_split(c.comm, c.rank % 2, c.rank, &comm);
  check_and_free(c, comm, "interleaved halves");
  MPI_Comm_split(c.comm, c.rank % 2, -c.rank, &comm);
  check_and_free(c, comm, "interleaved halves, reversed");
  MPI_Comm_split(c.comm, c.rank == 0 ? MPI_UNDEFINED : 0, c.rank, &comm);
  check_and_free(c, comm, "all but rank 0");
  MPI_Comm_split(c.comm, c.rank, 0, &comm);
  check_and_free(c, comm, "each rank alone");
  MPI_Comm_split_type(c.comm, MPI_COMM_TYPE_SHARED, -c.rank, MPI_INFO_NULL, &comm);
  check_and_free(c, comm, "MPI_Comm_split_type");
}

void groups(Case& c) {
  MPI_Group world = MPI_GROUP_NULL;
  MPI_Comm_group(c.comm, &world);
  std::vector<int> ranks;
  for (int rank = c.size - 1; rank >= 0; rank -= 2) ranks.push_back(rank);
  MPI_Group every_second = MPI_GROUP_NULL;
  MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &every_second);
  MPI_Comm comm = MPI_COMM_NULL;
  if (std::find(ranks.begin(), ranks.end(), c.rank) != ranks.end()) {
    MPI_Comm_create_group(c.comm, every_second, 3, &comm);
  }
  check_and_free(c, comm, "MPI_Comm_create_group");
  MPI_Comm_create(c.comm, every_second, &comm);
  check_and_free(c, comm, "MPI_Comm_create");
  MPI_Group_free(&every_second);
  MPI_Group_free(&world);
}

void topologies(Case& c) {
  const int periodic = 1;
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Cart_create(c.comm, 1, &c.size, &periodic, 1, &comm);
  check_and_free(c, comm, "MPI_Cart_create");
}

// Each side of an intercommunicator gets the other side's sum.
void intercommunicator(Case& c) {
  if (c.size < 2) return;
  const int side = c.rank % 2;
  MPI_Comm local = MPI_COMM_NULL;
  MPI_Comm_split(c.comm, side, c.rank, &local);
  MPI_Comm both = MPI_COMM_NULL;
  MPI_Intercomm_create(local, 0, c.comm, 1 - side, 9, &both);
  int expected = 0;
  for (int rank = 1 - side; rank < c.size; rank += 2) expected += rank + 1;
  for (const std::size_t count : {1, 1000, 100000}) {
    std::vector<int> in(count, c.rank + 1);
    std::vector<int> out(count, -1);
    for (const Form form : {Form::blocking, Form::nonblocking}) {
      std::fill(out.begin(), out.end(), -1);
      allreduce(form, in.data(), out.data(), count, MPI_INT, MPI_SUM, both);
      c.expect(std::all_of(out.begin(), out.end(), [&](int x) { return x == expected; }),
               name_of(form), " between groups, count ", count, ": got ", out[0], ", expected ",
               expected);
    }
  }
  MPI_Comm merged = MPI_COMM_NULL;
  MPI_Intercomm_merge(both, side, &merged);
  check_and_free(c, merged, "MPI_Intercomm_merge");
  MPI_Comm_free(&both);
  MPI_Comm_free(&local);
}

// Calls on a parent and its children are under way at once, posted in another order on each rank.
void parent_and_children(Case& c) {
  constexpr std::size_t how_many = 4;
  std::array<MPI_Comm, how_many> comms{c.comm};
  MPI_Comm_dup(c.comm, &comms[1]);
  MPI_Comm_split(c.comm, c.rank % 2, -c.rank, &comms[2]);
  MPI_Comm_dup(comms[2], &comms[3]);
  const std::size_t count = 2000;
  for (std::size_t round = 0; round < 50; ++round) {
    std::array<MPI_Request, how_many> requests{};
    std::vector<std::vector<int>> out(how_many, std::vector<int>(count, -1));
    std::vector<std::vector<int>> in;
    for (std::size_t k = 0; k < how_many; ++k) {
      in.emplace_back(count, (c.rank + 1) * static_cast<int>(round + k + 1));
    }
    for (std::size_t k = 0; k < how_many; ++k) {
      const std::size_t at = (k + static_cast<std::size_t>(c.rank) + round) % how_many;
      MPI_Iallreduce(in[at].data(), out[at].data(), static_cast<int>(count), MPI_INT, MPI_SUM,
                     comms[at], &requests[at]);
    }
    MPI_Waitall(how_many, requests.data(), MPI_STATUSES_IGNORE);
    for (std::size_t k = 0; k < how_many; ++k) {
      int expected = 0;
      for (int rank = 0; rank < c.size; ++rank) {
        if (k < 2 || rank % 2 == c.rank % 2) expected += rank + 1;
      }
      expected *= static_cast<int>(round + k + 1);
      c.expect(std::all_of(out[k].begin(), out[k].end(), [&](int x) { return x == expected; }),
               "round ", round, ", communicator ", k, ": got ", out[k][0], ", expected ", expected);
    }
  }
  for (std::size_t k = 1; k < how_many; ++k) MPI_Comm_free(&comms[k]);
}

void windows(Case& c) {
  for (int round = 0; round < 20; ++round) {
    int* memory = nullptr;
    MPI_Win window = MPI_WIN_NULL;
    MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, c.comm, &memory, &window);
    MPI_Win_fence(0, window);
    const int value = c.rank + round;
    MPI_Put(&value, 1, MPI_INT, (c.rank + 1) % c.size, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    c.expect(*memory == (c.rank + c.size - 1) % c.size + round, "MPI_Put brought ", *memory);
    MPI_Win_free(&window);
  }
}

void files(Case& c) {
  std::array<char, 64> path{"/tmp/gpuar-test-file-XXXXXX"};
  if (c.rank == 0) close(mkstemp(path.data()));
  MPI_Bcast(path.data(), static_cast<int>(path.size()), MPI_CHAR, 0, c.comm);
  for (int round = 0; round < 5; ++round) {
    MPI_File file = MPI_FILE_NULL;
    const int rc = MPI_File_open(c.comm, path.data(), MPI_MODE_RDWR, MPI_INFO_NULL, &file);
    if (!c.expect(rc == MPI_SUCCESS, "MPI_File_open: error ", rc)) break;
    int value = c.rank * 3 + round;
    MPI_File_write_at_all(file, c.rank * static_cast<MPI_Offset>(sizeof value), &value, 1, MPI_INT,
                          MPI_STATUS_IGNORE);
    MPI_File_sync(file);
    MPI_Barrier(c.comm);
    const int other = (c.rank + 1) % c.size;
    MPI_File_read_at_all(file, other * static_cast<MPI_Offset>(sizeof value), &value, 1, MPI_INT,
                         MPI_STATUS_IGNORE);
    c.expect(value == other * 3 + round, "read ", value);
    MPI_File_close(&file);
  }
  if (c.rank == 0) unlink(path.data());
}

long resident_kib() {
  std::ifstream statm("/proc/self/statm");
  long pages = 0;
  long resident = 0;
  statm >> pages >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

void one_life(Case& c, MPI_Comm parent) {
  MPI_Comm comm = MPI_COMM_NULL;
  MPI_Comm_dup(parent, &comm);
  for (const Form form : {Form::blocking, Form::nonblocking}) {
    int value = 1;
    int sum = 0;
    allreduce(form, &value, &sum, 1, MPI_INT, MPI_SUM, comm);
    c.expect(sum == c.size, name_of(form), " on a short-lived communicator: got ", sum);
  }
  MPI_Comm_free(&comm);
}

// Prints the time of one life, which a lane compares with stock Open MPI's.
void thousands_of_short_lives(Case& c) {
  const long lives = option("lives", 3000);
  for (int i = 0; i < 500; ++i) one_life(c, c.comm);
  const long before = resident_kib();
  const double each = microseconds_per_call(lives / 20, 20, 0.1, [&] { one_life(c, c.comm); });
  const long grown = resident_kib() - before;
  c.expect(grown < 1024, lives, " communicators left ", grown, " KiB behind");
  if (c.rank == 0) std::printf("MICROSECONDS life %.2f\n", each);
}

// Never freed: MPI_Finalize meets them.
void left_behind(Case& c) {
  for (int i = 0; i < 10; ++i) {
    MPI_Comm comm = MPI_COMM_NULL;
    MPI_Comm_split(c.comm, c.rank % 2, -c.rank, &comm);
    check_all_forms(c, comm, "left behind");
    if (i % 2 == 0) MPI_Comm_dup(c.comm, &comm);
  }
}

constexpr Entry cases[] = {
    {"self", self},
    {"duplicates", duplicates},
    {"hints", hints},
    {"hints_in_use", hints_in_use, When::by_name},
    {"reproducible_ring", reproducible_ring, When::by_name},
    {"nonblocking_duplicates", nonblocking_duplicates},
    {"parent_used_while_duplicated", parent_used_while_duplicated, When::by_name},
    {"splits", splits},
    {"groups", groups},
    {"topologies", topologies},
    {"intercommunicator", intercommunicator},
    {"parent_and_children", parent_and_children},
    {"windows", windows},
    {"files", files},
    {"thousands_of_short_lives", thousands_of_short_lives},
    {"left_behind", left_behind},
};

}  // namespace

int main(int argc, char** argv) {
  return run_cases(argc, argv, cases);
}
