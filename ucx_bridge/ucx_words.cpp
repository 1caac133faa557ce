// What UCX says about itself only in print: its settings, and the transports to a peer.
#include "ucx_bridge/ucx_words.h"

#include <dlfcn.h>
#include <ucp/api/ucp.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <string_view>

#include "ucx_bridge/ucx_transport.h"

namespace gpuar {

namespace {

struct FreeText {
  void operator()(char* text) const { std::free(text); }
};

// Calls take(line) for each line of what print(stream) writes; for none if memory is out.
template <class Print, class Take>
void for_each_line(Print print, Take take) {
  char* text = nullptr;
  std::size_t bytes = 0;
  std::FILE* const stream = open_memstream(&text, &bytes);
  if (stream == nullptr) return;
  print(stream);
  std::fclose(stream);
  const std::unique_ptr<char, FreeText> owner(text);
  for (const char* at = text; *at != '\0';) {
    const char* const end = at + std::strcspn(at, "\n");
    take(std::string(at, end));
    at = *end == '\n' ? end + 1 : end;
  }
}

// "#  lane[0]:  4:sysv/memory.0 md[4] -> ..." gives "sysv/memory".
std::string transport_of(const std::string& line) {
  const auto lane = line.find("lane[");
  const auto index = lane == std::string::npos ? lane : line.find(':', line.find("]:", lane) + 2);
  if (index == std::string::npos) return {};
  const auto end = line.find_first_of(" .", index);
  return line.substr(index + 1, end == std::string::npos ? end : end - index - 1);
}

// The value that UCX works with, wherever it is from: the environment, its file, its default.
std::string setting(const ucp_config* config, const std::string& name) {
  std::string value;
  for_each_line(
      [&](std::FILE* stream) {
        ucp_config_print(config, stream, nullptr, UCS_CONFIG_PRINT_CONFIG);
      },
      [&](const std::string& line) {
        if (line.starts_with(name + "=")) value = line.substr(name.size() + 1);
      });
  return value;
}

// Whether a name in a list such as "rc,cuda" starts with one of those.
bool names_any(std::string_view list, std::initializer_list<const char*> starts) {
  for (std::size_t begin = 0; begin < list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string_view name = list.substr(begin, end - begin);
    for (const char* const start : starts)
      if (name.starts_with(start)) return true;
    begin = end + 1;
  }
  return false;
}

// Whether a UCX_TLS lets UCX use InfiniBand devices.
bool admits_infiniband(std::string_view transports) {
  return transports.starts_with("^") || names_any(transports, {"all", "ib", "rc", "ud", "dc"});
}

// Whether it lets UCX use shared memory.
bool admits_shared_memory(std::string_view transports) {
  if (!transports.starts_with("^"))
    return names_any(transports, {"all", "sm", "shm", "mm", "posix", "sysv", "xpmem"});
  transports.remove_prefix(1);
  return !names_any(transports, {"all", "sm", "shm", "mm"}) &&
         !(names_any(transports, {"posix"}) && names_any(transports, {"sysv"}));
}

}  // namespace

bool leaves_net_devices(const ucp_config* config) {
  return setting(config, "UCX_NET_DEVICES") == "all" &&
         admits_infiniband(setting(config, "UCX_TLS"));
}

bool leaves_shared_memory(const ucp_config* config) {
  for (const char* const name : {"UCX_MM_SEG_SIZE", "UCX_SYSV_SEG_SIZE", "UCX_POSIX_SEG_SIZE"})
    if (std::getenv(name) != nullptr) return false;
  return admits_shared_memory(setting(config, "UCX_TLS"));
}

// "#    resource 6  :  md 4  dev 5  flags -- rc_mlx5/mlx5_0:1"
bool opens_infiniband(ucp_context* context) {
  bool found = false;
  for_each_line([&](std::FILE* stream) { ucp_context_print_info(context, stream); },
                [&](const std::string& line) {
                  for (const char* const kind : {" rc_", " dc_", " ud_"})
                    found = found || line.find(kind) != std::string::npos;
                });
  return found;
}

std::string UcxTransport::version() {
  return std::string("UCX ") + ucp_get_version_string();
}

std::string UcxTransport::describe_library() const {
  Dl_info found = {};
  const bool located = dladdr(reinterpret_cast<void*>(&ucp_get_version), &found) != 0;
  std::string text = version();
  if (located && found.dli_fname != nullptr) text += std::string(" (") + found.dli_fname + ")";
  text += " carries host memory";
  if (carries(MemoryKind::device)) text += ", CUDA memory";
  if (carries(MemoryKind::managed)) text += ", CUDA managed memory";
  unsigned major = 0;
  unsigned minor = 0;
  unsigned release = 0;
  ucp_get_version(&major, &minor, &release);
  if (major == UCP_API_MAJOR && minor == UCP_API_MINOR) return text;
  return text + "; warning: gpuar was built for UCX " + std::to_string(UCP_API_MAJOR) + "." +
         std::to_string(UCP_API_MINOR);
}

std::vector<std::string> UcxTransport::transports() const {
  std::vector<std::string> found;
  for_each_line([&](std::FILE* stream) { ucp_context_print_info(context_, stream); },
                [&](const std::string& line) {
                  if (line.find(" resource ") == std::string::npos) return;
                  found.push_back(line.substr(line.find_last_of(' ') + 1));
                });
  return found;
}

std::string UcxTransport::describe(Peer peer) {
  if (peer->endpoint == nullptr) return "not connected";
  std::string found;
  for_each_line([&](std::FILE* stream) { ucp_ep_print_info(peer->endpoint, stream); },
                [&](const std::string& line) {
                  const std::string transport = transport_of(line);
                  if (!transport.empty() && found.find(transport) == std::string::npos)
                    found += (found.empty() ? "" : ", ") + transport;
                });
  if (peer->has_mailbox) found += ", mailbox";
  return found.empty() ? "unknown" : found;
}

}  // namespace gpuar
