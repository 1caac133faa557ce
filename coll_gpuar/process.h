// The core of one process: its transport, its engine, what it knows of other processes, and the
// communicators that it serves. Behind the C face (core.h), which says what the functions do.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coll_gpuar/agreement/record.h"
#include "coll_gpuar/checking.h"
#include "coll_gpuar/core.h"
#include "coll_gpuar/engine/engine.h"
#include "coll_gpuar/ipc_trial.h"
#include "coll_gpuar/placement.h"
#include "coll_gpuar/reporting.h"
#include "coll_gpuar/selection/select.h"
#include "coll_gpuar/selection/tuning_file.h"
#include "coll_gpuar/tracing.h"
#include "coll_gpuar/watch.h"
#include "cuda_reduce/gpu.h"
#include "topo/advice.h"
#include "topo/layout.h"
#include "ucx_bridge/ucx_transport.h"

// What this process knows of another one. Looked up once.
struct gpuar_member {
  bool published = false;
  gpuar::Record record;
  gpuar::UcxTransport::Peer peer = nullptr;  // once its address was looked up
  bool gone = false;
  unsigned broken_looks = 0;  // of the watch that found the connection broken
};

// What long messages are planned for, or that the ranks have yet to find out.
enum class gpuar_expect : std::uint8_t { host, device, ask, asking };

struct gpuar_core {
  // Parameters, with texts of our own.
  std::string algorithm;
  std::string test_node_size;
  std::string expect;
  std::string tuning_file;
  std::string test_fault;
  gpuar_params params{};
  const gpuar_params* live = &params;  // those that may change at any time
  gpuar::Forced forced;
  gpuar::Tuning tuning;
  std::string tuning_problem;  // why the file that was named is not used
  gpuar::Pretended pretended;
  bool always_through_host = false;  // a deliberate defect, for tests

  std::optional<gpuar::Reporting> report;   // if one is to be written, or a trace
  std::optional<gpuar::Tracing> tracing;    // if a trace is
  std::optional<gpuar::Checking> checking;  // if calls are checked

  gpuar::Record record;
  gpuar::NicAdvice nics;  // the network ports near this process's GPU
  gpuar::RecordBytes record_bytes{};
  std::size_t record_size = 0;

