#include "coll_gpuar/selection/tuning_file.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

// A file can break what toml++ 3.3 asserts, as in "[ = 1", before it says so. With NDEBUG and clang
// the assertion would even be an assumption of the compiler's.
#pragma push_macro("NDEBUG")
#undef NDEBUG
#define TOML_ASSERT(condition) static_assert(true)
#include <toml++/toml.h>
#pragma pop_macro("NDEBUG")

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <initializer_list>
#include <limits>
#include <optional>
#include <stdexcept>
#include <system_error>

#include "coll_gpuar/selection/saturating.h"

namespace gpuar {
namespace {

constexpr std::int64_t known_format = 1;

std::uint64_t hash_of(std::string_view bytes) {  // FNV-1a
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char byte : bytes) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  }
  return std::max<std::uint64_t>(hash, 1);
}

// "4096", "64K", "4M", "1G".
std::optional<std::uint64_t> bytes_of(std::string_view text) {
  constexpr std::string_view units = "KMG";
  std::uint64_t factor = 1;
  if (!text.empty()) {
    if (const auto unit = units.find(text.back()); unit != std::string_view::npos) {
      factor = std::uint64_t{1} << (10 * (unit + 1));
      text.remove_suffix(1);
    }
  }
  std::uint64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto read = std::from_chars(text.data(), end, number);
  if (read.ec != std::errc{} || read.ptr != end) return std::nullopt;
  return times(number, factor);
}

// From TOML to tables. Whatever is wrong is thrown with the line where it stands.
class Reader {
 public:
  explicit Reader(const std::string& name) : name_(name) {}

  std::vector<Tuning::Table> tables(std::string_view text) const {
    check_ascii(text);
    toml::table document;
    try {
      document = toml::parse(text);
    } catch (const toml::parse_error& error) {
      throw fail(error.source(), error.description());
    }
    check_keys(document, {"format", "table"});
    const toml::node* const format = document.get("format");
    if (format == nullptr) {
      throw std::runtime_error(fmt::format("{}: has no line \"format = 1\"", name_));
    }
    if (format->value_exact<std::int64_t>() != known_format) {
      throw fail(format->source(), "this gpuar reads format 1; write the file anew by gpuar_tune");
    }
    std::vector<Tuning::Table> tables;
    if (const toml::node* const list = document.get("table")) {
      if (!list->is_array_of_tables()) throw fail(list->source(), "a table begins with [[table]]");
      for (const toml::node& node : *list->as_array()) add(tables, *node.as_table());
    }
    return tables;
  }

 private:
  [[nodiscard]] std::runtime_error fail(const toml::source_region& where,
                                        std::string_view what) const {
    return std::runtime_error(fmt::format("{}:{}: {}", name_, where.begin.line, what));
  }

  // For letters from U+00A1 on, toml++ 3.3 has undefined behaviour where white space may be.
  void check_ascii(std::string_view text) const {
    const auto odd = std::find_if(text.begin(), text.end(),
                                  [](char byte) { return static_cast<unsigned char>(byte) > 127; });
    if (odd == text.end()) return;
    throw std::runtime_error(fmt::format("{}:{}: only ASCII can be read", name_,
                                         std::count(text.begin(), odd, '\n') + 1));
  }

  void check_keys(const toml::table& table, std::initializer_list<std::string_view> known) const {
    for (const auto& [key, node] : table) {
      if (std::find(known.begin(), known.end(), key.str()) != known.end()) continue;
      throw fail(key.source(), fmt::format("unknown key \"{}\"; known here are {}", key.str(),
                                           fmt::join(known, ", ")));
    }
  }

  const toml::node& required(const toml::table& table, std::string_view key) const {
    if (const toml::node* const node = table.get(key)) return *node;
    throw fail(table.source(), fmt::format("\"{}\" is missing", key));
  }

  std::uint32_t count(const toml::table& table, std::string_view key) const {
    const toml::node& node = required(table, key);
    const auto number = node.value_exact<std::int64_t>();
    if (!number || *number < 1 || *number > std::numeric_limits<Rank>::max()) {
      throw fail(node.source(), fmt::format("{} must be a number, at least 1", key));
    }
    return static_cast<std::uint32_t>(*number);
  }

  std::uint64_t bytes(const toml::node& node, std::string_view key) const {
    std::optional<std::uint64_t> bytes;
    if (const auto number = node.value_exact<std::int64_t>(); number && *number > 0) {
      bytes = static_cast<std::uint64_t>(*number);
    } else if (const auto text = node.value_exact<std::string_view>()) {
      bytes = bytes_of(*text);
    }
    if (bytes && *bytes > 0) return *bytes;
    throw fail(node.source(), fmt::format("{} must be bytes, as in 4096 or \"64K\"", key));
  }

