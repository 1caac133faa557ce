// Prints a machine of the tests as hwloc's XML: machine_xml NAME.
#include <cstdio>
#include <map>
#include <string>

#include "test/topo/machines.h"

int main(int argc, char** argv) {
  using namespace gpuar::test;
  const std::map<std::string, Machine (*)()> machines = {
      {"dgx_like", dgx_like},       {"two_sockets", two_sockets}, {"one_gpu", one_gpu},
      {"without_gpu", without_gpu}, {"asymmetric", asymmetric},   {"two_cores", two_cores}};
  const auto found = machines.find(argc == 2 ? argv[1] : "");
  if (found == machines.end()) {
    std::fputs("usage: machine_xml NAME, one of", stderr);
    for (const auto& [name, make] : machines) std::fprintf(stderr, " %s", name.c_str());
    std::fputs("\n", stderr);
    return 2;
  }
  std::fputs(xml_of(found->second()).c_str(), stdout);
  return 0;
}
