// A process's part: rows added up, and as bytes.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "coll_gpuar/report/report.h"

namespace gpuar {
namespace {

void add(Row& to, const Row& row) {
  to.calls += row.calls;
  to.bytes += row.bytes;
  to.compared += row.compared;
  to.total += row.total;
  to.known += row.known;
  to.waited += row.waited;
  to.longest = std::max(to.longest, row.longest);
  for (std::size_t i = 0; i < Histogram::buckets; ++i)
    to.times.add_bucket(i, row.times.counts()[i]);
  for (std::size_t i = 0; i < std::min(to.late.size(), row.late.size()); ++i) {
    to.late[i].calls += row.late[i].calls;
    to.late[i].waited += row.late[i].waited;
  }
}

nlohmann::json as_json(const Row& row, const RowNames& names) {
  nlohmann::json times = nlohmann::json::array();
  for (std::size_t i = 0; i < Histogram::buckets; ++i) {
    if (row.times.counts()[i] != 0) times.push_back({i, row.times.counts()[i]});
  }
  nlohmann::json late = nlohmann::json::array();
  for (std::size_t rank = 0; rank < row.late.size(); ++rank) {
    if (row.late[rank].calls != 0)
      late.push_back({rank, row.late[rank].calls, row.late[rank].waited});
  }
  return {{"size_class", row.of.size_class},
          {"form", describe(row.of.form)},
          {"algorithm", names.algorithm(row.of.algorithm)},
          {"path", names.path(row.of.path)},
          {"calls", row.calls},
          {"bytes", row.bytes},
          {"compared", row.compared},
          {"total", row.total},
          {"known", row.known},
          {"waited", row.waited},
          {"longest", row.longest},
          {"times", std::move(times)},
          {"late", std::move(late)}};
}

}  // namespace

void add_rows(std::vector<Row>& to, const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const auto same =
        std::find_if(to.begin(), to.end(), [&](const Row& other) { return other.of == row.of; });
    same != to.end() ? add(*same, row) : to.push_back(row);
  }
}

std::vector<std::uint8_t> encode(const ProcessPart& part, const RowNames& names) {
  nlohmann::json communicators = nlohmann::json::array();
  for (const CommPart& comm : part.communicators) {
    nlohmann::json rows = nlohmann::json::array();
    for (const Row& row : comm.rows) rows.push_back(as_json(row, names));
    communicators.push_back({{"key", comm.key},
                             {"name", comm.name},
                             {"size", comm.size},
                             {"rank", comm.rank},
                             {"rows", std::move(rows)}});
  }
  return nlohmann::json::to_cbor({{"host", part.host},
                                  {"tells_of_host", part.tells_of_host},
                                  {"wall", part.wall_seconds},
                                  {"blocked", part.blocked_seconds},
                                  {"clock_uncertainty", part.clock_uncertainty},
                                  {"left_out", part.left_out},
                                  {"ports", part.ports},
                                  {"communicators", std::move(communicators)}});
}

}  // namespace gpuar
