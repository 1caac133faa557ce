#include "coll_gpuar/process.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>

// For those that include compiled_engine.h.
template class gpuar::Engine<gpuar::UcxTransport>;

std::vector<std::uint8_t> fetch_published(size_t (*get)(void*, std::uint64_t, void*, std::size_t),
                                          void* context, std::uint64_t process) {
  constexpr std::size_t usual = gpuar::record_capacity;
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
  const auto found = members.find(process);
  if (found != members.end()) return found->second;
  gpuar_member fresh;
  const auto bytes = fetch_published(directory.record, directory.context, process);
  fresh.published = !bytes.empty();
  if (fresh.published) {
    fresh.record = gpuar::decode(bytes);
  } else {
    std::array<char, 256> host{};
    directory.host(directory.context, process, host.data(), host.size());
    fresh.record.published = false;
    fresh.record.place.host = host.data();
  }
  return members.emplace(process, std::move(fresh)).first->second;
}

std::shared_ptr<const gpuar_core::LaidOut> gpuar_core::lay_out(
    std::span<const std::uint64_t> processes,
    const std::vector<const gpuar::ProcessPlace*>& places) {
  const std::lock_guard guard(members_mutex);
  if (laid_out && std::equal(processes.begin(), processes.end(), laid_out->processes.begin(),
                             laid_out->processes.end())) {
    return laid_out;
  }
  auto fresh = std::make_shared<LaidOut>();
  fresh->processes.assign(processes.begin(), processes.end());
  fresh->layout = gpuar::make_layout(places, pretended);
  gpuar::Placement placement(fresh->layout);
  fresh->summary = gpuar::summary_of(placement, fresh->layout);
  fresh->placement = &*placements.insert(std::move(placement)).first;
  laid_out = fresh;
  return laid_out;
}

std::shared_ptr<const gpuar::Program> gpuar_core::program(const gpuar::Choice& choice,
                                                          const gpuar_comm& comm) {
  const gpuar::Composition& composition = gpuar::compositions()[choice.composition];
  const gpuar::Algorithm& algorithm = gpuar::algorithms()[choice.algorithm];
  const bool by_rank = choice.composition == gpuar::flat &&
                       (algorithm.keeps_rank_order || comm.placement->order.empty());
  auto& cached = programs[{choice.composition, choice.algorithm, choice.radix, comm.rank, comm.size,
                           by_rank ? nullptr : comm.placement, comm.reproducible}];
  if (!cached) {
    gpuar::BuildOptions options;
    options.radix = choice.radix;
    options.builder.min_slots = gpuar::slots_for(comm.size);
    options.builder.association =
        comm.reproducible ? gpuar::Association::tree : gpuar::Association::chain;
    options.order = comm.placement->order;
    cached = std::make_shared<const gpuar::Program>(
        gpuar::build(composition, algorithm, comm.rank, comm.size,
                     gpuar::levels_of(composition, comm.placement->levels), options));
  }
  return cached;
}

const std::shared_ptr<const gpuar::Plan>& gpuar_comm::plan(const PlanKey& key) {
  if (is_last(key)) return last_plan;
  auto found = plans.find(key);
  if (found == plans.end()) {
    if (plans.size() >= max_plans) plans.clear();  // runs under way own theirs
    found = plans.emplace(key, make_plan(key)).first;
  }
  last_key = key;
  return last_plan = found->second;
}

const std::shared_ptr<const gpuar::Plan>& gpuar_comm::survey_plan() {
  if (!survey_plan_) {
    survey_plan_ = make_plan({1, sizeof(gpuar::Survey), true, true});
    news.clear();  // nobody asked for these calls
  }
  return survey_plan_;
}

void gpuar_comm::forget(const PlanKey& key) {
  plans.erase(key);
  last_plan.reset();
}

gpuar_comm::Chosen gpuar_comm::choose(const PlanKey& key) const {
  Chosen chosen;
  gpuar::CallShape& shape = chosen.shape;
  shape.bytes = key.count * key.element_bytes;
  shape.element_bytes = key.element_bytes;
  shape.ranks = size;
  shape.commutative = key.commutative;
  shape.reproducible = reproducible;
  shape.custom = key.custom;
  shape.layout = layout;
  const bool device = expect == Expect::device && shape.bytes > long_bytes;
  if (device) chosen.machine = staged ? gpuar::staged_machine() : gpuar::device_machine();
  chosen.memory = device ? gpuar::PlannedFor::device : gpuar::PlannedFor::host;
  chosen.forced = core->tuning.apply(shape, chosen.memory, forced);
  chosen.choice = gpuar::select(shape, chosen.forced, chosen.machine);
  return chosen;
}

