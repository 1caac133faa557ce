// Prints docs/algorithms.md:  make_docs SOURCE_ROOT > docs/algorithms.md
#include <cstdio>
#include <exception>

#include "test/algorithms/docs.h"

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s SOURCE_ROOT > docs/algorithms.md\n", argv[0]);
    return 2;
  }
  try {
    std::fputs(gpuar::algorithms_page(argv[1]).c_str(), stdout);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "make_docs: %s\n", error.what());
    return 1;
  }
  return 0;
}
