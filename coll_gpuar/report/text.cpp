// The report for people.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "coll_gpuar/report/report.h"

namespace gpuar {
namespace {

using nlohmann::json;

std::string bytes_text(std::uint64_t bytes) {
  constexpr std::uint64_t kibi = 1024;
  if (bytes < kibi) return fmt::format("{} B", bytes);
  if (bytes < kibi * kibi) return fmt::format("{} KiB", bytes / kibi);
  if (bytes < kibi * kibi * kibi) return fmt::format("{} MiB", bytes / (kibi * kibi));
  return fmt::format("{} GiB", bytes / (kibi * kibi * kibi));
}

// Three digits that count.
std::string time_text(double seconds) {
  const double us = seconds * 1e6;
  if (us < 10) return fmt::format("{:.2f} us", us);
  if (us < 100) return fmt::format("{:.1f} us", us);
  if (us < 1000) return fmt::format("{:.0f} us", us);
  if (us < 10000) return fmt::format("{:.2f} ms", us / 1e3);
  if (us < 100000) return fmt::format("{:.1f} ms", us / 1e3);
  if (us < 1000000) return fmt::format("{:.0f} ms", us / 1e3);
  return fmt::format("{:.2f} s", us / 1e6);
}

int percent(const json& share) {
  return static_cast<int>(std::lround(share.get<double>() * 100));
}

std::string last_text(const json& row) {
  if (!row.contains("last_most_often")) return "-";
  const json& last = row.at("last_most_often");
  return fmt::format("rank {} on {}, {} %", last.at("rank").get<int>(),
                     last.at("host").get<std::string>(), percent(last.at("calls_share")));
}

std::string row_text(const json& row) {
  const json& times = row.at("seconds");
  const bool known = row.at("compared_calls") != 0;
  const int waiting = percent(row.at("waiting_share"));
  return fmt::format(
      "  {:>8} {:>9} {:>10}  {:<11} {:<21} {:<12} {:>8} {:>8} {:>8} {:>9.3f} {:>7} {:>7}  {}\n",
      bytes_text(row.at("bytes_from")), row.at("calls").get<std::uint64_t>(),
      bytes_text(row.at("bytes")), row.at("form").get<std::string>(),
      row.at("algorithm").get<std::string>(), row.at("path").get<std::string>(),
      time_text(times.at("p50")), time_text(times.at("p99")), time_text(times.at("max")),
      row.at("bus_bandwidth").get<double>() * 1e-9, known ? fmt::format("{} %", waiting) : "?",
      known ? fmt::format("{} %", 100 - waiting) : "?", last_text(row));
}

std::string comm_text(const json& comm) {
  std::string text = fmt::format("{}, {} ranks\n", comm.at("name").get<std::string>(),
                                 comm.at("ranks").get<int>());
  text += fmt::format(
      "  {:>8} {:>9} {:>10}  {:<11} {:<21} {:<12} {:>8} {:>8} {:>8} {:>9} {:>7} {:>7}  {}\n",
      "from", "calls", "bytes", "form", "algorithm", "path", "p50", "p99", "max", "bus GB/s",
      "waiting", "moving", "last most often");
  const json* longest = nullptr;
  const auto time_of = [](const json& row) {
    return row.at("waiting_seconds").get<double>() + row.at("moving_seconds").get<double>();
  };
  for (const json& row : comm.at("rows")) {
    text += row_text(row);
    if (!longest || time_of(row) > time_of(*longest)) longest = &row;
  }
  if (!longest || longest->at("blame") == "unknown") return text;
  const std::string blame = longest->at("blame");
  return text + (blame == "transfer"
                     ? "  most of the time went on moving data, not on waiting for late ranks\n"
                     : fmt::format(
                           "  most of the time went on waiting for late ranks, most of all "
                           "for {} on {}\n",
                           blame, longest->at("waited_for_longest").at("host").get<std::string>()));
}

std::string ports_text(const json& host) {
  std::string text;
  for (const auto& [port, counters] : host.at("ports").items()) {
    text += fmt::format("{} {}: received {}, sent {}", host.at("host").get<std::string>(), port,
                        bytes_text(counters.value("rx_bytes", std::uint64_t{0})),
                        bytes_text(counters.value("tx_bytes", std::uint64_t{0})));
    for (const auto& [name, value] : counters.items()) {
      const bool data = name == "rx_bytes" || name == "tx_bytes";
      if (!data && value != 0) text += fmt::format(", {} {}", name, value.get<std::uint64_t>());
    }
    text += '\n';
  }
  return text;
}

}  // namespace

std::string as_text(const nlohmann::json& report) {
  std::string text =
      fmt::format("gpuar report: {} processes, {:.2f} s, {} % of it in blocking allreduce\n",
                  report.at("processes").get<std::size_t>(),
                  report.at("wall_seconds").get<double>(), percent(report.at("blocking_share")));
  if (report.at("clock_uncertainty_seconds").get<double>() > 0) {
    text += fmt::format("the hosts' clocks are known to {}\n",
                        time_text(report.at("clock_uncertainty_seconds")));
  }
  for (const json& comm : report.at("communicators")) text += comm_text(comm);
  if (report.at("communicators_left_out") != 0) {
    text += fmt::format("{} communicators that were freed earlier are left out\n",
                        report.at("communicators_left_out").get<std::uint64_t>());
  }
  for (const json& host : report.at("hosts")) text += ports_text(host);
  text.pop_back();
  return text;
}

}  // namespace gpuar
