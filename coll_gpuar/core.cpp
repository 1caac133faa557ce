// The C face of the core: see core.h for what the functions do.
#include "coll_gpuar/core.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <exception>
#include <new>

#include "coll_gpuar/process.h"
#include "cuda_reduce/reduce.h"

namespace {

gpuar_counters counters{};

void tell(char* why, std::size_t bytes, const std::string& text) {
  if (why && bytes > 0) std::snprintf(why, bytes, "%s", text.c_str());
}

gpuar::WireParameters wire_parameters(const gpuar_params& params) {
  gpuar::WireParameters wire;
  wire.algorithm = params.algorithm ? params.algorithm : "auto";
  wire.priority = params.priority;
  wire.segment_size = params.segment_size;
  wire.pipeline_depth = params.pipeline_depth;
  wire.reproducible = params.reproducible;
  wire.test_node_size = params.test_node_size ? params.test_node_size : "";
  return wire;
}

// Reads the parameters into a core; false with `why` if one of them makes no sense.
bool read_params(const gpuar_params& params, gpuar_core& core, std::string& why) {
  core.params = params;
  core.algorithm = params.algorithm ? params.algorithm : "auto";
  core.test_node_size = params.test_node_size ? params.test_node_size : "";
  core.params.algorithm = core.algorithm.c_str();
  core.params.test_node_size = core.test_node_size.c_str();
  if (!gpuar::parse_algorithm(core.algorithm, core.forced.algorithm, why)) return false;
  const auto sizes = gpuar::parse_node_sizes(core.test_node_size);
  if (!sizes) {
    why = fmt::format("coll_gpuar_test_node_size is \"{}\"; give a number, or a list such as 1,3",
                      core.test_node_size);
    return false;
  }
  if (params.pipeline_depth < 0) {
    why = fmt::format("coll_gpuar_pipeline_depth is {}; give 0 (chosen) or more",
                      params.pipeline_depth);
    return false;
  }
  core.pretend_nodes = *sizes;
  core.forced.segment_bytes = params.segment_size;
  core.forced.depth = static_cast<std::uint32_t>(params.pipeline_depth);
  return true;
}

void count_call(gpuar_core& core) {
  core.active.fetch_add(1, std::memory_order_acq_rel);
  if (core.helper.joinable()) core.wake.notify_one();
}

// Binds a run to a call. nullptr, with the error logged, if no plan can be made.
gpuar::Run* bind(gpuar_comm& comm, const gpuar_args& args, gpuar::MessageKind kind) {
  try {
    const PlanKey key{args.count, args.element_bytes, args.commutative, args.custom != nullptr};
    gpuar::Run* run = comm.core->engine.take();
    run->comm = &comm;
    run->plan = comm.plan(key);
    run->binding.in = static_cast<const std::byte*>(args.in);
    run->binding.out = static_cast<std::byte*>(args.out);
    run->binding.reduction = {args.custom ? nullptr : gpuar::host_reduce(args.op, args.type),
                              args.custom, args.custom_context};
    run->kind = kind;
    run->round = 0;
    return run;
  } catch (const std::exception& error) {
    comm.core->log(fmt::format("gpuar: {}: no plan for {} elements of {} bytes on rank {}: {}",
                               comm.name, args.count, args.element_bytes, comm.rank, error.what()));
    return nullptr;
  }
}

// With the lock held, or with nobody else about.
void release(gpuar_comm* comm) {
  if (--comm->references > 0) return;
  comm->core->engine.remove(*comm);
  delete comm;
}

void* resolve(gpuar::Comm& base, gpuar::Rank rank) {
  auto& comm = static_cast<gpuar_comm&>(base);
  gpuar_core& core = *comm.core;
  const std::uint64_t process = comm.processes[static_cast<std::size_t>(rank)];
  gpuar_member& member = core.member(comm.directory, process);
  if (!member.peer) {
    const auto address = fetch_published(comm.directory.address, comm.directory.context, process);
    if (address.empty()) return nullptr;
    member.peer = core.transport.connect(address.data(), address.size());
  }
  return member.peer;
}

void log_error(gpuar::Comm& comm, const std::string& what) {
  static_cast<gpuar_comm&>(comm).core->log(
      fmt::format("gpuar: allreduce on {} fails on rank {}: {}; this communicator is unusable now",
                  comm.name, comm.rank, what));
}

// What pop_finished() yields, copied out so that callbacks run with no lock held.
struct Delivery {
  gpuar_done done;
  void* user;
  int status;
  gpuar_comm* comm;  // nullptr: the persistent request keeps its reference
};

std::size_t collect(gpuar_core& core, std::span<Delivery> deliveries) {
  std::size_t count = 0;
  while (count < deliveries.size()) {
    gpuar::Run* run = core.engine.pop_finished();
    if (!run) break;
    const bool once = run->kind == gpuar::MessageKind::call;
    deliveries[count++] = {run->done, run->user, error_code(run->status),
                           once ? static_cast<gpuar_comm*>(run->comm) : nullptr};
    if (once) core.engine.give(run);
  }
  return count;
}

}  // namespace

