// What gpuar_info finds wrong with a job, and what to try.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace bench {

struct Warning {
  std::string id;      // for programs: "tcp_beside_rdma"
  std::string what;    // what is so, and where
  std::string remedy;  // what to try
};

// `job` as gpuar_info --json prints it.
std::vector<Warning> warnings(const nlohmann::json& job);

}  // namespace bench
