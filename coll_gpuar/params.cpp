// The parameters: read into a core, and as they are published.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <new>
#include <string_view>

#include "coll_gpuar/compiled_engine.h"

namespace {

// No vector is longer, and arithmetic on it is far from its end.
constexpr std::size_t most_bytes = std::size_t{1} << 50;

}  // namespace

gpuar::WireParameters wire_parameters(const gpuar_params& params) {
  gpuar::WireParameters wire;
  wire.algorithm = params.algorithm ? params.algorithm : "auto";
  wire.priority = params.priority;
  wire.segment_size = params.segment_size;
  wire.pipeline_depth = params.pipeline_depth;
  wire.reproducible = params.reproducible;
  wire.expect = params.expect ? params.expect : "auto";
  wire.report = gpuar::is_wanted(params.report);
  wire.trace = gpuar::is_wanted(params.trace);
  wire.check = params.check;
  wire.test_node_size = params.test_node_size ? params.test_node_size : "";
  return wire;
}

bool is_expectation(std::string_view text) {
  constexpr std::array<std::string_view, 4> known{"auto", "ask", "host", "device"};
  return std::find(known.begin(), known.end(), text) != known.end();
}

bool read_params(const gpuar_params& params, gpuar_core& core, std::string& why) {
  core.params = params;
  core.live = &params;
  core.algorithm = params.algorithm ? params.algorithm : "auto";
  core.test_node_size = params.test_node_size ? params.test_node_size : "";
  core.tuning_file = params.tuning_file ? params.tuning_file : "";
  core.test_fault = params.test_fault ? params.test_fault : "";
  core.params.algorithm = core.algorithm.c_str();
  core.params.tuning_file = core.tuning_file.c_str();
  core.params.test_fault = core.test_fault.c_str();
  core.params.test_node_size = core.test_node_size.c_str();
  if (!gpuar::parse_algorithm(core.algorithm, core.forced, why)) return false;
  const auto pretended = gpuar::parse_pretended(core.test_node_size);
  if (!pretended) {
    why = fmt::format(
        "coll_gpuar_test_node_size is \"{}\"; give a number, or a list such as 1,3, and for "
        "packages within nodes another one after a slash, such as 4/2",
        core.test_node_size);
    return false;
  }
  if (params.segment_size > most_bytes) {
    why = fmt::format("coll_gpuar_segment_size is {}; give 0 (chosen) or bytes, at most {}",
                      static_cast<std::int64_t>(params.segment_size), most_bytes);
    return false;
  }
  if (params.check && params.check_timeout < 1) {
    why = fmt::format("coll_gpuar_check_timeout is {}; give a number of seconds, 1 or more",
                      params.check_timeout);
    return false;
  }
  if (params.pipeline_depth < 0) {
    why = fmt::format("coll_gpuar_pipeline_depth is {}; give 0 (chosen) or more",
                      params.pipeline_depth);
    return false;
  }
  if (params.timeout < 0) {
    why = fmt::format("coll_gpuar_timeout is {}; give 0 (none) or a number of seconds",
                      params.timeout);
    return false;
  }
  core.watch.set_timeout(params.timeout);
  core.pretended = *pretended;
  core.expect = params.expect ? params.expect : "auto";
  if (!is_expectation(core.expect)) {
    why =
        fmt::format("coll_gpuar_expect is \"{}\"; valid are auto, ask, host, device", core.expect);
    return false;
  }
  core.always_through_host = core.test_fault == "through_host";
  if (params.check) core.checking.emplace(params.check_timeout);
  const bool traces = gpuar::is_wanted(params.trace);
  if (traces && params.trace_events == 0) {
    why = "coll_gpuar_trace_events is 0; give a number of events, 1 or more";
    return false;
  }
  if (traces) {
    core.tracing.emplace(params.trace, params.trace_events);
    core.engine.use(core.tracing->trace());
  }
  const bool reports = gpuar::is_wanted(params.report);
  if (reports || traces) core.report.emplace(reports ? params.report : "");
  core.forced.segment_bytes = params.segment_size;
  core.forced.depth = static_cast<std::uint32_t>(params.pipeline_depth);
  return true;
}

extern "C" size_t gpuar_refusal(const gpuar_params* params, const char* why,
                                uint8_t out[GPUAR_RECORD_MAX]) try {
  static_assert(GPUAR_RECORD_MAX == gpuar::record_capacity);
  gpuar::Record record;
  record.version = GPUAR_VERSION;
  record.refusal = why && *why ? why : "unknown reason";
  record.parameters = wire_parameters(*params);
  record.place = gpuar::discover_place();
  gpuar::RecordBytes bytes{};
  const std::size_t size = gpuar::encode(record, bytes);
  std::copy_n(bytes.begin(), size, out);
  return size;
} catch (const std::bad_alloc&) {
  return 0;  // as if gpuar were missing here
}
