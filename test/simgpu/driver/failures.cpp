#include "failures.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <vector>

#include "calls.h"
#include "ordering.h"

namespace simgpu {
namespace {

struct Rule {
  std::string function, object;
  unsigned long next = 1;  // fails when it reaches 1
  bool lasting = false;
  bool spent = false;
  CUresult error = CUDA_ERROR_UNKNOWN;
};

std::mutex& mutex() {
  static auto* const one = new std::mutex;
  return *one;
}

std::vector<Rule>& rules() {
  static auto* const all = new std::vector<Rule>;
  return *all;
}

CUresult usual_error(const std::string& function) {
  if (function == "kernel" || function.find("Launch") != std::string::npos)
    return CUDA_ERROR_LAUNCH_FAILED;
  for (const char* what : {"Alloc", "HostRegister", "Create", "cuModuleLoad"})
    if (function.find(what) != std::string::npos) return CUDA_ERROR_OUT_OF_MEMORY;
  return CUDA_ERROR_UNKNOWN;
}

bool parse(const std::string& text, Rule& rule) {
  const size_t colon = text.find(':');
  if (colon == std::string::npos) return false;
  const size_t at = text.find('@');
  rule.function = text.substr(0, std::min(colon, at));
  if (at < colon) rule.object = text.substr(at + 1, colon - at - 1);
  char* end = nullptr;
  rule.next = strtoul(text.c_str() + colon + 1, &end, 10);
  rule.lasting = *end == '+';
  if (rule.lasting) end++;
  rule.error = usual_error(rule.function);
  if (*end == ':') rule.error = static_cast<CUresult>(strtol(end + 1, &end, 10));
  return *end == '\0' && rule.next > 0;
}

bool matches(const Rule& rule, const std::string& function, const Caller* caller) {
  if (function.compare(0, rule.function.size(), rule.function) != 0) return false;
  const std::string rest = function.substr(rule.function.size());
  if (!rest.empty() && rest.compare(0, 2, "_v") != 0) return false;
  return std::string(object_of(caller)).find(rule.object) != std::string::npos;
}

}  // namespace

std::atomic<bool> failures_armed{false};

bool add_failures(const std::string& list) {
  const std::lock_guard lock(mutex());
  for (size_t from = 0; from < list.size();) {
    const size_t to = std::min(list.find(',', from), list.size());
    Rule rule;
    if (!parse(list.substr(from, to - from), rule)) return false;
    rules().push_back(rule);
    from = to + 1;
  }
  failures_armed = !rules().empty();
  return true;
}

void add_failures_of_environment() {
  static const bool done = [] {
    const Hidden hidden;
    const char* const list = getenv("SIMGPU_FAIL");
    if (list == nullptr || add_failures(list)) return true;
    fprintf(stderr, "simgpu: SIMGPU_FAIL: expected FUNCTION[@OBJECT]:N[+][:ERROR],…\n");
    abort();
  }();
  (void)done;
}

void clear_failures() {
  const std::lock_guard lock(mutex());
  rules().clear();
  failures_armed = false;
}

CUresult injected(const char* function, const Caller* caller) {
  const std::lock_guard lock(mutex());
  CUresult answer = CUDA_SUCCESS;
  for (Rule& rule : rules()) {
    if (rule.spent || !matches(rule, function, caller)) continue;
    if (rule.next > 1) {
      rule.next--;
      continue;
    }
    rule.spent = !rule.lasting;
    answer = rule.error;
  }
  return answer;
}

}  // namespace simgpu
