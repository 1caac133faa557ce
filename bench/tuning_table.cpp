#include "bench/tuning_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

namespace bench {
namespace {

// "64K" where that is exact, else digits.
std::string short_bytes(std::size_t bytes) {
  constexpr std::string_view units = "KMG";
  std::string unit;
  for (std::size_t i = 0; i < units.size() && bytes >= 1024 && bytes % 1024 == 0; ++i) {
    bytes /= 1024;
    unit = units[i];
  }
  return std::to_string(bytes) + unit;
}

std::size_t border_between(std::size_t smaller, std::size_t larger) {
  return static_cast<std::size_t>(
      std::sqrt(static_cast<double>(smaller) * static_cast<double>(larger)));
}

std::string entry_text(std::size_t up_to, const SizeTimings& size, std::size_t picked) {
  const Timing& timing = size.timings[picked];
  std::string text =
      fmt::format("  {{ up_to = {}, algorithm = \"{}\"", up_to, timing.candidate.algorithm);
  if (timing.candidate.segment != 0)
    text += fmt::format(", segment = {}", timing.candidate.segment);
  text += " },";
  const Timing& model = size.timings[size.model];
  const std::string instead =
      picked == size.model
          ? "as the cost model chooses"
          : fmt::format("cost model: {}, {:.2f} us", name_of(model.candidate), model.choosing_us);
  return fmt::format("{:<64} # {:.2f} us at {}; {}\n", text, timing.choosing_us,
                     short_bytes(size.bytes), instead);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::string regrets_text(const char* whose, const std::vector<double>& regrets) {
  return fmt::format("regret of the {}: median {:.2f}, worst {:.2f}\n", whose, median(regrets),
                     *std::max_element(regrets.begin(), regrets.end()));
}

std::size_t fastest(const SizeTimings& size, double Timing::*time) {
  const auto least =
      std::min_element(size.timings.begin(), size.timings.end(),
                       [time](const Timing& a, const Timing& b) { return a.*time < b.*time; });
  return static_cast<std::size_t>(std::distance(size.timings.begin(), least));
}

}  // namespace

std::string name_of(const Candidate& candidate) {
  if (candidate.segment == 0) return candidate.algorithm;
  return candidate.algorithm + " in " + short_bytes(candidate.segment);
}

std::size_t pick(const SizeTimings& size, double margin) {
  const std::size_t best = fastest(size, &Timing::choosing_us);
  const bool as_good =
      size.timings[size.model].choosing_us <= size.timings[best].choosing_us * margin;
  return as_good ? size.model : best;
}

double regret(const SizeTimings& size, std::size_t index) {
  return size.timings[index].judging_us /
         size.timings[fastest(size, &Timing::judging_us)].judging_us;
}

std::size_t limit_of(const std::vector<LimitTiming>& timings) {
  std::size_t last = 0;
  for (const LimitTiming& timing : timings) {
    if (timing.host_us > timing.device_us) {
      return static_cast<std::size_t>(
          std::sqrt(static_cast<double>(last) * static_cast<double>(timing.bytes)));
    }
    last = timing.bytes;
  }
  return last;
}

std::string limits_text(const std::vector<LimitTiming>& timings) {
  std::string text =
      fmt::format("{:>10}  {:>16} {:>16}\n", "bytes", "through host, us", "on the device");
  for (const LimitTiming& timing : timings) {
    text += fmt::format("{:>10}  {:>16.2f} {:>16.2f}\n", timing.bytes, timing.host_us,
                        timing.device_us);
  }
  return text;
}

std::string head_text() {
  return "# Written by gpuar_tune; made to be read and edited: see docs/selection.md of gpuar.\n"
         "# An entry serves calls of up to so many bytes that no entry before it serves.\n"
         "format = 1\n";
}

std::string table_text(const TunedLayout& layout, const std::vector<SizeTimings>& sizes,
                       double margin) {
  std::string text =
      fmt::format("\n# {}\n[[table]]\nranks = {}\nnodes = {}\nmemory = \"{}\"\n", layout.about,
                  layout.ranks, layout.nodes, layout.device ? "device" : "host");
  if (layout.device_limit) text += fmt::format("device_limit = {}\n", *layout.device_limit);
  text += "entries = [\n";
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t picked = pick(sizes[i], margin);
    std::size_t up_to = sizes[i].bytes;
    if (i + 1 < sizes.size()) {
      const SizeTimings& next = sizes[i + 1];
      const Candidate& then = next.timings[pick(next, margin)].candidate;
      if (then == sizes[i].timings[picked].candidate) continue;
      up_to = border_between(sizes[i].bytes, next.bytes);
    }
    text += entry_text(up_to, sizes[i], picked);
  }
  return text + "]\n";
}

std::string summary_text(const std::vector<SizeTimings>& sizes, double margin) {
  std::string text =
      fmt::format("{:>10}  {:<28} {:>10}  {:<28} {:>10} {:>6}  {:<28} {:>10} {:>6}\n", "bytes",
                  "best", "us", "cost model", "us", "regret", "file", "us", "regret");
  std::vector<double> of_model, of_file;
  for (const SizeTimings& size : sizes) {
    const std::size_t picked = pick(size, margin);
    of_model.push_back(regret(size, size.model));
    of_file.push_back(regret(size, picked));
    const Timing& best = size.timings[fastest(size, &Timing::judging_us)];
    const Timing& model = size.timings[size.model];
    const Timing& file = size.timings[picked];
    text += fmt::format(
        "{:>10}  {:<28} {:>10.2f}  {:<28} {:>10.2f} {:>6.2f}  {:<28} {:>10.2f} {:>6.2f}\n",
        size.bytes, name_of(best.candidate), best.judging_us, name_of(model.candidate),
        model.judging_us, of_model.back(), name_of(file.candidate), file.judging_us,
        of_file.back());
  }
  return text + regrets_text("cost model", of_model) + regrets_text("file", of_file);
}

}  // namespace bench
