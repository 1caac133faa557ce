// Looks after calls that wait: for processes that are gone and, if asked to, for silence.
//
// A process of this host is seen to end. One elsewhere is known to be gone when the connection to
// it breaks, which takes a connection: a call that waits for a while greets those that it waits
// for. A process with which a transfer failed is given up, too, also if it lives. Whoever finds a
// member gone tells the others (the abort record). Silence alone is no error: a rank may compute
// for hours before it calls.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "coll_gpuar/engine/run.h"

struct gpuar_comm;
struct gpuar_core;
struct gpuar_member;

namespace gpuar {

class Watch {
 public:
  // Seconds of silence that are an error; 0: none are.
  void set_timeout(int seconds) { timeout_ = seconds * second; }

  // With the lock held, from progress. It looks a few times a second, at most.
  void poll(gpuar_core& core) {
    constexpr unsigned one_in = 64;
    if (++polls_ % one_in == 0) [[unlikely]]
      look(core);
  }

 private:
  struct Gone {
    std::uint64_t process;
    bool ended;  // or the connection with it broke
  };
  static constexpr std::int64_t second = 1'000'000'000;
  static constexpr std::int64_t interval = second / 4;

  void look(gpuar_core& core);
  void find_gone(gpuar_core& core);
  void lose_the_gone(gpuar_comm& comm) const;
  void time_calls(gpuar_comm& comm, std::int64_t passed) const;
  void has_stood(gpuar_comm& comm, Run& run) const;

  std::int64_t timeout_ = 0;
  std::int64_t last_ = 0;
  unsigned polls_ = 0;
  std::vector<Gone> gone_;
};

}  // namespace gpuar
