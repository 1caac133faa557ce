#include "ordering.h"

extern "C" {  // ThreadSanitizer's, where the program has it
[[gnu::weak]] void AnnotateIgnoreSyncBegin(const char*, int);
[[gnu::weak]] void AnnotateIgnoreSyncEnd(const char*, int);
[[gnu::weak]] void AnnotateIgnoreReadsBegin(const char*, int);
[[gnu::weak]] void AnnotateIgnoreReadsEnd(const char*, int);
[[gnu::weak]] void AnnotateIgnoreWritesBegin(const char*, int);
[[gnu::weak]] void AnnotateIgnoreWritesEnd(const char*, int);
[[gnu::weak]] void __tsan_acquire(void*);
[[gnu::weak]] void __tsan_release(void*);
}

namespace simgpu {
namespace {

thread_local int depth = 0;

void hide() {
  if (AnnotateIgnoreSyncBegin == nullptr) return;
  AnnotateIgnoreSyncBegin(__FILE__, __LINE__);
  AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
  AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
}

void show() {
  if (AnnotateIgnoreSyncBegin == nullptr) return;
  AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
  AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
  AnnotateIgnoreSyncEnd(__FILE__, __LINE__);
}

}  // namespace

Hidden::Hidden() {
  if (depth++ == 0) hide();
}

Hidden::~Hidden() {
  if (--depth == 0) show();
}

Shown::Shown() : depth_(depth) {
  depth = 0;
  if (depth_ > 0) show();
}

Shown::~Shown() {
  depth = depth_;
  if (depth_ > 0) hide();
}

void declare_release(void* what) {
  if (__tsan_release == nullptr) return;
  const Shown shown;
  __tsan_release(what);
}

void declare_acquire(void* what) {
  if (__tsan_acquire == nullptr) return;
  const Shown shown;
  __tsan_acquire(what);
}

}  // namespace simgpu
