#include "coll_gpuar/report/report.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "test/catch.h"

using namespace gpuar;

namespace {

constexpr RowNames names{[](std::uint32_t) { return std::string("ring"); },
                         [](std::uint8_t) { return "host"; }};

// Ten calls of 1 ms of one rank of four, of which it waited so long for rank `last`.
std::vector<std::uint8_t> part(std::int32_t rank, std::int64_t waited_ns, std::size_t last) {
  constexpr std::int64_t ms = 1'000'000;
  Row row;
  row.of = {11, Form::blocking, 0, 7};
  row.calls = row.compared = 10;
  row.bytes = 10240;
  row.total = row.known = 10 * ms;
  row.waited = waited_ns;
  row.longest = ms;
  row.times.add(ms, 10);
  row.late.resize(4);
  row.late[last] = {9, waited_ns};
  row.late[0].calls += 1;
  ProcessPart process;
  process.host = rank < 2 ? "first" : "second";
  process.tells_of_host = rank % 2 == 0;
  process.wall_seconds = 0.1;
  process.blocked_seconds = 0.01;
  process.ports = {{"eth0", {{"rx_bytes", 5}, {"rx_dropped", 2}}}};
  process.communicators.push_back({"id", "world", 4, rank, {row}});
  return encode(process, names);
}

bool is_near(const nlohmann::json& value, double wanted) {
  return std::abs(value.get<double>() - wanted) < 1e-6 * wanted;
}

nlohmann::json report_of(std::int64_t waited_ns) {
  std::vector<std::vector<std::uint8_t>> parts;
  parts.reserve(4);
  for (std::int32_t rank = 0; rank < 4; ++rank) {
    parts.push_back(part(rank, rank == 2 ? 0 : waited_ns, 2));
  }
  return make_report(parts);
}

}  // namespace

TEST_CASE("histogram: quantiles are within a bucket of the truth", "[report]") {
  for (std::int64_t ns = 1; ns < 1'000'000'000'000; ns = ns * 5 / 3 + 1) {
    const std::int64_t middle = Histogram::middle_of(Histogram::bucket_of(ns));
    CAPTURE(ns, middle);
    CHECK(std::abs(middle - ns) <= ns / 14);
  }
  Histogram times;
  CHECK(times.quantile(0.5) == 0);
  for (std::int64_t ns = 1000; ns <= 100'000; ns += 1000) times.add(ns);
  CHECK(times.quantile(0.5) == Histogram::middle_of(Histogram::bucket_of(50'000)));
  CHECK(times.quantile(0.99) == Histogram::middle_of(Histogram::bucket_of(99'000)));
  times.add(-5);
  times.add(std::int64_t{1} << 62);
  CHECK(times.quantile(1) == Histogram::middle_of(Histogram::buckets - 1));
}

TEST_CASE("report: a late rank is blamed, with its host", "[report]") {
  const auto report = report_of(8'000'000);
  CHECK(report.at("processes") == 4);
  CHECK(is_near(report.at("blocking_share"), 0.1));
  const auto& line = report.at("communicators").at(0).at("rows").at(0);
  CHECK(line.at("calls") == 10);
  CHECK(line.at("bytes_from") == 1024);
  CHECK(line.at("bytes_below") == 2048);
  CHECK(is_near(line.at("waiting_share"), 0.6));
  CHECK(line.at("last_most_often").at("rank") == 2);
  CHECK(line.at("last_most_often").at("host") == "second");
  CHECK(is_near(line.at("last_most_often").at("calls_share"), 0.9));
  CHECK(line.at("blame") == "rank 2");
  // 1 KiB in 1 ms, of which 2 · 3/4 cross a link.
  CHECK(is_near(line.at("bus_bandwidth"), 1.5 * 1024 / 1e-3));
  const std::string text = as_text(report);
  CHECK(text.find("rank 2 on second, 90 %") != std::string::npos);
  CHECK(text.find("waiting for late ranks, most of all for rank 2 on second") != std::string::npos);
  CHECK(text.find("first eth0: received 5 B, sent 0 B, rx_dropped 2") != std::string::npos);
}

TEST_CASE("report: where little was waited for, the transfer is blamed", "[report]") {
  const auto report = report_of(1'000'000);
  CHECK(report.at("communicators").at(0).at("rows").at(0).at("blame") == "transfer");
  CHECK(as_text(report).find("moving data, not on waiting") != std::string::npos);
}

TEST_CASE("report: the longest call bounds the quantiles", "[report]") {
  const auto report = report_of(0);
  const auto& seconds = report.at("communicators").at(0).at("rows").at(0).at("seconds");
  CHECK(seconds.at("p99") <= seconds.at("max"));
}

TEST_CASE("report: a part that cannot be read is left out", "[report]") {
  const std::vector<std::vector<std::uint8_t>> parts{part(0, 0, 1), {0xff, 0x00}, {}};
  CHECK(make_report(parts).at("processes") == 1);
}

TEST_CASE("report: rows of one kind are added up", "[report]") {
  Row row;
  row.calls = 2;
  row.late.resize(2);
  row.late[1] = {1, 5};
  row.times.add(100, 2);
  std::vector<Row> kept;
  add_rows(kept, {row});
  row.longest = 7;
  add_rows(kept, {row});
  REQUIRE(kept.size() == 1);
  CHECK(kept[0].calls == 4);
  CHECK(kept[0].longest == 7);
  CHECK(kept[0].late[1].waited == 10);
  row.of.form = Form::persistent;
  add_rows(kept, {row});
  CHECK(kept.size() == 2);
}

TEST_CASE("ports: what was counted in between, of those that carried something", "[report]") {
  const NicCounters before{{"a", {{"rx_bytes", 5}}}, {"b", {{"rx_bytes", 5}}}};
  const NicCounters now{
      {"a", {{"rx_bytes", 7}}}, {"b", {{"rx_bytes", 5}}}, {"c", {{"tx_dropped", 1}}}};
  CHECK(since(before, now) == NicCounters{{"a", {{"rx_bytes", 2}}}, {"c", {{"tx_dropped", 1}}}});
}
