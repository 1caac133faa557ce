#include "coll_gpuar/agreement/record.h"

#include <functional>
#include <random>
#include <utility>
#include <vector>

#include "test/catch.h"

using namespace gpuar;

namespace {

Record sample(const std::string& host = "a") {
  Record record;
  record.version = "1.2.3";
  record.parameters = {85,   "ring", 65536, 4, true, "1,3", "ask", 0xfedcba9876543211,
                       true, true,   true};
  record.place = {host, 0xfedcba9876543210, 1, 3, 17, 8, 64, 32768, 9, 0x1b00, 5};
  record.process = {0x0102, 0x0304, 0x0506};
  record.has_gpu = true;
  record.carries_device = true;
  record.tuning_broken = true;
  return record;
}

std::vector<std::uint8_t> bytes_of(const Record& record) {
  RecordBytes bytes;
  const std::size_t size = encode(record, bytes);
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)};
}

Verdict judge_all(const std::vector<Record>& records) {
  std::vector<const Record*> members;
  members.reserve(records.size());
  for (const Record& record : records) members.push_back(&record);
  return judge(members);
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a record survives the wire", "[agreement]") {
  CHECK(decode(bytes_of(sample())) == sample());

  Record unknown;  // nothing but defaults: places of -1, empty texts
  CHECK(decode(bytes_of(unknown)) == unknown);

  Record refusal = sample();
  refusal.refusal = "UCX did not come up: no transport";
  CHECK(decode(bytes_of(refusal)) == refusal);

  Record extreme = sample();
  extreme.parameters.segment_size = UINT64_MAX;
  extreme.parameters.pipeline_depth = INT32_MIN;
  extreme.place.host_id = UINT64_MAX;
  extreme.place.threads = INT32_MAX;
  extreme.place.host_cache_kib = INT32_MAX;
  extreme.place.gpu = UINT64_MAX;
  CHECK(decode(bytes_of(extreme)) == extreme);
}

