// docs/algorithms.md is written by the algorithms themselves.
#pragma once

#include <string>

namespace gpuar {

// The page. `source_root` is the folder that holds coll_gpuar/: pictures and formulas are the
// comments on top of the algorithms' files.
std::string algorithms_page(const std::string& source_root);

// The whole of a file; throws std::runtime_error, naming it, if it cannot be read.
std::string read_file(const std::string& path);

}  // namespace gpuar
