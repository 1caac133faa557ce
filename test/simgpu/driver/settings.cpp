#include "settings.h"

#include <unistd.h>

#include <cstdlib>

#include "device.h"

namespace simgpu {
namespace {

std::string text(const char* name) {
  const char* value = getenv(name);
  return value == nullptr ? "" : value;
}

long number(const char* name, long otherwise) {
  const std::string value = text(name);
  return value.empty() ? otherwise : strtol(value.c_str(), nullptr, 0);
}

// Like the driver: numbers or UUIDs, up to the first that names no device.
std::vector<int> visible(int devices, const std::string& uuid_base) {
  std::vector<int> all;
  all.reserve(static_cast<size_t>(devices));
  for (int i = 0; i < devices; i++) all.push_back(i);
  if (getenv("CUDA_VISIBLE_DEVICES") == nullptr) return all;
  std::vector<int> chosen;
  const std::string list = text("CUDA_VISIBLE_DEVICES");
  for (size_t from = 0; from < list.size();) {
    const size_t to = std::min(list.find(',', from), list.size());
    const std::string item = list.substr(from, to - from);
    int found = -1;
    for (const int i : all)
      if (item == std::to_string(i) || item == uuid_text(i, uuid_base)) found = i;
    if (found < 0) break;
    chosen.push_back(found);
    from = to + 1;
  }
  return chosen;
}

Settings read() {
  Settings s;
  s.devices = static_cast<int>(number("SIMGPU_DEVICES", 1));
  s.uuid_base = text("SIMGPU_UUID_BASE");
  s.visible = visible(s.devices, s.uuid_base);
  s.memory = static_cast<size_t>(number("SIMGPU_MEM_MB", 2048)) << 20;
  s.multiprocessors = static_cast<int>(number("SIMGPU_SMS", 2));
  s.delay_us = static_cast<unsigned>(number("SIMGPU_DELAY_US", 0));
  s.seed = static_cast<unsigned>(number("SIMGPU_SEED", 1));
  s.poison = static_cast<size_t>(number("SIMGPU_POISON", 65536));
  if (number("SIMGPU_INLINE", 0) != 0) s.execution = Execution::kInline;
  const std::string ipc = text("SIMGPU_IPC");
  if (ipc == "0") s.ipc = Ipc::kRefused;
  if (ipc == "open") s.ipc = Ipc::kOpenRefused;
  s.peers = number("SIMGPU_PEER", 1) != 0;
  const std::string strict = text("SIMGPU_STRICT");
  s.strict = !strict.empty() && strict != "0";
  if (s.strict && strict != "1") s.strict_object = strict;
  s.kernels = text("SIMGPU_KERNELS");
  s.placeholder = number("SIMGPU_PLACEHOLDER", 0) != 0;
  s.report = text("SIMGPU_REPORT");
  if (const size_t at = s.report.find("%p"); at != std::string::npos)
    s.report.replace(at, 2, std::to_string(getpid()));
  s.trace = number("SIMGPU_TRACE", 0) != 0;
  return s;
}

}  // namespace

const Settings& settings() {
  static const Settings* const all = new Settings(read());  // calls from destructors need it
  return *all;
}

}  // namespace simgpu
