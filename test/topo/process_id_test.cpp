#include "topo/process_id.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "test/catch.h"

using namespace gpuar;

namespace {

// A child that stays until it is killed, and what it says of itself.
struct Child {
  pid_t pid = 0;
  ProcessId id;

  Child() {
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    pid = fork();
    if (pid == 0) {
      const ProcessId mine = this_process();
      if (write(ends[1], &mine, sizeof mine) < 0) _exit(1);
      for (;;) pause();
    }
    REQUIRE(read(ends[0], &id, sizeof id) == sizeof id);
    close(ends[0]);
    close(ends[1]);
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  void end() {
    if (pid > 0) {
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    pid = 0;
  }
};

}  // namespace

TEST_CASE("a process knows itself, and is there", "[process_id]") {
  const ProcessId self = this_process();
  CHECK(self.pid == getpid());
  CHECK(self.started > 0);
  CHECK(self.space != 0);
  CHECK(self == this_process());
  CHECK_FALSE(has_ended(self));
}

TEST_CASE("a process that runs, stands still, is not waited for, or is gone", "[process_id]") {
  Child child;
  CHECK(child.id.pid == child.pid);
  CHECK_FALSE(has_ended(child.id));
  kill(child.pid, SIGSTOP);
  waitpid(child.pid, nullptr, WUNTRACED);
  CHECK_FALSE(has_ended(child.id));
  kill(child.pid, SIGKILL);
  siginfo_t info = {};
  waitid(P_PID, static_cast<id_t>(child.pid), &info, WEXITED | WNOWAIT);
  CHECK(has_ended(child.id));  // a zombie
  child.end();
  CHECK(has_ended(child.id));
}

TEST_CASE("another process of the same number", "[process_id]") {
  ProcessId earlier = this_process();
  --earlier.started;
  CHECK(has_ended(earlier));
}

TEST_CASE("what cannot be known counts as there", "[process_id]") {
  Child child;
  const ProcessId id = child.id;
  child.end();
  ProcessId elsewhere = id;
  ++elsewhere.space;
  CHECK_FALSE(has_ended(elsewhere));
  CHECK_FALSE(has_ended({}));
}
