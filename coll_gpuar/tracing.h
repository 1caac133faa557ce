// Writes what was traced in this process: a file in the JSON that Perfetto and Chrome read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "coll_gpuar/report/trace.h"

namespace gpuar {

// What gpuar_trace needs to lay the files of several processes on one line of time.
struct TracedProcess {
  struct Clock {  // of a process on another host
    std::uint64_t process = 0;
    std::int64_t offset = 0;  // ns, to be added to the time here
    std::int64_t uncertainty = 0;
  };
  std::uint64_t process = 0;
  int rank = 0;  // among the processes of its job
  std::string host;
  std::uint64_t host_id = 0;
  std::vector<Clock> clocks;
};

class Tracing {
 public:
  Tracing(std::string target, std::size_t most_events)
      : target_(std::move(target)), trace_(most_events) {}

  Trace& trace() { return trace_; }
  // The file of one process: "trace.json" gives "trace.3.json" for "3".
  [[nodiscard]] std::string file_of(std::string_view who) const;
  // False if it cannot be written.
  [[nodiscard]] bool write(const std::string& file, const TracedProcess& process) const;

 private:
  std::string target_;
  Trace trace_;
};

}  // namespace gpuar