  // Guards the transport, the engine and all communicators; taken only where there are several
  // threads.
  std::mutex mutex;
  bool locking = false;
  bool yield = false;
  bool shows_ranges = false;            // a profiler wants to see the calls
  std::atomic<std::int32_t> active{0};  // calls started and not yet delivered
  // An atomic sum costs as much as twenty other instructions: only where there are several threads.
  void count_active(std::int32_t more) {
    if (locking) {
      active.fetch_add(more, std::memory_order_acq_rel);
    } else {
      active.store(active.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
    }
  }
  gpuar::UcxTransport transport;
  gpuar::Engine<gpuar::UcxTransport> engine{transport};
  std::optional<gpuar::Cuda> cuda;
  gpuar::Watch watch;
  gpuar::IpcTrial ipc_trial;

  std::mutex members_mutex;
  std::unordered_map<std::uint64_t, gpuar_member> members;

  // Where the ranks of communicators sit, each distinct one once.
  std::set<gpuar::Placement> placements;
  // The same of a communicator's processes, as far as they were asked about. That of the last one
  // is kept: a duplicate has the same.
  struct LaidOut {
    std::vector<std::uint64_t> processes;
    gpuar::Layout layout;
    gpuar::LayoutSummary summary;
    const gpuar::Placement* placement = nullptr;
  };
  std::shared_ptr<const LaidOut> lay_out(std::span<const std::uint64_t> processes,
                                         const std::vector<const gpuar::ProcessPlace*>& places);
  std::shared_ptr<const LaidOut> laid_out;
  // Schedules by (composition, algorithm, radix, rank, size, placement where it matters,
  // reproducible): communicators of one shape share them.
  using ProgramKey = std::tuple<std::uint32_t, std::uint32_t, std::uint32_t, gpuar::Rank,
                                gpuar::Rank, const gpuar::Placement*, bool>;
  std::map<ProgramKey, std::shared_ptr<const gpuar::Program>> programs;

  // The optional progress thread.
  std::thread helper;
  std::condition_variable wake;
  std::mutex wake_mutex;
  std::atomic<bool> stopping{false};

  void log(const std::string& line) const {
    if (params.log) params.log(line.c_str());
  }
  // Whether a process shares this one's host.
  bool is_here(const gpuar_member& member) const {
    return member.record.place.host_id == record.place.host_id;
  }
  // Reads the tuning file, if one is named. One that cannot be used is as good as none, and said to
  // the other ranks.
  void read_tuning_file();
  // One rank of the job says why it has no use for its tuning file.
  void tell_about_tuning(const std::vector<const gpuar::Record*>& members, gpuar::Rank rank);
  bool told_about_tuning = false;
  // Finds where this process sits: record.place, and `nics` where there is a GPU.
  void find_place();

  // If asked to be verbose: which UCX with which network ports (once), and where the ranks sit.
  void tell_about_libraries(gpuar::Rank rank);
  void tell_about(const gpuar_comm_desc& desc, const gpuar::Layout& layout,
                  const std::vector<const gpuar::ProcessPlace*>& places);
  // At the end: by which transports each peer was reached.
  void tell_about_peers();
  // How device memory travels: of each GPU, each way once.
  void tell_about_device(const gpuar::Memory& memory);
  void tell_about_waiting();
  const char* reason_for_the_host(const gpuar::Run& run, const gpuar_args& args) const;
  std::string told;  // to a tool, last
  bool told_about_libraries = false;
  bool told_about_waiting = false;
  std::set<std::pair<const gpuar::Gpu*, std::string_view>> told_about_devices;
  // Says how a call on these buffers is carried out. False if they are out of reach.
  [[nodiscard]] bool place(gpuar::Run& run, const gpuar_args& args);
  void start_helper();
  void stop_helper();
  // What long messages are planned for, if `wanted` is what coll_gpuar_expect says.
  static gpuar_expect expectation(std::string_view wanted,
                                  const std::vector<const gpuar::Record*>& members);
  gpuar_member& member(const gpuar_directory& directory, std::uint64_t process);
  std::shared_ptr<const gpuar::Program> program(const gpuar::Choice& choice,
                                                const gpuar_comm& comm);
};

// Takes the core's mutex where there are several threads.
class CoreLock {
 public:
  explicit CoreLock(gpuar_core& core) : mutex_(core.locking ? &core.mutex : nullptr) {
    if (mutex_) mutex_->lock();
  }
  CoreLock(gpuar_core& core, std::try_to_lock_t) : mutex_(core.locking ? &core.mutex : nullptr) {
    if (mutex_ && !mutex_->try_lock()) {
      mutex_ = nullptr;
      owned_ = false;
    }
  }
  CoreLock(const CoreLock&) = delete;
  CoreLock& operator=(const CoreLock&) = delete;
  ~CoreLock() {
    if (mutex_) mutex_->unlock();
  }
  explicit operator bool() const { return owned_; }

 private:
  std::mutex* mutex_;
  bool owned_ = true;
};

// A call's shape, as the plan cache tells calls apart.
struct PlanKey {
  std::size_t count = 0;
  std::size_t element_bytes = 0;
  bool commutative = true;
  bool custom = false;
  friend bool operator==(const PlanKey&, const PlanKey&) = default;
};

struct PlanKeyHash {
  std::size_t operator()(const PlanKey& key) const {
    constexpr std::size_t odd = 0x9e3779b97f4a7c15;
    return ((key.count * odd) ^ (key.element_bytes << 2)) + (key.commutative ? 1 : 0) +
           (key.custom ? 2 : 0);
  }
};

struct gpuar_comm : gpuar::Comm {
  gpuar_core* core = nullptr;
  std::uint32_t references = 1;  // the component's, one per call under way or persistent request
  gpuar_directory directory{};
  bool (*is_revoked)(const void* handle) = nullptr;  // asked with the component's handle
  const void* handle = nullptr;
  gpuar::LayoutSummary layout;
  gpuar::Forced forced;       // the core's, but for the hints of this communicator;
  bool reproducible = false;  // so is this,
  std::string wanted;         // and what is expected
  unsigned hints_used = 0;    // a bit for each gpuar_hint
  const gpuar::Placement* placement = nullptr;  // the core's

