// The tuning file: which algorithm serves calls of a size on communicators of so many ranks and
// nodes, as gpuar_tune measured it on this machine or a person wrote it. TOML; the format is
// described in docs/selection.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "coll_gpuar/selection/select.h"

namespace gpuar {

// The kind of memory that a call is planned for.
enum class PlannedFor : std::uint8_t { host, device };

class Tuning {
 public:
  // Nothing: every choice is the cost model's.
  Tuning() = default;

  // Reads a file. Throws std::runtime_error, naming the file, the line where there is one, and what
  // to try.
  static Tuning read(const std::string& path);
  // The same from memory; `name` is what messages call the file.
  static Tuning parse(std::string_view text, const std::string& name);

  // Of the file's bytes: ranks may only use it together where this is equal. 0: no file.
  [[nodiscard]] std::uint64_t hash() const { return hash_; }

  // What to force for a call: what the user does, and the algorithm and segment of the file's entry
  // unless the user forces an algorithm. Where the file has no entry, `user`.
  [[nodiscard]] Forced apply(const CallShape& shape, PlannedFor memory, const Forced& user) const;

  // Bytes up to which calls on device memory go through the host, as measured for these ranks and
  // nodes.
  [[nodiscard]] std::optional<std::uint64_t> device_limit(Rank ranks, std::uint32_t nodes) const;

  struct Entry {
    std::uint64_t up_to = 0;  // bytes of a call
    Forced forced;            // nothing: left to the cost model
  };
  struct Table {
    Rank ranks = 1;
    std::uint32_t nodes = 1;
    PlannedFor memory = PlannedFor::host;
    std::optional<std::uint64_t> device_limit = {};
    std::vector<Entry> entries;  // by ascending up_to
  };

 private:
  [[nodiscard]] const Table* find(Rank ranks, std::uint32_t nodes, PlannedFor memory) const;

  std::vector<Table> tables_;
  std::uint64_t hash_ = 0;
};

}  // namespace gpuar
