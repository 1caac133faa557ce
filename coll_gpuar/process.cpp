#include "coll_gpuar/process.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

std::vector<std::uint8_t> fetch_published(size_t (*get)(void*, std::uint64_t, void*, std::size_t),
                                          void* context, std::uint64_t process) {
  constexpr std::size_t usual = 512;
  std::vector<std::uint8_t> bytes(usual);
  std::size_t size = get(context, process, bytes.data(), bytes.size());
  if (size > bytes.size()) {
    bytes.resize(size);
    size = std::min(size, get(context, process, bytes.data(), bytes.size()));
  }
  bytes.resize(size);
  return bytes;
}

gpuar_member& gpuar_core::member(const gpuar_directory& directory, std::uint64_t process) {
  const std::lock_guard guard(members_mutex);
  const auto [entry, fresh] = members.try_emplace(process);
  gpuar_member& known = entry->second;
  if (fresh) {
    const auto bytes = fetch_published(directory.record, directory.context, process);
    known.published = !bytes.empty();
    if (known.published) {
      known.record = gpuar::decode(bytes);
    } else {
      std::array<char, 256> host{};
      directory.host(directory.context, process, host.data(), host.size());
      known.record.published = false;
      known.record.place.host = host.data();
    }
  }
  return known;
}

std::shared_ptr<const gpuar::Program> gpuar_core::program(const gpuar::Choice& choice,
                                                          gpuar::Rank rank, gpuar::Rank size) {
  auto& cached = programs[{choice.algorithm, choice.radix, rank, size}];
  if (!cached) {
    gpuar::BuildOptions options;
    options.radix = choice.radix;
    // An algorithm that receives from everybody at once should not wait for slots.
    constexpr gpuar::Rank enough = 16;
    options.builder.min_slots =
        static_cast<std::uint32_t>(std::clamp<gpuar::Rank>(size - 1, 4, enough));
    options.builder.association =
        params.reproducible ? gpuar::Association::tree : gpuar::Association::chain;
    cached = std::make_shared<const gpuar::Program>(
        gpuar::build(gpuar::algorithms()[choice.algorithm], rank, size, options));
  }
  return cached;
}

const std::shared_ptr<const gpuar::Plan>& gpuar_comm::plan(const PlanKey& key) {
  if (last_plan && key == last_key) return last_plan;
  auto found = plans.find(key);
  if (found == plans.end()) {
    if (plans.size() >= max_plans) plans.clear();  // runs under way own theirs
    found = plans.emplace(key, make_plan(key)).first;
  }
  last_key = key;
  return last_plan = found->second;
}

std::shared_ptr<const gpuar::Plan> gpuar_comm::make_plan(const PlanKey& key) {
  gpuar::CallShape shape;
  shape.bytes = key.count * key.element_bytes;
  shape.element_bytes = key.element_bytes;
  shape.ranks = size;
  shape.commutative = key.commutative;
  shape.reproducible = core->params.reproducible;
  shape.custom = key.custom;
  shape.layout = layout;
  const gpuar::Choice choice = gpuar::select(shape, core->forced);
  auto made =
      std::make_shared<const gpuar::Plan>(core->program(choice, rank, size), key.count,
                                          key.element_bytes, choice.segment_bytes, choice.depth);
  if (core->params.verbose > 0 && rank == 0) {
    core->log(fmt::format("gpuar: {}: {} bytes, {} elements: {}; path: host memory", name,
                          shape.bytes, key.count, gpuar::explain(choice, shape, core->forced)));
  }
  return made;
}

void gpuar_core::start_helper() {
  helper = std::thread([this] {
    while (!stopping.load(std::memory_order_acquire)) {
      if (active.load(std::memory_order_acquire) == 0) {
        std::unique_lock sleep(wake_mutex);
        constexpr auto at_most = std::chrono::milliseconds(1);
        wake.wait_for(sleep, at_most);
        continue;
      }
      unsigned events = 0;
      {
        const std::lock_guard guard(mutex);
        events = engine.progress(gpuar::Caller::helper);
      }
      if (events == 0) std::this_thread::yield();
    }
  });
}

void gpuar_core::stop_helper() {
  if (!helper.joinable()) return;
  stopping.store(true, std::memory_order_release);
  wake.notify_all();
  helper.join();
}
