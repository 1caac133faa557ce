#include "cuda_reduce/loaded_objects.h"

#include <dlfcn.h>
#include <link.h>

#include <string>

namespace gpuar {
namespace {

// The dynamic linker's entry of the object that this code is part of.
link_map* own_object() {
  Dl_info info;
  void* map = nullptr;
  static const char anchor = 0;
  if (dladdr1(&anchor, &info, &map, RTLD_DL_LINKMAP) == 0) return nullptr;
  return static_cast<link_map*>(map);
}

// The file name of the newest object. dl_iterate_phdr is called for its lock alone: while it runs
// its callback, no other thread changes the list. The callback itself calls nothing that locks.
std::string newest_name(const link_map* own) {
  struct Search {
    const link_map* from;
    std::string name;
  } search{own, {}};
  dl_iterate_phdr(
      [](dl_phdr_info*, std::size_t, void* result) {
        auto* found = static_cast<Search*>(result);
        const link_map* map = found->from;
        while (map->l_next != nullptr) map = map->l_next;
        found->name = map->l_name;
        return 1;
      },
      &search);
  return search.name;
}

link_map* const no_successor = nullptr;
link_map some_object{};
link_map* const a_successor = &some_object;

}  // namespace

LoadedObjects::LoadedObjects() : own_(own_object()), newer_(&no_successor) {
  if (own_ == nullptr) return;  // linked statically, without a dynamic linker: nothing is loaded
  newer_ = &own_->l_next;       // our own object cannot be unloaded while it runs
  catch_up();
}

LoadedObjects::~LoadedObjects() {
  for (void* handle : held_)
    if (handle != nullptr) dlclose(handle);
}

void LoadedObjects::catch_up() noexcept {
  const std::lock_guard lock(mutex_);
  // A program that loads and unloads on other threads may be faster than this; the next call tries
  // again.
  for (int tries = 0; tries < 8 && have_grown(); ++tries) {
    const std::string name = newest_name(own_);
    void* handle = dlopen(name.empty() ? nullptr : name.c_str(), RTLD_LAZY | RTLD_NOLOAD);
    link_map* map = nullptr;
    if (handle == nullptr || dlinfo(handle, RTLD_DI_LINKMAP, &map) != 0) continue;
    newer_.store(&map->l_next, std::memory_order_release);
    // The one before stays for another round: a thread may be about to read its link.
    if (held_[1] != nullptr) dlclose(held_[1]);
    held_[1] = held_[0];
    held_[0] = handle;
  }
}

void LoadedObjects::stop() noexcept {
  const std::lock_guard lock(mutex_);
  newer_.store(&a_successor, std::memory_order_release);
}

}  // namespace gpuar
