#include "coll_gpuar/check/roll_call.h"

#include "test/catch.h"

using namespace gpuar;

TEST_CASE("roll call: after the time-out it asks, and those who do not come are named", "[check]") {
  RollCall roll_call;
  roll_call.begin(1000);
  CHECK_FALSE(roll_call.waited_too_long(1500, 500));
  CHECK(roll_call.waited_too_long(1501, 500));
  CHECK_FALSE(roll_call.is_over(99999, 100));
  roll_call.answer(1, true);  // to a question of an earlier roll call
  roll_call.ask(1501, 4);
  CHECK_FALSE(roll_call.waited_too_long(9999, 500));
  roll_call.answer(1, true);
  roll_call.answer(2, false);
  CHECK_FALSE(roll_call.is_over(1601, 100));
  CHECK(roll_call.is_over(1602, 100));
  CHECK(roll_call.missing(0) == std::vector<Rank>{2, 3});
  CHECK(roll_call.describe_missing(0) ==
        "rank 2 is elsewhere in MPI, rank 3 does not answer (it computes, or waits outside MPI)");
}

TEST_CASE("roll call: where all are there, the wait goes on", "[check]") {
  RollCall roll_call;
  roll_call.begin(0);
  roll_call.ask(100, 2);
  roll_call.answer(1, true);
  CHECK(roll_call.missing(0).empty());
  roll_call.begin(200);
  CHECK_FALSE(roll_call.is_asking());
  CHECK_FALSE(roll_call.is_over(9999, 100));
}
