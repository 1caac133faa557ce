// The one status type of the C++ core. No exception crosses a UCX, CUDA or MPI frame.
#pragma once

#include <cstdint>

namespace gpuar {

enum class [[nodiscard]] Status : std::int8_t{
    ok = 0,
    in_progress,  // started; a completion will follow
    no_memory,
    unreachable,     // the peer cannot be contacted, or is silent
    process_failed,  // a member has ended, or is taken for lost
    revoked,         // the program has revoked the communicator
    truncated,       // the peer sent another number of bytes than this rank expects
    bad_message,     // a message that no correct peer sends
    unsupported,
    aborted,  // another member of the communicator gave up
    failed,
};

constexpr const char* describe(Status status) {
  switch (status) {
    case Status::ok:
      return "ok";
    case Status::in_progress:
      return "in progress";
    case Status::no_memory:
      return "out of memory";
    case Status::unreachable:
      return "peer unreachable";
    case Status::process_failed:
      return "process failed";
    case Status::revoked:
      return "communicator revoked";
    case Status::truncated:
      return "message length differs from what this rank expects";
    case Status::bad_message:
      return "malformed message";
    case Status::unsupported:
      return "not supported";
    case Status::aborted:
      return "aborted by another rank";
    case Status::failed:
      return "failed";
  }
  return "unknown status";
}

// What a person may try, as the end of a sentence; empty where only what happened tells.
constexpr const char* remedy(Status status) {
  switch (status) {
    case Status::no_memory:
      return "; free memory, or have less under way: coll_gpuar_segment_size, "
             "coll_gpuar_pipeline_depth";
    case Status::unreachable:
    case Status::process_failed:
      return "; see what it does or why it ended: its own last messages, its host, the network "
             "between";
    case Status::truncated:
      return "; coll_gpuar_check 1 names the ranks whose calls differ";
    case Status::bad_message:
      return "; all processes must run the same gpuar, and nothing else may use its connections";
    case Status::ok:
    case Status::in_progress:
    case Status::unsupported:
    case Status::revoked:
    case Status::aborted:
    case Status::failed:
      break;
  }
  return "";
}

}  // namespace gpuar
