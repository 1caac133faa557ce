#include "coll_gpuar/watch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "coll_gpuar/compiled_engine.h"

namespace gpuar {
namespace {

// Of the watch alone: it looks while a call waits, so its readings say nothing of what a call
// costs.
std::int64_t steady_ns() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

bool is_seen_ended(const gpuar_core& core, const gpuar_member& member) {
  return core.is_here(member) && has_ended(member.record.process);
}

bool is_broken(const gpuar_member& member) {
  return member.peer && UcxTransport::is_broken(member.peer);
}

const gpuar_member& member_of(const gpuar_comm& comm, Rank rank) {
  return comm.core->member(comm.directory, comm.processes[static_cast<std::size_t>(rank)]);
}

std::string who(const gpuar_comm& comm, Rank rank) {
  return fmt::format("rank {} (host {})", rank, member_of(comm, rank).record.place.host);
}

bool has_calls(gpuar_comm& comm) {
  bool any = false;
  comm.core->engine.for_each_call(comm, [&](const Run&) { any = true; });
  return any;
}

std::set<Rank> awaited(const gpuar_comm& comm, const Run& run) {
  std::set<Rank> ranks;
  comm.core->engine.for_each_awaited(run, [&](Rank rank) { ranks.insert(rank); });
  return ranks;
}

bool is_elsewhere(const gpuar_comm& comm, Rank rank) {
  return !comm.core->is_here(member_of(comm, rank));
}

// Makes a connection to those elsewhere that nothing was sent to yet: it breaks if they are gone.
void greet(gpuar_comm& comm, const std::set<Rank>& ranks) {
  for (const Rank rank : ranks) {
    const auto* peer = static_cast<UcxTransport::Peer>(comm.peers[static_cast<std::size_t>(rank)]);
    if (!is_elsewhere(comm, rank) || (peer && (peer->endpoint || peer->lost))) continue;
    comm.core->engine.notify(
        comm, rank, note(comm.id, static_cast<std::uint32_t>(comm.rank), Note::hello, 0, 0));
  }
}

}  // namespace

void Watch::look(gpuar_core& core) {
  const std::int64_t now = steady_ns();
  const std::int64_t passed = now - last_;
  if (passed < interval) return;
  last_ = now;
  if (!gpuar_active(&core)) return;
  find_gone(core);
  core.engine.for_each_comm([&](Comm& base) {
    auto& comm = static_cast<gpuar_comm&>(base);
    if (!has_calls(comm)) return;
    if (comm.is_revoked && comm.is_revoked(comm.handle)) {
      core.engine.abandon(comm, Status::revoked, "the program has revoked it");
    }
    if (!gone_.empty()) lose_the_gone(comm);
    // What passed while nobody polled is no silence: nobody listened.
    time_calls(comm, std::min(passed, 2 * interval));
  });
}

void Watch::find_gone(gpuar_core& core) {
  const std::unique_lock guard(core.members_mutex, std::try_to_lock);
  if (!guard) return;  // somebody is being looked up: another time
  for (auto& [process, member] : core.members) {
    if (member.gone) continue;
    const bool ended = is_seen_ended(core, member);
    // What breaks may be a process about to end: the next look knows.
    if (is_broken(member)) ++member.broken_looks;
    member.gone = ended || member.broken_looks > 1;
    if (member.gone) gone_.push_back({process, ended});
  }
}

void Watch::lose_the_gone(gpuar_comm& comm) const {
  for (std::size_t i = 0; i < comm.processes.size(); ++i) {
    const auto gone = std::find_if(gone_.begin(), gone_.end(), [&](const Gone& process) {
      return process.process == comm.processes[i];
    });
    if (gone == gone_.end()) continue;
    const auto rank = static_cast<Rank>(i);
    if (gone->ended) {
      comm.core->engine.lose(comm, rank, who(comm, rank) + " is gone: its process has ended");
    } else {
      comm.core->engine.part(comm, rank,
                             who(comm, rank) + " is lost: UCX's connection with it broke");
    }
  }
}

void Watch::time_calls(gpuar_comm& comm, std::int64_t passed) const {
  comm.core->engine.for_each_call(comm, [&](Run& run) {
    const std::uint64_t standing = comm.core->engine.standing_of(run);
    run.stood = standing == run.standing ? run.stood + passed : 0;
    run.standing = standing;
    if (run.stood >= second) has_stood(comm, run);
  });
}

// A call that has failed waits for the members to take what was sent to them, or say that they do
// not: those elsewhere that say nothing are cut off.
void Watch::has_stood(gpuar_comm& comm, Run& run) const {
  const std::set<Rank> ranks = awaited(comm, run);
  if (run.status == Status::ok) greet(comm, ranks);
  if (timeout_ == 0 || ranks.empty()) return;
  if (run.status != Status::ok) {
    for (const Rank rank : ranks) {
      if (is_elsewhere(comm, rank)) comm.core->engine.cut_off(comm, rank);
    }
  } else if (run.stood >= timeout_) {
    std::vector<std::string> names;
    names.reserve(ranks.size());
    for (const Rank rank : ranks) names.push_back(who(comm, rank));
    comm.core->engine.abandon(
        comm, Status::unreachable,
        fmt::format("nothing has come from {} for {} s; if it is but late, raise "
                    "coll_gpuar_timeout",
                    fmt::join(names, ", "), timeout_ / second));
  }
}

}  // namespace gpuar
