#include "cuda_reduce/loaded_objects.h"

#include <dlfcn.h>

#include "test/catch.h"

namespace {

// A library that the loader finds and this program does not use.
void* load(const char* name) {
  return dlopen(name, RTLD_NOW);
}

}  // namespace

TEST_CASE("a loaded library is noticed once", "[loaded_objects]") {
  gpuar::LoadedObjects objects;
  CHECK_FALSE(objects.have_grown());
  void* first = load(LOADABLE_ONE);
  REQUIRE(first != nullptr);
  CHECK(objects.have_grown());
  objects.catch_up();
  CHECK_FALSE(objects.have_grown());

  // The newest object may be closed by its owner, and others come after it.
  dlclose(first);
  CHECK_FALSE(objects.have_grown());
  void* second = load(LOADABLE_TWO);
  REQUIRE(second != nullptr);
  CHECK(objects.have_grown());
  objects.catch_up();
  CHECK_FALSE(objects.have_grown());
  dlclose(second);
}

TEST_CASE("what was seen may go", "[loaded_objects]") {
  gpuar::LoadedObjects objects;
  for (int round = 0; round < 10; ++round) {
    for (const char* name : {LOADABLE_ONE, LOADABLE_TWO}) {
      void* handle = load(name);
      REQUIRE(handle != nullptr);
      objects.catch_up();
      dlclose(handle);
      CHECK_FALSE(objects.have_grown());
    }
  }
}
