#include "coll_gpuar/call_range.h"

#include <array>
#include <cstdio>

#include "coll_gpuar/reporting.h"
#include "cuda_reduce/ranges.h"

namespace gpuar {

std::uint64_t begin_call_range(const Run& run) {
  constexpr std::size_t longest = 128;
  std::array<char, longest> name{};
  const Plan* const plan = run.plan.get();
  if (!plan) {  // what memory it is planned for is yet to be found out
    std::snprintf(name.data(), name.size(), "allreduce, %s", run.comm->name.c_str());
    return begin_range(name.data(), 0);
  }
  const std::size_t bytes = plan->count * plan->element_bytes;
  std::snprintf(name.data(), name.size(), "allreduce, %s, %zu bytes, %s",
                algorithm_name(plan->algorithm).c_str(), bytes, run.comm->name.c_str());
  return begin_range(name.data(), bytes);
}

}  // namespace gpuar
