#include "bench/served.h"

#include <array>
#include <string_view>

namespace bench {
namespace {

constexpr std::array<std::string_view, 3> counter_names = {
    "coll_gpuar_blocking", "coll_gpuar_nonblocking", "coll_gpuar_persistent"};

bool is_served_counter(int index) {
  std::array<char, 256> name = {};
  int name_bytes = static_cast<int>(name.size());
  int verbosity = 0, variable_class = 0, bind = 0, readonly = 0, continuous = 0, atomic = 0;
  MPI_Datatype type = MPI_DATATYPE_NULL;
  if (MPI_T_pvar_get_info(index, name.data(), &name_bytes, &verbosity, &variable_class, &type,
                          nullptr, nullptr, nullptr, &bind, &readonly, &continuous,
                          &atomic) != MPI_SUCCESS) {
    return false;
  }
  for (const std::string_view wanted : counter_names) {
    if (wanted == name.data()) return true;
  }
  return false;
}

}  // namespace

ServedCounter::ServedCounter() {
  int provided = 0, variables = 0;
  if (MPI_T_init_thread(MPI_THREAD_SINGLE, &provided) != MPI_SUCCESS) return;
  if (MPI_T_pvar_session_create(&session_) != MPI_SUCCESS) return;
  if (MPI_T_pvar_get_num(&variables) != MPI_SUCCESS) return;
  for (int index = 0; index < variables; ++index) {
    if (!is_served_counter(index)) continue;
    MPI_T_pvar_handle handle = MPI_T_PVAR_HANDLE_NULL;
    int values = 0;
    if (MPI_T_pvar_handle_alloc(session_, index, nullptr, &handle, &values) != MPI_SUCCESS) {
      continue;
    }
    // The variables count all the time; one that already runs refuses to be started.
    static_cast<void>(MPI_T_pvar_start(session_, handle));
    handles_.push_back(handle);
  }
}

ServedCounter::~ServedCounter() {
  for (MPI_T_pvar_handle& handle : handles_) MPI_T_pvar_handle_free(session_, &handle);
  if (session_ != MPI_T_PVAR_SESSION_NULL) MPI_T_pvar_session_free(&session_);
  MPI_T_finalize();
}

std::uint64_t ServedCounter::calls() const {
  std::uint64_t sum = 0;
  for (MPI_T_pvar_handle handle : handles_) {
    unsigned long long value = 0;
    if (MPI_T_pvar_read(session_, handle, &value) == MPI_SUCCESS) sum += value;
  }
  return sum;
}

}  // namespace bench
