#include "coll_gpuar/selection/tuning_file.h"

#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "bench/tuning_table.h"
#include "test/catch.h"

namespace gpuar {
namespace {

const std::string good = R"(format = 1

[[table]]
ranks = 4
nodes = 2
entries = [
  { up_to = 1024, algorithm = "direct" },
  { up_to = "64K", algorithm = "auto" },
  { up_to = "1M", algorithm = "hierarchy:ring", segment = "128K" },
  { up_to = "4M", algorithm = "leaders" },
]

[[table]]
ranks = 4
nodes = 2
memory = "device"
entries = [ { algorithm = "ring" } ]
)";

CallShape shape_of(std::uint64_t bytes, Rank ranks = 4, std::uint32_t nodes = 2) {
  CallShape shape;
  shape.bytes = bytes;
  shape.element_bytes = 4;
  shape.ranks = ranks;
  shape.layout.hosts = nodes;
  shape.layout.max_ranks_per_host = shape.layout.min_ranks_per_host =
      static_cast<std::uint32_t>(ranks) / nodes;
  shape.layout.hosts_are = Grouping::subtrees;
  return shape;
}

std::string served_by(const Tuning& tuning, const CallShape& shape,
                      PlannedFor memory = PlannedFor::host) {
  return name_of(select(shape, tuning.apply(shape, memory, {})));
}

std::string problem(const std::string& text) {
  try {
    static_cast<void>(Tuning::parse(text, "t.toml"));
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "none";
}

TEST_CASE("an entry serves up to its size, on its ranks, nodes and memory", "[tuning]") {
  const Tuning tuning = Tuning::parse(good, "t.toml");
  CHECK(served_by(tuning, shape_of(0)) == "direct");
  CHECK(served_by(tuning, shape_of(1024)) == "direct");
  CHECK(served_by(tuning, shape_of(1028)) == name_of(select(shape_of(1028))));
  CHECK(served_by(tuning, shape_of(65536)) == name_of(select(shape_of(65536))));
  CHECK(served_by(tuning, shape_of(65540)) == "hierarchy:ring");
  CHECK(served_by(tuning, shape_of(4 << 20)).substr(0, 8) == "leaders:");
  CHECK(served_by(tuning, shape_of(8 << 20)) == name_of(select(shape_of(8 << 20))));
  CHECK(served_by(tuning, shape_of(8, 8, 2)) == name_of(select(shape_of(8, 8, 2))));
  CHECK(served_by(tuning, shape_of(8, 4, 4)) == name_of(select(shape_of(8, 4, 4))));
  CHECK(served_by(tuning, shape_of(8 << 20), PlannedFor::device) == "ring");

  const CallShape shape = shape_of(1 << 20);
  const Forced forced = tuning.apply(shape, PlannedFor::host, {});
  const Choice choice = select(shape, forced);
  CHECK(choice.segment_bytes == 128 << 10);
  const std::string why = explain(choice, shape, forced);
  CAPTURE(why);
  CHECK(why.find("asked for by tuning file t.toml:9 ") != std::string::npos);
}

TEST_CASE("what the user forces goes before the file", "[tuning]") {
  const Tuning tuning = Tuning::parse(good, "t.toml");
  Forced user;
  std::string why;
  REQUIRE(parse_algorithm("tree", user, why));
  CHECK(name_of(select(shape_of(8), tuning.apply(shape_of(8), PlannedFor::host, user))) == "tree");
  user = {};
  user.segment_bytes = 4096;
  user.depth = 3;
  const CallShape shape = shape_of(1 << 20);
  const Choice choice = select(shape, tuning.apply(shape, PlannedFor::host, user));
  CHECK(name_of(choice) == "hierarchy:ring");
  CHECK(choice.segment_bytes == 4096);
  CHECK(choice.depth == 3);
}

TEST_CASE("an entry that cannot serve a call leaves it to the cost model, and says so",
          "[tuning]") {
  const Tuning tuning = Tuning::parse(
      "format = 1\n[[table]]\nranks = 4\nnodes = 1\nentries = [\n{ algorithm = \"ring\" }]\n",
      "t.toml");
  for (const bool ordered : {true, false}) {
    CallShape shape = shape_of(1 << 20, 4, 1);
    shape.commutative = !ordered;
    shape.reproducible = !ordered;
    const Forced forced = tuning.apply(shape, PlannedFor::host, {});
    const Choice choice = select(shape, forced);
    CHECK(name_of(choice) == name_of(select(shape)));
    CHECK(name_of(choice) != "ring");
    const std::string why = explain(choice, shape, forced);
    CAPTURE(why);
    CHECK(why.find("ring was asked for by tuning file t.toml:6, but ") != std::string::npos);
  }
}

TEST_CASE("whatever is wrong with a file is named with its line", "[tuning]") {
  const std::string head = "format = 1\n[[table]]\nranks = 4\nnodes = 2\n";  // 4 lines
  const auto entry = [&](const std::string& text) { return head + "entries = [\n" + text + "]\n"; };
  struct Case {
    std::string text, line, what;
  };
  const std::vector<Case> cases = {
      {"format = 1\n[[table\n", ":2: ", ""},
      {"format = 1\n[[ = 2\n", ":2: ", ""},
      {"format = 1\n\u019a = 2\n", ":2: ", "only ASCII"},
      {"format = 1\nranks =\n", ":2: ", ""},
      {"format = 2\n", ":1: ", "reads format 1"},
      {"format = 1.0\n", ":1: ", "reads format 1"},
      {"format = 1e31\n", ":1: ", "reads format 1"},  // no integer can hold it
      {"format = \"1\"\n", ":1: ", "reads format 1"},
      {"", ": ", "has no line \"format = 1\""},
      {"format = 1\nfromat = 2\n", ":2: ", "unknown key \"fromat\""},
      {"format = 1\ntable = 3\n", ":2: ", "begins with [[table]]"},
      {"format = 1\n[table]\nranks = 4\n", ":2: ", "begins with [[table]]"},
      {"format = 1\n[[table]]\nranks = 4\nentries = []\n", ":2: ", "\"nodes\" is missing"},
      {head, ":2: ", "\"entries\" is missing"},
      {head + "rank = 4\n", ":5: ", "unknown key \"rank\""},
      {head + "memory = \"gpu\"\n", ":5: ", "\"host\" or \"device\""},
      {head + "entries = 3\n", ":5: ", "must be a list"},
      {"format = 1\n[[table]]\nranks = 0\nnodes = 1\nentries = []\n", ":3: ", "at least 1"},
      {"format = 1\n[[table]]\nranks = 2\nnodes = 1.0\nentries = []\n", ":4: ", "at least 1"},
      {"format = 1\n[[table]]\nranks = 9999999999\nnodes = 1\nentries = []\n", ":3: ", "a number"},
      {"format = 1\n[[table]]\nranks = 2\nnodes = 3\nentries = []\n", ":2: ", "more nodes"},
      {entry("{ up_to = 8 },\n"), ":6: ", "\"algorithm\" is missing"},
      {entry("3,\n"), ":6: ", "an entry must be"},
      {entry("{ algorithm = \"rign\" },\n"), ":6: ", "unknown algorithm \"rign\"; valid are auto"},
      {entry("{ algorithm = 3 },\n"), ":6: ", "a name in quotes"},
      {entry("{ algorithm = \"ring\", size = 8 },\n"), ":6: ", "unknown key \"size\""},
      {entry("{ up_to = -1, algorithm = \"ring\" },\n"), ":6: ", "up_to must be bytes"},
      {entry("{ up_to = \"8X\", algorithm = \"ring\" },\n"), ":6: ", "up_to must be bytes"},
      {entry("{ up_to = \"K\", algorithm = \"ring\" },\n"), ":6: ", "up_to must be bytes"},
      {entry("{ segment = 0, algorithm = \"ring\" },\n"), ":6: ", "segment must be bytes"},
      {entry("{ up_to = 8, algorithm = \"ring\" },\n{ up_to = 8, algorithm = \"tree\" },\n"),
       ":7: ", "ascending"},
      {entry("{ algorithm = \"ring\" },\n{ up_to = 8, algorithm = \"tree\" },\n"),
       ":7: ", "ascending"},
      {head + "entries = []\n" + head.substr(head.find('\n') + 1) + "entries = []\n",
       ":6: ", "a second table"},
  };
  for (const Case& broken : cases) {
    const std::string found = problem(broken.text);
    INFO(broken.text << "\nis found to be: " << found);
    CHECK(found.find("t.toml" + broken.line) == 0);
    CHECK(found.find(broken.what) != std::string::npos);
  }
  CHECK(problem(good) == "none");
  CHECK(problem("format = 1\n") == "none");
}

TEST_CASE("files that cannot be read are named with the reason", "[tuning]") {
  for (const char* path : {"/nonexistent/tuning.toml", "/"}) {
    std::string what;
    try {
      static_cast<void>(Tuning::read(path));
    } catch (const std::runtime_error& error) {
      what = error.what();
    }
    CAPTURE(what);
    CHECK(what.find(std::string(path) + ": cannot be read: ") == 0);
  }
}

TEST_CASE("a file of 1 MiB is read, and one byte more is too much", "[tuning]") {
  const auto path = std::filesystem::temp_directory_path() /
                    ("gpuar-tuning-" + std::to_string(getpid()) + ".toml");
  std::string text = std::string(good) + "\n#";
  text.resize(std::size_t{1} << 20, 'x');
  std::ofstream(path) << text;
  CHECK(Tuning::read(path.string()).hash() == Tuning::parse(text, "a").hash());
  std::ofstream(path) << text << 'x';
  std::string what;
  try {
    static_cast<void>(Tuning::read(path.string()));
  } catch (const std::runtime_error& error) {
    what = error.what();
  }
  CHECK(what == path.string() + ": is larger than 1 MiB");
  std::filesystem::remove(path);
}

TEST_CASE("the hash is that of the bytes, and never that of no file", "[tuning]") {
  CHECK(Tuning().hash() == 0);
  const std::uint64_t hash = Tuning::parse(good, "a").hash();
  CHECK(hash != 0);
  CHECK(Tuning::parse(good, "b").hash() == hash);
  CHECK(Tuning::parse(good + "\n", "a").hash() != hash);
  CHECK(Tuning::parse(good + "# \n", "a").hash() != hash);
}

// What crosses the wire may not depend on who asks: two ranks that read the same bytes under
// different names choose alike for every call.
TEST_CASE("equal files give equal choices, whatever they are called", "[tuning]") {
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const Tuning here = Tuning::parse(good, "/a/t.toml");
  const Tuning there = Tuning::parse(good, "/somewhere/else.toml");
  std::set<std::string> seen;
  for (int round = 0; round < 2000; ++round) {
    CallShape shape = shape_of(random() % (std::uint64_t{1} << (random() % 26 + 1)));
    shape.commutative = random() % 4 != 0;
    shape.reproducible = random() % 4 == 0;
    shape.custom = random() % 4 == 0;
    const PlannedFor memory = random() % 4 == 0 ? PlannedFor::device : PlannedFor::host;
    const Choice mine = select(shape, here.apply(shape, memory, {}));
    REQUIRE(mine == select(shape, there.apply(shape, memory, {})));
    seen.insert(name_of(mine));
  }
  CHECK(seen.size() > 3);
}

// --- What gpuar_tune writes ----------------------------------------------------------------------

bench::SizeTimings timings(std::size_t bytes, double ring, double tree, double ring_in_64k,
                           std::size_t model) {
  return {bytes,
          {{{"ring"}, ring, ring * 1.1}, {{"tree"}, tree, tree}, {{"ring", 65536}, ring_in_64k, 9}},
          model};
}

TEST_CASE("gpuar_tune writes what the component reads", "[tuning]") {
  const std::vector<bench::SizeTimings> sizes = {
      timings(64, 5, 3, 9, 1),   timings(256, 5, 4.9, 9, 0),  // within the margin: the model's
      timings(4096, 5, 9, 9, 0), timings(16384, 5, 9, 9, 1), timings(1 << 20, 8, 9, 4, 1),
  };
  const std::string text = bench::head_text() +
                           bench::table_text({4, 2, false, {}, "about"}, sizes, 1.03) +
                           bench::table_text({4, 2, true, 32768, "about"}, sizes, 1.03);
  INFO(text);
  const Tuning tuning = Tuning::parse(text, "t.toml");
  CHECK(served_by(tuning, shape_of(8)) == "tree");
  CHECK(served_by(tuning, shape_of(128)) == "tree");  // halfway to 256, by factor
  CHECK(served_by(tuning, shape_of(132)) == "ring");
  CHECK(served_by(tuning, shape_of(16384)) == "ring");
  CHECK(served_by(tuning, shape_of(1 << 20)) == "ring");
  CHECK(tuning.apply(shape_of(1 << 20), PlannedFor::host, {}).segment_bytes == 65536);
  CHECK(tuning.apply(shape_of(16384), PlannedFor::host, {}).segment_bytes == 0);
  CHECK(tuning.apply((shape_of((1 << 20) + 4)), PlannedFor::host, {}).algorithm == nullptr);
  CHECK(tuning.apply(shape_of(1 << 20), PlannedFor::device, {}).segment_bytes == 65536);
  CHECK(tuning.device_limit(4, 2) == 32768);
  CHECK_FALSE(tuning.device_limit(4, 1).has_value());
}

TEST_CASE("calls on devices go through the host as far as that is not slower", "[tuning]") {
  using Timings = std::vector<bench::LimitTiming>;
  CHECK(bench::limit_of(Timings{}) == 0);
  CHECK(bench::limit_of(Timings{{1024, 9, 5}, {4096, 5, 9}}) == 0);
  CHECK(bench::limit_of(Timings{{1024, 5, 9}, {4096, 9, 9}, {16384, 12, 9}}) == 8192);
  CHECK(bench::limit_of(Timings{{1024, 5, 9}, {4096, 9, 8}, {16384, 3, 9}}) == 2048);
  CHECK(bench::limit_of(Timings{{1024, 5, 9}, {4096, 5, 9}}) == 4096);
  const auto device = [](const std::string& line) {
    return "format = 1\n[[table]]\nranks = 4\nnodes = 2\nmemory = \"device\"\n" + line +
           "entries = []\n";
  };
  CHECK(Tuning::parse(device("device_limit = 0\n"), "t").device_limit(4, 2) == 0);
  CHECK(Tuning::parse(device("device_limit = \"32K\"\n"), "t").device_limit(4, 2) == 32768);
  CHECK_FALSE(Tuning::parse(device(""), "t").device_limit(4, 2).has_value());
  CHECK(problem(device("device_limit = -1\n")) ==
        "t.toml:6: device_limit must be bytes, as in 4096 or \"64K\"");
  CHECK(problem("format = 1\n[[table]]\nranks = 4\nnodes = 2\ndevice_limit = 1\nentries = []\n") ==
        "t.toml:5: device_limit belongs into a table of memory = \"device\"");
}

TEST_CASE("regret is over the fastest by the second measurement", "[tuning]") {
  const bench::SizeTimings size = timings(64, 4, 5, 20, 1);  // judged: 4.4, 5, 9
  CHECK(bench::pick(size, 1.0) == 0);
  CHECK(bench::pick(size, 1.3) == 1);
  CHECK(bench::regret(size, 0) == 1);
  CHECK(std::abs(bench::regret(size, 1) - 5 / 4.4) < 1e-9);
  const std::string summary = bench::summary_text({size, timings(256, 4, 4, 20, 0)}, 1.0);
  INFO(summary);
  CHECK(summary.find("regret of the cost model: median 1.12, worst 1.14") != std::string::npos);
  CHECK(summary.find("regret of the file: median 1.05, worst 1.10") != std::string::npos);
}

}  // namespace
}  // namespace gpuar
