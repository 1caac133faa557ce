// How a libFuzzer target says that something is wrong: a line, and the end of the process.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace gpuar::test {

inline void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what);
  std::abort();
}

}  // namespace gpuar::test