TEST_CASE("the bytes are little endian on every machine", "[agreement]") {
  const auto bytes = bytes_of(sample());
  CHECK(std::vector<std::uint8_t>(bytes.begin(), bytes.begin() + 6) ==
        std::vector<std::uint8_t>{'g', 'p', 'a', 'r', wire_protocol & 0xff, wire_protocol >> 8});
  CHECK(bytes[6] + 256 * bytes[7] == static_cast<int>(bytes.size()));
  CHECK(std::vector<std::uint8_t>(bytes.end() - 35, bytes.end()) ==
        std::vector<std::uint8_t>{0, 0x1b, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1, 1, 1,  //
                                  2, 1,    0, 0, 4, 3, 0, 0, 0, 0, 0, 0, 6, 5, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("long texts never overflow a record", "[agreement]") {
  Record record = sample(std::string(1000, 'h'));
  record.version = std::string(1000, 'v');
  record.refusal = std::string(1000, 'r');
  record.parameters.algorithm = std::string(1000, 'a');
  record.parameters.test_node_size = std::string(1000, '1');
  const Record back = decode(bytes_of(record));
  CHECK(back.place.host == std::string(64, 'h'));
  CHECK(back.refusal == std::string(160, 'r'));
  CHECK(back.place.host_id == record.place.host_id);
}

TEST_CASE("parameters that do not fit make a refusal, never a silent cut", "[agreement]") {
  for (const std::size_t length : {64, 65}) {
    Record record = sample();
    record.parameters.test_node_size = std::string(length, '1');
    const Record back = decode(bytes_of(record));
    CHECK(back.refusal.empty() == (length == 64));
    if (length == 65) CHECK(contains(back.refusal, "longer than 64 bytes"));
  }
}

TEST_CASE("control characters in a text do not reach another rank", "[agreement]") {
  Record record = sample("a\x1b[2J");
  record.refusal = "two\nlines";
  const Record back = decode(bytes_of(record));
  CHECK(back.refusal == "two lines");
  CHECK(back.place.host == "a [2J");
}

TEST_CASE("truncated, extended and foreign bytes are refusals", "[agreement]") {
  const auto whole = bytes_of(sample());
  for (std::size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    const std::vector<std::uint8_t> cut(whole.begin(),
                                        whole.begin() + static_cast<std::ptrdiff_t>(size));
    CHECK_FALSE(decode(cut).refusal.empty());
    auto fitted = cut;  // with a size field that agrees with the cut
    if (size >= 8) {
      fitted[6] = static_cast<std::uint8_t>(size & 0xff);
      fitted[7] = static_cast<std::uint8_t>(size >> 8);
    }
    CHECK_FALSE(decode(fitted).refusal.empty());
  }
  auto longer = whole;
  longer.push_back(0);
  CHECK_FALSE(decode(longer).refusal.empty());
  longer[6] = static_cast<std::uint8_t>(longer.size() & 0xff);
  longer[7] = static_cast<std::uint8_t>(longer.size() >> 8);
  CHECK_FALSE(decode(longer).refusal.empty());
  auto foreign = whole;
  foreign[0] ^= 1;
  CHECK_FALSE(decode(foreign).refusal.empty());
}

TEST_CASE("whatever decodes without a refusal encodes to the same bytes", "[agreement]") {
  // Holds for every input: nothing unexpected slips through a field.
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  const auto whole = bytes_of(sample());
  std::size_t accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    auto bytes = whole;
    if (round % 4 == 0) {
      bytes.resize(random() % 600);
      for (auto& byte : bytes) byte = static_cast<std::uint8_t>(random());
    } else {
      for (unsigned flips = 1 + random() % 3; flips > 0; --flips) {
        bytes[random() % bytes.size()] ^= static_cast<std::uint8_t>(1U << (random() % 8));
      }
    }
    const Record record = decode(bytes);
    if (!record.refusal.empty() || record.protocol != wire_protocol) continue;
    ++accepted;
    REQUIRE(bytes_of(record) == bytes);
  }
  CHECK(accepted > 0);
}

TEST_CASE("of another protocol only the head is read", "[agreement]") {
  Record future = sample("b");
  future.protocol = wire_protocol + 1;
  future.version = "9.0.0";
  auto bytes = bytes_of(future);
  // What follows the head may be anything: its own head is 8 bytes and two texts.
  bytes.resize(8 + 1 + future.version.size() + 1 + future.place.host.size());
  bytes.insert(bytes.end(), 100, 0xff);
  bytes[6] = static_cast<std::uint8_t>(bytes.size() & 0xff);
  bytes[7] = static_cast<std::uint8_t>(bytes.size() >> 8);
  const Record back = decode(bytes);
  CHECK(back.protocol == wire_protocol + 1);
  CHECK(back.version == "9.0.0");
  CHECK(back.place.host == "b");

  const Verdict verdict = judge_all({sample(), back});
  CHECK_FALSE(verdict.served);
  CHECK(verdict.rank == 1);
  CHECK(contains(verdict.sentence, "9.0.0"));
}

TEST_CASE("equal members are served, wherever they sit", "[agreement]") {
  std::vector<Record> records(5, sample());
  records[3].place = {"elsewhere", 1, -1, -1, -1, -1, -1};
  CHECK(judge_all(records) == Verdict{});
  CHECK(judge({}) == Verdict{});
  CHECK(judge_all({sample()}).served);
}

TEST_CASE("every difference is named with both values, ranks and hosts", "[agreement]") {
  struct Case {
    std::string item;
    std::string here;
    std::string there;
    std::function<void(Record&)> change;
  };
  const std::vector<Case> cases = {
      {"version", "1.2.3", "1.2.4", [](Record& r) { r.version = "1.2.4"; }},
      {"protocol", std::to_string(wire_protocol), std::to_string(wire_protocol + 7),
       [](Record& r) { r.protocol += 7; }},
      {"coll_gpuar_priority", "85", "90", [](Record& r) { r.parameters.priority = 90; }},
      {"coll_gpuar_algorithm", "ring", "tree", [](Record& r) { r.parameters.algorithm = "tree"; }},
      {"coll_gpuar_segment_size", "65536", "131072",
       [](Record& r) { r.parameters.segment_size = 131072; }},
      {"coll_gpuar_pipeline_depth", "4", "2", [](Record& r) { r.parameters.pipeline_depth = 2; }},
      {"coll_gpuar_reproducible", "1", "0", [](Record& r) { r.parameters.reproducible = false; }},
      {"coll_gpuar_expect", "\"ask\"", "\"host\"", [](Record& r) { r.parameters.expect = "host"; }},
      {"the tuning file in use (coll_gpuar_tuning_file)", "one of hash fedcba9876543211",
       "one of hash abc", [](Record& r) { r.parameters.tuning = 0xabc; }},
      {"the tuning file in use (coll_gpuar_tuning_file)", "one of hash fedcba9876543211",
       "none, for it cannot be used,", [](Record& r) { r.parameters.tuning = 0; }},
      {"coll_gpuar_test_node_size", "\"1,3\"", "\"\"",
       [](Record& r) { r.parameters.test_node_size = ""; }},
      {"coll_gpuar_report", "on", "off", [](Record& r) { r.parameters.report = false; }},
      {"coll_gpuar_trace", "on", "off", [](Record& r) { r.parameters.trace = false; }},
      {"coll_gpuar_check", "1", "0", [](Record& r) { r.parameters.check = false; }},
  };
  for (const Case& c : cases) {
    CAPTURE(c.item);
    std::vector<Record> records(4, sample());
    records[3].place.host = "b";
    c.change(records[3]);
    const Verdict verdict = judge_all(records);
    CAPTURE(verdict.sentence);
    CHECK_FALSE(verdict.served);
    CHECK(verdict.rank == 3);
    CHECK(verdict.cause == Verdict::Cause::different);
    CHECK(verdict.host == "b");
    CHECK(
        contains(verdict.sentence, c.item + " is " + c.here + " on rank 0 (host a)") !=
        contains(verdict.sentence, c.item + " of gpuar is \"" + c.here + "\" on rank 0 (host a)"));
    CHECK(contains(verdict.sentence, c.there));
    CHECK(contains(verdict.sentence, " on rank 3 (host b)"));

    std::swap(records[0], records[3]);  // the odd one out may be rank 0 itself
    const Verdict mirrored = judge_all(records);
    CHECK_FALSE(mirrored.served);
    CHECK(mirrored.rank == 1);
    CHECK(contains(mirrored.sentence, c.item));
  }
}

TEST_CASE("a file that cannot be used is as good as none", "[agreement]") {
  std::vector<Record> records(3, sample());
  for (Record& record : records) record.parameters.tuning = 0;
  records[1].tuning_broken = false;
  CHECK(judge_all(records).served);
}

TEST_CASE("a missing or refusing member declines the communicator", "[agreement]") {
  const Record fine = sample();
  Record refusing = sample("b");
  refusing.refusal = "UCX did not come up";
  for (std::size_t odd = 0; odd < 4; ++odd) {
    CAPTURE(odd);
    std::vector<const Record*> members(4, &fine);
    members[odd] = nullptr;
    const Verdict missing = judge(members);
    CHECK_FALSE(missing.served);
    CHECK(missing.rank == static_cast<int>(odd));
    CHECK(missing.host.empty());
    CHECK(missing.cause == Verdict::Cause::missing);
    CHECK(contains(missing.sentence, "not loaded on rank " + std::to_string(odd)));

    members[odd] = &refusing;
    const Verdict refused = judge(members);
    CHECK_FALSE(refused.served);
    CHECK(refused.rank == static_cast<int>(odd));
    CHECK(refused.host == "b");
    CHECK(refused.cause == Verdict::Cause::refusing);
    CHECK(contains(refused.sentence, "UCX did not come up"));
  }
}

TEST_CASE("all members compute one verdict from what the others published", "[agreement]") {
  // Each member decodes the published bytes for itself, its own included.
  const unsigned seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937 random(seed);
  int declined = 0;
  for (int round = 0; round < 500; ++round) {
    std::vector<std::vector<std::uint8_t>> published;
    for (int rank = 0; rank < 6; ++rank) {
      Record record = sample(rank % 2 == 0 ? "a" : "b");
      if (random() % 12 == 0) record.parameters.segment_size = random() % 3;
      if (random() % 20 == 0) record.refusal = "no memory";
      published.push_back(bytes_of(record));
      if (random() % 20 == 0) published.back().clear();
    }
    std::vector<Verdict> verdicts;
    for (int rank = 0; rank < 6; ++rank) {
      std::vector<Record> decoded;
      decoded.reserve(published.size());
      for (const auto& bytes : published) decoded.push_back(decode(bytes));
      std::vector<const Record*> members;
      for (std::size_t i = 0; i < published.size(); ++i) {
        members.push_back(published[i].empty() ? nullptr : &decoded[i]);
      }
      verdicts.push_back(judge(members));
    }
    for (const Verdict& verdict : verdicts) REQUIRE(verdict == verdicts.front());
    declined += verdicts.front().served ? 0 : 1;
  }
  CHECK(declined > 0);
  CHECK(declined < 500);
}
