// What a user sets: any text and number is either refused with a sentence, or makes plans that fit.
#include <fuzzer/FuzzedDataProvider.h>

#include "coll_gpuar/process.h"
#include "test/fuzz/input/require.h"

using namespace gpuar;
using gpuar::test::require;

namespace {

// Published, every value is either read alike by the others or refused for its length.
void check_published(const gpuar_params& params) {
  Record record;
  record.parameters = wire_parameters(params);
  RecordBytes bytes{};
  const std::size_t size = encode(record, bytes);
  require(size <= bytes.size(), "a record is longer than its room");
  const Record read = decode({bytes.data(), size});
  require(!read.refusal.starts_with("the record"), "a record cannot be read");
}

LayoutSummary layout_of(const std::vector<ProcessPlace>& places, const Pretended& pretended) {
  std::vector<const ProcessPlace*> members;
  for (const ProcessPlace& place : places) members.push_back(&place);
  const Layout layout = make_layout(members, pretended);
  return summary_of(Placement(layout), layout);
}

void check_plan(const CallShape& shape, const Forced& forced) {
  const Choice choice = select(shape, forced);
  require(choice.algorithm < algorithms().size(), "no algorithm");
  require(choice.composition < compositions().size(), "no composition");
  require(choice.segment_bytes >= shape.element_bytes, "a segment without an element");
  require(choice.segment_bytes % shape.element_bytes == 0, "a segment that cuts an element");
  require(choice.depth >= 1, "no segment in flight");
  require(!explain(choice, shape, forced).empty(), "a choice without a reason");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  FuzzedDataProvider in(data, size);
  const std::string algorithm = in.ConsumeRandomLengthString(100);
  const std::string node_size = in.ConsumeRandomLengthString(100);
  const std::string expect = in.ConsumeBool() ? "auto" : in.ConsumeRandomLengthString(20);
  gpuar_params params{};
  params.algorithm = algorithm.c_str();
  params.test_node_size = node_size.c_str();
  params.expect = expect.c_str();
  params.segment_size = in.ConsumeIntegral<std::size_t>();
  params.pipeline_depth = in.ConsumeIntegral<int>();
  params.reproducible = in.ConsumeBool();
  check_published(params);

  static gpuar_core core;
  std::string why;
  if (!read_params(params, core, why)) {
    require(!why.empty(), "refused without a reason");
    return 0;
  }
  std::vector<ProcessPlace> places(in.ConsumeIntegralInRange<std::size_t>(1, 40));
  for (ProcessPlace& place : places) place.host_id = in.ConsumeIntegralInRange<int>(0, 2);
  CallShape shape;
  shape.layout = layout_of(places, core.pretended);
  shape.ranks = static_cast<Rank>(places.size());
  shape.element_bytes = in.ConsumeIntegralInRange<std::uint64_t>(1, 4096);
  shape.bytes = in.ConsumeIntegralInRange<std::uint64_t>(0, std::uint64_t{1} << 40) /
                shape.element_bytes * shape.element_bytes;
  shape.commutative = in.ConsumeBool();
  shape.reproducible = params.reproducible;
  check_plan(shape, core.forced);
  return 0;
}
