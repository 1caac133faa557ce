#include "bench/ask_gpuar.h"

#include <array>
#include <cstdint>
#include <cstdlib>
#include <stdexcept>
#include <string_view>

namespace bench {
namespace {

constexpr const char* not_served = "gpuar does not serve this communicator; a line above says why";

std::vector<std::string> split(std::string_view names) {
  constexpr std::string_view separator = ", ";
  std::vector<std::string> parts;
  while (!names.empty()) {
    const std::size_t end = names.find(separator);
    parts.emplace_back(names.substr(0, end));
    names.remove_prefix(end == std::string_view::npos ? names.size() : end + separator.size());
  }
  return parts;
}

}  // namespace

Gpuar::Gpuar() {
  std::array<char, 64> text = {};
  int found = 0;
#if MPI_VERSION >= 4
  int length = static_cast<int>(text.size());
  MPI_Info_get_string(MPI_INFO_ENV, GPUAR_TOOLS_KEY, &length, text.data(), &found);
#else
  MPI_Info_get(MPI_INFO_ENV, GPUAR_TOOLS_KEY, static_cast<int>(text.size()) - 1, text.data(),
               &found);
#endif
  if (found == 0) {
    throw std::runtime_error(
        "gpuar of this version does not run in this process; select it by mpirun --mca coll gpuar");
  }
  const auto address = static_cast<std::uintptr_t>(std::strtoull(text.data(), nullptr, 16));
  tools_ = reinterpret_cast<const gpuar_tools*>(address);  // NOLINT(performance-no-int-to-ptr)
}

std::vector<std::string> Gpuar::algorithms() const {
  return split(tools_->algorithms);
}

std::vector<std::string> Gpuar::compositions() const {
  return split(tools_->compositions);
}

std::string Gpuar::peers(MPI_Comm comm) const {
  const char* const text = tools_->peers(comm);
  if (text == nullptr) throw std::runtime_error(not_served);
  return text;
}

gpuar_answer Gpuar::ask(MPI_Comm comm, std::size_t count, std::size_t element_bytes) const {
  gpuar_answer answer = {};
  if (tools_->ask(comm, count, element_bytes, &answer) != 0) {
    throw std::runtime_error(not_served);
  }
  return answer;
}

}  // namespace bench
