// Whether this process can open the device memory of others on its machine. Where the driver
// refuses that (another PID namespace, another instance of a GPU) UCX copies through host memory
// and says nothing, so where the user wants to know (coll_gpuar_verbose) each pair of peers tries
// it once.
//
// Who sends device memory to a peer shows it a sample first, a block of its own. The peer opens
// that when it fetches the memory: the sender's call is not over then, and the block is there.
// Nobody waits for any of this, and no result depends on it.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <unordered_set>

#include "coll_gpuar/engine/run.h"
#include "cuda_reduce/gpu.h"

struct gpuar_comm;

namespace gpuar {

class IpcTrial {
 public:
  // Device memory is about to be sent to a rank.
  void show(gpuar_comm& comm, Rank to, Gpu& gpu);
  // A rank shows a sample.
  void take(const gpuar_comm& comm, const MessageHeader& note, const Arrival& arrival);
  // Device memory is about to be fetched from a rank.
  void open(const gpuar_comm& comm, Rank from, Gpu& gpu);

 private:
  std::unordered_set<std::uint64_t> shown_;               // to these processes
  std::unordered_map<std::uint64_t, IpcSample> untried_;  // of these
  bool told_ = false;  // one line is enough: the others' reason is most often the same
};

}  // namespace gpuar
