// All ranks of a communicator in one process, each with an engine of its own, over the unkind
// in-memory transport.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "coll_gpuar/algorithms/composition.h"
#include "coll_gpuar/engine/engine.h"
#include "test/engine/memory_transport.h"

namespace gpuar::test {

// Affine maps x -> a·x + b over 32-bit unsigned numbers, composed: associative, not commutative.
struct Affine {
  std::uint32_t a = 1;
  std::uint32_t b = 0;
  friend bool operator==(const Affine&, const Affine&) = default;
};

inline Affine compose(Affine left, Affine right) {
  return {left.a * right.a, left.a * right.b + left.b};
}

inline int compose_all(void*, void* out, const void* left, const void* right, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    Affine l;
    Affine r;
    std::memcpy(&l, static_cast<const Affine*>(left) + i, sizeof l);
    std::memcpy(&r, static_cast<const Affine*>(right) + i, sizeof r);
    const Affine result = compose(l, r);
    std::memcpy(static_cast<Affine*>(out) + i, &result, sizeof result);
  }
  return 0;
}

inline Affine input_of(Rank rank, std::size_t element, std::uint32_t salt) {
  const auto r = static_cast<std::uint32_t>(rank);
  const auto e = static_cast<std::uint32_t>(element);
  return {2 * (r * 7919 + e * 31 + salt) + 1, r * 104729 + e * 17 + salt * 3};
}

// The composition of all ranks' inputs from left to right: the answer.
inline Affine expected_of(Rank size, std::size_t element, std::uint32_t salt) {
  Affine all;
  for (Rank rank = 0; rank < size; ++rank) all = compose(all, input_of(rank, element, salt));
  return all;
}

// Sums of the same data, for algorithms that do not keep the order of ranks.
inline int add_all(void*, void* out, const void* left, const void* right, std::size_t count) {
  for (std::size_t i = 0; i < 2 * count; ++i) {
    std::uint32_t l = 0;
    std::uint32_t r = 0;
    std::memcpy(&l, static_cast<const std::uint32_t*>(left) + i, sizeof l);
    std::memcpy(&r, static_cast<const std::uint32_t*>(right) + i, sizeof r);
    const std::uint32_t sum = l + r;
    std::memcpy(static_cast<std::uint32_t*>(out) + i, &sum, sizeof sum);
  }
  return 0;
}

inline Affine sum_of(Rank size, std::size_t element, std::uint32_t salt) {
  Affine all{0, 0};
  for (Rank rank = 0; rank < size; ++rank) {
    const Affine input = input_of(rank, element, salt);
    all.a += input.a;
    all.b += input.b;
  }
  return all;
}

// As one of gpuar's own.
template <int (*reduce)(void*, void*, const void*, const void*, std::size_t)>
void by_function(void* out, const void* left, const void* right, std::size_t count) {
  reduce(nullptr, out, left, right, count);
}

// In place of a division: done twice, or to what is sent on, it shows.
inline void mark_all(void* out, const void* in, std::size_t count, std::int32_t mark) {
  for (std::size_t i = 0; i < 2 * count; ++i) {
    std::uint32_t x = 0;
    std::memcpy(&x, static_cast<const std::uint32_t*>(in) + i, sizeof x);
    x += static_cast<std::uint32_t>(mark);
    std::memcpy(static_cast<std::uint32_t*>(out) + i, &x, sizeof x);
  }
}

// The in-memory transport with peers as pointers, as the engine wants them.
class WorldTransport {
 public:
  using Peer = WorldTransport*;
  WorldTransport(MemoryTransport& transport, std::uint32_t rank)
      : transport_(transport), rank_(rank) {}

  // Host memory only: what lies on a device is staged.
  bool carries(MemoryKind kind) const { return kind <= MemoryKind::pinned; }
  Status send(Peer peer, TransportOp& op, const void* data, std::size_t bytes,
              MemoryKind = MemoryKind::host) {
    return transport_.send(peer->rank_, op, data, bytes);
  }
  Status fetch(const Arrival& arrival, TransportOp& op, void* target, std::size_t bytes,
               MemoryKind = MemoryKind::host) {
    return transport_.fetch(arrival, op, target, bytes);
  }
  void release(const Arrival& arrival) { transport_.release(arrival); }
  void cancel(TransportOp& op) { transport_.cancel(op); }
  void lose(Peer peer) { transport_.lose(peer->rank_); }
  void attach(Peer) {}
  void mark_broken(Peer peer) { broken.insert(peer->rank_); }
  void renew(Peer peer) { broken.erase(peer->rank_); }
  unsigned progress() { return transport_.progress(); }

  std::set<std::uint32_t> broken;  // marked so

 private:
  MemoryTransport& transport_;
  std::uint32_t rank_;
};

struct CallOptions {
  const Algorithm* algorithm = nullptr;
  const Composition* composition = &compositions()[flat];
  std::vector<Level> levels;  // of groups, unless flat
  std::uint32_t radix = 2;
  std::size_t count = 1;
  std::size_t segment_bytes = 0;
  std::uint32_t depth = 1;
  std::uint32_t salt = 1;
  std::uint32_t min_slots = 4;
  std::int32_t mark = 0;  // what is done once to the result adds this
  bool predefined =
      false;  // the operation is one of gpuar's own: what arrives may be reduced at once
};

inline CallOptions basic(const char* algorithm, std::size_t count) {
  CallOptions options;
  options.algorithm = find_algorithm(algorithm);
  options.count = count;
  return options;
}

// One rank's side of a call.
struct Call {
  Run* run = nullptr;
  std::vector<Affine> in;
  std::vector<Affine> out;  // with a guard element before and after
  bool in_place = false;
  std::size_t finished = 0;
  int status = 0;

