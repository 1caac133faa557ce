// race_starter [ucx]: what it takes from before MPI_Init to after MPI_Finalize, with one allreduce
// of 8 bytes between. With `ucx` the program brings UCX up and down besides, as gpuar does, and
// sends nothing by it. Rank 0 prints `TOOK milliseconds`.
#include <mpi.h>
#include <ucp/api/ucp.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

void need(ucs_status_t status, const char* what) {
  if (status == UCS_OK) return;
  std::fprintf(stderr, "race_starter: %s: %s\n", what, ucs_status_string(status));
  std::exit(1);
}

// What gpuar asks of UCX, and no more.
class Ucx {
 public:
  Ucx() {
    ucp_config_t* config = nullptr;
    need(ucp_config_read(nullptr, nullptr, &config), "ucp_config_read");
    ucp_params_t params = {};
    params.field_mask = UCP_PARAM_FIELD_FEATURES;
    params.features = UCP_FEATURE_AM;
    need(ucp_init(&params, config, &context_), "ucp_init");
    ucp_config_release(config);
    ucp_worker_params_t worker_params = {};
    need(ucp_worker_create(context_, &worker_params, &worker_), "ucp_worker_create");
    ucp_address_t* address = nullptr;
    std::size_t bytes = 0;
    need(ucp_worker_get_address(worker_, &address, &bytes), "ucp_worker_get_address");
    ucp_worker_release_address(worker_, address);
  }
  Ucx(const Ucx&) = delete;
  Ucx& operator=(const Ucx&) = delete;
  ~Ucx() {
    ucp_worker_destroy(worker_);
    ucp_cleanup(context_);
  }

 private:
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
};

void call() {
  double in = 1;
  double out = 0;
  MPI_Allreduce(&in, &out, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

}  // namespace

int main(int argc, char** argv) {
  const bool with_ucx = argc > 1 && std::string_view(argv[1]) == "ucx";
  const auto start = std::chrono::steady_clock::now();
  MPI_Init(&argc, &argv);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (with_ucx) {
    const Ucx ucx;
    call();
  } else {
    call();
  }
  MPI_Finalize();
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  if (rank == 0) std::printf("TOOK %.3f\n", took.count());
  return 0;
}
