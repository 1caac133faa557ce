#include "support.h"

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>

namespace simtest {
namespace {

template <class Function>
Function look_up(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

// What nvcc made of the kernels; where there is no nvcc, a placeholder for the simulator.
std::string kernel_image() {
  std::ifstream file(folder() + "simtest.fatbin", std::ios::binary);
  const std::string image{std::istreambuf_iterator<char>(file), {}};
  return image.empty() ? "placeholder" : image;
}

}  // namespace

std::string folder() {
  char path[4096];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  const std::string program(path, length < 0 ? 0 : static_cast<size_t>(length));
  return program.substr(0, program.rfind('/') + 1);
}

const Simulator& simulator() {
  static const Simulator found = {
      look_up<decltype(Simulator::counter)>("simgpu_counter"),
      look_up<decltype(Simulator::reset_counters)>("simgpu_reset_counters"),
      look_up<decltype(Simulator::fail)>("simgpu_fail"),
  };
  return found;
}

std::string error_name(CUresult result) {
  const char* name = nullptr;
  cuGetErrorName(result, &name);
  return name == nullptr ? "error " + std::to_string(result) : name;
}

Device::Device() {
  SUCCEEDS(cuInit(0));
  SUCCEEDS(cuDevicePrimaryCtxRetain(&context, 0));
  SUCCEEDS(cuCtxSetCurrent(context));
}

Device::~Device() {
  cuCtxSetCurrent(nullptr);
  cuDevicePrimaryCtxRelease(0);
}

DeviceMemory::DeviceMemory(size_t bytes) : size(bytes) {
  SUCCEEDS(cuMemAlloc(&address, bytes));
}

DeviceMemory::~DeviceMemory() {
  if (address != 0) cuMemFree(address);
}

void DeviceMemory::write(const void* from) {
  SUCCEEDS(cuMemcpyHtoD(address, from, size));
}
void DeviceMemory::read_into(void* to) const {
  SUCCEEDS(cuMemcpyDtoH(to, address, size));
}

Ended run_program(const std::string& name, const std::vector<std::string>& arguments,
                  Environment environment) {
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  const std::string program = folder() + name;
  const pid_t child = fork();
  if (child == 0) {
    dup2(pipe_ends[1], STDOUT_FILENO);
    dup2(pipe_ends[1], STDERR_FILENO);
    close(pipe_ends[0]);
    for (const auto& [name, value] : environment) setenv(name, value, 1);
    std::vector<char*> list = {const_cast<char*>(program.c_str())};
    for (const std::string& argument : arguments)
      list.push_back(const_cast<char*>(argument.c_str()));
    list.push_back(nullptr);
    alarm(60);
    execv(program.c_str(), list.data());
    _exit(127);
  }
  close(pipe_ends[1]);
  Ended ended;
  char part[4096];
  for (ssize_t n; (n = read(pipe_ends[0], part, sizeof part)) > 0;)
    ended.output.append(part, static_cast<size_t>(n));
  close(pipe_ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  ended.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}

bool says(const Ended& ended, const std::string& text) {
  INFO(ended.output);
  const bool found = ended.output.find(text) != std::string::npos;
  CHECK(found);
  return found;
}

Kernels::Kernels() {
  static const std::string* const image = new std::string(kernel_image());
  SUCCEEDS(cuModuleLoadData(&module, image->data()));
}

Kernels::~Kernels() {
  cuModuleUnload(module);
}

CUfunction Kernels::find(const char* name) const {
  CUfunction function = nullptr;
  SUCCEEDS(cuModuleGetFunction(&function, module, name));
  return function;
}

}  // namespace simtest
