#include "coll_gpuar/reporting.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "coll_gpuar/algorithms/algorithm.h"
#include "coll_gpuar/algorithms/composition.h"
#include "coll_gpuar/compiled_engine.h"

namespace gpuar {
namespace {

constexpr unsigned composition_shift = 16;

}  // namespace

std::string algorithm_name(std::uint32_t number) {
  std::string name(algorithms()[number & ((1U << composition_shift) - 1)].name);
  const std::uint32_t composition = number >> composition_shift;
  if (composition == flat) return name;
  return fmt::format("{}:{}", compositions()[composition].name, name);
}

const char* path_name(std::uint8_t number) {
  switch (static_cast<Carry>(number)) {
    case Carry::host:
      return "host";
    case Carry::through_host:
      return "through host";
    case Carry::on_device:
      return "device";
  }
  return "unknown";
}

std::string key_of(const Comm& comm) {
  return fmt::format("{:x}:{:x}:{:x}:{}:{}", comm.id.high, comm.id.low, comm.processes.front(),
                     comm.size, comm.name);
}

bool is_wanted(const char* target) {
  const std::string_view text = target ? target : "";
  return !text.empty() && text != "0";
}

std::uint32_t algorithm_number(const Choice& choice) {
  return choice.composition << composition_shift | choice.algorithm;
}

Reporting::Reporting(std::string target)
    : target_(std::move(target)), began_(now_ns()), ports_(read_nic_counters()) {}

std::unique_ptr<Journal> Reporting::journal(const Comm& comm,
                                            const std::vector<const ProcessPlace*>& places) {
  const auto self = static_cast<std::size_t>(comm.rank);
  std::vector<PeerClock*> clocks;
  for (std::size_t rank = 0; rank < places.size(); ++rank) {
    PeerClock& clock = clocks_[comm.processes[rank]];
    if (places[rank]->host_id == places[self]->host_id) clock.share();
    clocks.push_back(&clock);
  }
  return std::make_unique<Journal>(comm.rank, std::move(clocks), totals_);
}

std::vector<TracedProcess::Clock> Reporting::clocks() const {
  std::vector<TracedProcess::Clock> known;
  const std::int64_t now = now_ns();
  for (const auto& [process, clock] : clocks_) {
    const std::int64_t uncertainty = clock.uncertainty(now);
    if (clock.is_shared() || uncertainty == PeerClock::unknown) continue;
    known.push_back({process, clock.offset(), uncertainty});
  }
  return known;
}

void Reporting::keep(const Comm& comm) {
  if (!is_wanted() || !comm.journal || comm.journal->rows().empty()) return;
  const std::string key = key_of(comm);
  auto& parts = kept_.communicators;
  auto found = std::find_if(parts.begin(), parts.end(),
                            [&](const CommPart& part) { return part.key == key; });
  if (found == parts.end()) {
    if (parts.size() >= most_communicators) {
      ++kept_.left_out;
      return;
    }
    found = parts.insert(parts.end(), {key, comm.name, comm.size, comm.rank, {}});
  }
  add_rows(found->rows, comm.journal->rows());
}

const std::vector<std::uint8_t>& Reporting::part(const std::string& host, bool tells_of_host) {
  const std::int64_t now = now_ns();
  kept_.host = host;
  kept_.tells_of_host = tells_of_host;
  kept_.wall_seconds = static_cast<double>(now - began_) * 1e-9;
  kept_.blocked_seconds = static_cast<double>(totals_.blocked_ns) * 1e-9;
  for (const auto& [process, clock] : clocks_) {
    const std::int64_t uncertainty = clock.uncertainty(now);
    if (uncertainty == PeerClock::unknown) continue;  // no call met that process
    kept_.clock_uncertainty =
        std::max(kept_.clock_uncertainty, static_cast<double>(uncertainty) * 1e-9);
  }
  kept_.ports = since(ports_, read_nic_counters());
  return bytes_ = encode(kept_, {algorithm_name, path_name});
}

std::string Reporting::write(const std::uint8_t* parts, std::span<const int> sizes,
                             std::string& trouble) const {
  std::vector<std::vector<std::uint8_t>> split;
  for (const int size : sizes) {
    split.emplace_back(parts, parts + size);
    parts += size;
  }
  const nlohmann::json report = make_report(split);
  if (target_ == "1") return as_text(report);
  std::ofstream file(target_);
  file << (std::string_view(target_).ends_with(".json") ? report.dump(2) : as_text(report)) << '\n';
  file.close();
  if (file) return {};
  trouble = fmt::format(
      "gpuar: the report cannot be written to {} (coll_gpuar_report); is its folder there, and may "
      "this user write to it?",
      target_);
  return as_text(report);
}

}  // namespace gpuar

extern "C" {

// A part of no bytes would keep the others waiting for it: one that cannot be made is empty text.
size_t gpuar_report_part(gpuar_core* core, const void** bytes) try {
  *bytes = nullptr;
  if (!core || !core->report || !core->report->is_wanted()) return 0;
  const CoreLock lock(*core);
  core->engine.for_each_comm([&](const gpuar::Comm& comm) { core->report->keep(comm); });
  const auto& part = core->report->part(core->record.place.host, core->params.local_rank <= 0);
  *bytes = part.data();
  return part.size();
} catch (const std::bad_alloc&) {
  *bytes = "";
  return 1;
}

void gpuar_report_write(const gpuar_core* core, const void* parts, const int* sizes,
                        int count) try {
  std::string trouble;
  const std::string text = core->report->write(static_cast<const std::uint8_t*>(parts),
                                               {sizes, static_cast<std::size_t>(count)}, trouble);
  if (!trouble.empty()) core->log(trouble);
  if (!text.empty()) core->log(text);
} catch (const std::exception&) {
  if (core->params.log) core->params.log("gpuar: no report: there is no memory to make it");
}

}  // extern "C"
