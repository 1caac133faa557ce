// What gpuar_tune makes of its measurements: the choice for each size, the tuning file, the
// summary.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace bench {

struct Candidate {
  std::string algorithm;    // as coll_gpuar_algorithm takes it
  std::size_t segment = 0;  // bytes; 0: the cost model's
  friend bool operator==(const Candidate&, const Candidate&) = default;
};

// "ring", "ring in 64K".
std::string name_of(const Candidate& candidate);

// Microseconds of one candidate: to choose by, and taken afterwards to judge the choice by.
struct Timing {
  Candidate candidate;
  double choosing_us;
  double judging_us;
};

struct SizeTimings {
  std::size_t bytes;
  std::vector<Timing> timings;  // not empty
  std::size_t model;            // index of the cost model's own choice
};

// Index of what a size's entry will name: the fastest, or the cost model's choice where that is
// within `margin` of it (1.03: 3 %), since a difference as small is noise.
std::size_t pick(const SizeTimings& size, double margin);

// How much longer this one takes than the fastest, by the times to judge by; at least 1.
double regret(const SizeTimings& size, std::size_t index);

struct TunedLayout {
  int ranks;
  int nodes;
  bool device;                              // planned for device memory
  std::optional<std::size_t> device_limit;  // bytes; measured for device memory alone
  std::string about;                        // one line for people
};

// One [[table]] of a tuning file; sizes ascending. Between two sizes that are served differently
// the border is halfway, by factor; beyond the largest, the file says nothing.
std::string table_text(const TunedLayout& layout, const std::vector<SizeTimings>& sizes,
                       double margin);

// What a tuning file begins with.
std::string head_text();

// A line for each size, and the regrets of model and file.
std::string summary_text(const std::vector<SizeTimings>& sizes, double margin);

// A call on device memory, either way.
struct LimitTiming {
  std::size_t bytes;
  double host_us;
  double device_us;
};

// Halfway, by factor, between the last size up to which the host is never slower, and the next one;
// 0 if it is slower at the first. Sizes ascend.
std::size_t limit_of(const std::vector<LimitTiming>& timings);

// A line for each size.
std::string limits_text(const std::vector<LimitTiming>& timings);

}  // namespace bench
