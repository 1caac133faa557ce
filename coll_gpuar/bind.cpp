// From a call's arguments to a bound run: its plan, its reduction, and how it is carried out.
#include <fmt/format.h>

#include <exception>

#include "coll_gpuar/process.h"
#include "cuda_reduce/reduce.h"

void gpuar_core::tell_about_device(const gpuar::Memory& memory) {
  if (live->verbose < 1) return;
  std::string_view travel = "UCX carries it";
  if (!transport.carries(memory.kind)) {
    travel = "staged through pinned host buffers, because this UCX has no CUDA transports";
  } else if (!memory.gpu->exports()) {
    travel = "staged through pinned host buffers, because the driver refuses IPC handles";
  } else if (!memory.exportable) {
    travel = "copied into memory that can be shared by IPC, because this one cannot";
  }
  if (!told_about_devices.emplace(memory.gpu, travel).second) return;
  const std::string beyond = gpuar::Cuda::has_kernels()
                                 ? fmt::format("beyond, reduced on the device and {}", travel)
                                 : fmt::format("beyond, too: {}", gpuar::Cuda::without_kernels);
  log(fmt::format("gpuar: {} memory of {}: up to {} bytes through pinned host memory; {}",
                  gpuar::describe(memory.kind), memory.gpu->name(), live->device_limit, beyond));
}

// What was asked for cannot be had in full, and a result may be wrong for it: said unasked.
void gpuar_core::tell_about_waiting() {
  if (told_about_waiting || cuda->waits_for_all_streams()) return;
  told_about_waiting = true;
  log(fmt::format(
      "gpuar: coll_gpuar_sync_device: this driver is older than CUDA 12.5, and waits for "
      "work on streams that block with the default stream alone; synchronise "
      "non-blocking streams before a call on their data ({})",
      cuda->state()));
}

// Why a call on device memory goes through the host; null if it need not.
const char* gpuar_core::reason_for_the_host(const gpuar::Run& run, const gpuar_args& args) const {
  const gpuar::DeviceCall& device = run.device;
  const auto& comm = static_cast<const gpuar_comm&>(*run.comm);
  if (args.count * args.element_bytes <= comm.device_limit())
    return "no longer than coll_gpuar_device_limit";
  if (args.custom) return "a user-defined operation is a function of the host";
  if (!device.out.gpu) return "the result lies in host memory";
  if (!gpuar::Cuda::has_kernels()) return gpuar::Cuda::without_kernels;
  const bool reduces = (args.divide_by == 0 || device.gpu->can_divide(args.type)) &&
                       device.gpu->can_reduce(args.op, args.type);
  if (!reduces) return "no kernel of this device reduces this type by this operation";
  return always_through_host ? "a test asks for it" : nullptr;
}

bool gpuar_core::place(gpuar::Run& run, const gpuar_args& args) {
  const gpuar::Memory in = cuda->memory_of(args.in);
  const gpuar::Memory out = args.in == args.out ? in : cuda->memory_of(args.out);
  if (gpuar::is_out_of_reach(in) || gpuar::is_out_of_reach(out)) return false;
  if (!in.gpu && !out.gpu) return true;
  gpuar::DeviceCall& device = run.device;
  device.gpu = out.gpu ? out.gpu : in.gpu;
  device.stage = gpuar::Stage::bound;
  device.in = in;
  device.out = out;
  device.user_in = static_cast<const std::byte*>(args.in);
  device.user_out = static_cast<std::byte*>(args.out);
  device.after_queued_work = live->sync_device;
  if (live->sync_device) tell_about_waiting();
  device.why = reason_for_the_host(run, args);
  device.carry = device.why == nullptr ? gpuar::Carry::on_device : gpuar::Carry::through_host;
  engine.use(*cuda);
  tell_about_device(out.gpu ? out : in);
  return true;
}

