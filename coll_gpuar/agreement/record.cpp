#include "coll_gpuar/agreement/record.h"

#include <algorithm>
#include <concepts>
#include <optional>
#include <sstream>

namespace gpuar {
namespace {

// The record's bytes. All numbers are little endian; text is one byte of length, then the bytes.
//
//   head, the same in every protocol:
//     u32 magic   u16 protocol   u16 size of the whole record   text version   text host
//   then, in this protocol:
//     text refusal
//     i32 priority   text algorithm   u64 segment_size   i32 pipeline_depth   u8 reproducible
//     text test_node_size   text expect   u64 tuning   u8 report   u8 trace   u8 check
//     u64 host_id   i32 package   i32 numa   i32 core   i32 threads   i32 host_threads
//     i32 host_cache_kib   i32 l3   u64 gpu   i32 gpu_index
//     u8 has_gpu   u8 carries_device   u8 tuning_broken
//     i32 pid   u64 started   u64 space
constexpr std::uint32_t magic = 0x72617067;  // "gpar"
constexpr std::size_t size_offset = 6;
constexpr std::size_t version_limit = 32;
constexpr std::size_t text_limit = 64;  // host names (as Linux has it) and parameters
constexpr std::size_t refusal_limit = 160;
static_assert(8 + (1 + version_limit) + 4 * (1 + text_limit) + (1 + refusal_limit) + 28 + 50 + 20 <=
              record_capacity);

bool is_control(char c) {
  const auto code = static_cast<unsigned char>(c);
  return code < 0x20 || code == 0x7f;
}

class Writer {
 public:
  explicit Writer(RecordBytes& out) : out_(out) {}

  template <std::integral T>
  void number(T value) {
    auto bits = static_cast<std::uint64_t>(value);
    for (std::size_t i = 0; i < sizeof(T); ++i, bits >>= 8) {
      out_[at_++] = static_cast<std::uint8_t>(bits & 0xff);
    }
  }

  // Control characters become blanks: the text ends up on other people's terminals, and decode
  // refuses them.
  void text(std::string_view text, std::size_t limit) {
    text = text.substr(0, limit);
    number(static_cast<std::uint8_t>(text.size()));
    for (const char c : text) out_[at_++] = is_control(c) ? ' ' : static_cast<std::uint8_t>(c);
  }

  // Fills in the size, which precedes everything that decides it.
  std::size_t finish() {
    const std::size_t size = at_;
    at_ = size_offset;
    number(static_cast<std::uint16_t>(size));
    return size;
  }

 private:
  RecordBytes& out_;
  std::size_t at_ = 0;
};

// Reads until something is wrong; from then on every read gives zero and good() is false.
class Reader {
 public:
  explicit Reader(std::span<const std::uint8_t> bytes) : left_(bytes) {}

  template <std::integral T>
  T number() {
    std::uint64_t bits = 0;
    const auto bytes = take(sizeof(T));
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      bits |= static_cast<std::uint64_t>(bytes[i]) << (8 * i);
    }
    return static_cast<T>(bits);
  }

  std::string text(std::size_t limit) {
    const std::size_t length = number<std::uint8_t>();
    if (length > limit) good_ = false;
    std::string text;
    for (const std::uint8_t byte : take(length)) text.push_back(static_cast<char>(byte));
    expect(std::none_of(text.begin(), text.end(), is_control));
    return text;
  }

  bool flag() {
    const auto byte = number<std::uint8_t>();
    expect(byte <= 1);
    return byte == 1;
  }

  // A count or an index, or -1 for "unknown".
  std::int32_t index() {
    const auto value = number<std::int32_t>();
    expect(value >= -1);
    return value;
  }

  void expect(bool condition) { good_ = good_ && condition; }
  bool good() const { return good_; }
  bool at_end() const { return left_.empty(); }

 private:
  std::span<const std::uint8_t> take(std::size_t count) {
    expect(count <= left_.size());
    if (!good_) return {};
    const auto taken = left_.first(count);
    left_ = left_.subspan(count);
    return taken;
  }

