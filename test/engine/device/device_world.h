// All ranks of a communicator in one process, each with an engine and a Cuda of its own, and their
// buffers in any kind of memory. The unkind transport carries host memory only: all else is staged.
#pragma once

#include <chrono>
#include <memory>
#include <vector>

#include "test/cuda_reduce/device/driver.h"
#include "test/engine/engine_world.h"

namespace gpuar::test {

// What a call is on all ranks.
struct Shape {
  const Algorithm* algorithm = nullptr;
  std::size_t count = 1;  // floats
  std::size_t segment_bytes = 0;
  std::uint32_t depth = 1;
  std::uint32_t min_slots = 4;
  std::uint32_t salt = 1;
  bool average = false;
};

// What is one rank's own affair.
struct Where {
  device::Kind in = device::Kind::device;
  device::Kind out = device::Kind::device;
  bool in_place = false;
  Carry carry = Carry::on_device;  // if `out` is the device's
  bool after_queued_work = false;
};

// Small whole numbers: sums are exact in any order.
inline float device_input(Rank rank, std::size_t element, std::uint32_t salt) {
  const std::size_t number = static_cast<std::size_t>(rank) * 13 + element * 7 + salt;
  return static_cast<float>(number % 1000);
}

// One rank's side of a call.
struct Side {
  Run* run = nullptr;
  Where where;
  std::shared_ptr<const Plan> plan;
  std::unique_ptr<device::Memory> in;  // each with an element before and after
  std::unique_ptr<device::Memory> out;
  std::size_t finished = 0;
  int status = 0;
};

// One Cuda for each rank; all use the one device, or the two.
class Cudas {
 public:
  explicit Cudas(Rank size, const CudaOptions& options = device::options()) {
    for (Rank rank = 0; rank < size; ++rank) cudas_.push_back(std::make_unique<Cuda>(options));
  }
  Cuda& operator[](Rank rank) { return *cudas_[static_cast<std::size_t>(rank)]; }
  std::uint64_t launches() const { return sum(&Cuda::launches); }
  std::uint64_t copies() const { return sum(&Cuda::copies); }

 private:
  std::uint64_t sum(std::uint64_t (Cuda::*count)() const) const {
    std::uint64_t all = 0;
    for (const auto& cuda : cudas_) all += (cuda.get()->*count)();
    return all;
  }
  device::Context context_;
  std::vector<std::unique_ptr<Cuda>> cudas_;
};

class DeviceWorld {
 public:
  DeviceWorld(Rank size, std::uint64_t seed, Cudas& cudas)
      : world(size, seed), cudas_(cudas), size_(size) {
    world.add_all_ranks();
    for (Rank rank = 0; rank < size; ++rank) world.engine(rank).use(cudas[rank]);
  }

  // Allocates, fills and binds; `side.where` says where.
  void bind(Rank rank, Side& side, const Shape& shape, MessageKind kind = MessageKind::call) {
    const std::size_t bytes = (shape.count + 2) * sizeof(float);
    side.out = std::make_unique<device::Memory>(side.where.out, bytes);
    if (!side.where.in_place) side.in = std::make_unique<device::Memory>(side.where.in, bytes);
    fill(rank, side, shape);
    BuildOptions options;
    options.builder.min_slots = shape.min_slots;
    auto program = std::make_shared<const Program>(build(*shape.algorithm, rank, size_, options));
    side.plan = std::make_shared<const Plan>(std::move(program), shape.count, sizeof(float),
                                             shape.segment_bytes, shape.depth);
    Run* run = side.run = world.engine(rank).take();
    run->comm = &world.comm(rank);
    run->plan = side.plan;
    run->kind = kind;
    run->round = 0;
    run->done = [](void* user, int status) {
      auto& ended = *static_cast<Side*>(user);
      ++ended.finished;
      ended.status = status;
    };
    run->user = &side;
    if (kind == MessageKind::persistent) {
      run->sequence = static_cast<std::uint32_t>(world.comm(rank).persistent.size());
      world.comm(rank).persistent.push_back(run);
    }
    run->binding.reduction = {GPUAR_SUM, GPUAR_FLOAT32, host_reduce(GPUAR_SUM, GPUAR_FLOAT32)};
    if (shape.average) {
      run->binding.reduction.divide = host_divide(GPUAR_FLOAT32);
      run->binding.reduction.divide_by = size_;
    }
    place(rank, side);
  }

  void start(Rank rank, Side& side) { world.engine(rank).start(*side.run); }

  // The input (again), and something else where the result is to come.
  void fill(Rank rank, Side& side, const Shape& shape) {
    std::vector<float> data(shape.count + 2, edge);
    side.out->upload(data.data());
    for (std::size_t i = 0; i < shape.count; ++i) data[i + 1] = device_input(rank, i, shape.salt);
    (side.where.in_place ? side.out : side.in)->upload(data.data());
  }

  // Elements that are not as they should be, those around the result and of the input too.
  std::size_t wrong(Rank rank, const Side& side, const Shape& shape) const {
    std::vector<float> right(shape.count + 2, edge);
    for (std::size_t i = 0; i < shape.count; ++i) {
      float sum = 0;
      for (Rank r = 0; r < size_; ++r) sum += device_input(r, i, shape.salt);
      right[i + 1] = shape.average ? sum / static_cast<float>(size_) : sum;
    }
    std::size_t bad = differ(*side.out, right);
    if (side.where.in_place) return bad;
    for (std::size_t i = 0; i < shape.count; ++i) right[i + 1] = device_input(rank, i, shape.salt);
    return bad + differ(*side.in, right);
  }

  // Until it is so, or far too much time has passed.
  bool drive(const std::function<bool()>& done) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    while (!world.drive(done)) {
      if (std::chrono::steady_clock::now() > end) return false;
    }
    return true;
  }
  bool idle() {
    bool any = false;
    for (Rank rank = 0; rank < size_; ++rank) any = any || cudas_[rank].in_flight() > 0;
    return !any && world.world.idle();
  }

  EngineWorld world;

 private:
  static constexpr float edge = -77;

  static std::size_t differ(const device::Memory& memory, const std::vector<float>& right) {
    const auto bytes = memory.download();
    std::size_t bad = 0;
    for (std::size_t i = 0; i < right.size(); ++i) {
      float found = 0;
      std::memcpy(&found, bytes.data() + i * sizeof found, sizeof found);
      bad += found == right[i] ? 0 : 1;
    }
    return bad;
  }

  // As the core does.
  void place(Rank rank, Side& side) {
    Run& run = *side.run;
    std::byte* out = side.out->data() + sizeof(float);
    const std::byte* in = side.where.in_place ? out : side.in->data() + sizeof(float);
    run.binding.in = in;
    run.binding.out = out;
    run.device = {};
    const Memory of_in = cudas_[rank].memory_of(in);
    const Memory of_out = cudas_[rank].memory_of(out);
    if (!of_in.gpu && !of_out.gpu) return;
    DeviceCall& call = run.device;
    call.stage = Stage::bound;
    call.gpu = of_out.gpu ? of_out.gpu : of_in.gpu;
    call.in = of_in;
    call.out = of_out;
    call.user_in = in;
    call.user_out = out;
    call.after_queued_work = side.where.after_queued_work;
    call.carry = of_out.gpu ? side.where.carry : Carry::through_host;
  }

  Cudas& cudas_;
  Rank size_;
};

}  // namespace gpuar::test