namespace {

std::string path_of(const gpuar::Run& run) {
  switch (run.device.carry) {
    case gpuar::Carry::host:
      return "host memory";
    case gpuar::Carry::through_host:
      return fmt::format("device memory, carried through the host: {}", run.device.why);
    case gpuar::Carry::on_device:
      return "device memory";
  }
  return "unknown";
}

void tell_news(gpuar_comm& comm, const gpuar::Run& run) {
  comm.core->log(comm.news + path_of(run));
  comm.news.clear();
}

void answered(void* user, int status);

// Starts the call by which the ranks ask each other. It takes the number before the call that made
// it necessary: that is the same one on every rank.
void ask(gpuar_comm& comm, const gpuar::Run& first) {
  comm.expect = gpuar_comm::Expect::asking;
  comm.on_device = first.device.gpu ? 1 : 0;
  gpuar_core& core = *comm.core;
  gpuar::Run* run = core.engine.take();
  run->comm = &comm;
  run->plan = comm.plan({1, 1, true, false});
  comm.news.clear();  // nobody asked for this call
  std::byte* answer = reinterpret_cast<std::byte*>(&comm.on_device);
  run->binding = {
      answer, answer, {GPUAR_MAX, GPUAR_UINT8, gpuar::host_reduce(GPUAR_MAX, GPUAR_UINT8)}};
  run->device = {};
  run->kind = gpuar::MessageKind::call;
  run->round = 0;
  run->own = true;
  run->check = nullptr;
  run->done = answered;
  run->user = &comm;
  ++comm.references;
  core.count_active(1);
  core.engine.start(*run);
}

// All ranks have answered: what waited can be planned.
void answered(void* user, int status) {
  auto& comm = *static_cast<gpuar_comm*>(user);
  const CoreLock lock(*comm.core);
  comm.expect = comm.on_device != 0 ? gpuar_comm::Expect::device : gpuar_comm::Expect::host;
  const auto waiting = std::move(comm.unplanned);
  comm.unplanned.clear();
  if (status != GPUAR_OK) return;
  try {
    for (const auto& [run, key] : waiting) {
      if (comm.status != gpuar::Status::ok) return;  // they ended with it, and may be others' now
      const auto& plan = comm.plan(key);
      if (run->check && run->check->waiting) {
        run->check->plan = plan;
        continue;
      }
      run->plan = plan;
      if (!comm.news.empty()) tell_news(comm, *run);
      comm.core->engine.resume(*run);
    }
  } catch (const std::exception& error) {
    comm.core->engine.abandon(comm, gpuar::Status::no_memory,
                              {"no plan can be made: ", std::string_view(error.what())});
  }
}

// A program that uses CUDA: where do the buffers lie? A persistent request counts when it starts.
void bind_memory(gpuar_core& core, gpuar::Run& run, const gpuar_args& args,
                 gpuar::MessageKind kind) {
  run.device = {};
  if (!core.place(run, args)) {
    core.engine.abandon(*run.comm, gpuar::Status::failed,
                        {"the host cannot read a buffer, and the CUDA driver does not say whose "
                         "it is; look for the program's first CUDA error (",
                         std::string_view(core.cuda->state()), ")"});
  }
  if (kind != gpuar::MessageKind::persistent) count_device_call(run);
}

// Gives a run its plan; or, where the kind of memory to plan it for is yet to be found out, puts it
// with those that wait for the answer.
void plan(gpuar_comm& comm, gpuar::Run& run, const PlanKey& key, gpuar::MessageKind kind) {
  const bool unknown = comm.must_ask(key);
  if (!unknown || kind == gpuar::MessageKind::internal) {
    run.plan = comm.plan(key);
    if (unknown) comm.forget(key);  // the program's calls must not find it
    return;
  }
  run.plan = nullptr;
  run.device.stage = gpuar::Stage::bound;
  comm.unplanned.push_back({&run, key});
  if (comm.expect == gpuar_comm::Expect::ask) ask(comm, run);
}

// Binds a call's arguments. Throws what making a plan throws.
gpuar::Run* bind_run(gpuar_comm& comm, const gpuar_args& args, gpuar::MessageKind kind) {
  const PlanKey key{args.count, args.element_bytes, args.commutative, args.custom != nullptr};
  if (kind == gpuar::MessageKind::persistent) comm.persistent.reserve(comm.persistent.size() + 1);
  gpuar::Run* run = comm.core->engine.take();
  run->comm = &comm;
  run->binding.in = static_cast<const std::byte*>(args.in);
  run->binding.out = static_cast<std::byte*>(args.out);
  run->binding.reduction = {args.op,
                            args.type,
                            args.custom ? nullptr : gpuar::host_reduce(args.op, args.type),
                            args.custom,
                            args.custom_context,
                            args.divide_by > 0 ? gpuar::host_divide(args.type) : nullptr,
                            args.divide_by};
  run->kind = kind;
  run->round = 0;
  run->own = false;
  run->check = nullptr;
  run->device.stage = gpuar::Stage::running;
  if (comm.core->cuda->present()) [[unlikely]]
    bind_memory(*comm.core, *run, args, kind);
  if (comm.is_last(key)) [[likely]] {
    // Most often the run has just served such a call. Counting references costs more than looking.
    if (run->plan != comm.last_plan) run->plan = comm.last_plan;
  } else {
    plan(comm, *run, key, kind);
  }
  if (kind == gpuar::MessageKind::persistent) {
    run->sequence = static_cast<std::uint32_t>(comm.persistent.size());
    comm.persistent.push_back(run);
  }
  if (!comm.news.empty()) tell_news(comm, *run);
  return run;
}

}  // namespace

gpuar::Run* bind(gpuar_comm& comm, const gpuar_args& args, gpuar::MessageKind kind,
                 gpuar::CallForm form) {
  try {
    auto& checking = comm.core->checking;
    if (!checking || kind == gpuar::MessageKind::internal) [[likely]]
      return bind_run(comm, args, kind);
    gpuar_check* check = checking->make(comm, args, form);
    const bool once = kind != gpuar::MessageKind::persistent;
    if (once) checking->start(*check);
    gpuar::Run* run = bind_run(comm, args, kind);
    run->check = check;
    if (once) checking->hold_back(*check, *run);
    return run;
  } catch (const std::exception& error) {
    // The others count on this rank: they are told.
    comm.core->engine.abandon(comm, gpuar::Status::no_memory,
                              {"no plan can be made for ", args.count, " elements of ",
                               args.element_bytes, " bytes: ", std::string_view(error.what())});
    return nullptr;
  }
}
