// For what does not run with every call: it links to the engine that process.cpp compiles. Those
// whose calls into it must be short (bind.cpp, core.cpp) leave this out, and have it inlined.
#pragma once

#include "coll_gpuar/process.h"

namespace gpuar {

extern template class Engine<UcxTransport>;

}  // namespace gpuar
