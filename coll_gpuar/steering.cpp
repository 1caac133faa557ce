// What steers the choice from outside: the tuning file and a communicator's hints. And what tools
// may ask about it.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <new>

#include "coll_gpuar/process.h"

namespace {

// "one, two".
template <class Range>
std::string names_of(const Range& range) {
  std::string names;
  for (const auto& item : range) names += (names.empty() ? "" : ", ") + std::string(item.name);
  return names;
}

template <std::size_t size>
void copy_text(const std::string& text, char (&out)[size]) {
  std::snprintf(out, size, "%s", text.c_str());
}

constexpr std::uint64_t most_segments = 1024;  // in flight

bool read_number(std::string_view text, std::uint64_t& number) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  return read.ec == std::errc{} && read.ptr == text.data() + text.size();
}

// As Open MPI writes its parameters.
bool read_flag(std::string_view text, bool& flag) {
  const bool yes = text == "true" || text == "1" || text == "yes";
  const bool no = text == "false" || text == "0" || text == "no";
  if (yes || no) flag = yes;
  return yes || no;
}

}  // namespace

// Whether the hint makes sense; it is then taken, else `why` says what would.
bool gpuar_comm::take_hint(gpuar_hint hint, const char* text, std::string& why) {
  std::uint64_t number = 0;
  switch (hint) {
    case GPUAR_HINT_ALGORITHM: {
      gpuar::Forced hinted = forced;
      if (!gpuar::parse_algorithm(text, hinted, why)) return false;
      forced = hinted;
      return true;
    }
    case GPUAR_HINT_SEGMENT_SIZE:
      why = fmt::format("gpuar_segment_size is \"{}\"; give bytes, in digits", text);
      if (!read_number(text, number)) return false;
      forced.segment_bytes = number;
      return true;
    case GPUAR_HINT_PIPELINE_DEPTH:
      why = fmt::format("gpuar_pipeline_depth is \"{}\"; give a number, 0 (chosen) to {}", text,
                        most_segments);
      if (!read_number(text, number) || number > most_segments) return false;
      forced.depth = static_cast<std::uint32_t>(number);
      return true;
    case GPUAR_HINT_REPRODUCIBLE:
      why = fmt::format("gpuar_reproducible is \"{}\"; give true or false", text);
      return read_flag(text, reproducible);
    case GPUAR_HINT_EXPECT:
      why = fmt::format("gpuar_expect is \"{}\"; valid are auto, ask, host, device", text);
      if (!is_expectation(text)) return false;
      wanted = text;
      return true;
    case GPUAR_HINTS:
      break;
  }
  return false;
}

void gpuar_comm::take_hints(const gpuar_comm_desc& desc) {
  for (unsigned i = 0; i < GPUAR_HINTS; ++i) {
    if (!desc.hints[i]) continue;
    std::string why;
    if (take_hint(static_cast<gpuar_hint>(i), desc.hints[i], why)) {
      hints_used |= 1U << i;
    } else if (rank == 0) {
      core->log(fmt::format("gpuar: {}: a hint in its info is not used: {}", name, why));
    }
  }
}

void gpuar_core::read_tuning_file() {
  if (tuning_file.empty()) return;
  try {
    tuning = gpuar::Tuning::read(tuning_file);
  } catch (const std::runtime_error& error) {
    tuning_problem = error.what();
  }
  record.parameters.tuning = tuning.hash();
  record.tuning_broken = !tuning_problem.empty();
}

void gpuar_core::tell_about_tuning(const std::vector<const gpuar::Record*>& members,
                                   gpuar::Rank rank) {
  if (told_about_tuning) return;
  const auto first = std::find_if(members.begin(), members.end(), [](const gpuar::Record* member) {
    return member && member->tuning_broken;
  });
  if (first == members.end()) return;
  told_about_tuning = true;
  if (first - members.begin() != rank) return;
  log(
      fmt::format("gpuar: rank {} (host {}): the tuning file is not used, and the cost model "
                  "chooses: {}",
                  rank, record.place.host, tuning_problem));
}

extern "C" {

int gpuar_comm_ask(gpuar_comm* comm, size_t count, size_t element_bytes, gpuar_answer* answer) try {
  const CoreLock lock(*comm->core);
  PlanKey key;
  key.count = count;
  key.element_bytes = element_bytes;
  const gpuar_comm::Chosen chosen = comm->choose(key);
  copy_text(gpuar::name_of(chosen.choice), answer->algorithm);
  answer->segment_bytes = chosen.choice.segment_bytes;
  answer->nodes = static_cast<int32_t>(comm->layout.hosts);
  answer->for_device = chosen.memory == gpuar::PlannedFor::device ? 1 : 0;
  answer->from_file = chosen.forced.by.empty() ? 0 : 1;
  copy_text(gpuar::explain(chosen.choice, chosen.shape, chosen.forced, chosen.machine),
            answer->why);
  return GPUAR_OK;
} catch (const std::bad_alloc&) {
  return GPUAR_ERR_NO_MEMORY;
}

bool gpuar_comm_uses_hint(const gpuar_comm* comm, gpuar_hint hint) {
  return (comm->hints_used >> hint & 1) != 0;
}

const char* gpuar_algorithms(void) try {
  static const std::string names = names_of(gpuar::algorithms());
  return names.c_str();
} catch (const std::bad_alloc&) {
  return "";
}

const char* gpuar_compositions(void) try {
  static const std::string names = names_of(gpuar::compositions().subspan(1));
  return names.c_str();
} catch (const std::bad_alloc&) {
  return "";
}

const char* gpuar_tuning_file(const gpuar_core* core) {
  return core->tuning.hash() != 0 ? core->tuning_file.c_str() : "";
}

}  // extern "C"
