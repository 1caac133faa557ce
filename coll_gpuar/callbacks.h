// What engine and device pools ask of the core: they know nothing of it, and call it by these.
#pragma once

#include <cstddef>
#include <string>

#include "coll_gpuar/engine/run.h"
#include "cuda_reduce/memory.h"

namespace gpuar {

// The transport's peer for a rank; nullptr if it has published no address, or memory is out.
void* resolve(Comm& comm, Rank rank);

// Says that a communicator fails: which calls, where, why.
void log_error(Comm& comm, const std::string& what);

// Notes that the engine has no use for itself.
void take_note(Comm& comm, const MessageHeader& note, const Arrival& arrival);

// Device memory is about to be sent to a rank, or fetched from one.
void send_device_memory(Comm& comm, Rank to, Gpu& gpu);
void fetch_device_memory(Comm& comm, Rank from, Gpu& gpu);

// Scratch of the device's pools lives long: UCX registers it once.
void map_block(void* transport, void* block, std::size_t bytes, MemoryKind kind);
void unmap_block(void* transport, void* block);

}  // namespace gpuar
