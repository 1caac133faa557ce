// The C face of the core: see core.h for what the functions do.
#include "coll_gpuar/core.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <exception>
#include <new>

#include "coll_gpuar/call_range.h"
#include "coll_gpuar/callbacks.h"
#include "coll_gpuar/process.h"
#include "cuda_reduce/ranges.h"
#include "cuda_reduce/reduce.h"

namespace {

gpuar_counters counters{};

void tell(char* why, std::size_t bytes, const std::string& text) {
  if (why && bytes > 0) std::snprintf(why, bytes, "%s", text.c_str());
}

void begin_call(gpuar_core& core, gpuar::Run& run) {
  core.count_active(1);
  if (core.helper.joinable()) core.wake.notify_one();
  if (core.shows_ranges) [[unlikely]]
    run.range = gpuar::begin_call_range(run);
}

void end_range_of(const gpuar_core& core, const gpuar::Run& run) {
  if (core.shows_ranges && !run.own) [[unlikely]]
    gpuar::end_range(run.range);
}

void count_fallback(gpuar::Verdict::Cause cause) {
  uint64_t* counter = &counters.fallbacks_different;
  if (cause == gpuar::Verdict::Cause::missing) counter = &counters.fallbacks_missing;
  if (cause == gpuar::Verdict::Cause::refusing) counter = &counters.fallbacks_refusing;
  __atomic_fetch_add(counter, 1, __ATOMIC_RELAXED);
}

// Counters that others keep. With the lock held.
void take_stock(const gpuar_core& core) {
  counters.pool_bytes = core.engine.pooled_bytes();
  counters.bytes_sent = core.transport.bytes_sent();
  counters.messages_sent = core.transport.messages_sent();
  counters.kernel_launches = core.cuda->launches();
  counters.device_copies = core.cuda->copies();
  if (core.report) {
    counters.time_ns = core.report->totals().time_ns;
    counters.wait_ns = core.report->totals().wait_ns;
  }
}

// With the lock held, or with nobody else about.
void release(gpuar_comm* comm) {
  if (--comm->references > 0) return;
  if (comm->journal) comm->core->report->keep(*comm);
  comm->core->engine.remove(*comm);
  delete comm;
}

// Whatever looks after calls besides the engine. It may find no memory: then another time.
void look_after_calls(gpuar_core& core) try {
  if (core.checking) [[unlikely]]
    core.checking->poll();
  core.watch.poll(core);
} catch (const std::bad_alloc&) {
}

// What pop_finished() yields, copied out so that callbacks run with no lock held.
struct Delivery {
  gpuar_done done;
  void* user;
  int status;
  gpuar_comm* comm;  // nullptr: the persistent request keeps its reference
};

std::size_t collect(gpuar_core& core, std::span<Delivery> deliveries) {
  const CoreLock lock(core);
  std::size_t count = 0;
  while (count < deliveries.size()) {
    gpuar::Run* run = core.engine.pop_finished();
    if (!run) break;
    const bool once = run->kind != gpuar::MessageKind::persistent;
    end_range_of(core, *run);
    deliveries[count++] = {run->done, run->user, error_code(run->status),
                           once ? static_cast<gpuar_comm*>(run->comm) : nullptr};
    if (once) core.engine.give(run);
  }
  return count;
}

// Tells whose calls have finished; how many. Out of line: most polls have nothing for it.
[[gnu::noinline]] unsigned deliver(gpuar_core& core) {
  constexpr std::size_t batch = 32;
  std::array<Delivery, batch> deliveries;
  const std::size_t count = collect(core, deliveries);
  for (std::size_t i = 0; i < count; ++i) {
    const Delivery& delivery = deliveries[i];
    delivery.done(delivery.user, delivery.status);
    core.count_active(-1);
    if (delivery.comm) gpuar_comm_release(delivery.comm);
  }
  return static_cast<unsigned>(count);
}

bool is_complete(const gpuar::Run& run) {
  return run.complete.load(std::memory_order_acquire);
}

void wait_and_spin(gpuar_core& core, const gpuar::Run& run, void (*wait)()) {
  for (int i = 0; i < core.live->spin && !is_complete(run); ++i) gpuar_progress(&core);
  while (!is_complete(run)) wait();
}

// For ranks that share cores: the fewer system calls each of them makes in its turn, the sooner it
// is the next one's. Open MPI's progress makes several where it has TCP connections of its own, so
// it has one turn in a few.
void wait_and_yield(gpuar_core& core, const gpuar::Run& run, void (*wait)()) {
  constexpr int most_polls = 16;
  const int polls = std::min(core.live->spin, most_polls);
  while (!is_complete(run)) {
    for (int i = 0; i < polls && !is_complete(run); ++i) {
      if (gpuar_progress(&core) == 0) sched_yield();
    }
    if (!is_complete(run)) wait();
  }
}

}  // namespace

