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
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "coll_gpuar/agreement/record.h"
#include "coll_gpuar/core.h"
#include "coll_gpuar/engine/engine.h"
#include "coll_gpuar/selection/select.h"
#include "topo/layout.h"
#include "ucx_bridge/ucx_transport.h"

// What this process knows of another one. Looked up once.
struct gpuar_member {
  bool published = false;
  gpuar::Record record;
  gpuar::UcxTransport::Peer peer = nullptr;  // once its address was looked up
};

struct gpuar_core {
  // Parameters, with texts of our own.
  std::string algorithm;
  std::string test_node_size;
  gpuar_params params{};
  gpuar::Forced forced;
  gpuar::NodeSizes pretend_nodes;

  gpuar::Record record;
  gpuar::RecordBytes record_bytes{};
  std::size_t record_size = 0;

  // Guards the transport, the engine and all communicators; taken only where there are several
  // threads.
  std::mutex mutex;
  bool locking = false;
  bool yield = false;
  std::atomic<std::uint32_t> active{0};  // calls started and not yet delivered
  gpuar::UcxTransport transport;
  gpuar::Engine<gpuar::UcxTransport> engine{transport};

  std::mutex members_mutex;
  std::unordered_map<std::uint64_t, gpuar_member> members;

  // Schedules by (algorithm, radix, rank, size): communicators of one shape share them.
  using ProgramKey = std::tuple<std::uint32_t, std::uint32_t, gpuar::Rank, gpuar::Rank>;
  std::map<ProgramKey, std::shared_ptr<const gpuar::Program>> programs;

  // The optional progress thread.
  std::thread helper;
  std::condition_variable wake;
  std::mutex wake_mutex;
  std::atomic<bool> stopping{false};

  void log(const std::string& line) const {
    if (params.log) params.log(line.c_str());
  }
  void start_helper();
  void stop_helper();
  gpuar_member& member(const gpuar_directory& directory, std::uint64_t process);
  std::shared_ptr<const gpuar::Program> program(const gpuar::Choice& choice, gpuar::Rank rank,
                                                gpuar::Rank size);
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
  std::vector<std::uint64_t> processes;
  gpuar_directory directory{};
  gpuar::LayoutSummary layout;

  static constexpr std::size_t max_plans = 1024;
  PlanKey last_key;
  std::shared_ptr<const gpuar::Plan> last_plan;
  std::unordered_map<PlanKey, std::shared_ptr<const gpuar::Plan>, PlanKeyHash> plans;

  // Throws what the builder throws.
  const std::shared_ptr<const gpuar::Plan>& plan(const PlanKey& key);

 private:
  std::shared_ptr<const gpuar::Plan> make_plan(const PlanKey& key);
};

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
    case gpuar::Status::truncated:
      return GPUAR_ERR_TRUNCATED;
    default:
      return GPUAR_ERR;
  }
}