  // Long messages are planned for one kind of memory. Where the ranks may differ in theirs, they
  // ask each other before their first long call, by a call of gpuar's own; long calls wait for the
  // answer, and no caller does.
  static constexpr std::size_t long_bytes = std::size_t{64} << 10;
  using Expect = gpuar_expect;
  Expect expect = Expect::host;
  bool staged = false;  // somewhere device memory must be copied through host memory
  std::uint8_t on_device =
      0;  // asked: the first long call here is on device memory; then: anywhere
  struct Unplanned {
    gpuar::Run* run;
    PlanKey key;
  };
  std::vector<Unplanned> unplanned;

  bool must_ask(const PlanKey& key) const {
    return expect >= Expect::ask && key.count * key.element_bytes > long_bytes;
  }

  static constexpr std::size_t max_plans = 1024;
  PlanKey last_key;
  std::shared_ptr<const gpuar::Plan> last_plan;
  std::unordered_map<PlanKey, std::shared_ptr<const gpuar::Plan>, PlanKeyHash> plans;

  std::string news;  // on a plan just made, if asked to be verbose; the path is still to come

  // Whether `last_plan` is the plan of this call: the quick way for a call like the one before.
  bool is_last(const PlanKey& key) const { return last_plan && key == last_key; }
  // Takes the hints that come with the communicator. One that makes no sense is left out, as MPI
  // wants it, and rank 0 says so.
  void take_hints(const gpuar_comm_desc& desc);
  [[nodiscard]] bool take_hint(gpuar_hint hint, const char* text, std::string& why);
  // What is chosen for a call, and from what.
  struct Chosen {
    gpuar::CallShape shape;
    gpuar::PlannedFor memory;
    gpuar::Machine machine;
    gpuar::Forced forced;
    gpuar::Choice choice;
  };
  [[nodiscard]] Chosen choose(const PlanKey& key) const;
  // Bytes up to which calls on device memory go through the host: the parameter, unless that is as
  // it was and the tuning file says something.
  [[nodiscard]] std::size_t device_limit() const;
  // The plan of the short calls that check the others.
  const std::shared_ptr<const gpuar::Plan>& survey_plan();
  // Throws what the builder throws.
  const std::shared_ptr<const gpuar::Plan>& plan(const PlanKey& key);
  void forget(const PlanKey& key);

 private:
  std::shared_ptr<const gpuar::Plan> make_plan(const PlanKey& key);
  std::shared_ptr<const gpuar::Plan> survey_plan_;
};

// Those of the parameters that all ranks must share.
gpuar::WireParameters wire_parameters(const gpuar_params& params);
// Reads the parameters into a core; false with `why` if one of them makes no sense.
bool read_params(const gpuar_params& params, gpuar_core& core, std::string& why);
// Whether coll_gpuar_expect takes this value.
bool is_expectation(std::string_view text);

// Binds a run to a call; where calls are checked, behind its check, which is started (a persistent
// request's is with each start). nullptr, with the error logged, if no plan can be made.
gpuar::Run* bind(gpuar_comm& comm, const gpuar_args& args, gpuar::MessageKind kind,
                 gpuar::CallForm form);
// Counts a call that starts, if it is on device memory. bind() does, but for persistent requests.
void count_device_call(const gpuar::Run& run);

// What a process published, by one of a directory's look-ups; empty if nothing. Asks again with
// more room if the first try was short.
std::vector<std::uint8_t> fetch_published(size_t (*get)(void*, std::uint64_t, void*, std::size_t),
                                          void* context, std::uint64_t process);

constexpr int error_code(gpuar::Status status) {
  switch (status) {
    case gpuar::Status::ok:
      return GPUAR_OK;
    case gpuar::Status::no_memory:
      return GPUAR_ERR_NO_MEMORY;
    case gpuar::Status::unreachable:
      return GPUAR_ERR_UNREACHABLE;
    case gpuar::Status::process_failed:
      return GPUAR_ERR_PROCESS_FAILED;
    case gpuar::Status::revoked:
      return GPUAR_ERR_REVOKED;
    case gpuar::Status::truncated:
      return GPUAR_ERR_TRUNCATED;
    default:
      return GPUAR_ERR;
  }
}
