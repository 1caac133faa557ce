// Who may show a sample of its device memory, and what is said of one that cannot be opened.
#include "coll_gpuar/process.h"
#include "test/cuda_reduce/device/driver.h"

using namespace gpuar;

namespace {

// A process with two others, of which the last is on another machine.
struct World {
  static constexpr std::uint64_t machine = std::uint64_t{5} << 32;

  World() {
    core.params.verbose = 1;
    core.params.log = [](const char* line) { device::lines().emplace_back(line); };
    core.record.place.host_id = machine;
    for (const std::uint64_t process : {70, 71, 72}) {
      // A container of this machine has another name.
      core.members[process].record.place.host_id = process == 72 ? 2 * machine : machine + process;
      comm.processes.push_back(process);
    }
    comm.core = &core;
    comm.name = "world";
    comm.size = 3;
  }
  void take(std::uint32_t from, std::uint64_t process, const Arrival& arrival) {
    core.ipc_trial.take(comm, note(comm.id, from, Note::shows, process, 0), arrival);
  }

  const device::Context context;
  Cuda cuda{device::options()};
  const device::Memory memory{device::Kind::device, 4096};
  Gpu& gpu = device::gpu_of(cuda, memory);
  IpcSample rubbish{};
  gpuar_core core;
  gpuar_comm comm;
};

}  // namespace

TEST_CASE("a sample that cannot be opened is told of once", "[device][memory]") {
  World world;
  world.take(1, 71, {world.rubbish.data(), world.rubbish.size()});
  CHECK(device::lines().empty());  // nothing is fetched yet
  for (int fetch = 0; fetch < 2; ++fetch) world.core.ipc_trial.open(world.comm, 1, world.gpu);
  REQUIRE(device::lines().size() == 1);
  CHECK(device::lines().front().find("gpuar: world: rank 0 cannot open device memory of rank 1 "
                                     "(cuIpcOpenMemHandle: CUDA_ERROR_") == 0);
  CHECK(device::current_context() == world.context.get());
}

TEST_CASE("no sample is taken from anybody else, nor anything that is none", "[device][memory]") {
  World world;
  const Arrival arrival{world.rubbish.data(), world.rubbish.size()};
  Arrival short_one = arrival, by_rendezvous = arrival;
  short_one.bytes -= 1;
  by_rendezvous.rendezvous = true;
  world.take(1, 71, short_one);
  world.take(1, 71, by_rendezvous);
  world.take(1, 72, arrival);  // in another's name
  world.take(2, 72, arrival);  // from another machine
  world.core.params.verbose = 0;
  world.take(1, 71, arrival);  // nobody wants to know
  for (const Rank from : {1, 2}) world.core.ipc_trial.open(world.comm, from, world.gpu);
  CHECK(device::lines().empty());
}
