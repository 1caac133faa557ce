#include "shadow.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

namespace on_device {
namespace {

constexpr std::size_t guard = 256;
constexpr std::size_t alignment = 256;

std::atomic<bool> open{false};

std::byte guard_byte(std::size_t i) {
  return static_cast<std::byte>(0xA5U ^ (i * 37U));
}

std::byte* take(Kind kind, int device, std::size_t bytes) {
  if (is_drivers(kind)) return driver().allocate(kind, device, bytes);
  const std::size_t whole = (bytes + alignment - 1) / alignment * alignment;
  auto* memory = static_cast<std::byte*>(std::aligned_alloc(alignment, whole));
  if (!memory) die("no host memory for a shadow of " + std::to_string(bytes) + " bytes");
  return memory;
}

void give(Kind kind, int device, std::byte* memory) {
  is_drivers(kind) ? driver().free(kind, device, memory) : std::free(memory);
}

// Addresses of memory that was freed.
class Addresses {
 public:
  void freed(const std::byte* address) {
    const std::lock_guard lock(mutex_);
    if (known_.size() < most) known_.insert(address);
  }
  bool known(const std::byte* address) {
    const std::lock_guard lock(mutex_);
    return known_.count(address) > 0;
  }

 private:
  static constexpr std::size_t most = 100000;
  std::mutex mutex_;
  std::set<const std::byte*> known_;
};

Addresses& freed_addresses() {
  static auto* const one = new Addresses;
  return *one;
}

// Memory whose kind the driver, UCX or gpuar could take for that of what comes after it.
void leave_another_kind_behind(Kind kind, int device, std::size_t bytes) {
  const Kind other = kind == Kind::managed ? Kind::device : Kind::managed;
  std::byte* const memory = take(other, device, bytes);
  const std::vector<std::byte> zeros(std::min<std::size_t>(bytes, guard));
  driver().copy_up(other, device, memory, zeros.data(), zeros.size());
  give(other, device, memory);
  freed_addresses().freed(memory);
}

}  // namespace

Driver& driver() {
  static auto* const one = [] {
    auto* made = new Driver(settings().devices);
    open = true;
    return made;
  }();
  return *one;
}

bool driver_is_open() {
  return open;
}

Totals& totals() {
  static auto* const one = new Totals;
  return *one;
}

Shadow::Shadow(Kind kind, int device, void* buffer, Span span)
    : kind_(kind), device_(device), user_(static_cast<std::byte*>(buffer) + span.low), span_(span) {
  if (kind == Kind::host || span.bytes == 0) return;
  image_.resize(first() + span.bytes + guard);
  if (is_drivers(kind) && settings().addresses == on_device::Addresses::reused) {
    leave_another_kind_behind(kind, device, image_.size());
  }
  memory_ = take(kind, device, image_.size());
  if (freed_addresses().known(memory_)) ++totals().reused;
  ++totals().buffers[static_cast<std::size_t>(kind)];
}

Shadow::~Shadow() {
  if (!memory_) return;
  give(kind_, device_, memory_);
  freed_addresses().freed(memory_);
}

Shadow& Shadow::operator=(Shadow&& other) noexcept {
  std::swap(kind_, other.kind_);
  std::swap(device_, other.device_);
  std::swap(user_, other.user_);
  std::swap(span_, other.span_);
  std::swap(memory_, other.memory_);
  std::swap(image_, other.image_);
  return *this;
}

// As far off alignment as the program's own buffer.
std::size_t Shadow::first() const {
  return guard + reinterpret_cast<std::uintptr_t>(user_) % alignment;
}

void* Shadow::buffer() const {
  return memory_ + first() - span_.low;
}

void Shadow::load() {
  if (!memory_) return;
  for (std::size_t i = 0; i < first(); ++i) image_[i] = guard_byte(i);
  std::memcpy(image_.data() + first(), user_, span_.bytes);
  for (std::size_t i = first() + span_.bytes; i < image_.size(); ++i) image_[i] = guard_byte(i);
  if (is_drivers(kind_)) {
    driver().copy_up(kind_, device_, memory_, image_.data(), image_.size());
  } else {
    std::memcpy(memory_, image_.data(), image_.size());
  }
}

// The memory as it is now; its guard bytes must be intact.
std::vector<std::byte> Shadow::fetch(const char* call) const {
  std::vector<std::byte> now(image_.size());
  if (is_drivers(kind_)) {
    driver().copy_down(kind_, device_, now.data(), memory_, now.size());
  } else {
    std::memcpy(now.data(), memory_, now.size());
  }
  const std::size_t end = first() + span_.bytes;
  for (std::size_t i = 0; i < now.size(); i = i + 1 == first() ? end : i + 1) {
    if (now[i] == image_[i]) continue;
    die(std::string(call) + " wrote beside a buffer of " + std::to_string(span_.bytes) +
        " bytes in " + name_of(kind_) + " memory, at offset " +
        std::to_string(static_cast<std::ptrdiff_t>(i) - static_cast<std::ptrdiff_t>(first())));
  }
  return now;
}

void Shadow::check_unchanged(const char* call) const {
  if (!memory_) return;
  const std::vector<std::byte> now = fetch(call);
  const auto [was, is] = std::mismatch(image_.begin(), image_.end(), now.begin());
  if (was == image_.end()) return;
  die(std::string(call) + " changed its send buffer of " + std::to_string(span_.bytes) +
      " bytes in " + name_of(kind_) + " memory, at offset " +
      std::to_string(static_cast<std::size_t>(was - image_.begin()) - first()));
}

void Shadow::write_back(const char* call) const {
  if (!memory_) return;
  const std::vector<std::byte> now = fetch(call);
  constexpr std::size_t piece = 256;
  for (std::size_t from = 0; from < span_.bytes; from += piece) {
    const std::size_t size = std::min(piece, span_.bytes - from);
    const std::byte* const was = image_.data() + first() + from;
    const std::byte* const is = now.data() + first() + from;
    if (std::memcmp(was, is, size) == 0) continue;
    for (std::size_t i = 0; i < size; ++i) {
      if (was[i] != is[i]) user_[from + i] = is[i];
    }
  }
}

}  // namespace on_device
