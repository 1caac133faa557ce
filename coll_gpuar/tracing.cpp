#include "coll_gpuar/tracing.h"

#include <fmt/format.h>

#include <array>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "coll_gpuar/process.h"

namespace gpuar {
namespace {

using Kind = TraceEvent::Kind;

// Names as JSON strings, without the quotation marks.
std::string quoted(const std::string& text) {
  const std::string json =
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return json.substr(1, json.size() - 2);
}

// Rows of the timeline: kinds below one another, each as often as its events overlap.
constexpr std::uint32_t rows_per_kind = 1000;
constexpr std::array<const char*, 4> row_names{"calls", "sends", "receives", "reductions"};

std::uint32_t row_of(const TraceEvent& event, std::uint32_t row) {
  const auto kind = event.kind == Kind::copy ? Kind::reduce : event.kind;
  return static_cast<std::uint32_t>(kind) * rows_per_kind + std::min(row, rows_per_kind - 1);
}

class Writer {
 public:
  Writer(std::FILE* out, const Trace& trace, const TracedProcess& process)
      : out_(out), trace_(trace), process_(process) {
    for (const TracedComm& comm : trace.communicators()) names_.push_back(quoted(comm.name));
  }

  void write() {
    head();
    const std::vector<TraceEvent> events = trace_.sorted();
    const std::vector<std::uint32_t> rows = rows_of(events);
    std::set<std::uint32_t> used;
    for (std::size_t i = 0; i < events.size(); ++i) {
      const std::uint32_t row = row_of(events[i], rows[i]);
      used.insert(row);
      event(events[i], row);
    }
    for (const std::uint32_t row : used) name_row(row);
    fmt::print(out_, "\n]}}\n");
  }

 private:
  void head() {
    nlohmann::json clocks = nlohmann::json::array();
    for (const auto& clock : process_.clocks) {
      clocks.push_back({{"process", fmt::format("{:x}", clock.process)},
                        {"offset_ns", clock.offset},
                        {"uncertainty_ns", clock.uncertainty}});
    }
    nlohmann::json communicators = nlohmann::json::array();
    for (const TracedComm& comm : trace_.communicators()) {
      communicators.push_back(
          {{"key", comm.key}, {"name", comm.name}, {"size", comm.size}, {"rank", comm.rank}});
    }
    const nlohmann::json about = {{"gpuar", GPUAR_VERSION},
                                  {"rank", process_.rank},
                                  {"process", fmt::format("{:x}", process_.process)},
                                  {"host", process_.host},
                                  {"host_id", fmt::format("{:x}", process_.host_id)},
                                  {"left_out", trace_.left_out()},
                                  {"clocks", std::move(clocks)},
                                  {"communicators", std::move(communicators)}};
    fmt::print(out_, "{{\"displayTimeUnit\":\"ns\",\n\"otherData\":{},\n\"traceEvents\":[\n",
               about.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    fmt::print(out_,
               R"({{"ph":"M","name":"process_name","pid":{0},"args":{{"name":"rank {0} on {1}"}}}})"
               ",\n"
               R"({{"ph":"M","name":"process_sort_index","pid":{0},"args":{{"sort_index":{0}}}}})",
               process_.rank, quoted(process_.host));
  }

  void name_row(std::uint32_t row) {
    const std::uint32_t number = row % rows_per_kind;
    fmt::print(
        out_,
        ",\n"
        R"({{"ph":"M","name":"thread_name","pid":{0},"tid":{1},"args":{{"name":"{2}{3}"}}}})"
        ",\n"
        R"({{"ph":"M","name":"thread_sort_index","pid":{0},"tid":{1},"args":{{"sort_index":{1}}}}})",
        process_.rank, row, row_names[row / rows_per_kind],
        number == 0 ? "" : fmt::format(" {}", number + 1));
  }

  void event(const TraceEvent& event, std::uint32_t row) {
    const std::string about = fmt::format("{}, {} bytes, {}", algorithm_name(event.algorithm),
                                          event.bytes, names_[event.comm]);
    const auto print = [&](const char* category, const std::string& name, std::int64_t begin,
                           std::int64_t end) { slice(event, row, category, name, begin, end); };
    const bool waited = event.waited_until > event.begin;
    switch (event.kind) {
      case Kind::call:
        print("call", about, event.begin, event.end);
        if (waited) {
          print("wait", fmt::format("waiting for rank {} to enter: {}", event.peer, about),
                event.begin, event.waited_until);
        }
        return;
      case Kind::send:
        return print("send", fmt::format("send to {}: {}", event.peer, about), event.begin,
                     event.end);
      case Kind::receive:
        if (waited) {
          print("wait", fmt::format("waiting for data of {}: {}", event.peer, about), event.begin,
                event.waited_until);
        }
        return print("receive", fmt::format("receive from {}: {}", event.peer, about),
                     event.waited_until, event.end);
      case Kind::reduce:
        return print("reduce", fmt::format("reduce: {}", about), event.begin, event.end);
      case Kind::copy:
        return print("copy", fmt::format("copy: {}", about), event.begin, event.end);
    }
  }

  // Times in microseconds, with three digits: exact nanoseconds.
  void slice(const TraceEvent& event, std::uint32_t row, const char* category,
             const std::string& name, std::int64_t begin, std::int64_t end) {
    constexpr std::int64_t us = 1000;
    fmt::print(
        out_,
        ",\n"
        R"({{"ph":"X","pid":{},"tid":{},"ts":{}.{:03},"dur":{}.{:03},"cat":"{}","name":"{}",)"
        R"("args":{{"comm":{},"form":"{}","call":{},"round":{},"segment":{},"message":{},)"
        R"("peer":{},"bytes":{},"path":"{}"}}}})",
        process_.rank, row, begin / us, begin % us, (end - begin) / us, (end - begin) % us,
        category, name, event.comm, describe(event.form), event.call, event.round, event.segment,
        event.message, event.peer, event.bytes, path_name(event.path));
  }

  std::FILE* out_;
  const Trace& trace_;
  const TracedProcess& process_;
  std::vector<std::string> names_;  // of communicators
};

}  // namespace

std::string Tracing::file_of(std::string_view who) const {
  constexpr std::string_view ending = ".json";
  std::string_view stem = target_;
  if (stem.ends_with(ending)) stem.remove_suffix(ending.size());
  return fmt::format("{}.{}{}", stem, who, ending);
}

bool Tracing::write(const std::string& file, const TracedProcess& process) const {
  std::FILE* const out = std::fopen(file.c_str(), "w");
  if (!out) return false;
  Writer(out, trace_, process).write();
  const bool written = std::ferror(out) == 0;
  return std::fclose(out) == 0 && written;
}

}  // namespace gpuar

extern "C" void gpuar_trace_write(gpuar_core* core, uint64_t process, int rank, const char* who) {
  if (!core || !core->tracing) return;
  const CoreLock lock(*core);
  const std::string file = core->tracing->file_of(who);
  try {
    const gpuar::TracedProcess about{process, rank, core->record.place.host,
                                     core->record.place.host_id, core->report->clocks()};
    if (core->tracing->write(file, about)) return;
  } catch (const std::exception&) {
    // said below
  }
  core->log(
      fmt::format("gpuar: the trace of rank {} cannot be written to {} (coll_gpuar_trace); is its "
                  "folder there on host {}, is there room, and may this user write to it?",
                  rank, file, core->record.place.host));
}