void count_device_call(const gpuar::Run& run) {
  if (!run.device.gpu) return;
  ++counters.device_calls;
  if (run.device.carry == gpuar::Carry::through_host) ++counters.through_host;
}

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
    gpuar::CudaOptions cuda;
    cuda.pool_bound = cuda.pinned_bound = params->pool_size;
    cuda.test_fault = core->test_fault.c_str();
    cuda.log = params->log;
    cuda.blocks = {&core->transport, gpuar::map_block, gpuar::unmap_block};
    core->cuda.emplace(cuda);
    core->find_place();
    gpuar::UcxOptions options;
    options.eager_limit = params->eager_limit;
    options.mailbox_limit = params->mailbox_size;
    options.net_devices = fmt::format("{}", fmt::join(core->nics.devices, ","));
    options.log = params->log;
    if (core->transport.open(core->engine.handler(), options, reason) != gpuar::Status::ok) {
      tell(why, why_bytes, reason);
      return GPUAR_ERR;
    }
    core->record.carries_device = core->transport.carries(gpuar::MemoryKind::device);
    core->record.version = GPUAR_VERSION;
    core->record.parameters = wire_parameters(*params);
    core->read_tuning_file();
    core->record_size = gpuar::encode(core->record, core->record_bytes);
    core->shows_ranges = gpuar::profiler_takes_ranges();
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
  // Never back: Open MPI's word on threads is overwritten by whoever calls MPI_T_init_thread.
  core->locking = core->locking || thread_multiple || core->params.progress_thread;
  core->yield = yield;
}

void gpuar_core_take_stock(gpuar_core* core) {
  const CoreLock lock(*core);
  take_stock(*core);
}

void gpuar_core_flush(gpuar_core* core) {
  if (!core) return;
  const CoreLock lock(*core);
  constexpr double seconds = 2.0;
  if (core->transport.flush(seconds) != gpuar::Status::ok) {
    core->log("gpuar: data is still on its way after 2 s at MPI_Finalize; a peer may be gone");
  }
  take_stock(*core);
}

void gpuar_core_close(gpuar_core* core) {
  if (!core) return;
  core->stop_helper();
  core->tell_about_peers();
  core->transport.close();
  core->cuda->close();
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

int gpuar_comm_create(gpuar_core* core, const gpuar_comm_desc* desc, gpuar_comm** out,
                      uint64_t* reason, char* why, size_t why_bytes) {
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
    core->tell_about_tuning(records, desc->rank);
    const gpuar::Verdict verdict = gpuar::judge(records);
    if (!verdict.served) {
      tell(why, why_bytes, verdict.sentence);
      *reason = std::hash<std::string>{}(verdict.item);
      if (size > 1) count_fallback(verdict.cause);
      return GPUAR_ERR_DECLINED;
    }
    const auto laid_out = core->lay_out({desc->processes, size}, places);
    core->tell_about(*desc, laid_out->layout, places);
    auto comm = std::make_unique<gpuar_comm>();
    comm->core = core;
    comm->id = {desc->id_high, desc->id_low};
    comm->rank = desc->rank;
    comm->size = desc->size;
    comm->name = desc->name && *desc->name != '\0'
                     ? desc->name
                     : fmt::format("an unnamed communicator of {} ranks", desc->size);
    comm->peers.resize(size);
    comm->resolve = gpuar::resolve;
    comm->log = gpuar::log_error;
    comm->take_note = gpuar::take_note;
    comm->sends = gpuar::send_device_memory;
    comm->fetches = gpuar::fetch_device_memory;
    comm->watched = true;
    comm->is_revoked = desc->is_revoked;
    comm->handle = desc->handle;
    comm->processes.assign(desc->processes, desc->processes + size);
    comm->directory = *desc->directory;
    comm->layout = laid_out->summary;
    comm->forced = core->forced;
    comm->reproducible = core->params.reproducible;
    comm->wanted = core->expect;
    comm->take_hints(*desc);
    comm->expect = gpuar_core::expectation(comm->wanted, records);
    comm->staged = std::any_of(records.begin(), records.end(),
                               [](const gpuar::Record* record) { return !record->carries_device; });
    const CoreLock lock(*core);
    if (core->report) comm->journal = core->report->journal(*comm, places);
    if (core->tracing) {
      comm->traced_as = core->tracing->trace().add_communicator(
          {gpuar::key_of(*comm), comm->name, comm->size, comm->rank});
    }
    comm->placement = laid_out->placement;
    core->engine.add(*comm);
    *out = comm.release();
    return GPUAR_OK;
  } catch (const std::exception& error) {
    tell(why, why_bytes, error.what());
    return GPUAR_ERR_NO_MEMORY;
  }
}

