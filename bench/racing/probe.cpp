// race_probe: what two cores of this machine do at this moment, without any MPI. Reads requests
// from its input, a line each, and answers each with a number:
//
//   latency        nanoseconds that a cache line takes from one core to the other
//   copy BYTES     GB/s at which each core copies a vector of that size that lies at the other,
//   while
//                  the other does the same
//
// Between requests it sleeps.

#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The first two cores that this process may use.
std::array<int, 2> two_cores() {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  sched_getaffinity(0, sizeof(allowed), &allowed);
  std::vector<int> cores;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &allowed)) cores.push_back(core);
  }
  if (cores.size() < 2) throw std::runtime_error("there are no two cores");
  return {cores[0], cores[1]};
}

// Runs the same function, told apart by its number, on both cores.
void on_both(const std::function<void(std::size_t)>& body) {
  const std::array<int, 2> cores = two_cores();
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < cores.size(); ++i) {
    threads.emplace_back([&body, core = cores.at(i), i] {
      cpu_set_t own;
      CPU_ZERO(&own);
      CPU_SET(core, &own);
      pthread_setaffinity_np(pthread_self(), sizeof(own), &own);
      body(i);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// The fastest of many short rallies: a rally that something disturbed tells nothing. On busy cores
// there are fewer.
double latency_ns() {
  constexpr int rallies = 100, least = 10;
  constexpr double most_seconds = 0.05;
  constexpr std::uint64_t turns = 100;
  constexpr auto over = std::numeric_limits<std::uint64_t>::max();
  alignas(128) std::atomic<std::uint64_t> ball = 0;
  double best = std::numeric_limits<double>::infinity();
  const auto first = Clock::now();
  on_both([&](std::size_t mine) {
    const bool serves = mine == 0;
    std::uint64_t next = mine;
    for (int rally = 0; rally < rallies; ++rally) {
      if (rally >= least && seconds_since(first) > most_seconds) break;
      const auto start = Clock::now();
      for (const std::uint64_t end = next + turns * 2; next < end; next += 2) {
        for (std::uint64_t seen = ~next; seen != next;) {
          seen = ball.load(std::memory_order_acquire);
          if (seen == over) return;
        }
        ball.store(next + 1, std::memory_order_release);
      }
      if (serves) best = std::min(best, seconds_since(start) / (turns * 2));
    }
    ball.store(over, std::memory_order_release);
  });
  return best * 1e9;
}

double copy_rate(std::size_t bytes) {
  constexpr int times = 5;
  constexpr double enough = 16e6;  // bytes of each time
  const auto repeats = static_cast<std::size_t>(std::max(1.0, enough / static_cast<double>(bytes)));
  std::array<std::vector<char>, 2> from, to;
  std::array<double, 2> best = {0, 0};
  std::barrier all(2);
  on_both([&](std::size_t mine) {
    from.at(mine).assign(bytes, 'x');
    to.at(mine).assign(bytes, 'y');
    for (int time = 0; time < times; ++time) {
      all.arrive_and_wait();
      const auto start = Clock::now();
      for (std::size_t i = 0; i < repeats; ++i) {
        std::memcpy(to.at(mine).data(), from.at(1 - mine).data(), bytes);
      }
      const double moved = static_cast<double>(bytes * repeats);
      best.at(mine) = std::max(best.at(mine), moved / seconds_since(start));
    }
  });
  return std::min(best[0], best[1]) * 1e-9;
}

double answer(const std::string& line) {
  std::istringstream words(line);
  std::string what;
  std::size_t bytes = 0;
  words >> what >> bytes;
  if (what == "latency") return latency_ns();
  if (what == "copy" && bytes > 0) return copy_rate(bytes);
  throw std::runtime_error(fmt::format("'{}' is no request", line));
}

}  // namespace

int main() {
  try {
    for (std::string line; std::getline(std::cin, line);) {
      fmt::print("{}\n", answer(line));
      std::fflush(stdout);
    }
  } catch (const std::exception& error) {
    std::cerr << "race_probe: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
