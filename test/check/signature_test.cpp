#include "coll_gpuar/check/signature.h"

#include <algorithm>
#include <random>
#include <vector>

#include "test/catch.h"

using namespace gpuar;

namespace {

Signature sum_of(std::uint64_t count) {
  Signature signature;
  signature.count = count;
  signature.element_bytes = 4;
  signature.op = GPUAR_SUM;
  signature.type = GPUAR_FLOAT32;
  signature.commutative = 1;
  return signature;
}

Survey claim(Rank rank, std::uint64_t count) {
  return {{sum_of(count), rank}, {}};
}

}  // namespace

TEST_CASE("survey: in whatever order it is merged, it names the same two ranks", "[check]") {
  std::mt19937_64 random(7);
  for (int round = 0; round < 500; ++round) {
    std::vector<std::uint64_t> counts(2 + random() % 7);
    for (auto& count : counts) count = random() % 3;
    std::vector<Survey> surveys;
    for (std::size_t rank = 0; rank < counts.size(); ++rank) {
      surveys.push_back(claim(static_cast<Rank>(rank), counts[rank]));
    }
    while (surveys.size() > 1) {
      std::shuffle(surveys.begin(), surveys.end(), random);
      const Survey last = surveys.back();
      surveys.pop_back();
      surveys.back() = merge(surveys.back(), last);
    }
    const auto differs = [&](std::uint64_t count) { return count != counts[0]; };
    const auto other = std::find_if(counts.begin(), counts.end(), differs);
    CHECK(surveys[0].first.rank == 0);
    CHECK(agree(surveys[0]) == (other == counts.end()));
    if (other != counts.end()) CHECK(surveys[0].other.rank == other - counts.begin());
  }
}

TEST_CASE("survey: every part of a signature counts", "[check]") {
  const Signature same = sum_of(5);
  const auto differs = [&](auto change) {
    Signature other = same;
    change(other);
    return !agree(merge({{same, 0}, {}}, {{other, 1}, {}}));
  };
  CHECK_FALSE(differs([](Signature&) {}));
  CHECK(differs([](Signature& s) { ++s.count; }));
  CHECK(differs([](Signature& s) { s.element_bytes = 8; }));
  CHECK(differs([](Signature& s) { s.form = CallForm::nonblocking; }));
  CHECK(differs([](Signature& s) { s.op = GPUAR_MAX; }));
  CHECK(differs([](Signature& s) { s.type = GPUAR_INT32; }));
  CHECK(differs([](Signature& s) { s.custom = true; }));
  CHECK(differs([](Signature& s) { s.average = 1; }));
  CHECK(differs([](Signature& s) { s.commutative = 0; }));
}

TEST_CASE("survey: the engine's reduction may write over an operand", "[check]") {
  Survey left = claim(1, 5);
  const Survey right = claim(0, 6);
  merge_surveys(&left, &left, &right, 1);
  CHECK(left.first.rank == 0);
  CHECK(left.other.rank == 1);
}

TEST_CASE("signature: says what is called, for people", "[check]") {
  Signature signature = sum_of(100);
  CHECK(describe(signature) == "MPI_Allreduce of 100 elements of float32, sum");
  signature.form = CallForm::nonblocking;
  signature.average = 1;
  CHECK(describe(signature) == "MPI_Iallreduce of 100 elements of float32, average");
  signature.custom = true;
  signature.form = CallForm::persistent;
  CHECK(describe(signature) ==
        "MPI_Start of MPI_Allreduce_init of 100 elements of 4 bytes, a user-defined operation or "
        "datatype");
  CHECK(describe(merge(claim(3, 7), claim(2, 8))) ==
        "the ranks disagree on the call: rank 2 is in MPI_Allreduce of 8 elements of float32, sum; "
        "rank 3 is in MPI_Allreduce of 7 elements of float32, sum");
}