std::size_t gpuar_comm::device_limit() const {
  const std::size_t given = core->live->device_limit;
  if (given != GPUAR_DEVICE_LIMIT) return given;
  return core->tuning.device_limit(size, layout.hosts).value_or(given);
}

std::shared_ptr<const gpuar::Plan> gpuar_comm::make_plan(const PlanKey& key) {
  const Chosen chosen = choose(key);
  const gpuar::Choice& choice = chosen.choice;
  auto made = std::make_shared<gpuar::Plan>(core->program(choice, *this), key.count,
                                            key.element_bytes, choice.segment_bytes, choice.depth);
  made->algorithm = gpuar::algorithm_number(choice);
  if (core->live->verbose > 0 && rank == 0) {
    news =
        fmt::format("gpuar: {}: {} bytes, {} elements: {}; path: ", name, chosen.shape.bytes,
                    key.count, gpuar::explain(choice, chosen.shape, chosen.forced, chosen.machine));
  }
  return made;
}

gpuar_expect gpuar_core::expectation(std::string_view wanted,
                                     const std::vector<const gpuar::Record*>& members) {
  if (wanted == "host") return gpuar_expect::host;
  if (wanted == "device") return gpuar_expect::device;
  const bool possible = std::all_of(members.begin(), members.end(),
                                    [](const gpuar::Record* record) { return record->has_gpu; });
  return wanted == "ask" || possible ? gpuar_expect::ask : gpuar_expect::host;
}

void gpuar_core::find_place() {
  record.place = gpuar::discover_place();
  record.process = gpuar::this_process();
  record.has_gpu = gpuar::machine_has_gpu();
  if (!record.has_gpu && !gpuar::machine_is_described()) return;
  const gpuar::Devices devices = gpuar::discover_devices();
  gpuar::GpuHints hints;
  hints.current = gpuar::pci_address(cuda->current_device());
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) hints.visible = visible;
  hints.local_rank = params.local_rank;
  hints.local_ranks = params.local_ranks;
  const gpuar::GpuGuess guess = gpuar::guess_gpu(devices, hints);
  if (guess.index >= 0) {
    record.place.gpu = devices.gpus[static_cast<std::size_t>(guess.index)].address;
    record.place.gpu_index = guess.index;
  }
  nics = gpuar::advise_nics(devices, guess, params.local_ranks);
}

void gpuar_core::tell_about_libraries(gpuar::Rank rank) {
  if (told_about_libraries) return;
  told_about_libraries = true;
  log("gpuar: " + transport.describe_library());
  log("gpuar: " + cuda->state());
  if (nics.why.empty()) return;  // there is no GPU on this host
  const char* what = "";
  if (!nics.devices.empty()) {
    what = transport.uses_net_devices()
               ? "UCX uses "
               : "UCX_NET_DEVICES or UCX_TLS is set and decides; else UCX would use ";
  }
  log(fmt::format("gpuar: rank {} (host {}): {}{}", rank, record.place.host, what, nics.why));
}

void gpuar_core::tell_about(const gpuar_comm_desc& desc, const gpuar::Layout& layout,
                            const std::vector<const gpuar::ProcessPlace*>& places) {
  if (desc.size < 2 || live->verbose < 1 || (desc.rank > 0 && live->verbose < 2)) return;
  tell_about_libraries(desc.rank);
  if (desc.rank == 0) {
    log(fmt::format("gpuar: {}: {}", desc.name ? desc.name : "communicator",
                    gpuar::describe(layout, places)));
  }
}

void gpuar_core::tell_about_peers() {
  if (live->verbose < 2) return;
  for (const auto& [process, member] : members) {
    if (!member.peer || !member.peer->endpoint) continue;
    log(fmt::format("gpuar: host {} to host {}: {}", record.place.host, member.record.place.host,
                    gpuar::UcxTransport::describe(member.peer)));
  }
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
