#include "bench/sizes.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>
#include <system_error>

namespace bench {
namespace {

struct Unit {
  std::string_view name;  // "KiB" is also written "K"
  unsigned shift;
};
constexpr std::array<Unit, 5> units{{{"", 0}, {"B", 0}, {"KiB", 10}, {"MiB", 20}, {"GiB", 30}}};

}  // namespace

std::size_t parse_bytes(const std::string& option, const std::string& text) {
  constexpr std::size_t most = std::size_t{1} << 50;
  std::size_t bytes = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, bytes);
  if (rest == text.data()) {
    throw CLI::ValidationError(option, fmt::format("'{}' is not a size", text));
  }
  const std::string suffix(rest, end);
  const auto unit = std::find_if(units.begin(), units.end(), [&](const Unit& known) {
    return suffix == known.name || (!suffix.empty() && suffix + "iB" == known.name);
  });
  if (unit == units.end()) {
    throw CLI::ValidationError(option, fmt::format("unknown unit '{}' in '{}'", suffix, text));
  }
  if (error != std::errc{} || bytes > most >> unit->shift) {
    throw CLI::ValidationError(option, fmt::format("{} is more than 1024 TiB", text));
  }
  return bytes << unit->shift;
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
