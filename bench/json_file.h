// Results as a file, for --json.
#pragma once

#include <fmt/format.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace bench {

// Throws std::runtime_error, naming the file, if it cannot be written.
inline void write_json(const std::string& name, const nlohmann::json& document) {
  std::ofstream file(name);
  file << document.dump(1) << '\n';
  file.close();
  if (!file) throw std::runtime_error(fmt::format("cannot write {}", name));
}

}  // namespace bench
