// Catch2 version 2 wants its main function compiled once; version 3 brings a library for it.
#define CATCH_CONFIG_MAIN
#include <catch2/catch.hpp>
