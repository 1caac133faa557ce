#include "topo/process_id.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace gpuar {
namespace {

struct Entry {
  char state = 0;  // as /proc has it
  std::uint64_t started = 0;
};

// Of /proc/PID/stat: "pid (any name) state ppid … started …". Allocates nothing.
bool parse(const char* text, Entry& entry) {
  constexpr int fields_before_start = 19;  // from the state on
  const char* at = std::strrchr(text, ')');
  if (at == nullptr || at[1] != ' ') return false;
  entry.state = at[2];
  at += 2;
  for (int field = 0; field < fields_before_start; ++field) {
    at = std::strchr(at, ' ');
    if (at == nullptr) return false;
    ++at;
  }
  entry.started = std::strtoull(at, nullptr, 10);
  return true;
}

enum class Found : std::uint8_t { yes, no, unknown };

Found find(std::int32_t pid, Entry& entry) {
  std::array<char, 64> path{};
  std::snprintf(path.data(), path.size(), "/proc/%d/stat", pid);
  const int file = ::open(path.data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno == ENOENT ? Found::no : Found::unknown;
  std::array<char, 1024> text{};
  const ssize_t bytes = ::read(file, text.data(), text.size() - 1);
  const bool gone = bytes < 0 && errno == ESRCH;
  ::close(file);
  if (gone) return Found::no;
  return bytes > 0 && parse(text.data(), entry) ? Found::yes : Found::unknown;
}

std::uint64_t pid_namespace() {
  struct stat space = {};
  return stat("/proc/self/ns/pid", &space) == 0 ? space.st_ino : 0;
}

}  // namespace

ProcessId this_process() {
  Entry entry;
  const std::int32_t pid = getpid();
  if (find(pid, entry) != Found::yes) return {};
  return {pid, entry.started, pid_namespace()};
}

bool has_ended(const ProcessId& process) {
  static const ProcessId self = this_process();
  if (process.pid == 0 || self.pid == 0 || process.space != self.space) return false;
  Entry entry;
  switch (find(process.pid, entry)) {
    case Found::yes:
      return entry.started != process.started || entry.state == 'Z' || entry.state == 'X';
    case Found::no:
      return true;
    case Found::unknown:
      return false;
  }
  return false;
}

}  // namespace gpuar
