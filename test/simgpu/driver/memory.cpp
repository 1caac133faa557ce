#include "memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "calls.h"
#include "context.h"
#include "process.h"
#include "settings.h"

namespace simgpu {
namespace {

constexpr size_t kPage = 4096;
constexpr size_t kHalf = size_t{64} << 30;
constexpr size_t kLargest = size_t{2} << 20;  // the largest alignment asked for
constexpr int kFresh = 0xCB, kSlack = 0xDB;

struct Memory {
  std::shared_mutex mutex;
  uintptr_t window = 0;
  std::map<uintptr_t, size_t> free;  // addresses of the window
  std::map<uintptr_t, Allocation> allocations;
  std::vector<size_t> used;
  std::atomic<uint64_t> next_id{1};
};

Memory& memory() {
  static auto* const one = new Memory;
  return *one;
}

size_t round_up(size_t size, size_t to) {
  return (size + to - 1) / to * to;
}
void* at(uintptr_t address) {
  return reinterpret_cast<void*>(address);
}

void forbid(uintptr_t address, size_t size) {
  void* const mapped = mmap(at(address), size, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (mapped == MAP_FAILED) trace("freed memory stays accessible at %p", at(address));
}

bool map_both(const Allocation& a, int alias_rights) {
  const int rights = a.kind == Kind::kManaged ? PROT_READ | PROT_WRITE : PROT_NONE;
  const int flags = MAP_SHARED | MAP_FIXED;
  return mmap(at(a.base), a.mapped, rights, flags, a.file, 0) != MAP_FAILED &&
         mmap(at(a.base + kHalf), a.mapped, alias_rights, flags, a.file, 0) != MAP_FAILED;
}

// First fit, so that freed addresses come back soon, as they do in the driver.
uintptr_t take(Memory& m, size_t size, size_t alignment) {
  for (auto it = m.free.begin(); it != m.free.end(); ++it) {
    const uintptr_t from = it->first, base = round_up(from, alignment);
    const uintptr_t end = from + it->second;
    if (base + size > end) continue;
    m.free.erase(it);
    if (base > from) m.free[from] = base - from;
    if (base + size < end) m.free[base + size] = end - base - size;
    return base;
  }
  return 0;
}

void give(Memory& m, uintptr_t base, size_t size) {
  auto next = m.free.lower_bound(base);
  if (next != m.free.end() && base + size == next->first) {
    size += next->second;
    next = m.free.erase(next);
  }
  if (next != m.free.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == base) {
      before->second += size;
      return;
    }
  }
  m.free[base] = size;
}

bool has_slack(const Allocation& a) {
  return a.kind == Kind::kDevice || a.kind == Kind::kPool;
}

void mark_fresh(const Allocation& a) {
  auto* const bytes = static_cast<unsigned char*>(at(a.base + kHalf));
  memset(bytes, kFresh, std::min(a.size, settings().poison));
  if (has_slack(a)) memset(bytes + a.size, kSlack, a.mapped - a.size);
}

void check_slack(const Allocation& a) {
  const auto* const bytes = static_cast<const unsigned char*>(at(a.base + kHalf));
  for (size_t i = a.size; has_slack(a) && i < a.mapped; i++)
    if (bytes[i] != kSlack) {
      misuse(CUDA_SUCCESS, "written %zu bytes past the end of %zu bytes at %p", i - a.size, a.size,
             at(a.base));
      return;
    }
}

void unmap(Memory& m, const Allocation& a) {
  if (a.kind == Kind::kRegistered) return;
  if (a.kind == Kind::kPinned) {
    munmap(at(a.base), a.mapped + kPage);
    return;
  }
  check_slack(a);
  forbid(a.base, a.mapped);
  forbid(a.base + kHalf, a.mapped);
  if (a.kind != Kind::kImported) {
    // Whoever imported the memory must not find it any more.
    if (ftruncate(a.file, 0) != 0) trace("a freed allocation keeps its pages");
    m.used[static_cast<size_t>(a.device)] -= a.size;
  }
  close(a.file);
  give(m, a.base, a.mapped + kPage);
}

}  // namespace

bool reserve_window() {
  Memory& m = memory();
  rlimit files;  // each allocation keeps one open
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    files.rlim_cur = std::min<rlim_t>(files.rlim_max, 65536);
    setrlimit(RLIMIT_NOFILE, &files);
  }
  void* const start = mmap(nullptr, 2 * kHalf + kLargest, PROT_NONE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (start == MAP_FAILED) return false;
  m.window = round_up(reinterpret_cast<uintptr_t>(start), kLargest);
  m.free[m.window] = kHalf;
  m.used.assign(static_cast<size_t>(device_count()), 0);
  return true;
}

bool in_window(uintptr_t address) {
  return address - memory().window < kHalf;
}

uintptr_t alias(const Allocation& a, uintptr_t address) {
  return a.in_window() && a.kind != Kind::kManaged ? address + kHalf : address;
}

std::optional<Allocation> find_allocation(uintptr_t address) {
  Memory& m = memory();
  const std::shared_lock lock(m.mutex);
  auto it = m.allocations.upper_bound(address);
  if (it == m.allocations.begin()) return std::nullopt;
  --it;
  if (address - it->second.base >= it->second.size) return std::nullopt;
  return it->second;
}

bool change_allocation(uintptr_t base, const std::function<void(Allocation&)>& change) {
  Memory& m = memory();
  const std::unique_lock lock(m.mutex);
  const auto found = m.allocations.find(base);
  if (found == m.allocations.end()) return false;
  change(found->second);
  return true;
}

bool charge(int device, size_t size) {
  Memory& m = memory();
  const std::unique_lock lock(m.mutex);
  size_t& used = m.used[static_cast<size_t>(device)];
  if (size > settings().memory || used > settings().memory - size) return false;
  used += size;
  return true;
}

void discharge(int device, size_t size) {
  Memory& m = memory();
  const std::unique_lock lock(m.mutex);
  m.used[static_cast<size_t>(device)] -= size;
}

size_t used_memory(int device) {
  Memory& m = memory();
  const std::shared_lock lock(m.mutex);
  return m.used[static_cast<size_t>(device)];
}

int new_memory_file(size_t size) {
  int file = memfd_create("simgpu", MFD_CLOEXEC);
  // Out of the way of the program's own, which may be looked at with select().
  if (const int high = fcntl(file, F_DUPFD_CLOEXEC, 2048); high >= 0) {
    close(file);
    file = high;
  }
  if (file >= 0 && ftruncate(file, static_cast<off_t>(round_up(size, kPage))) == 0) return file;
  if (file >= 0) close(file);
  return -1;
}

uintptr_t map_file(Allocation a) {
  Memory& m = memory();
  a.mapped = round_up(a.size, kPage);
  a.maker = current_caller();
  const std::unique_lock lock(m.mutex);
  a.base = take(m, a.mapped + kPage, kPage);
  if (a.base == 0 || !map_both(a, PROT_READ | PROT_WRITE)) return 0;
  if (a.id == 0) a.id = m.next_id++;
  if (a.kind != Kind::kImported) mark_fresh(a);
  m.allocations[a.base] = a;
  return a.base;
}

CUresult allocate(const Context& context, size_t size, Kind kind, CUmemoryPool pool,
                  CUdeviceptr* out) {
  if (out == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (!charge(context.device, size)) return CUDA_ERROR_OUT_OF_MEMORY;
  Allocation a;
  a.size = size;
  a.kind = kind;
  a.device = context.device;
  a.context = kind == Kind::kPool ? nullptr : context.handle;
  a.pool = pool;
  a.accessible = uint64_t{1} << context.device;
  a.file = new_memory_file(size);
  const uintptr_t base = a.file < 0 ? 0 : map_file(a);
  if (base == 0) {
    if (a.file >= 0) close(a.file);
    discharge(context.device, size);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  trace("%zu bytes at %p", size, at(base));
  *out = base;
  return CUDA_SUCCESS;
}

CUresult allocate_pinned(const Context& context, size_t size, void** out) {
  if (out == nullptr || size == 0) return CUDA_ERROR_INVALID_VALUE;
  Allocation a;
  a.size = size;
  a.mapped = round_up(size, kPage);
  a.kind = Kind::kPinned;
  a.device = context.device;
  a.context = context.handle;
  a.maker = current_caller();
  void* const start =
      mmap(nullptr, a.mapped + kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (start == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  mprotect(static_cast<char*>(start) + a.mapped, kPage, PROT_NONE);
  memset(start, kFresh, std::min(size, settings().poison));
  a.base = reinterpret_cast<uintptr_t>(start);
  Memory& m = memory();
  const std::unique_lock lock(m.mutex);
  a.id = m.next_id++;
  m.allocations[a.base] = a;
  *out = start;
  return CUDA_SUCCESS;
}

bool register_allocation(Allocation a) {
  Memory& m = memory();
  const std::unique_lock lock(m.mutex);
  const auto next = m.allocations.lower_bound(a.base);
  if (next != m.allocations.end() && next->first < a.base + a.size) return false;
  if (next != m.allocations.begin()) {
    const Allocation& before = std::prev(next)->second;
    if (before.base + before.size > a.base) return false;
  }
  a.id = m.next_id++;
  m.allocations[a.base] = a;
  return true;
}

void release(uintptr_t base) {
  Memory& m = memory();
  const std::unique_lock lock(m.mutex);
  const auto found = m.allocations.find(base);
  if (found == m.allocations.end()) return;
  unmap(m, found->second);
  m.allocations.erase(found);
}

void release_all_of(const Context& context) {
  Memory& m = memory();
  const std::unique_lock lock(m.mutex);
  std::erase_if(m.allocations, [&](const auto& item) {
    const Allocation& a = item.second;
    const bool owned = a.context == context.handle ||
                       (a.kind == Kind::kPool && a.device == context.device && context.primary);
    if (owned) unmap(m, a);
    return owned;
  });
}

uintptr_t take_addresses(size_t size, size_t alignment) {
  Memory& m = memory();
  const std::unique_lock lock(m.mutex);
  return take(m, size + kPage, std::max(alignment, kPage));
}

void give_addresses(uintptr_t base, size_t size) {
  Memory& m = memory();
  const std::unique_lock lock(m.mutex);
  give(m, base, size + kPage);
}

bool map_chunk(const Allocation& description) {
  Memory& m = memory();
  const std::unique_lock lock(m.mutex);
  Allocation a = description;
  a.id = m.next_id++;
  a.maker = current_caller();
  if (m.allocations.count(a.base) != 0 || !map_both(a, PROT_NONE)) return false;
  m.allocations[a.base] = a;
  return true;
}

void allow_access(const Allocation& a) {
  mprotect(at(a.base + kHalf), a.mapped, PROT_READ | PROT_WRITE);
}

void unmap_chunk(uintptr_t base) {
  Memory& m = memory();
  const std::unique_lock lock(m.mutex);
  const auto found = m.allocations.find(base);
  if (found == m.allocations.end()) return;
  forbid(base, found->second.mapped);
  forbid(base + kHalf, found->second.mapped);
  m.allocations.erase(found);
}

void for_each_allocation(const std::function<void(const Allocation&)>& visit) {
  Memory& m = memory();
  const std::shared_lock lock(m.mutex);
  for (const auto& [base, a] : m.allocations) visit(a);
}

}  // namespace simgpu
