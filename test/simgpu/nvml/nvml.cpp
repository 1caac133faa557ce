// The few functions of NVIDIA's management library that UCX's CUDA modules look up: devices by PCI
// address, no NVLink unless SIMGPU_NVLINKS says so, no fabric. Layouts and numbers are those of the
// library's documented interface.
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../driver/device.h"

namespace {

enum Result { kSuccess = 0, kInvalidArgument = 2, kNotSupported = 3 };
enum Field { kNvlinkCount = 91 };
enum ValueType { kUnsignedInt = 1 };

struct Pci {
  char bus_id_legacy[16];
  unsigned domain, bus, device, id, subsystem;
  char bus_id[32];
};

struct FieldValue {
  unsigned field, scope;
  long long timestamp, latency;
  int type;
  int result;
  union {
    double real;
    unsigned whole;
    unsigned long long wide;
  } value;
};

unsigned number(const char* name, unsigned otherwise) {
  const char* const text = getenv(name);
  return text == nullptr || *text == '\0' ? otherwise
                                          : static_cast<unsigned>(strtoul(text, nullptr, 0));
}

unsigned devices() {
  return number("SIMGPU_DEVICES", 1);
}

// A device's handle is its number plus one.
int number_of(const void* device) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(device)) - 1;
}

}  // namespace

extern "C" {
#pragma GCC visibility push(default)

int nvmlInit_v2() {
  return kSuccess;
}
int nvmlInit() {
  return kSuccess;
}
int nvmlShutdown() {
  return kSuccess;
}

const char* nvmlErrorString(int result) {
  switch (result) {
    case kSuccess:
      return "Success";
    case kInvalidArgument:
      return "Invalid Argument";
    case kNotSupported:
      return "Not Supported";
    default:
      return "Unknown Error";
  }
}

int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = devices();
  return kSuccess;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
  if (index >= devices()) return kInvalidArgument;
  *device = reinterpret_cast<void*>(static_cast<uintptr_t>(index) + 1);
  return kSuccess;
}

int nvmlDeviceGetUUID(void* device, char* out, unsigned length) {
  const char* const base = getenv("SIMGPU_UUID_BASE");
  const std::string text = simgpu::uuid_text(number_of(device), base == nullptr ? "" : base);
  if (length <= text.size()) return kInvalidArgument;
  memcpy(out, text.c_str(), text.size() + 1);
  return kSuccess;
}

int nvmlDeviceGetPciInfo_v3(void* device, Pci* out) {
  *out = {};
  out->bus = static_cast<unsigned>(simgpu::kFirstBus + number_of(device));
  snprintf(out->bus_id, sizeof out->bus_id, "00000000:%02X:00.0", out->bus);
  snprintf(out->bus_id_legacy, sizeof out->bus_id_legacy, "0000:%02X:00.0", out->bus);
  return kSuccess;
}

int nvmlDeviceGetFieldValues(void*, int count, FieldValue* values) {
  for (int i = 0; i < count; i++) {
    FieldValue& value = values[i];
    value.result = value.field == kNvlinkCount ? kSuccess : kNotSupported;
    value.type = kUnsignedInt;
    value.value.wide = 0;
    if (value.field == kNvlinkCount) value.value.whole = number("SIMGPU_NVLINKS", 0);
  }
  return kSuccess;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void* device, unsigned, Pci* out) {
  return nvmlDeviceGetPciInfo_v3(device, out);
}

int nvmlDeviceGetGpuFabricInfo(void*, void*) {
  return kNotSupported;
}
int nvmlDeviceGetGpuFabricInfoV(void*, void*) {
  return kNotSupported;
}

#pragma GCC visibility pop
}
