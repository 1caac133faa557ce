// Every call of an exported function passes here: who called, how often, whether it shall fail.
#pragma once
#include <cuda.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace simgpu {

enum class Tally : unsigned {
  kCopiesToDevice,
  kCopiesToHost,
  kCopiesOnDevice,
  kCopiesOnHost,
  kBytesToDevice,
  kBytesToHost,
  kBytesOnDevice,
  kBytesOnHost,
  kLaunches,
  kCount
};

// A shared object, or the program, that calls the driver.
struct Caller;

// Who made the call that this thread is in.
Caller* current_caller();
const char* object_of(const Caller* caller);  // the name of its file

void count(Tally tally, size_t amount);

// The application did what no correct program does. Says so; aborts if SIMGPU_STRICT covers the
// caller. Returns `result` otherwise.
CUresult misuse(CUresult result, const char* format, ...) __attribute__((format(printf, 2, 3)));
bool strict_about(const Caller* caller);

void trace(const char* format, ...) __attribute__((format(printf, 1, 2)));

// The number of a function among all names; -1 if there is none of that name.
int function_number(const std::string& name);
const char* function_name(int number);
int function_count();

// The exported entry of that number.
void* function_entry(int number);

// Appends all counters to SIMGPU_REPORT.
void report_counters();

}  // namespace simgpu
