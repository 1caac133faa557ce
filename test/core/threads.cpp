// threads CALLS: two processes of one core each, with gpuar's progress thread, and three threads
// that make calls of both kinds on communicators of their own. For ThreadSanitizer, and MPI-free:
// what surrounds the core in a job is not instrumented. Exit status 0: every result was right.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "coll_gpuar/core.h"

namespace {

using Bytes = std::vector<std::uint8_t>;

// What both published, by rank.
std::array<Bytes, 2> records;
std::array<Bytes, 2> addresses;

std::size_t copy_out(const Bytes& bytes, void* out, std::size_t capacity) {
  std::copy_n(bytes.begin(), std::min(bytes.size(), capacity), static_cast<std::uint8_t*>(out));
  return bytes.size();
}

const gpuar_directory directory = {
    [](void*, std::uint64_t process, void* out, std::size_t capacity) {
      return copy_out(records[process], out, capacity);
    },
    [](void*, std::uint64_t process, void* out, std::size_t capacity) {
      return copy_out(addresses[process], out, capacity);
    },
    [](void*, std::uint64_t, char* out, std::size_t) { *out = '\0'; },
    nullptr,
};

void put(int to, const Bytes& bytes) {
  const std::size_t size = bytes.size();
  if (write(to, &size, sizeof size) < 0 || write(to, bytes.data(), size) < 0) std::_Exit(3);
}

Bytes get(int from) {
  std::size_t size = 0;
  if (read(from, &size, sizeof size) != sizeof size) std::_Exit(3);
  Bytes bytes(size);
  for (std::size_t have = 0; have < size;) {
    const ssize_t more = read(from, bytes.data() + have, size - have);
    if (more <= 0) std::_Exit(3);
    have += static_cast<std::size_t>(more);
  }
  return bytes;
}

gpuar_core* core = nullptr;
std::atomic<long> wrong{0};

struct Ended {
  std::atomic<int> times{0};
  static void done(void* user, int status) {
    if (status != GPUAR_OK) ++wrong;
    static_cast<Ended*>(user)->times.fetch_add(1, std::memory_order_release);
  }
};

// Calls on a communicator of this thread's own: blocking, nonblocking, and a persistent one.
void calls(int rank, std::uint64_t id, long number) {
  const std::array<std::uint64_t, 2> processes{0, 1};
  const std::string name = "comm " + std::to_string(id);
  gpuar_comm_desc desc = {};
  desc.id_low = id;
  desc.rank = rank;
  desc.size = 2;
  desc.processes = processes.data();
  desc.name = name.c_str();
  desc.directory = &directory;
  std::array<char, 512> why{};
  std::uint64_t reason = 0;
  gpuar_comm* comm = nullptr;
  if (gpuar_comm_create(core, &desc, &comm, &reason, why.data(), why.size()) != GPUAR_OK) {
    std::fprintf(stderr, "threads: %s\n", why.data());
    std::_Exit(4);
  }
  std::vector<std::int32_t> in(50000);
  std::vector<std::int32_t> out(in.size());
  gpuar_args args = {};
  args.in = in.data();
  args.out = out.data();
  args.element_bytes = sizeof in[0];
  args.op = GPUAR_SUM;
  args.type = GPUAR_INT32;
  args.commutative = true;
  args.count = in.size();
  Ended ended;
  gpuar_call* persistent = nullptr;
  if (gpuar_allreduce_init(comm, &args, Ended::done, &ended, &persistent) != GPUAR_OK) ++wrong;
  for (long i = 0; i < number; ++i) {
    args.count = i % 10 == 0 ? in.size() : 10;
    for (std::size_t k = 0; k < in.size(); ++k) in[k] = static_cast<std::int32_t>(i) + rank;
    const int before = ended.times.load();
    if (i % 3 == 0) {
      if (gpuar_allreduce(comm, &args, [] { gpuar_progress(core); }) != GPUAR_OK) ++wrong;
    } else {
      const int status =
          i % 3 == 1 ? gpuar_iallreduce(comm, GPUAR_STREAM_PROGRAM, &args, Ended::done, &ended)
                     : gpuar_call_start(persistent);
      if (status != GPUAR_OK) ++wrong;
      while (ended.times.load(std::memory_order_acquire) == before) gpuar_progress(core);
    }
    for (std::size_t k = 0; k < args.count; ++k) {
      if (out[k] != 2 * static_cast<std::int32_t>(i) + 1) {
        ++wrong;
        break;
      }
    }
  }
  gpuar_call_free(persistent);
  gpuar_comm_release(comm);
}

int process(int rank, int from, int to, long number) {
  gpuar_params params = {};
  params.priority = 85;
  params.algorithm = "auto";
  params.expect = "auto";
  params.progress_thread = true;
  params.device_limit = 65536;
  params.pool_size = std::size_t{1} << 20;
  params.tuning_file = params.report = params.test_node_size = params.test_fault = "";
  params.spin = 100;
  params.local_rank = rank;
  params.local_ranks = 2;
  params.thread_multiple = true;
  params.log = [](const char* line) { std::fprintf(stderr, "%s\n", line); };
  std::array<char, 512> why{};
  if (gpuar_core_open(&params, &core, why.data(), why.size()) != GPUAR_OK) {
    std::fprintf(stderr, "threads: %s\n", why.data());
    return 4;
  }
  const auto mine = static_cast<std::size_t>(rank);
  const void* bytes = nullptr;
  std::size_t size = gpuar_core_record(core, &bytes);
  const auto* first = static_cast<const std::uint8_t*>(bytes);
  records[mine].assign(first, first + size);
  size = gpuar_core_address(core, &bytes);
  first = static_cast<const std::uint8_t*>(bytes);
  addresses[mine].assign(first, first + size);
  put(to, records[mine]);
  put(to, addresses[mine]);
  records[1 - mine] = get(from);
  addresses[1 - mine] = get(from);
  std::vector<std::thread> threads;
  for (std::uint64_t id = 1; id <= 3; ++id) threads.emplace_back(calls, rank, id, number);
  for (std::thread& thread : threads) thread.join();
  gpuar_core_flush(core);
  put(to, {1});  // nobody takes anything down before both have come here
  get(from);
  gpuar_core_close(core);
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const long number = argc > 1 ? std::strtol(argv[1], nullptr, 10) : 300;
  std::array<int, 2> up{};
  std::array<int, 2> down{};
  if (pipe(up.data()) != 0 || pipe(down.data()) != 0) return 3;
  const pid_t child = fork();
  if (child == 0) return process(1, down[0], up[1], number);
  const int mine = process(0, up[0], down[1], number);
  int theirs = 0;
  waitpid(child, &theirs, 0);
  std::printf("threads: %d %d\n", mine, theirs);
  return mine == 0 && theirs == 0 ? 0 : 1;
}
