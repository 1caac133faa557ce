// What GPUAR_TEST_MEMORY says: words, separated by commas, each overriding those before it.
//
//   KIND[+KIND…]                   both buffers; of several kinds each call takes the next
//   send=KIND…   receive=KIND…     one of the buffers
//   odd=KIND…    even=KIND…        both buffers, on ranks of MPI_COMM_WORLD that are so
//   devices=N                      buffers lie on the first N devices in turn, in every mix
//   current=own|none|other         what is current in the calling threads: the context of the first
//                                  device (as the CUDA runtime does), none, that of the last device
//   early                          the driver is up and has a context before MPI_Init
//   reuse                          before a buffer is made, one of another kind has lived at its
//                                  address
//   shutdown                       the devices are reset before MPI_Finalize
//
// KIND: host (left where it is), shadow (moved, but to host memory: no driver), pinned, device,
// managed, pool (stream-ordered).
#pragma once

#include <string>
#include <vector>

#include "driver.h"

namespace on_device {

enum class Current { own, none, other };
enum class Start { lazily, early };
enum class Addresses { any, reused };
enum class End { quiet, shutdown };

struct Settings {
  std::vector<Kind> send{Kind::host};
  std::vector<Kind> receive{Kind::host};
  int devices = 1;
  Current current = Current::own;
  Start start = Start::lazily;
  Addresses addresses = Addresses::any;
  End end = End::quiet;
};

// Ends the process with a message if a word makes no sense.
Settings parse(const std::string& text, int world_rank);

// Those of this process.
const Settings& settings();

}  // namespace on_device