  std::span<const std::uint8_t> left_;
  bool good_ = true;
};

std::string misfit(const WireParameters& parameters) {
  for (const auto* text : {&parameters.algorithm, &parameters.test_node_size, &parameters.expect}) {
    if (text->size() > text_limit) {
      return "the parameter value \"" + text->substr(0, 24) + "...\" is longer than " +
             std::to_string(text_limit) + " bytes";
    }
  }
  return {};
}

std::optional<Record> read(std::span<const std::uint8_t> bytes) {
  Reader in(bytes);
  Record record;
  in.expect(in.number<std::uint32_t>() == magic);
  record.protocol = in.number<std::uint16_t>();
  in.expect(in.number<std::uint16_t>() == bytes.size());
  record.version = in.text(version_limit);
  record.place.host = in.text(text_limit);
  if (!in.good()) return std::nullopt;
  if (record.protocol != wire_protocol) return record;

  record.refusal = in.text(refusal_limit);
  record.parameters.priority = in.number<std::int32_t>();
  record.parameters.algorithm = in.text(text_limit);
  record.parameters.segment_size = in.number<std::uint64_t>();
  record.parameters.pipeline_depth = in.number<std::int32_t>();
  record.parameters.reproducible = in.flag();
  record.parameters.test_node_size = in.text(text_limit);
  record.parameters.expect = in.text(text_limit);
  record.parameters.tuning = in.number<std::uint64_t>();
  record.parameters.report = in.flag();
  record.parameters.trace = in.flag();
  record.parameters.check = in.flag();
  record.place.host_id = in.number<std::uint64_t>();
  for (auto* field :
       {&record.place.package, &record.place.numa, &record.place.core, &record.place.threads,
        &record.place.host_threads, &record.place.host_cache_kib, &record.place.l3}) {
    *field = in.index();
  }
  record.place.gpu = in.number<std::uint64_t>();
  record.place.gpu_index = in.index();
  record.has_gpu = in.flag();
  record.carries_device = in.flag();
  record.tuning_broken = in.flag();
  record.process.pid = in.number<std::int32_t>();
  in.expect(record.process.pid >= 0);
  record.process.started = in.number<std::uint64_t>();
  record.process.space = in.number<std::uint64_t>();
  if (!in.good() || !in.at_end()) return std::nullopt;
  return record;
}

std::string who(std::size_t rank, const Record& record) {
  const std::string host = record.place.host.empty() ? "unknown" : record.place.host;
  return "rank " + std::to_string(rank) + " (host " + host + ")";
}

struct Complaint {
  std::string sentence;  // empty: there is none
  std::string item;
};

// Names the first item in which two records differ: "ITEM is A on rank 0 (host a) and B on rank 3
// (host b)", and what to try. Empty if they agree.
class Comparison {
 public:
  Comparison(const Record& first, std::size_t rank, const Record& other)
      : first_(who(0, first)), other_(who(rank, other)) {}

  void item(std::string_view name, const std::string& a, const std::string& b,
            std::string_view remedy) {
    if (a == b || !sentence_.empty()) return;
    item_ = name;
    sentence_ = std::string(name) + " is " + a + " on " + first_ + " and " + b + " on " + other_ +
                "; " + std::string(remedy);
  }

  void parameter(const std::string& name, const std::string& a, const std::string& b) {
    item("coll_gpuar_" + name, a, b,
         "give every rank the same value, as mpirun --mca coll_gpuar_" + name + " does");
  }

  Complaint result() && { return {std::move(sentence_), std::move(item_)}; }

