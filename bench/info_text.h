// What gpuar_info found, for people.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace bench {

// `job` as gpuar_info --json prints it.
std::string info_text(const nlohmann::json& job);

}  // namespace bench
