#include "coll_gpuar/ipc_trial.h"

#include <fmt/format.h>

#include <cstring>
#include <new>

#include "coll_gpuar/compiled_engine.h"

namespace gpuar {

namespace {

std::uint64_t process_of(const gpuar_comm& comm, Rank rank) {
  return comm.processes[static_cast<std::size_t>(rank)];
}

// Containers of one machine count as hosts of their own, so its name is not asked.
bool is_on_this_machine(const gpuar_comm& comm, Rank rank) {
  gpuar_core& core = *comm.core;
  const gpuar_member& member = core.member(comm.directory, process_of(comm, rank));
  return machine_of(member.record.place.host_id) == machine_of(core.record.place.host_id);
}

}  // namespace

void IpcTrial::show(gpuar_comm& comm, Rank to, Gpu& gpu) try {
  gpuar_core& core = *comm.core;
  if (core.live->verbose < 1 || !core.transport.carries(MemoryKind::device)) return;
  if (!shown_.insert(process_of(comm, to)).second || !is_on_this_machine(comm, to)) return;
  const IpcSample* const sample = gpu.sample();
  if (sample == nullptr) return;
  const auto shows = note(comm.id, static_cast<std::uint32_t>(comm.rank), Note::shows,
                          process_of(comm, comm.rank), 0);
  core.engine.notify(comm, to, shows, *sample);
} catch (const std::bad_alloc&) {
  // Then it is not tried.
}

void IpcTrial::take(const gpuar_comm& comm, const MessageHeader& note, const Arrival& arrival) try {
  const auto from = static_cast<Rank>(note.source);
  IpcSample sample;
  if (comm.core->live->verbose < 1 || told_) return;
  if (arrival.rendezvous || arrival.bytes != sample.size()) return;
  if (value_of(note) != process_of(comm, from) || !is_on_this_machine(comm, from)) return;
  std::memcpy(sample.data(), arrival.data, sample.size());
  untried_.emplace(process_of(comm, from), sample);
} catch (const std::bad_alloc&) {
  // Then it is not tried.
}

void IpcTrial::open(const gpuar_comm& comm, Rank from, Gpu& gpu) try {
  if (untried_.empty()) return;
  const auto sample = untried_.extract(process_of(comm, from));
  if (sample.empty() || told_) return;
  const std::string refusal = gpu.refusal_of(sample.mapped());
  if (refusal.empty()) return;
  told_ = true;
  comm.core->log(fmt::format(
      "gpuar: {}: rank {} cannot open device memory of rank {} (cuIpcOpenMemHandle: {}): UCX "
      "copies between them through host memory; let both see one another's devices and share the "
      "PID and IPC namespaces of the host (docs/gpu.md)",
      comm.name, comm.rank, from, refusal));
} catch (const std::bad_alloc&) {
  // Nothing is said.
}

}  // namespace gpuar
