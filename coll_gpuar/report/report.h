// The report of a job: what each process noted, put together.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coll_gpuar/report/journal.h"
#include "coll_gpuar/report/nics.h"

namespace gpuar {

// A communicator as one of its members noted it.
struct CommPart {
  std::string key;  // the same on all members, and on no other communicator of the same moment
  std::string name;
  std::int32_t size = 0;
  std::int32_t rank = 0;
  std::vector<Row> rows;
};

// A process's part.
struct ProcessPart {
  std::string host;
  bool tells_of_host = false;  // one of each host's tells of its ports
  double wall_seconds = 0;
  double blocked_seconds = 0;    // in blocking calls
  double clock_uncertainty = 0;  // seconds, the largest of its peers' on other hosts
  std::uint64_t left_out = 0;    // communicators beyond those that are kept
  NicCounters ports;
  std::vector<CommPart> communicators;
};

// Names of the numbers that rows carry.
struct RowNames {
  std::string (*algorithm)(std::uint32_t number);
  const char* (*path)(std::uint8_t number);
};

// Adds rows to those of the same communicator.
void add_rows(std::vector<Row>& to, const std::vector<Row>& rows);

// A part on its way to the process that writes the report.
std::vector<std::uint8_t> encode(const ProcessPart& part, const RowNames& names);

// The report, from the parts of all processes by rank; those that cannot be read are left out.
// Times are seconds, bandwidths bytes per second.
nlohmann::json make_report(std::span<const std::vector<std::uint8_t>> parts);

// The same for people: a table for each communicator.
std::string as_text(const nlohmann::json& report);

}  // namespace gpuar
