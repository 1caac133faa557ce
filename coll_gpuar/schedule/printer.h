// Schedules for people: one line per step, or a graph for Graphviz.
#pragma once

#include <string>

#include "coll_gpuar/schedule/schedule.h"

namespace gpuar {

// One line per step: number, what it does, the steps it waits for.
//   2  reduce  [0]  output = input ∘ slot 0  after 1
std::string to_text(const Schedule& schedule);

// The same as a directed graph in the DOT language.
std::string to_dot(const Schedule& schedule);

}  // namespace gpuar
