// What processes publish: any bytes, and records with some bytes changed. What can be read must
// come out as it went in, and verdict, layout and choice must follow from it without trusting it.
#include <fuzzer/FuzzedDataProvider.h>

#include <algorithm>
#include <vector>

#include "coll_gpuar/agreement/record.h"
#include "coll_gpuar/algorithms/groups.h"
#include "coll_gpuar/placement.h"
#include "coll_gpuar/selection/select.h"
#include "test/fuzz/input/require.h"
#include "topo/layout.h"

using namespace gpuar;
using gpuar::test::require;

namespace {

std::vector<std::uint8_t> any_record(FuzzedDataProvider& in) {
  Record record;
  record.version = in.ConsumeRandomLengthString(40);
  record.refusal = in.ConsumeRandomLengthString(200);
  record.parameters.algorithm = in.ConsumeRandomLengthString(70);
  record.parameters.test_node_size = in.ConsumeRandomLengthString(70);
  record.parameters.priority = in.ConsumeIntegral<std::int32_t>();
  record.place.host = in.ConsumeRandomLengthString(80);
  record.place.host_id = in.ConsumeIntegralInRange<std::uint64_t>(0, 3);
  for (auto* field : {&record.place.package, &record.place.numa, &record.place.core,
                      &record.place.threads, &record.place.host_threads,
                      &record.place.host_cache_kib, &record.place.l3, &record.place.gpu_index}) {
    *field = in.ConsumeBool() ? in.ConsumeIntegralInRange<std::int32_t>(-1, 4)
                              : in.ConsumeIntegral<std::int32_t>();
  }
  record.place.gpu = in.ConsumeIntegralInRange<std::uint64_t>(0, 4);
  RecordBytes bytes{};
  const std::size_t size = encode(record, bytes);
  require(size <= bytes.size(), "a record is longer than its room");
  return {bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size)};
}

// As it may arrive: whole, cut, lengthened, with bytes changed; or nothing of the kind.
std::vector<std::uint8_t> published(FuzzedDataProvider& in) {
  if (in.ConsumeBool()) {
    return in.ConsumeBytes<std::uint8_t>(in.ConsumeIntegralInRange<std::size_t>(0, 700));
  }
  std::vector<std::uint8_t> bytes = any_record(in);
  for (int changes = in.ConsumeIntegralInRange<int>(0, 4); changes > 0; --changes) {
    const auto at = in.ConsumeIntegralInRange<std::size_t>(0, bytes.size() - 1);
    bytes[at] = in.ConsumeIntegral<std::uint8_t>();
  }
  if (in.ConsumeBool()) bytes.resize(in.ConsumeIntegralInRange<std::size_t>(0, 700));
  return bytes;
}

bool readable(const Record& record) {
  return record.protocol == wire_protocol &&
         !record.refusal.starts_with("the record that it published");
}

void check_round_trip(const Record& record) {
  if (!readable(record)) return;
  RecordBytes bytes{};
  const std::size_t size = encode(record, bytes);
  require(decode({bytes.data(), size}) == record, "a record that was read is written differently");
}

void check_layout(const std::vector<const ProcessPlace*>& places, FuzzedDataProvider& in) {
  const auto pretended = parse_pretended(in.ConsumeRandomLengthString(20));
  const Layout layout = make_layout(places, pretended.value_or(Pretended{}));
  require(layout.node_of.size() == places.size(), "a rank without a node");
  require(layout.nodes >= 1 && layout.largest_node >= layout.smallest_node, "no nodes");
  std::vector<std::int32_t> ring = layout.ring;
  std::sort(ring.begin(), ring.end());
  for (std::size_t i = 0; i < ring.size(); ++i) {
    require(ring[i] == static_cast<std::int32_t>(i), "the ring leaves a rank out");
  }
  require(!describe(layout, places).empty(), "no description");

  CallShape shape;
  shape.bytes = in.ConsumeIntegral<std::uint32_t>();
  shape.ranks = static_cast<Rank>(places.size());
  const Placement placement(layout);
  shape.layout = summary_of(placement, layout);
  const Choice choice = select(shape);
  require(choice.segment_bytes >= 1 && choice.algorithm < algorithms().size(), "no choice");
  const Composition& composition = compositions()[choice.composition];
  BuildOptions options;
  options.radix = choice.radix;
  options.order = placement.order;
  const Schedule schedule = build(composition, algorithms()[choice.algorithm], 0, shape.ranks,
                                  levels_of(composition, placement.levels), options);
  require(shape.ranks == 1 || !schedule.steps.empty(), "a plan without a step");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider in(data, size);
  std::vector<Record> records;
  do {
    records.push_back(decode(published(in)));
    check_round_trip(records.back());
  } while (in.remaining_bytes() > 64 && records.size() < 12);
  std::vector<const Record*> members;
  std::vector<const ProcessPlace*> places;
  for (const Record& record : records) {
    members.push_back(&record);
    places.push_back(&record.place);
  }
  const Verdict verdict = judge(members);
  require(verdict.served || !verdict.sentence.empty(), "a verdict without a reason");
  require(verdict.served == std::all_of(records.begin(), records.end(),
                                        [&](const Record& record) {
                                          return record.refusal.empty() &&
                                                 record.protocol == records[0].protocol &&
                                                 record.version == records[0].version &&
                                                 record.parameters == records[0].parameters;
                                        }),
          "a verdict that the records do not bear out");
  check_layout(places, in);
  return 0;
}
