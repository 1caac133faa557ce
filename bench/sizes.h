// Sizes as options take them.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace bench {

// "8", "64K", "4MiB": powers of 1024. Throws CLI::ValidationError, naming `option`.
std::size_t parse_bytes(const std::string& option, const std::string& text);

// "8,2K,1M" is a list; "8:64M" doubles from the first to the last; "8:64M:4" multiplies by 4.
std::vector<std::size_t> parse_sizes(const std::string& option, const std::string& text);

}  // namespace bench
