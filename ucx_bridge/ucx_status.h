// How UCX's calls end, and how long to wait for them. For this room only.
#pragma once

#include <ucp/api/ucp.h>

#include <chrono>

#include "coll_gpuar/status.h"

namespace gpuar {

using Clock = std::chrono::steady_clock;

inline Clock::time_point deadline_in(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

inline Status translate(ucs_status_t status) {
  switch (status) {
    case UCS_OK:
      return Status::ok;
    case UCS_INPROGRESS:
      return Status::in_progress;
    case UCS_ERR_NO_MEMORY:
      return Status::no_memory;
    case UCS_ERR_UNREACHABLE:
    case UCS_ERR_CONNECTION_RESET:
    case UCS_ERR_ENDPOINT_TIMEOUT:
    case UCS_ERR_NOT_CONNECTED:
    case UCS_ERR_REJECTED:
      return Status::unreachable;
    case UCS_ERR_MESSAGE_TRUNCATED:
      return Status::truncated;
    case UCS_ERR_CANCELED:
      return Status::aborted;
    case UCS_ERR_UNSUPPORTED:
      return Status::unsupported;
    default:
      return Status::failed;
  }
}

}  // namespace gpuar
