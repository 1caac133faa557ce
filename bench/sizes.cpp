#include "bench/sizes.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <stdexcept>

namespace bench {

std::size_t parse_bytes(const std::string& option, const std::string& text) {
  std::size_t digits = 0;
  std::size_t bytes = 0;
  try {
    bytes = std::stoull(text, &digits);
  } catch (const std::exception&) {
    throw CLI::ValidationError(option, fmt::format("'{}' is not a size", text));
  }
  const std::string suffix = text.substr(digits);
  if (suffix == "K" || suffix == "KiB") return bytes << 10;
  if (suffix == "M" || suffix == "MiB") return bytes << 20;
  if (suffix == "G" || suffix == "GiB") return bytes << 30;
  if (suffix.empty() || suffix == "B") return bytes;
  throw CLI::ValidationError(option, fmt::format("unknown unit '{}' in '{}'", suffix, text));
}

std::vector<std::size_t> parse_sizes(const std::string& option, const std::string& text) {
  const char separator = text.find(':') == std::string::npos ? ',' : ':';
  const std::vector<std::string> parts = CLI::detail::split(text, separator);
  std::vector<std::size_t> sizes;
  if (separator == ',') {
    for (const std::string& part : parts) sizes.push_back(parse_bytes(option, part));
    return sizes;
  }
  const std::size_t first = parse_bytes(option, parts[0]);
  const std::size_t last = parse_bytes(option, parts.at(1));
  const std::size_t factor = parts.size() > 2 ? parse_bytes(option, parts[2]) : 2;
  if (parts.size() > 3 || first == 0 || factor < 2 || last < first) {
    throw CLI::ValidationError(option, fmt::format("'{}' is not MIN:MAX or MIN:MAX:FACTOR", text));
  }
  for (std::size_t size = first; size <= last; size *= factor) sizes.push_back(size);
  return sizes;
}

}  // namespace bench
