#include "coll_gpuar/report/clock.h"

#include <cstdint>

#include "test/catch.h"

using namespace gpuar;

TEST_CASE("stamps: time and rank come back, to 16 ns, whatever the clock shows", "[report]") {
  constexpr std::int64_t hour = 3'600'000'000'000;
  for (const std::int64_t now : {std::int64_t{1}, std::int64_t{12'345'678'901}, hour, 4 * hour + 7,
                                 5 * hour, 9'999 * hour, 17'592'186'044'416 - 5}) {
    for (const std::int64_t away :
         {std::int64_t{0}, std::int64_t{17}, -std::int64_t{5'000'000}, 2 * hour, -2 * hour}) {
      if (now + away <= 0) continue;
      const std::uint64_t stamp = stamps::make(now + away, 70'000);
      CAPTURE(now, away);
      CHECK(stamps::rank_of(stamp) == 70'000);
      CHECK(std::abs(stamps::time_of(stamp, now) - (now + away)) < 32);
    }
  }
}

TEST_CASE("stamps: none is 0, which stands for no stamp", "[report]") {
  CHECK(stamps::make(0, 0) != 0);
  CHECK(stamps::make(std::int64_t{1} << 44, 0) != 0);
}

TEST_CASE("peer clock: unknown until it answers, then the quickest answer counts", "[report]") {
  constexpr std::int64_t ahead = 1'000'000'000'000;
  PeerClock clock;
  std::int64_t now = 5'000'000;
  CHECK(clock.uncertainty(now) == PeerClock::unknown);
  REQUIRE(clock.is_due(now));
  // A slow answer: back after 8 ms, of which 7 were spent on the way there.
  std::uint16_t tag = clock.ping(now);
  CHECK_FALSE(clock.is_due(now + 8'000'000));  // one question at a time
  CHECK(clock.is_due(now + 2'000'000'000));    // unless the answer is lost
  CHECK(clock.pong(tag, now + 7'000'000 + ahead, now + 8'000'000));
  CHECK(clock.offset() == ahead + 3'000'000);
  CHECK(clock.uncertainty(now + 8'000'000) == 4'000'000);
  // A quick one.
  now += 10'000'000;
  REQUIRE(clock.is_due(now));
  tag = clock.ping(now);
  CHECK(clock.pong(tag, now + 1'000 + ahead, now + 2'000));
  CHECK(clock.offset() == ahead);
  // Slower ones, and answers to older questions, do not spoil it.
  now += 10'000'000;
  CHECK_FALSE(clock.pong(tag, now, now + 1));
  const std::uint16_t newer = clock.ping(now);
  CHECK_FALSE(clock.pong(tag, now, now + 1));
  CHECK_FALSE(clock.pong(newer, now + 900'000 + ahead, now + 1'000'000));
  CHECK(clock.offset() == ahead);
}

TEST_CASE("peer clock: what is old may have drifted, and is replaced", "[report]") {
  PeerClock clock;
  clock.pong(clock.ping(1'000), 1'500, 2'000);
  CHECK(clock.offset() == 0);
  constexpr std::int64_t much_later = 100'000'000'000;
  clock.pong(clock.ping(much_later), much_later + 150'000, much_later + 200'000);
  CHECK(clock.offset() == 50'000);
}

TEST_CASE("peer clock: what the other has found counts if it is better", "[report]") {
  PeerClock clock;
  CHECK(clock.told(700, 50, 1'000));
  CHECK_FALSE(clock.told(900, 60, 1'000));
  CHECK(clock.told(800, 40, 1'000));
  CHECK(clock.offset() == 800);
  CHECK(clock.uncertainty(1'000) == 40);
}

TEST_CASE("peer clock: on one host there is nothing to ask", "[report]") {
  PeerClock clock;
  clock.share();
  CHECK(clock.offset() == 0);
  CHECK_FALSE(clock.is_due(1'000'000'000));
  CHECK(clock.uncertainty(1'000'000'000) == 0);
}