 private:
  std::string first_;
  std::string other_;
  std::string sentence_;
  std::string item_;
};

std::string quoted(const std::string& text) {
  return '"' + text + '"';
}

std::string tuning_text(const Record& record) {
  if (record.parameters.tuning == 0)
    return record.tuning_broken ? "none, for it cannot be used," : "none";
  std::ostringstream text;
  text << "one of hash " << std::hex << record.parameters.tuning;
  return text.str();
}

Complaint difference(const Record& first, std::size_t rank, const Record& other) {
  if (first.protocol == other.protocol && first.version == other.version &&
      first.parameters == other.parameters) {
    return {};
  }
  constexpr std::string_view reinstall = "install the same gpuar on every host";
  Comparison compare(first, rank, other);
  compare.item("the version of gpuar", quoted(first.version), quoted(other.version), reinstall);
  compare.item("gpuar's wire protocol", std::to_string(first.protocol),
               std::to_string(other.protocol), reinstall);
  const WireParameters& a = first.parameters;
  const WireParameters& b = other.parameters;
  compare.parameter("priority", std::to_string(a.priority), std::to_string(b.priority));
  compare.parameter("algorithm", a.algorithm, b.algorithm);
  compare.parameter("segment_size", std::to_string(a.segment_size), std::to_string(b.segment_size));
  compare.parameter("pipeline_depth", std::to_string(a.pipeline_depth),
                    std::to_string(b.pipeline_depth));
  compare.parameter("reproducible", std::to_string(static_cast<int>(a.reproducible)),
                    std::to_string(static_cast<int>(b.reproducible)));
  compare.parameter("expect", quoted(a.expect), quoted(b.expect));
  compare.parameter("report", a.report ? "on" : "off", b.report ? "on" : "off");
  compare.parameter("trace", a.trace ? "on" : "off", b.trace ? "on" : "off");
  compare.parameter("check", std::to_string(static_cast<int>(a.check)),
                    std::to_string(static_cast<int>(b.check)));
  compare.parameter("test_node_size", quoted(a.test_node_size), quoted(b.test_node_size));
  compare.item("the tuning file in use (coll_gpuar_tuning_file)", tuning_text(first),
               tuning_text(other), "give every rank a file of the same content");
  return std::move(compare).result();
}

// What keeps this member out; empty if nothing does. Rank 0 is a member that nothing kept out.
Complaint complaint(std::span<const Record* const> members, std::size_t rank) {
  const Record* const record = members[rank];
  if (record == nullptr || !record->published) {
    return {"gpuar is not loaded on " +
                (record ? who(rank, *record) : "rank " + std::to_string(rank)) +
                " (it published no record); install it on every host and select it alike on all "
                "ranks",
            "not loaded"};
  }
  if (!record->refusal.empty()) {
    return {who(rank, *record) + " cannot take part: " + record->refusal, record->refusal};
  }
  return difference(*members[0], rank, *record);
}

Verdict::Cause cause_of(const Record* record) {
  if (record == nullptr || !record->published) return Verdict::Cause::missing;
  return record->refusal.empty() ? Verdict::Cause::different : Verdict::Cause::refusing;
}

}  // namespace

std::size_t encode(const Record& record, RecordBytes& out) {
  Writer to(out);
  to.number(magic);
  to.number(record.protocol);
  to.number(std::uint16_t{0});  // the size, see finish()
  to.text(record.version, version_limit);
  to.text(record.place.host, text_limit);

  const std::string problem = record.refusal.empty() ? misfit(record.parameters) : record.refusal;
  to.text(problem, refusal_limit);
  to.number(record.parameters.priority);
  to.text(record.parameters.algorithm, text_limit);
  to.number(record.parameters.segment_size);
  to.number(record.parameters.pipeline_depth);
  to.number(static_cast<std::uint8_t>(record.parameters.reproducible));
  to.text(record.parameters.test_node_size, text_limit);
  to.text(record.parameters.expect, text_limit);
  to.number(record.parameters.tuning);
  to.number(static_cast<std::uint8_t>(record.parameters.report));
  to.number(static_cast<std::uint8_t>(record.parameters.trace));
  to.number(static_cast<std::uint8_t>(record.parameters.check));
  to.number(record.place.host_id);
  for (const std::int32_t field :
       {record.place.package, record.place.numa, record.place.core, record.place.threads,
        record.place.host_threads, record.place.host_cache_kib, record.place.l3}) {
    to.number(field);
  }
  to.number(record.place.gpu);
  to.number(record.place.gpu_index);
  to.number(static_cast<std::uint8_t>(record.has_gpu));
  to.number(static_cast<std::uint8_t>(record.carries_device));
  to.number(static_cast<std::uint8_t>(record.tuning_broken));
  to.number(record.process.pid);
  to.number(record.process.started);
  to.number(record.process.space);
  return to.finish();
}

Record decode(std::span<const std::uint8_t> bytes) {
  if (auto record = read(bytes)) return *std::move(record);
  Record unreadable;
  unreadable.refusal =
      "the record that it published cannot be read; install the same gpuar on "
      "every host";
  return unreadable;
}

Verdict judge(std::span<const Record* const> members) {
  for (std::size_t rank = 0; rank < members.size(); ++rank) {
    Complaint found = complaint(members, rank);
    if (found.sentence.empty()) continue;
    const Record* const record = members[rank];
    return {false,
            static_cast<std::int32_t>(rank),
            record == nullptr ? "" : record->place.host,
            std::move(found.sentence),
            cause_of(record),
            std::move(found.item)};
  }
  return {};
}

}  // namespace gpuar
