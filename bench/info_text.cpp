#include "bench/info_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

namespace bench {
namespace {

using nlohmann::json;

std::string text_of(const json& value) {
  return value.get<std::string>();
}

std::string bytes_text(std::size_t bytes) {
  constexpr const char* units[] = {"B", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  for (; unit < 3 && bytes >= 1024 && bytes % 1024 == 0; ++unit) bytes /= 1024;
  return fmt::format("{} {}", bytes, units[unit]);
}

// A host as a box: parts within one another, and who sits where.
class Box {
 public:
  Box(const json& job, const json& host) : job_(job), host_(host) {}

  std::string text() {
    ranks();
    devices();
    const std::string title = fmt::format(" {}: {} hardware threads ", text_of(host_.at("name")),
                                          host_.at("threads").get<std::int64_t>());
    std::size_t width = title.size() + 2;
    for (const std::string& line : lines_) width = std::max(width, line.size() + 2);
    std::string box = fmt::format("+-{:-<{}}+\n", title, width - 1);
    for (const std::string& line : lines_) box += fmt::format("| {:<{}}|\n", line, width - 1);
    return box + fmt::format("+{:-<{}}+\n", "", width);
  }

 private:
  // By package and NUMA domain; -1: not bound to one.
  void ranks() {
    std::map<std::pair<int, int>, std::string> parts;
    for (const json& rank : host_.at("ranks")) {
      const json& place = job_.at("processes").at(rank.get<std::size_t>()).at("place");
      const int core = place.at("core");
      std::string& part = parts[{place.at("package").get<int>(), place.at("numa").get<int>()}];
      part += core < 0 ? fmt::format(" [{}]", rank.get<int>())
                       : fmt::format(" [{} core {}]", rank.get<int>(), core);
    }
    int last_package = -2;
    for (const auto& [where, who] : parts) {
      const auto [package, numa] = where;
      if (package != last_package) {
        lines_.push_back(package < 0 ? "any package" : fmt::format("package {}", package));
      }
      last_package = package;
      lines_.push_back(
          fmt::format("  {}:{}", numa < 0 ? "any NUMA domain" : fmt::format("NUMA {}", numa), who));
    }
  }

  std::vector<int> users_of(const std::string& gpu) const {
    std::vector<int> users;
    for (const json& rank : host_.at("ranks")) {
      const json& place = job_.at("processes").at(rank.get<std::size_t>()).at("place");
      if (place.at("gpu") == gpu) users.push_back(rank.get<int>());
    }
    return users;
  }

  void devices() {
    for (const json& gpu : host_.at("devices").at("gpus")) {
      const auto users = users_of(text_of(gpu.at("address")));
      lines_.push_back(fmt::format(
          "GPU {}{}{}", text_of(gpu.at("address")),
          gpu.at("numa") == -1 ? "" : fmt::format(" at NUMA {}", gpu.at("numa").get<int>()),
          users.empty() ? "" : fmt::format(": rank {}", fmt::join(users, ", "))));
    }
    for (const json& nic : host_.at("devices").at("nics")) {
      const double gbit = nic.at("gbit");
      lines_.push_back(fmt::format("{} {}{}{}", text_of(nic.at("kind")), text_of(nic.at("name")),
                                   gbit > 0 ? fmt::format(", {:g} Gbit/s", gbit) : "",
                                   nic.at("usable").get<bool>() ? "" : ", not usable"));
    }
  }

  const json& job_;
  const json& host_;
  std::vector<std::string> lines_;
};

// Pairs that are connected alike, together.
std::string pairs_text(const json& job) {
  struct Pairs {
    std::size_t count = 0;
    std::string first;
  };
  std::map<std::pair<bool, std::string>, Pairs> alike;
  for (const json& process : job.at("processes")) {
    const json& peers = process.at("peers");
    for (std::size_t peer = 0; peer < peers.size(); ++peer) {
      if (text_of(peers[peer]).empty()) continue;
      const bool between = process.at("host") != job.at("processes").at(peer).at("host");
      Pairs& pairs = alike[{between, text_of(peers[peer])}];
      if (pairs.count++ == 0)
        pairs.first = fmt::format("{} to {}", process.at("rank").get<int>(), peer);
    }
  }
  std::string text = "messages go by\n";
  for (const auto& [how, pairs] : alike) {
    text +=
        fmt::format("  {:<14} {}: {} {}, such as {}\n", how.first ? "between hosts" : "in a host",
                    how.second, pairs.count, pairs.count == 1 ? "way" : "ways", pairs.first);
  }
  return alike.empty() ? "" : text + '\n';
}

std::string choices_text(const json& job) {
  if (job.at("choices").empty()) return "";
  std::string text = "calls are served by\n";
  for (const json& choice : job.at("choices")) {
    text += fmt::format("  {:>8}  {}\n", bytes_text(choice.at("bytes").get<std::size_t>()),
                        text_of(choice.at("why")));
    if (choice.contains("device_path")) {
      text += fmt::format("  {:>8}  in device memory: {}\n", "", text_of(choice.at("device_path")));
    }
  }
  return text + '\n';
}

std::string warnings_text(const json& job) {
  std::string text;
  for (const json& warning : job.at("warnings")) {
    text += fmt::format("warning: {}\n    try: {}\n", text_of(warning.at("what")),
                        text_of(warning.at("try")));
  }
  return text.empty() ? "no warnings\n" : text;
}

}  // namespace

std::string info_text(const json& job) {
  const json& first = job.at("processes").at(0);
  std::string text = fmt::format("gpuar {} in {}; {}\n", text_of(job.at("gpuar")),
                                 text_of(job.at("open_mpi")), text_of(first.at("ucx").at("about")));
  text +=
      fmt::format("UCX transports: {}\n",
                  fmt::join(first.at("ucx").at("transports").get<std::vector<std::string>>(), " "));
  text += fmt::format("MPI's other messages: pml {}\n\n", text_of(job.at("pml")));
  text += fmt::format("{} {} on {} {}\n", job.at("processes").size(),
                      job.at("processes").size() == 1 ? "rank" : "ranks", job.at("hosts").size(),
                      job.at("hosts").size() == 1 ? "host" : "hosts");
  for (const json& host : job.at("hosts")) text += Box(job, host).text();
  text += '\n';
  for (const json& process : job.at("processes")) {
    const std::string why = process.at("ucx").at("net_devices_why");
    if (!why.empty()) text += fmt::format("rank {}: {}\n", process.at("rank").get<int>(), why);
  }
  return text + pairs_text(job) + choices_text(job) + warnings_text(job);
}

}  // namespace bench
