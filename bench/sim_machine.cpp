#include "bench/sim_machine.h"

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace bench {
namespace {

using nlohmann::json;

constexpr double ps_per_us = 1e6;
constexpr gpuar::Rank usual_ranks = 8;

ImaginedMachine built_in(const std::string& name) {
  const bool device = name == "device";
  return {name, usual_ranks, 1, {device ? gpuar::device_machine() : gpuar::Machine{}, 0}};
}

// The items of an object; what nobody asks for is a mistake in the file.
class Items {
 public:
  Items(const json& object, std::string where) : where_(std::move(where)) {
    if (!object.is_object()) throw std::runtime_error(where_ + ": must be an object, { … }");
    left_ = object;
  }

  // The value, or nothing to do if there is none.
  template <class Use>
  void take(const char* key, Use use) {
    const auto found = left_.find(key);
    if (found == left_.end()) return;
    try {
      use(*found);
    } catch (const json::exception&) {
      throw std::runtime_error(fmt::format("{}: \"{}\" has the wrong type", where_, key));
    }
    left_.erase(key);
  }

  void take_number(const char* key, double least, const std::function<void(double)>& use) {
    take(key, [&](const json& value) {
      const auto number = value.get<double>();
      if (!(number >= least && number <= 1e9)) {
        throw std::runtime_error(
            fmt::format("{}: \"{}\" must be from {} to 1e9", where_, key, least));
      }
      use(number);
    });
  }

  void end() const {
    if (left_.empty()) return;
    throw std::runtime_error(fmt::format("{}: unknown item \"{}\"", where_, left_.begin().key()));
  }

 private:
  std::string where_;
  json left_;
};

std::uint64_t picoseconds(double us) {
  return static_cast<std::uint64_t>(std::llround(us * ps_per_us));
}

// For each byte.
std::uint64_t picoseconds_of_rate(double gigabytes_per_second) {
  return static_cast<std::uint64_t>(std::llround(1000 / gigabytes_per_second));
}

gpuar::Link read_link(const json& object, const std::string& where, gpuar::Link link) {
  Items items(object, where);
  items.take_number("latency_us", 0, [&](double us) { link.latency = picoseconds(us); });
  items.take_number("message_us", 0, [&](double us) { link.message = picoseconds(us); });
  items.take_number("gigabytes_per_second", 1e-3,
                    [&](double rate) { link.byte = picoseconds_of_rate(rate); });
  items.end();
  return link;
}

ImaginedMachine read_machine(const json& object, const std::string& where) {
  Items items(object, where);
  std::string memory = "host";
  items.take("memory", [&](const json& value) { memory = value.get<std::string>(); });
  if (memory != "host" && memory != "device") {
    throw std::runtime_error(where + ": \"memory\" must be \"host\" or \"device\"");
  }
  ImaginedMachine read = built_in(memory);
  gpuar::Machine& machine = read.fabric.machine;
  items.take("name", [&](const json& value) { read.name = value.get<std::string>(); });
  items.take_number("ranks_per_node", 1,
                    [&](double ranks) { read.ranks_per_node = static_cast<gpuar::Rank>(ranks); });
  items.take_number("packages_per_node", 1, [&](double packages) {
    read.packages_per_node = static_cast<gpuar::Rank>(packages);
  });
  items.take_number("ports_per_node", 1,
                    [&](double ports) { machine.ports = static_cast<std::uint32_t>(ports); });
  items.take("within", [&](const json& value) {
    machine.shared_memory = read_link(value, where + ": within", machine.shared_memory);
  });
  items.take("between_packages", [&](const json& value) {
    machine.between_parts = read_link(value, where + ": between_packages", machine.between_parts);
  });
  items.take("network", [&](const json& value) {
    machine.network = read_link(value, where + ": network", machine.network);
  });
  items.take_number("reduced_gigabytes_per_second", 1e-3,
                    [&](double rate) { machine.reduce_byte = picoseconds_of_rate(rate); });
  items.take_number("launch_us", 0, [&](double us) { read.fabric.launch = picoseconds(us); });
  items.end();
  if (read.ranks_per_node % read.packages_per_node != 0) {
    throw std::runtime_error(where + ": \"packages_per_node\" must divide \"ranks_per_node\"");
  }
  return read;
}

}  // namespace

ImaginedMachine imagined_machine(const std::string& name_or_file) {
  if (name_or_file == "host" || name_or_file == "device") return built_in(name_or_file);
  std::ifstream file(name_or_file);
  if (!file) {
    throw std::runtime_error("cannot read " + name_or_file +
                             "; give the name of a file, \"host\" or \"device\"");
  }
  try {
    return read_machine(json::parse(file, nullptr, true, true), name_or_file);
  } catch (const json::parse_error& error) {
    throw std::runtime_error(name_or_file + ": " + error.what());
  }
}

}  // namespace bench
