#include "calls.h"

#include <dlfcn.h>
#include <execinfo.h>
#include <unistd.h>

#include <array>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <mutex>
#include <unordered_map>

#include "failures.h"
#include "ordering.h"
#include "settings.h"

using Function = CUresult (*)();

extern "C" {  // in entries.S, by number
extern const Function simgpu_entries[];
extern const Function simgpu_functions[];
Function simgpu_enter(unsigned number, const void* from);
}

namespace simgpu {

constexpr const char* kNames[] = {
#define DRIVER_NAME(name) #name,
#include "names.def"
#undef DRIVER_NAME
};
constexpr size_t kFunctions = std::size(kNames);

struct Caller {
  std::string object;
  bool hook = false;  // UCX's memory hooks, through which others call
  std::array<std::atomic<uint64_t>, kFunctions> calls{};
  std::array<std::atomic<uint64_t>, static_cast<size_t>(Tally::kCount)> tallies{};
};

namespace {

constexpr std::array<const char*, static_cast<size_t>(Tally::kCount)> kTallies = {
    "copies_h2d", "copies_d2h", "copies_d2d", "copies_h2h", "bytes_h2d",
    "bytes_d2h",  "bytes_d2d",  "bytes_h2h",  "launches"};

std::mutex& mutex() {
  static auto* const one = new std::mutex;
  return *one;
}

std::deque<Caller>& callers() {
  static auto* const all = new std::deque<Caller>;  // addresses stay
  return *all;
}

Caller* look_up(const void* from) {
  Dl_info info;
  std::string object = dladdr(from, &info) != 0 && info.dli_fname != nullptr ? info.dli_fname : "?";
  object.erase(0, object.rfind('/') + 1);
  const std::lock_guard lock(mutex());
  for (Caller& caller : callers())
    if (caller.object == object) return &caller;
  Caller& caller = callers().emplace_back();
  caller.object = object;
  caller.hook = object.rfind("libucm", 0) == 0;
  return &caller;
}

// Trivial: the driver is called from destructors that run after those of thread_local objects.
struct Known {
  const void* from;
  Caller* caller;
};
thread_local std::array<Known, 64> known_callers = {};
thread_local Caller* caller_now = nullptr;
thread_local CUresult answer = CUDA_SUCCESS;
thread_local unsigned missing = 0;

Caller* caller_at(const void* from) {
  Known& known = known_callers[(reinterpret_cast<uintptr_t>(from) >> 2) % known_callers.size()];
  if (known.from != from) known = {from, look_up(from)};
  return known.caller;
}

// Who called the hook.
Caller* caller_beyond(Caller* hook) {
  const Hidden hidden;
  void* frames[32];
  const int depth = backtrace(frames, 32);
  bool seen = false;
  for (int i = 0; i < depth; i++) {
    Caller* const caller = look_up(frames[i]);
    if (seen && !caller->hook) return caller;
    seen = seen || caller->hook;
  }
  return hook;
}

CUresult give_answer() {
  return answer;
}

CUresult gap() {
  const Hidden hidden;
  return misuse(CUDA_ERROR_NOT_SUPPORTED, "%s is not simulated", kNames[missing]);
}

Function enter(unsigned number, const void* from) {
  caller_now = caller_at(from);
  if (caller_now->hook) caller_now = caller_beyond(caller_now);
  caller_now->calls[number].fetch_add(1, std::memory_order_relaxed);
  add_failures_of_environment();
  if (failures_armed.load(std::memory_order_relaxed)) {
    const Hidden hidden;
    answer = injected(kNames[number], caller_now);
    if (answer != CUDA_SUCCESS) {
      trace("%s fails with %d, as injected", kNames[number], static_cast<int>(answer));
      return give_answer;
    }
  }
  if (simgpu_functions[number] != nullptr) return simgpu_functions[number];
  missing = number;
  return gap;
}

void say(const char* format, va_list arguments) {
  char text[600];
  vsnprintf(text, sizeof text, format, arguments);
  fprintf(stderr, "simgpu[%d]: %s (called by %s)\n", static_cast<int>(getpid()), text,
          object_of(caller_now));
}

uint64_t sum(const std::string& name, const std::string& object) {
  uint64_t total = 0;
  const int number = function_number(name);
  const std::lock_guard lock(mutex());
  for (const Caller& caller : callers()) {
    if (caller.object.find(object) == std::string::npos) continue;
    if (number >= 0) total += caller.calls[static_cast<size_t>(number)];
    for (size_t i = 0; i < kTallies.size(); i++)
      if (name == kTallies[i]) total += caller.tallies[i];
  }
  return total;
}

}  // namespace

Caller* current_caller() {
  return caller_now;
}

const char* object_of(const Caller* caller) {
  return caller == nullptr ? "?" : caller->object.c_str();
}

void count(Tally tally, size_t amount) {
  if (caller_now != nullptr) caller_now->tallies[static_cast<size_t>(tally)] += amount;
}

bool strict_about(const Caller* caller) {
  return settings().strict &&
         std::string(object_of(caller)).find(settings().strict_object) != std::string::npos;
}

CUresult misuse(CUresult result, const char* format, ...) {
  va_list arguments;
  va_start(arguments, format);
  say(format, arguments);
  va_end(arguments);
  if (strict_about(caller_now)) abort();
  return result;
}

void trace(const char* format, ...) {
  if (!settings().trace) return;
  va_list arguments;
  va_start(arguments, format);
  say(format, arguments);
  va_end(arguments);
}

int function_number(const std::string& name) {
  for (size_t i = 0; i < kFunctions; i++)
    if (name == kNames[i]) return static_cast<int>(i);
  return -1;
}

const char* function_name(int number) {
  return kNames[static_cast<size_t>(number)];
}
int function_count() {
  return static_cast<int>(kFunctions);
}

void* function_entry(int number) {
  return reinterpret_cast<void*>(simgpu_entries[number]);
}

void report_counters() {
  if (settings().report.empty()) return;
  FILE* file = fopen(settings().report.c_str(), "a");
  if (file == nullptr) return;
  const std::lock_guard lock(mutex());
  const auto line = [file](const char* name, const Caller& caller, uint64_t value) {
    if (value > 0)
      fprintf(file, "%s@%s %llu\n", name, caller.object.c_str(),
              static_cast<unsigned long long>(value));
  };
  for (const Caller& caller : callers()) {
    for (size_t i = 0; i < kTallies.size(); i++) line(kTallies[i], caller, caller.tallies[i]);
    for (size_t i = 0; i < kFunctions; i++) line(kNames[i], caller, caller.calls[i]);
  }
  fclose(file);
}

}  // namespace simgpu

Function simgpu_enter(unsigned number, const void* from) {
  return simgpu::enter(number, from);
}

// What tests look up in libcuda.so.1 with dlsym (see simgpu.h).
extern "C" {

[[gnu::visibility("default")]] unsigned long long simgpu_counter(const char* name) {
  const simgpu::Hidden hidden;
  const std::string text = name;
  const size_t at = std::min(text.find('@'), text.size());
  return simgpu::sum(text.substr(0, at), at < text.size() ? text.substr(at + 1) : "");
}

[[gnu::visibility("default")]] void simgpu_reset_counters(void) {
  const simgpu::Hidden hidden;
  const std::lock_guard lock(simgpu::mutex());
  for (simgpu::Caller& caller : simgpu::callers()) {
    for (auto& calls : caller.calls) calls = 0;
    for (auto& tally : caller.tallies) tally = 0;
  }
}

[[gnu::visibility("default")]] int simgpu_fail(const char* rules) {
  const simgpu::Hidden hidden;
  if (rules == nullptr) {
    simgpu::clear_failures();
    return 0;
  }
  return simgpu::add_failures(rules) ? 0 : -1;
}
}
