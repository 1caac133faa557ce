// The simulated GPUs, by their number in the machine ("physical"). nvml/ uses the same.
#pragma once
#include <array>
#include <cstdio>
#include <string>

namespace simgpu {

inline constexpr int kFirstBus = 0x40;  // PCI bus of the first GPU, the others follow

using Uuid = std::array<unsigned char, 16>;

// The UUID of a GPU: the same in every process, another in every machine (`base`).
inline Uuid uuid_of(int physical, const std::string& base) {
  Uuid bytes = {'S', 'I', 'M', 'G', 'P', 'U'};
  unsigned long long hash = 1469598103934665603ULL;  // FNV-1a
  for (const char c : base) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
  for (size_t i = 0; i < 8; i++) bytes[6 + i] = static_cast<unsigned char>(hash >> (8 * i));
  bytes[15] = static_cast<unsigned char>(physical);
  return bytes;
}

// As nvidia-smi prints it.
inline std::string uuid_text(int physical, const std::string& base) {
  std::string text = "GPU-";
  const Uuid bytes = uuid_of(physical, base);
  for (size_t i = 0; i < bytes.size(); i++) {
    char digits[3];
    snprintf(digits, sizeof digits, "%02x", bytes[i]);
    text += digits;
    if (i == 3 || i == 5 || i == 7 || i == 9) text += '-';
  }
  return text;
}

}  // namespace simgpu
