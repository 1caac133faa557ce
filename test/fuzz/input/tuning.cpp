// A tuning file, whatever it holds: refused with a sentence that names it, or choices follow from
// it that fit every call.
#include "coll_gpuar/selection/tuning_file.h"

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "coll_gpuar/algorithms/composition.h"
#include "test/fuzz/input/require.h"

using namespace gpuar;
using gpuar::test::require;

namespace {

std::optional<Tuning> parsed(std::string_view text, const std::string& name) {
  try {
    return Tuning::parse(text, name);
  } catch (const std::runtime_error& error) {
    const std::string_view why = error.what();
    require(why.starts_with(name + ":") && why.size() > name.size() + 2,
            "refused without a reason");
    return std::nullopt;
  }
}

CallShape shape_of(std::uint64_t bytes, Rank ranks, std::uint32_t nodes) {
  CallShape shape;
  shape.bytes = bytes;
  shape.element_bytes = 8;
  shape.ranks = ranks;
  const std::uint32_t per_node = static_cast<std::uint32_t>(ranks) / nodes;
  shape.layout = {.hosts = nodes,
                  .max_ranks_per_host = per_node,
                  .min_ranks_per_host = per_node,
                  .hosts_are = Grouping::subtrees};
  return shape;
}

void check_choice(const Tuning& tuning, const CallShape& shape, PlannedFor memory) {
  const Forced forced = tuning.apply(shape, memory, {});
  const bool by_file = forced.algorithm != nullptr || forced.composition != nullptr;
  require(!by_file || forced.by.starts_with("tuning file first.toml:"), "nobody forces this");
  const Choice choice = select(shape, forced);
  require(choice.algorithm < algorithms().size(), "no algorithm");
  require(choice.composition < compositions().size(), "no composition");
  require(choice.segment_bytes >= shape.element_bytes, "a segment without an element");
  require(choice.segment_bytes % shape.element_bytes == 0, "a segment that cuts an element");
  require(!explain(choice, shape, forced).empty(), "a choice without a reason");

  Forced user;
  user.algorithm = algorithms().data();
  require(tuning.apply(shape, memory, user).algorithm == user.algorithm, "the user is overruled");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto tuning = parsed(text, "first.toml");
  const auto again = parsed(text, "second.toml");
  require(tuning.has_value() == again.has_value(), "read once, refused once");
  if (!tuning) return 0;
  require(tuning->hash() != 0 && tuning->hash() == again->hash(), "a hash of more than the bytes");
  for (const auto& [ranks, nodes] : {std::pair<Rank, std::uint32_t>{1, 1}, {4, 2}, {8, 1}}) {
    for (const std::uint64_t bytes : {0ULL, 8ULL, 1024ULL, 65536ULL, 4ULL << 20, 1ULL << 40}) {
      check_choice(*tuning, shape_of(bytes, ranks, nodes), PlannedFor::host);
      check_choice(*tuning, shape_of(bytes, ranks, nodes), PlannedFor::device);
    }
  }
  return 0;
}
