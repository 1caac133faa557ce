#include "test/algorithms/docs.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

#include "coll_gpuar/algorithms/composition.h"
#include "coll_gpuar/schedule/printer.h"
#include "test/algorithms/source_root.h"
#include "test/catch.h"

namespace gpuar {
namespace {

TEST_CASE("docs/algorithms.md is what the algorithms say", "[docs]") {
  const std::string page = read_file(std::string(source_root) + "/docs/algorithms.md");
  INFO("regenerate it with make_docs (test/algorithms)");
  CHECK((page == algorithms_page(source_root)));
}

TEST_CASE("an algorithm reads on one screen", "[docs]") {
  std::vector<std::string> names;
  for (const Algorithm& algorithm : algorithms()) names.emplace_back(algorithm.name);
  for (const Composition& composition : compositions().subspan(1)) {
    if (!composition.has_parts) names.emplace_back(composition.name);  // else one of the others
  }
  for (const std::string& name : names) {
    std::istringstream source(
        read_file(std::string(source_root) + "/coll_gpuar/algorithms/" + name + ".cpp"));
    int code = 0;
    for (std::string line; std::getline(source, line);) {
      const auto text = line.find_first_not_of(' ');
      if (text != std::string::npos && line.compare(text, 2, "//") != 0) ++code;
    }
    INFO(name);
    CHECK(code > 0);
    CHECK(code <= 40);
  }
}

TEST_CASE("a schedule is printed as lines and as a graph", "[printer]") {
  const Schedule schedule = build(*find_algorithm("recursive_doubling"), 1, 2);
  CHECK(to_text(schedule) ==
        "  0  send    [0]  input → rank 0  message 0\n"
        "  1  recv    [0]  rank 0 → slot 0  message 0\n"
        "  2  reduce  [0]  output = slot 0 ∘ input  after 0, 1\n");
  CHECK(to_dot(schedule) ==
        "digraph rank_1 {\n"
        "  s0 [label=\"send    [0]  input → rank 0  message 0\"];\n"
        "  s1 [label=\"recv    [0]  rank 0 → slot 0  message 0\"];\n"
        "  s2 [label=\"reduce  [0]  output = slot 0 ∘ input\"];\n"
        "  s0 -> s2;\n"
        "  s1 -> s2;\n"
        "}\n");
}

}  // namespace
}  // namespace gpuar
