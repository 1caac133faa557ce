#include "coll_gpuar/callbacks.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <new>
#include <vector>

#include "coll_gpuar/check/signature.h"
#include "coll_gpuar/compiled_engine.h"

namespace gpuar {

namespace {

gpuar_comm& own(Comm& comm) {
  return static_cast<gpuar_comm&>(comm);
}

// "MPI_Allreduce": what is under way on a communicator, each form once.
std::string calls_on(Comm& comm) {
  std::vector<const char*> calls;
  const auto add = [&](CallForm form) {
    const char* const call = call_of(form);
    if (std::find(calls.begin(), calls.end(), call) == calls.end()) calls.push_back(call);
  };
  own(comm).core->engine.for_each_call(comm, [&](const Run& run) {
    if (run.own) return;
    if (run.kind == MessageKind::persistent) return add(CallForm::persistent);
    add(run.done ? CallForm::nonblocking : CallForm::blocking);
  });
  return calls.empty() ? "allreduce" : fmt::format("{}", fmt::join(calls, ", "));
}

}  // namespace

void* resolve(Comm& base, Rank rank) try {
  gpuar_comm& comm = own(base);
  gpuar_core& core = *comm.core;
  const std::uint64_t process = comm.processes[static_cast<std::size_t>(rank)];
  gpuar_member& member = core.member(comm.directory, process);
  if (!member.peer) {
    const auto address = fetch_published(comm.directory.address, comm.directory.context, process);
    if (address.empty()) return nullptr;
    member.peer = core.transport.connect(address.data(), address.size(),
                                         core.is_here(member) ? Where::here : Where::elsewhere);
  }
  return member.peer;
} catch (const std::bad_alloc&) {
  return nullptr;
}

void log_error(Comm& comm, const std::string& what) {
  own(comm).core->log(
      fmt::format("gpuar: {} on {} fails on rank {}: {}; this communicator is unusable now",
                  calls_on(comm), own(comm).name, comm.rank, what));
}

void take_note(Comm& comm, const MessageHeader& note, const Arrival& arrival) {
  gpuar_core& core = *own(comm).core;
  if (note_of(note) == Note::shows) return core.ipc_trial.take(own(comm), note, arrival);
  const bool about_calls = note_of(note) == Note::asks || note_of(note) == Note::answers;
  if (about_calls && core.checking) core.checking->take_note(own(comm), note);
}

void send_device_memory(Comm& comm, Rank to, Gpu& gpu) {
  own(comm).core->ipc_trial.show(own(comm), to, gpu);
}

void fetch_device_memory(Comm& comm, Rank from, Gpu& gpu) {
  own(comm).core->ipc_trial.open(own(comm), from, gpu);
}

void map_block(void* transport, void* block, std::size_t bytes, MemoryKind kind) {
  static_cast<UcxTransport*>(transport)->map(block, bytes, kind);
}

void unmap_block(void* transport, void* block) {
  static_cast<UcxTransport*>(transport)->unmap(block);
}

}  // namespace gpuar
