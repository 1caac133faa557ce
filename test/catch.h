// Catch2 in either of its versions: v3 has one header per feature, v2 (Debian 12) a single one.
#pragma once

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif
