// Results as a file, for --json.
#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace bench {

// Before the work is done whose results go there: a CLI::ValidationError if the file cannot be
// written. Empty: none is.
inline void check_writable(const std::string& name) {
  if (name.empty() || std::ofstream(name, std::ios::app)) return;
  throw CLI::ValidationError("--json", fmt::format("cannot write {}", name));
}

// Throws std::runtime_error, naming the file, if it cannot be written.
inline void write_json(const std::string& name, const nlohmann::json& document) {
  std::ofstream file(name);
  file << document.dump(1) << '\n';
  file.close();
  if (!file) throw std::runtime_error(fmt::format("cannot write {}", name));
}

}  // namespace bench