void gpuar_comm_release(gpuar_comm* comm) {
  if (!comm) return;
  const CoreLock lock(*comm->core);
  release(comm);
}

void gpuar_abandon(gpuar_comm* comm, int status, const char* why) {
  const CoreLock lock(*comm->core);
  comm->core->engine.abandon(
      *comm, status == GPUAR_ERR_NO_MEMORY ? gpuar::Status::no_memory : gpuar::Status::failed, why);
}

int gpuar_allreduce(gpuar_comm* comm, const gpuar_args* args, void (*wait)(void)) {
  gpuar_core& core = *comm->core;
  gpuar::Run* run = nullptr;
  {
    const CoreLock lock(core);
    run = bind(*comm, *args, gpuar::MessageKind::call, gpuar::CallForm::blocking);
    if (!run) return GPUAR_ERR_NO_MEMORY;
    run->done = nullptr;
    ++counters.blocking;
    begin_call(core, *run);
    core.engine.start(*run);
  }
  if (core.yield) {
    wait_and_yield(core, *run, wait);
  } else {
    wait_and_spin(core, *run, wait);
  }
  const CoreLock lock(core);
  const int status = error_code(run->status);
  end_range_of(core, *run);
  core.engine.give(run);
  core.count_active(-1);
  return status;
}

int gpuar_iallreduce(gpuar_comm* comm, gpuar_stream stream, const gpuar_args* args, gpuar_done done,
                     void* user) {
  gpuar_core& core = *comm->core;
  const CoreLock lock(core);
  gpuar::Run* run = bind(
      *comm, *args,
      stream == GPUAR_STREAM_INTERNAL ? gpuar::MessageKind::internal : gpuar::MessageKind::call,
      gpuar::CallForm::nonblocking);
  if (!run) return GPUAR_ERR_NO_MEMORY;
  run->done = done;
  run->user = user;
  ++comm->references;
  ++counters.nonblocking;
  begin_call(core, *run);
  core.engine.start(*run);
  return GPUAR_OK;
}

int gpuar_allreduce_init(gpuar_comm* comm, const gpuar_args* args, gpuar_done done, void* user,
                         gpuar_call** call) {
  *call = nullptr;
  const CoreLock lock(*comm->core);
  gpuar::Run* run = bind(*comm, *args, gpuar::MessageKind::persistent, gpuar::CallForm::persistent);
  if (!run) return GPUAR_ERR_NO_MEMORY;
  run->done = done;
  run->user = user;
  ++comm->references;
  *call = reinterpret_cast<gpuar_call*>(run);
  return GPUAR_OK;
}

int gpuar_call_start(gpuar_call* call) {
  auto* run = reinterpret_cast<gpuar::Run*>(call);
  gpuar_core& core = *static_cast<gpuar_comm*>(run->comm)->core;
  const CoreLock lock(core);
  ++run->round;
  if (run->check) [[unlikely]] {
    core.checking->start(*run->check);
    core.checking->hold_back(*run->check, *run);
  }
  ++counters.persistent;
  count_device_call(*run);
  begin_call(core, *run);
  core.engine.start(*run);
  return GPUAR_OK;
}

void gpuar_call_free(gpuar_call* call) {
  auto* run = reinterpret_cast<gpuar::Run*>(call);
  auto* comm = static_cast<gpuar_comm*>(run->comm);
  gpuar_core& core = *comm->core;
  const CoreLock lock(core);
  comm->persistent[run->sequence] = nullptr;
  if (run->check) core.checking->free(run->check);
  std::erase_if(comm->unplanned, [run](const auto& waiting) { return waiting.run == run; });
  core.engine.give(run);
  release(comm);
}

int gpuar_progress(gpuar_core* core) {
  unsigned events = 0;
  bool finished = false;
  {
    const CoreLock lock(*core, std::try_to_lock);
    if (!lock) return 0;
    events = core->engine.progress(gpuar::Caller::program);
    look_after_calls(*core);
    take_stock(*core);
    finished = core->engine.has_finished();
  }
  if (finished) events += deliver(*core);
  return static_cast<int>(events);
}

bool gpuar_active(const gpuar_core* core) {
  return core->active.load(std::memory_order_relaxed) != 0;
}

}  // extern "C"