extern "C" {

gpuar_counters* gpuar_get_counters(void) {
  return &counters;
}

int gpuar_core_open(const gpuar_params* params, gpuar_core** out, char* why, size_t why_bytes) {
  *out = nullptr;
  try {
    auto core = std::make_unique<gpuar_core>();
    std::string reason;
    if (!read_params(*params, *core, reason)) {
      tell(why, why_bytes, reason);
      return GPUAR_ERR;
    }
    gpuar::UcxOptions options;
    options.eager_limit = params->eager_limit;
    options.log = params->log;
    if (core->transport.open(core->engine.handler(), options, reason) != gpuar::Status::ok) {
      tell(why, why_bytes, reason);
      return GPUAR_ERR;
    }
    core->record.version = GPUAR_VERSION;
    core->record.parameters = wire_parameters(*params);
    core->record.place = gpuar::discover_place();
    core->record_size = gpuar::encode(core->record, core->record_bytes);
    gpuar_core_set_threads(core.get(), params->thread_multiple, params->yield);
    if (params->progress_thread) core->start_helper();
    *out = core.release();
    return GPUAR_OK;
  } catch (const std::exception& error) {
    tell(why, why_bytes, error.what());
    return GPUAR_ERR;
  }
}

void gpuar_core_set_threads(gpuar_core* core, bool thread_multiple, bool yield) {
  core->locking = thread_multiple || core->params.progress_thread;
  core->yield = yield;
}

void gpuar_core_flush(gpuar_core* core) {
  if (!core) return;
  const CoreLock lock(*core);
  constexpr double seconds = 2.0;
  if (core->transport.flush(seconds) != gpuar::Status::ok) {
    core->log("gpuar: data is still on its way after 2 s at MPI_Finalize; a peer may be gone");
  }
}

void gpuar_core_close(gpuar_core* core) {
  if (!core) return;
  core->stop_helper();
  core->transport.close();
  delete core;
}

size_t gpuar_core_record(const gpuar_core* core, const void** bytes) {
  *bytes = core->record_bytes.data();
  return core->record_size;
}

size_t gpuar_core_address(const gpuar_core* core, const void** bytes) {
  const auto address = core->transport.address();
  *bytes = address.data();
  return address.size();
}

size_t gpuar_refusal(const gpuar_params* params, const char* why, uint8_t out[GPUAR_RECORD_MAX]) {
  static_assert(GPUAR_RECORD_MAX == gpuar::record_capacity);
  gpuar::Record record;
  record.version = GPUAR_VERSION;
  record.refusal = why && *why ? why : "unknown reason";
  record.parameters = wire_parameters(*params);
  record.place = gpuar::discover_place();
  gpuar::RecordBytes bytes{};
  const std::size_t size = gpuar::encode(record, bytes);
  std::copy_n(bytes.begin(), size, out);
  return size;
}

int gpuar_comm_create(gpuar_core* core, const gpuar_comm_desc* desc, gpuar_comm** out, char* why,
                      size_t why_bytes) {
  *out = nullptr;
  try {
    const auto size = static_cast<std::size_t>(desc->size);
    std::vector<const gpuar::Record*> records(size);
    std::vector<const gpuar::ProcessPlace*> places(size);
    for (std::size_t i = 0; i < size; ++i) {
      const gpuar_member& member = core->member(*desc->directory, desc->processes[i]);
      records[i] = &member.record;
      places[i] = &member.record.place;
      if (!member.published) break;  // one is enough, and each may cost seconds to ask for
    }
    const gpuar::Verdict verdict = gpuar::judge(records);
    if (!verdict.served) {
      tell(why, why_bytes, verdict.sentence);
      return GPUAR_ERR_DECLINED;
    }
    const gpuar::Layout layout = gpuar::make_layout(places, core->pretend_nodes);
    auto comm = std::make_unique<gpuar_comm>();
    comm->core = core;
    comm->id = {desc->id_high, desc->id_low};
    comm->rank = desc->rank;
    comm->size = desc->size;
    comm->name = desc->name ? desc->name : "communicator";
    comm->peers.resize(size);
    comm->resolve = resolve;
    comm->log = log_error;
    comm->processes.assign(desc->processes, desc->processes + size);
    comm->directory = *desc->directory;
    comm->layout = {static_cast<std::uint32_t>(layout.nodes),
                    static_cast<std::uint32_t>(layout.largest_node), layout.oversubscribed};
    const CoreLock lock(*core);
    core->engine.add(*comm);
    *out = comm.release();
    return GPUAR_OK;
  } catch (const std::bad_alloc&) {
    tell(why, why_bytes, "out of memory");
    return GPUAR_ERR_NO_MEMORY;
  }
}

void gpuar_comm_release(gpuar_comm* comm) {
  if (!comm) return;
  const CoreLock lock(*comm->core);
  release(comm);
}

bool gpuar_can_reduce(gpuar_op op, gpuar_type type) {
  return gpuar::host_reduce(op, type) != nullptr;
}

int gpuar_allreduce(gpuar_comm* comm, const gpuar_args* args, void (*wait)(void)) {
  gpuar_core& core = *comm->core;
  gpuar::Run* run = nullptr;
  {
    const CoreLock lock(core);
    run = bind(*comm, *args, gpuar::MessageKind::call);
    if (!run) return GPUAR_ERR;
    run->done = nullptr;
    ++counters.blocking;
    count_call(core);
    core.engine.start(*run);
  }
  const int spins = core.yield ? 0 : core.params.spin;
  for (int i = 0; i < spins && !run->complete.load(std::memory_order_acquire); ++i) {
    gpuar_progress(&core);
  }
  while (!run->complete.load(std::memory_order_acquire)) wait();
  const CoreLock lock(core);
  const int status = error_code(run->status);
  core.engine.give(run);
  core.active.fetch_sub(1, std::memory_order_acq_rel);
  return status;
}

int gpuar_iallreduce(gpuar_comm* comm, const gpuar_args* args, gpuar_done done, void* user) {
  gpuar_core& core = *comm->core;
  const CoreLock lock(core);
  gpuar::Run* run = bind(*comm, *args, gpuar::MessageKind::call);
  if (!run) return GPUAR_ERR;
  run->done = done;
  run->user = user;
  ++comm->references;
  ++counters.nonblocking;
  count_call(core);
  core.engine.start(*run);
  return GPUAR_OK;
}

int gpuar_allreduce_init(gpuar_comm* comm, const gpuar_args* args, gpuar_done done, void* user,
                         gpuar_call** call) {
  *call = nullptr;
  const CoreLock lock(*comm->core);
  gpuar::Run* run = bind(*comm, *args, gpuar::MessageKind::persistent);
  if (!run) return GPUAR_ERR;
  run->done = done;
  run->user = user;
  run->sequence = static_cast<std::uint32_t>(comm->persistent.size());
  comm->persistent.push_back(run);
  ++comm->references;
  *call = reinterpret_cast<gpuar_call*>(run);
  return GPUAR_OK;
}

int gpuar_call_start(gpuar_call* call) {
  auto* run = reinterpret_cast<gpuar::Run*>(call);
  gpuar_core& core = *static_cast<gpuar_comm*>(run->comm)->core;
  const CoreLock lock(core);
  ++run->round;
  ++counters.persistent;
  count_call(core);
  core.engine.start(*run);
  return GPUAR_OK;
}

void gpuar_call_free(gpuar_call* call) {
  auto* run = reinterpret_cast<gpuar::Run*>(call);
  auto* comm = static_cast<gpuar_comm*>(run->comm);
  gpuar_core& core = *comm->core;
  const CoreLock lock(core);
  comm->persistent[run->sequence] = nullptr;
  core.engine.give(run);
  release(comm);
}

int gpuar_progress(gpuar_core* core) {
  constexpr std::size_t batch = 32;
  std::array<Delivery, batch> deliveries;
  std::size_t count = 0;
  unsigned events = 0;
  {
    const CoreLock lock(*core, std::try_to_lock);
    if (!lock) return 0;
    events = core->engine.progress(gpuar::Caller::program);
    count = collect(*core, deliveries);
    counters.bytes_sent = core->transport.bytes_sent();
    counters.messages_sent = core->transport.messages_sent();
  }
  for (std::size_t i = 0; i < count; ++i) {
    const Delivery& delivery = deliveries[i];
    delivery.done(delivery.user, delivery.status);
    core->active.fetch_sub(1, std::memory_order_acq_rel);
    if (delivery.comm) gpuar_comm_release(delivery.comm);
  }
  return static_cast<int>(events + count);
}

bool gpuar_active(const gpuar_core* core) {
  return core->active.load(std::memory_order_relaxed) != 0;
}

}  // extern "C"
