// Where the core keeps what the report is made of: the clocks of other processes, and what was
// noted of communicators that are gone.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "coll_gpuar/engine/run.h"
#include "coll_gpuar/report/report.h"
#include "coll_gpuar/selection/select.h"
#include "coll_gpuar/tracing.h"
#include "topo/place.h"

namespace gpuar {

// Whether a value of coll_gpuar_report, or coll_gpuar_trace, asks for one.
bool is_wanted(const char* target);

// A number for the algorithm of a choice, the same on all ranks, and the name of such a number.
std::uint32_t algorithm_number(const Choice& choice);
std::string algorithm_name(std::uint32_t number);
// The name of a Carry.
const char* path_name(std::uint8_t number);

// The same on all members of a communicator. Its id may be used again: of communicators with one
// id, the same members and name count as one.
std::string key_of(const Comm& comm);

class Reporting {
 public:
  // "1", or the file to write: JSON if its name ends so, else text. Empty: no report is wanted,
  // only what it is made of.
  explicit Reporting(std::string target);
  [[nodiscard]] bool is_wanted() const { return !target_.empty(); }

  // For a new communicator, whose members sit there.
  std::unique_ptr<Journal> journal(const Comm& comm,
                                   const std::vector<const ProcessPlace*>& places);
  // Keeps what was noted of a communicator: it is about to go, or the report to be written.
  void keep(const Comm& comm);

  // What is known of clocks on other hosts.
  [[nodiscard]] std::vector<TracedProcess::Clock> clocks() const;

  // This process's part, from what was kept. Valid until the next call.
  const std::vector<std::uint8_t>& part(const std::string& host, bool tells_of_host);

  // Writes the report of all parts to the file; returns what is to be printed instead, if
  // anything, and says in `trouble` what went wrong.
  std::string write(const std::uint8_t* parts, std::span<const int> sizes,
                    std::string& trouble) const;

  [[nodiscard]] const WaitTotals& totals() const { return totals_; }

 private:
  static constexpr std::size_t most_communicators = 64;

  std::string target_;
  std::int64_t began_;
  NicCounters ports_;
  WaitTotals totals_;
  std::unordered_map<std::uint64_t, PeerClock> clocks_;  // by process; addresses stay
  ProcessPart kept_;
  std::vector<std::uint8_t> bytes_;
};

}  // namespace gpuar
