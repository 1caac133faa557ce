// What the tests of the driver share. They run on a real driver too; what only the simulator does
// is asked of `simulator()` first.
#pragma once
#include <cuda.h>

#include <cstddef>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "test/catch.h"

namespace simtest {

// The simulator's own functions; all null on a real driver.
struct Simulator {
  unsigned long long (*counter)(const char* name);
  void (*reset_counters)();
  int (*fail)(const char* rules);
  explicit operator bool() const { return counter != nullptr; }
};
const Simulator& simulator();

// The primary context of device 0, current in this thread.
class Device {
 public:
  Device();
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  CUcontext context = nullptr;
};

// Device memory with known content.
class DeviceMemory {
 public:
  explicit DeviceMemory(size_t size);
  template <class T>
  explicit DeviceMemory(const std::vector<T>& values) : DeviceMemory(values.size() * sizeof(T)) {
    write(values.data());
  }
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  template <class T>
  std::vector<T> read() const {
    std::vector<T> values(size / sizeof(T));
    read_into(values.data());
    return values;
  }

  CUdeviceptr address = 0;
  size_t size;

 private:
  void write(const void* from);
  void read_into(void* to) const;
};

std::string error_name(CUresult result);

// Runs a program beside this one, with changes of the environment.
struct Ended {
  int status;          // exit status, or 128 + signal
  std::string output;  // standard output and error
};
using Environment = std::initializer_list<std::pair<const char*, const char*>>;
Ended run_program(const std::string& name, const std::vector<std::string>& arguments,
                  Environment environment = {});
inline Ended run_role(const std::vector<std::string>& arguments, Environment environment = {}) {
  return run_program("roles", arguments, environment);
}
bool says(const Ended& ended, const std::string& text);  // checks it
std::string folder();                                    // of this program

// The image of simtest's kernels; loads it into the current context.
class Kernels {
 public:
  Kernels();
  ~Kernels();
  Kernels(const Kernels&) = delete;
  Kernels& operator=(const Kernels&) = delete;
  CUfunction find(const char* name) const;
  CUmodule module = nullptr;
};

}  // namespace simtest

// Says what was returned in words.
#define SUCCEEDS(call) REQUIRE(simtest::error_name(call) == "CUDA_SUCCESS")
#define RETURNS(error, call) CHECK(simtest::error_name(call) == #error)
