// A cable of a test cluster, with latency: a TAP device in each of two network namespaces, and this
// program between them, which holds frames back, paces them, loses some, or is cut.
//
//     relay PID:DEVICE PID:DEVICE     the network namespaces are those of these processes
//
// It prints "ready" and is then told on its standard input what the cable is like, a line each:
//
//     delay SECONDS      from one end to the other
//     rate BITS          per second, in each direction; 0: as fast as it goes
//     loss PROBABILITY   of each frame
//     cut                nothing passes, and what is on its way is lost
//     mend
//
// Each line is answered by "done", or by a sentence on what is wrong. At the end of input the
// program ends, and the devices with it: it cannot outlive its owner.
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <deque>
#include <iostream>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr std::size_t largest_frame = 65536;
// What a direction holds before it drops frames, beyond what the delay keeps on its way: as the
// queue of a network port.
constexpr auto longest_queue = std::chrono::milliseconds(20);

[[noreturn]] void fail(const std::string& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

class File {
 public:
  explicit File(int number) : number_(number) {}
  File(const char* path, int flags) : number_(open(path, flags | O_CLOEXEC)) {
    if (number_ < 0) fail(std::string("cannot open ") + path);
  }
  ~File() {
    if (number_ >= 0) close(number_);
  }
  File(File&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  File& operator=(File&&) = delete;

  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

// Makes the TAP device that "PID:DEVICE" names. It is gone once the file is closed.
File make_device(const std::string& where) {
  const auto colon = where.find(':');
  if (colon == std::string::npos) throw std::invalid_argument(where + " is not PID:DEVICE");
  const File space(("/proc/" + where.substr(0, colon) + "/ns/net").c_str(), O_RDONLY);
  if (setns(space.number(), CLONE_NEWNET) != 0) fail("cannot enter the network of " + where);
  File device("/dev/net/tun", O_RDWR | O_NONBLOCK);
  ifreq request = {};
  request.ifr_flags = IFF_TAP | IFF_NO_PI;
  where.copy(request.ifr_name, IFNAMSIZ - 1, colon + 1);
  if (ioctl(device.number(), TUNSETIFF, &request) != 0) fail("cannot make the TAP device " + where);
  return device;
}

struct Nature {
  Clock::duration delay{0};
  double bits_per_second = 0;
  double loss = 0;
  bool cut = false;
};

// One direction of the cable.
class Direction {
 public:
  Direction(int from, int to) : from_(from), to_(to) {}

  // Takes in all that waits at one end.
  void take(const Nature& nature, std::mt19937_64& chance) {
    std::array<char, largest_frame> frame;  // NOLINT: filled by read
    for (ssize_t bytes = 0; (bytes = read(from_, frame.data(), frame.size())) > 0;) {
      const bool lost = nature.cut || std::uniform_real_distribution<>()(chance) < nature.loss;
      if (!lost) queue({frame.data(), frame.data() + bytes}, nature);
    }
  }

  // Gives out all that has arrived at the other end.
  void give() {
    for (; !frames_.empty() && frames_.front().due <= Clock::now(); frames_.pop_front()) {
      const std::vector<char>& bytes = frames_.front().bytes;
      // An end that takes no frame (its device is down) loses it, as a port does.
      [[maybe_unused]] const ssize_t written = write(to_, bytes.data(), bytes.size());
    }
  }

  void drop_all() { frames_.clear(); }

  [[nodiscard]] Clock::time_point next() const {
    return frames_.empty() ? Clock::time_point::max() : frames_.front().due;
  }

 private:
  struct Frame {
    Clock::time_point due;
    std::vector<char> bytes;
  };

  void queue(std::vector<char> bytes, const Nature& nature) {
    const auto now = Clock::now();
    free_ = std::max(free_, now);
    if (free_ - now > longest_queue) return;
    if (nature.bits_per_second > 0) {
      const Seconds taken(8.0 * static_cast<double>(bytes.size()) / nature.bits_per_second);
      free_ += std::chrono::duration_cast<Clock::duration>(taken);
    }
    // In order, also when the delay has just become less.
    const auto after = frames_.empty() ? now : frames_.back().due;
    frames_.push_back({std::max(free_ + nature.delay, after), std::move(bytes)});
  }

  int from_, to_;
  Clock::time_point free_;  // when the last frame has left the sending end
  std::deque<Frame> frames_;
};

// Changes the cable as a line says; throws std::invalid_argument if it says nothing known.
void obey(const std::string& line, Nature& nature) {
  std::istringstream words(line);
  std::string verb;
  double value = -1;
  words >> verb;
  if (verb == "cut" || verb == "mend") {
    nature.cut = verb == "cut";
    return;
  }
  if (!(words >> value) || value < 0 || (verb == "loss" && value > 1)) verb.clear();
  if (verb == "delay") {
    nature.delay = std::chrono::duration_cast<Clock::duration>(Seconds(value));
  } else if (verb == "rate") {
    nature.bits_per_second = value;
  } else if (verb == "loss") {
    nature.loss = value;
  } else {
    throw std::invalid_argument('"' + line +
                                "\" is not delay SECONDS, rate BITS, loss PROBABILITY, "
                                "cut or mend");
  }
}

// Reads a line and answers it; false at the end of input.
bool listen(Nature& nature) {
  std::string line;
  if (!std::getline(std::cin, line)) return false;
  try {
    obey(line, nature);
    std::cout << "done" << std::endl;
  } catch (const std::invalid_argument& why) {
    std::cout << why.what() << std::endl;
  }
  return true;
}

void wait_until(Clock::time_point due, std::array<pollfd, 3>& files) {
  if (due == Clock::time_point::max()) {
    ppoll(files.data(), files.size(), nullptr, nullptr);
    return;
  }
  const auto left = std::max(due - Clock::now(), Clock::duration::zero());
  const auto whole = std::chrono::duration_cast<std::chrono::seconds>(left);
  const timespec limit{whole.count(), (left - whole).count()};
  ppoll(files.data(), files.size(), &limit, nullptr);
}

void relay(const std::string& here, const std::string& there) {
  const File one = make_device(here);
  const File other = make_device(there);
  prctl(PR_SET_TIMERSLACK, 1);              // ns: delays are to be exact
  std::setvbuf(stdin, nullptr, _IONBF, 0);  // or a line could wait in a buffer, unseen by ppoll
  std::cout << "ready" << std::endl;
  Nature nature;
  std::mt19937_64 chance(1);  // NOLINT: the same frames are lost in every run
  Direction forth(one.number(), other.number());
  Direction back(other.number(), one.number());
  std::array<pollfd, 3> files{
      {{STDIN_FILENO, POLLIN, 0}, {one.number(), POLLIN, 0}, {other.number(), POLLIN, 0}}};
  for (;;) {
    wait_until(std::min(forth.next(), back.next()), files);
    if (files[0].revents != 0 && !listen(nature)) return;
    if (nature.cut) {
      forth.drop_all();
      back.drop_all();
    }
    if ((files[1].revents & POLLIN) != 0) forth.take(nature, chance);
    if ((files[2].revents & POLLIN) != 0) back.take(nature, chance);
    forth.give();
    back.give();
  }
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc != 3) throw std::invalid_argument("usage: relay PID:DEVICE PID:DEVICE");
    relay(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::cerr << "relay: " << error.what() << '\n';
    return 1;
  }
  return 0;
}
