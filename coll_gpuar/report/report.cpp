// The parts of all processes put together.
#include "coll_gpuar/report/report.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <tuple>

namespace gpuar {
namespace {

using nlohmann::json;

constexpr double seconds_of(std::int64_t ns) {
  return static_cast<double>(ns) * 1e-9;
}

double share(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

// One line of the report, of all ranks together.
struct Merged {
  struct OfRank {
    std::string host;
    std::int64_t waited = 0;
    std::int64_t moving = 0;
  };
  std::uint64_t calls = 0;  // of the rank that has most: all have as many
  std::uint64_t bytes = 0;
  std::uint64_t samples = 0;
  std::uint64_t compared = 0;
  std::int64_t total = 0;
  std::int64_t longest = 0;
  Histogram times;
  std::map<int, OfRank> ranks;
  std::map<int, Row::Late> late;
};
using RowKey = std::tuple<unsigned, std::string, std::string, std::string>;

struct MergedComm {
  std::string name;
  int size = 0;
  std::map<int, std::string> hosts;  // by rank
  std::map<RowKey, Merged> rows;
};

void merge_row(Merged& to, const json& row, int rank, const std::string& host) {
  to.calls = std::max(to.calls, row.at("calls").get<std::uint64_t>());
  to.bytes = std::max(to.bytes, row.at("bytes").get<std::uint64_t>());
  to.samples += row.at("calls").get<std::uint64_t>();
  to.compared += row.at("compared").get<std::uint64_t>();
  to.total += row.at("total").get<std::int64_t>();
  to.longest = std::max(to.longest, row.at("longest").get<std::int64_t>());
  for (const json& bucket : row.at("times")) to.times.add_bucket(bucket.at(0), bucket.at(1));
  const auto waited = row.at("waited").get<std::int64_t>();
  to.ranks[rank] = {host, waited, row.at("known").get<std::int64_t>() - waited};
  for (const json& entry : row.at("late")) {
    Row::Late& late = to.late[entry.at(0)];
    late.calls += entry.at(1).get<std::uint64_t>();
    late.waited += entry.at(2).get<std::int64_t>();
  }
}

void merge_comm(std::map<std::string, MergedComm>& comms, const json& part,
                const std::string& host) {
  MergedComm& comm = comms[part.at("key")];
  comm.name = part.at("name");
  comm.size = part.at("size");
  const int rank = part.at("rank");
  comm.hosts[rank] = host;
  for (const json& row : part.at("rows")) {
    const RowKey key{row.at("size_class"), row.at("form"), row.at("algorithm"), row.at("path")};
    merge_row(comm.rows[key], row, rank, host);
  }
}

template <class Less>
std::optional<int> greatest(const std::map<int, Row::Late>& late, Less less) {
  const auto found = std::max_element(late.begin(), late.end(), [&](const auto& a, const auto& b) {
    return less(a.second, b.second);
  });
  if (found == late.end()) return std::nullopt;
  return found->first;
}

// Who was the last to enter most often, and whom the others waited for longest.
void add_the_late(json& line, const MergedComm& comm, const Merged& row, std::int64_t waited) {
  std::uint64_t calls = 0;
  for (const auto& entry : row.late) calls += entry.second.calls;
  const auto describe = [&](int rank) {
    const Row::Late& late = row.late.at(rank);
    const auto host = comm.hosts.find(rank);
    return json{
        {"rank", rank},
        {"host", host == comm.hosts.end() ? "" : host->second},
        {"calls_share", share(static_cast<double>(late.calls), static_cast<double>(calls))},
        {"waiting_share", share(static_cast<double>(late.waited), static_cast<double>(waited))}};
  };
  if (const auto rank = greatest(row.late, [](auto& a, auto& b) { return a.calls < b.calls; }))
    line["last_most_often"] = describe(*rank);
  if (const auto rank = greatest(row.late, [](auto& a, auto& b) { return a.waited < b.waited; }))
    line["waited_for_longest"] = describe(*rank);
}

// What most of the time went on.
std::string blame(const json& line) {
  if (line.at("compared_calls") == 0) return "unknown";
  if (line.at("waiting_share").get<double>() < 0.5) return "transfer";
  return "rank " + std::to_string(line.at("waited_for_longest").at("rank").get<int>());
}

json line_of(const MergedComm& comm, const RowKey& key, const Merged& row) {
  const auto& [size_class, form, algorithm, path] = key;
  std::int64_t waited = 0;
  std::int64_t moving = 0;
  json ranks = json::array();
  for (const auto& [rank, of] : row.ranks) {
    waited += of.waited;
    moving += of.moving;
    ranks.push_back({{"rank", rank},
                     {"host", of.host},
                     {"waiting_seconds", seconds_of(of.waited)},
                     {"moving_seconds", seconds_of(of.moving)}});
  }
  const double size = comm.size;
  const double mean = share(seconds_of(row.total), static_cast<double>(row.samples));
  const double bytes = share(static_cast<double>(row.bytes), static_cast<double>(row.calls));
  json line{
      {"bytes_from", std::uint64_t{1} << (size_class - 1)},
      {"bytes_below", std::uint64_t{1} << size_class},
      {"form", form},
      {"algorithm", algorithm},
      {"path", path},
      {"calls", row.calls},
      {"bytes", row.bytes},
      {"seconds",
       {{"mean", mean},
        {"p50", seconds_of(std::min(row.times.quantile(0.5), row.longest))},
        {"p99", seconds_of(std::min(row.times.quantile(0.99), row.longest))},
        {"max", seconds_of(row.longest)}}},
      {"bus_bandwidth", share(bytes * 2 * (size - 1) / size, mean)},
      {"compared_calls", row.compared},
      {"waiting_seconds", seconds_of(waited)},
      {"moving_seconds", seconds_of(moving)},
      {"waiting_share", share(static_cast<double>(waited), static_cast<double>(waited + moving))},
      {"by_rank", std::move(ranks)}};
  add_the_late(line, comm, row, waited);
  line["blame"] = blame(line);
  return line;
}

json lines_of(const MergedComm& comm) {
  json lines = json::array();
  for (const auto& [key, row] : comm.rows) lines.push_back(line_of(comm, key, row));
  return lines;
}

// The processes together: their wall time, and the share of it in blocking calls.
struct Job {
  std::size_t processes = 0;
  double wall = 0;
  double blocked = 0;
  double uncertainty = 0;
  std::uint64_t left_out = 0;
  std::map<std::string, json> ports;  // by host
  std::map<std::string, MergedComm> comms;

  void add(const json& part) {
    ++processes;
    wall += part.at("wall").get<double>();
    blocked += part.at("blocked").get<double>();
    uncertainty = std::max(uncertainty, part.at("clock_uncertainty").get<double>());
    left_out = std::max(left_out, part.at("left_out").get<std::uint64_t>());
    const std::string host = part.at("host");
    if (part.at("tells_of_host")) ports[host] = part.at("ports");
    for (const json& comm : part.at("communicators")) merge_comm(comms, comm, host);
  }
};

}  // namespace

nlohmann::json make_report(std::span<const std::vector<std::uint8_t>> parts) {
  Job job;
  for (const auto& bytes : parts) {
    const json part = json::from_cbor(bytes, true, false);
    if (part.is_object()) job.add(part);
  }
  json hosts = json::array();
  for (auto& [host, ports] : job.ports) hosts.push_back({{"host", host}, {"ports", ports}});
  json communicators = json::array();
  for (const auto& entry : job.comms) {
    const MergedComm& comm = entry.second;
    communicators.push_back({{"name", comm.name}, {"ranks", comm.size}, {"rows", lines_of(comm)}});
  }
  return {{"processes", job.processes},
          {"wall_seconds", share(job.wall, static_cast<double>(job.processes))},
          {"blocking_share", share(job.blocked, job.wall)},
          {"clock_uncertainty_seconds", job.uncertainty},
          {"communicators_left_out", job.left_out},
          {"hosts", std::move(hosts)},
          {"communicators", std::move(communicators)}};
}

}  // namespace gpuar
