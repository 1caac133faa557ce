// Precompiled for all unit tests.
#include <algorithm>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "test/catch.h"