  Affine* result() { return out.data() + 1; }
};

constexpr Affine guard{0xdeadbeef, 0xfeedface};

class EngineWorld {
 public:
  EngineWorld(Rank size, std::uint64_t seed, MemoryOptions options = {})
      : world(static_cast<std::uint32_t>(size), seed, options), size_(size) {
    for (std::uint32_t rank = 0; rank < world.size(); ++rank) {
      transports.push_back(std::make_unique<WorldTransport>(world.rank(rank), rank));
    }
    for (Rank rank = 0; rank < size; ++rank) {
      const auto index = static_cast<std::size_t>(rank);
      engines.push_back(std::make_unique<Engine<WorldTransport>>(*transports[index]));
      world.rank(static_cast<std::uint32_t>(rank)).open(engines.back()->handler());
      comms.push_back(std::make_unique<Comm>());
      Comm& comm = *comms.back();
      comm.id = {7, 11};
      comm.rank = rank;
      comm.size = size;
      comm.name = "test";
      for (auto& transport : transports) comm.peers.push_back(transport.get());
      for (std::uint64_t process = 0; process < world.size(); ++process)
        comm.processes.push_back(process << 40 | 1000);
      comm.resolve = [](Comm&, Rank) -> void* { return nullptr; };
    }
  }

  void add(Rank rank) { engine(rank).add(comm(rank)); }
  void add_all_ranks() {
    for (Rank rank = 0; rank < size_; ++rank) add(rank);
  }

  Engine<WorldTransport>& engine(Rank rank) { return *engines[static_cast<std::size_t>(rank)]; }
  Comm& comm(Rank rank) { return *comms[static_cast<std::size_t>(rank)]; }

  // Binds a call on one rank; ordinary or persistent.
  void bind(Rank rank, Call& call, const CallOptions& options, MessageKind kind) {
    Run* run = engine(rank).take();
    call.run = run;
    run->comm = &comm(rank);
    run->plan = plan(rank, options);
    run->kind = kind;
    run->round = 0;
    run->done = [](void* user, int status) {
      auto& finished = *static_cast<Call*>(user);
      ++finished.finished;
      finished.status = status;
    };
    run->user = &call;
    if (kind == MessageKind::persistent) {
      run->sequence = static_cast<std::uint32_t>(comm(rank).persistent.size());
      comm(rank).persistent.push_back(run);
    }
    fill(rank, call, options);
    run->binding.reduction = {
        GPUAR_SUM,   GPUAR_UINT8,
        nullptr,     options.algorithm->keeps_rank_order ? compose_all : add_all,
        nullptr,     options.mark != 0 ? mark_all : nullptr,
        options.mark};
    if (options.predefined) {
      Reduction& reduction = run->binding.reduction;
      reduction.function =
          options.algorithm->keeps_rank_order ? by_function<compose_all> : by_function<add_all>;
      reduction.custom = nullptr;
    }
  }

  // Sets the input (again).
  void fill(Rank rank, Call& call, const CallOptions& options) {
    call.out.assign(options.count + 2, guard);
    call.in.resize(options.count);
    for (std::size_t i = 0; i < options.count; ++i) call.in[i] = input_of(rank, i, options.salt);
    if (call.in_place) std::copy(call.in.begin(), call.in.end(), call.out.begin() + 1);
    call.run->binding.in = reinterpret_cast<const std::byte*>(
        call.in_place ? call.result() : static_cast<const Affine*>(call.in.data()));
    call.run->binding.out = reinterpret_cast<std::byte*>(call.result());
  }

  std::size_t wrong(Rank rank, Call& call, const CallOptions& options) {
    std::size_t bad = call.out.front() == guard && call.out.back() == guard ? 0 : 1;
    for (std::size_t i = 0; i < options.count; ++i) {
      Affine right = options.algorithm->keeps_rank_order ? expected_of(size_, i, options.salt)
                                                         : sum_of(size_, i, options.salt);
      right.a += static_cast<std::uint32_t>(options.mark);
      right.b += static_cast<std::uint32_t>(options.mark);
      bad += call.result()[i] == right ? 0 : 1;
      bad += call.in[i] == input_of(rank, i, options.salt) ? 0 : 1;
    }
    return bad;
  }

  // Everybody makes progress until `done` or until far too many rounds have passed.
  bool drive(const std::function<bool()>& done) {
    constexpr int far_too_many = 200000;
    for (int i = 0; i < far_too_many; ++i) {
      for (auto& engine : engines) {
        engine->progress(Caller::program);
        while (Run* run = engine->pop_finished()) {
          run->done(run->user, static_cast<int>(run->status));
          if (run->kind != MessageKind::persistent) engine->give(run);
        }
      }
      if (done()) return true;
    }
    return false;
  }

  // Everybody makes progress so many times.
  void rounds(int count) {
    drive([&] { return count-- <= 0; });
  }

  MemoryWorld world;
  std::vector<std::unique_ptr<WorldTransport>> transports;
  std::vector<std::unique_ptr<Engine<WorldTransport>>> engines;
  std::vector<std::unique_ptr<Comm>> comms;

 private:
  std::shared_ptr<const Plan> plan(Rank rank, const CallOptions& options) {
    BuildOptions build_options;
    build_options.radix = options.radix;
    build_options.builder.min_slots = options.min_slots;
    auto program = std::make_shared<const Program>(build(
        *options.composition, *options.algorithm, rank, size_, options.levels, build_options));
    return std::make_shared<const Plan>(std::move(program), options.count, sizeof(Affine),
                                        options.segment_bytes, options.depth);
  }

  Rank size_;
};

}  // namespace gpuar::test