  Tuning::Entry entry(const toml::table& table) const {
    check_keys(table, {"up_to", "algorithm", "segment"});
    Tuning::Entry entry;
    const toml::node* const up_to = table.get("up_to");
    entry.up_to = up_to != nullptr ? bytes(*up_to, "up_to") : most;
    const toml::node& algorithm = required(table, "algorithm");
    std::string why = "algorithm must be a name in quotes";
    const auto name = algorithm.value_exact<std::string_view>();
    if (!name || !parse_algorithm(*name, entry.forced, why)) throw fail(algorithm.source(), why);
    if (const toml::node* const segment = table.get("segment")) {
      entry.forced.segment_bytes = bytes(*segment, "segment");
    }
    entry.forced.by = fmt::format("tuning file {}:{}", name_, table.source().begin.line);
    return entry;
  }

  std::vector<Tuning::Entry> entries(const toml::node& node) const {
    std::vector<Tuning::Entry> entries;
    const toml::array* const list = node.as_array();
    if (list == nullptr) throw fail(node.source(), "entries must be a list: [ {...}, {...} ]");
    for (const toml::node& item : *list) {
      if (!item.is_table()) throw fail(item.source(), "an entry must be { algorithm = \"...\" }");
      Tuning::Entry next = entry(*item.as_table());
      if (!entries.empty() && next.up_to <= entries.back().up_to) {
        throw fail(item.source(),
                   "entries must be in ascending order of up_to; only the last one "
                   "may have none");
      }
      entries.push_back(std::move(next));
    }
    return entries;
  }

  void add(std::vector<Tuning::Table>& tables, const toml::table& source) const {
    check_keys(source, {"ranks", "nodes", "memory", "device_limit", "entries"});
    Tuning::Table table;
    const std::uint32_t ranks = count(source, "ranks");
    table.ranks = static_cast<Rank>(ranks);
    table.nodes = count(source, "nodes");
    if (table.nodes > ranks) throw fail(source.source(), "there are more nodes than ranks");
    if (const toml::node* const memory = source.get("memory")) {
      const auto name = memory->value_exact<std::string_view>();
      if (name != "host" && name != "device") {
        throw fail(memory->source(), "memory must be \"host\" or \"device\"");
      }
      table.memory = name == "device" ? PlannedFor::device : PlannedFor::host;
    }
    if (const toml::node* const limit = source.get("device_limit")) {
      if (table.memory != PlannedFor::device) {
        throw fail(limit->source(), "device_limit belongs into a table of memory = \"device\"");
      }
      const bool none = limit->value_exact<std::int64_t>() == 0;
      table.device_limit = none ? 0 : bytes(*limit, "device_limit");
    }
    table.entries = entries(required(source, "entries"));
    const bool again = std::any_of(tables.begin(), tables.end(), [&](const auto& other) {
      return other.ranks == table.ranks && other.nodes == table.nodes &&
             other.memory == table.memory;
    });
    if (again) throw fail(source.source(), "a second table for these ranks, nodes and memory");
    tables.push_back(std::move(table));
  }

  const std::string& name_;
};

}  // namespace

Tuning Tuning::parse(std::string_view text, const std::string& name) {
  Tuning tuning;
  tuning.tables_ = Reader(name).tables(text);
  tuning.hash_ = hash_of(text);
  return tuning;
}

Tuning Tuning::read(const std::string& path) {
  constexpr std::size_t limit = 1 << 20;
  std::string text(limit + 1, '\0');
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (file) file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (file.gcount() == 0 && errno != 0) {
    throw std::runtime_error(fmt::format("{}: cannot be read: {}", path, std::strerror(errno)));
  }
  text.resize(static_cast<std::size_t>(file.gcount()));
  if (text.size() > limit) {
    throw std::runtime_error(fmt::format("{}: is larger than 1 MiB", path));
  }
  return parse(text, path);
}

const Tuning::Table* Tuning::find(Rank ranks, std::uint32_t nodes, PlannedFor memory) const {
  const auto table = std::find_if(tables_.begin(), tables_.end(), [&](const Table& candidate) {
    return candidate.ranks == ranks && candidate.nodes == nodes && candidate.memory == memory;
  });
  return table == tables_.end() ? nullptr : &*table;
}

std::optional<std::uint64_t> Tuning::device_limit(Rank ranks, std::uint32_t nodes) const {
  const Table* const table = find(ranks, nodes, PlannedFor::device);
  return table == nullptr ? std::nullopt : table->device_limit;
}

Forced Tuning::apply(const CallShape& shape, PlannedFor memory, const Forced& user) const {
  if (user.algorithm != nullptr || user.composition != nullptr) return user;
  const Table* const table = find(shape.ranks, shape.layout.hosts, memory);
  if (table == nullptr) return user;
  const auto entry = std::find_if(table->entries.begin(), table->entries.end(),
                                  [&](const Entry& next) { return shape.bytes <= next.up_to; });
  if (entry == table->entries.end()) return user;
  Forced forced = user;
  forced.algorithm = entry->forced.algorithm;
  forced.composition = entry->forced.composition;
  forced.by = entry->forced.by;
  if (forced.segment_bytes == 0) forced.segment_bytes = entry->forced.segment_bytes;
  return forced;
}

}  // namespace gpuar
