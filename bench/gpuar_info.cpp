// gpuar_info: what gpuar found on this machine and in this job, what it would choose and why, and
// what could be better.

#include <fmt/format.h>
#include <mpi.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <stdexcept>

#include "bench/ask_gpuar.h"
#include "bench/info_text.h"
#include "bench/info_warnings.h"
#include "bench/sizes.h"
#include "bench/usage.h"

namespace {

using nlohmann::json;

struct Options {
  std::string sizes = "8,1K,16K,256K,4M,64M";
  bool as_json = false;
};

int rank_in_world() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int ranks_in_world() {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  return ranks;
}

std::string open_mpi() {
  std::string text(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  return text.substr(0, text.find(','));
}

// The transports to every rank, after a call in which each has sent to all others; on many ranks,
// to those with which a call of their own choice has to do.
json peers_of(const bench::Gpuar& gpuar) {
  constexpr int most_pairwise = 512;
  MPI_Info info = MPI_INFO_NULL;
  MPI_Comm all = MPI_COMM_NULL;
  MPI_Info_create(&info);
  if (ranks_in_world() <= most_pairwise) MPI_Info_set(info, "gpuar_algorithm", "direct");
  MPI_Comm_dup_with_info(MPI_COMM_WORLD, info, &all);
  MPI_Info_free(&info);
  for (int calls = 0; calls < 3; ++calls) {
    double mine = 1;
    double sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_DOUBLE, MPI_SUM, all);
  }
  json peers = json::parse(gpuar.peers(all));
  MPI_Comm_free(&all);
  return peers;
}

json process_of(const bench::Gpuar& gpuar, bool served) {
  json process = json::parse(gpuar.about());
  process["rank"] = rank_in_world();
  process["peers"] = served ? peers_of(gpuar) : json::array();
  const char* devices = std::getenv("UCX_NET_DEVICES");
  std::string told = devices != nullptr ? devices : "";
  if (process["ucx"]["net_devices_used"].get<bool>()) {
    told.clear();
    for (const json& port : process["ucx"]["net_devices"]) told += port.get<std::string>() + ",";
  }
  process["net_devices"] = told;
  return process;
}

// All ranks' texts, on rank 0.
json gathered(const json& mine) {
  const std::string text = mine.dump();
  const bool first = rank_in_world() == 0;
  const int size = static_cast<int>(text.size());
  std::vector<int> sizes(static_cast<std::size_t>(ranks_in_world()));
  MPI_Gather(&size, 1, MPI_INT, sizes.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
  std::vector<int> offsets(sizes.size());
  std::exclusive_scan(sizes.begin(), sizes.end(), offsets.begin(), 0);
  std::string texts(first ? static_cast<std::size_t>(offsets.back() + sizes.back()) : 0, '\0');
  MPI_Gatherv(text.data(), size, MPI_CHAR, texts.data(), sizes.data(), offsets.data(), MPI_CHAR, 0,
              MPI_COMM_WORLD);
  json all = json::array();
  for (std::size_t rank = 0; first && rank < sizes.size(); ++rank) {
    const auto begin = texts.begin() + offsets[rank];
    all.push_back(json::parse(begin, begin + sizes[rank]));
  }
  return all;
}

json hosts_of(json& processes) {
  json hosts = json::array();
  std::map<std::string, std::size_t> known;
  for (json& process : processes) {
    const auto [entry, fresh] = known.try_emplace(process.at("host_id"), hosts.size());
    if (fresh) {
      hosts.push_back({{"name", process.at("host")},
                       {"threads", process.at("place").at("host_threads")},
                       {"devices", process.at("devices")},
                       {"gpudirect", process.at("gpudirect")},
                       {"ranks", json::array()}});
    }
    hosts[entry->second]["ranks"].push_back(process.at("rank"));
    process.erase("devices");
  }
  return hosts;
}

// How a call on device memory of so many bytes is carried out by the first rank; "" if its host has
// no GPU.
std::string device_path(const json& process, bool has_gpu, std::size_t bytes) {
  if (!has_gpu) return "";
  if (!process.at("kernels").get<bool>()) return "through host memory: built without kernels";
  if (bytes <= process.at("device_limit").get<std::size_t>()) {
    return "through host memory: not above coll_gpuar_device_limit";
  }
  const json& memory = process.at("ucx").at("memory");
  const bool carried = std::find(memory.begin(), memory.end(), "device") != memory.end();
  return carried
             ? "where it lies, by UCX"
             : "where it lies, messages staged through pinned host memory: this UCX has no CUDA";
}

json choices(const bench::Gpuar& gpuar, const json& process, bool has_gpu,
             const std::vector<std::size_t>& sizes) {
  json made = json::array();
  for (const std::size_t bytes : sizes) {
    const std::size_t count = std::max<std::size_t>(1, bytes / sizeof(float));
    const gpuar_answer answer = gpuar.ask(MPI_COMM_WORLD, count, sizeof(float));
    json choice = {{"bytes", count * sizeof(float)},
                   {"algorithm", answer.algorithm},
                   {"segment_bytes", answer.segment_bytes},
                   {"from_file", answer.from_file != 0},
                   {"planned_for", answer.for_device != 0 ? "device" : "host"},
                   {"why", answer.why}};
    const std::string path = device_path(process, has_gpu, bytes);
    if (!path.empty()) choice["device_path"] = path;
    made.push_back(std::move(choice));
  }
  return made;
}

bool serves_world(const bench::Gpuar& gpuar) {
  try {
    (void)gpuar.ask(MPI_COMM_WORLD, 1, sizeof(float));
    return true;
  } catch (const std::runtime_error&) {
    return false;
  }
}

void run(const Options& options, const std::vector<std::size_t>& sizes) {
  const bench::Gpuar gpuar;
  const bool served = serves_world(gpuar);
  json processes = gathered(process_of(gpuar, served));
  if (rank_in_world() != 0) return;
  json job = {{"gpuar", processes[0].at("version")},
              {"open_mpi", open_mpi()},
              {"pml", gpuar.pml()},
              {"tuning_file", gpuar.tuning_file()},
              {"served", served}};
  job["hosts"] = hosts_of(processes);
  job["processes"] = std::move(processes);
  const bool has_gpu = !job["hosts"][0]["devices"]["gpus"].empty();
  job["choices"] = served ? choices(gpuar, job["processes"][0], has_gpu, sizes) : json::array();
  json found = json::array();
  for (const bench::Warning& warning : bench::warnings(job)) {
    found.push_back({{"id", warning.id}, {"what", warning.what}, {"try", warning.remedy}});
  }
  job["warnings"] = std::move(found);
  fmt::print("{}", options.as_json ? job.dump(2) + '\n' : bench::info_text(job));
}

}  // namespace

// Only a mistake in the declarations could throw outside of the try blocks.
// NOLINTNEXTLINE(bugprone-exception-escape)
int main(int argc, char** argv) {
  Options options;
  std::vector<std::size_t> sizes;
  CLI::App app(
      "Says what gpuar found here, what it would choose and why, and what could be better.",
      "gpuar_info");
  app.add_option("--sizes", options.sizes,
                 "bytes of the calls to say the choice for, as MIN:MAX[:FACTOR] or A,B,…")
      ->capture_default_str();
  app.add_flag("--json", options.as_json, "the same for programs");
  app.footer(
      "Alone it describes this machine, under mpirun or srun the whole job:\n"
      "mpirun --mca coll gpuar -n RANKS gpuar_info.");
  try {
    app.parse(argc, argv);
    sizes = bench::parse_sizes("--sizes", options.sizes);
  } catch (const CLI::ParseError& error) {
    return bench::usage(app, error);
  }
  return bench::with_mpi("gpuar_info", argc, argv, [&] { run(options, sizes); });
}
