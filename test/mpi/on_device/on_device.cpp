// Moves every allreduce of an unmodified program to device memory: loaded before the program
// (LD_PRELOAD), it stands between the program and MPI by MPI's profiling interface. The bytes of
// the program's buffers are copied to memory of the kinds that GPUAR_TEST_MEMORY names (see
// settings.h), MPI is called on that, and the result is copied back when the call is complete.
// What must not change is checked: send buffers, bytes beside the buffers, and the context that is
// current in the calling thread. At MPI_Finalize every rank says on standard error how much was
// moved.
#include <mpi.h>

#include <cstdio>
#include <fstream>
#include <utility>

#include "calls.h"

#if OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#endif

using namespace on_device;

namespace {

template <class Pmpi>
int blocking(Call&& call, Pmpi pmpi) {
  const SameContext same("MPI_Allreduce");
  call.begin();
  const int rc = pmpi(call);
  call.end();
  return rc;
}

template <class Pmpi>
int with_request(const char* name, std::unique_ptr<Call> call, MPI_Request* request, Pmpi pmpi) {
  const SameContext same(name);
  if (!call->persistent()) call->begin();
  const int rc = pmpi(*call);
  if (rc != MPI_SUCCESS) {
    call->end();
  } else if (call->moved()) {
    requests().put(*request, std::move(call));
  }
  return rc;
}

template <class Init>
int persistent(const char* name, const void* send, void* receive, int count, MPI_Datatype type,
               MPI_Comm comm, MPI_Request* request, Init init) {
  auto call =
      std::make_unique<Call>(name, send, receive, count, type, comm, Persistence::persistent);
  return with_request(name, std::move(call), request, init);
}

const char* driver_in_process() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/libcuda.so") != std::string::npos) return "loaded";
  }
  return "absent";
}

void report() {
  int rank = 0;
  PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::string line = "on_device: rank " + std::to_string(rank) +
                     ": calls=" + std::to_string(totals().calls.load());
  for (const Kind kind : all_kinds) {
    if (kind == Kind::host) continue;
    line += std::string(" ") + name_of(kind) + "=" +
            std::to_string(totals().buffers[static_cast<std::size_t>(kind)].load());
  }
  line += " reused=" + std::to_string(totals().reused.load());
  std::fprintf(stderr, "%s driver=%s\n", line.c_str(), driver_in_process());
}

}  // namespace

extern "C" {

// --- The calls -----------------------------------------------------------------------------------

int MPI_Allreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                  MPI_Comm comm) {
  return blocking(Call("MPI_Allreduce", send, receive, count, type, comm, Persistence::once),
                  [&](const Call& call) {
                    return PMPI_Allreduce(call.send(), call.receive(), count, type, op, comm);
                  });
}

int MPI_Iallreduce(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request* request) {
  constexpr const char* name = "MPI_Iallreduce";
  auto call = std::make_unique<Call>(name, send, receive, count, type, comm, Persistence::once);
  return with_request(name, std::move(call), request, [&](const Call& moved) {
    return PMPI_Iallreduce(moved.send(), moved.receive(), count, type, op, comm, request);
  });
}

#if OMPI_MAJOR_VERSION < 5
int MPIX_Allreduce_init(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                        MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return persistent("MPIX_Allreduce_init", send, receive, count, type, comm, request,
                    [&](const Call& call) {
                      return PMPIX_Allreduce_init(call.send(), call.receive(), count, type, op,
                                                  comm, info, request);
                    });
}
#else
int MPI_Allreduce_init(const void* send, void* receive, int count, MPI_Datatype type, MPI_Op op,
                       MPI_Comm comm, MPI_Info info, MPI_Request* request) {
  return persistent("MPI_Allreduce_init", send, receive, count, type, comm, request,
                    [&](const Call& call) {
                      return PMPI_Allreduce_init(call.send(), call.receive(), count, type, op, comm,
                                                 info, request);
                    });
}
#endif

int MPI_Start(MPI_Request* request) {
  const SameContext same("MPI_Start");
  if (Call* call = requests().find(*request)) call->begin();
  return PMPI_Start(request);
}

int MPI_Startall(int count, MPI_Request* array) {
  const SameContext same("MPI_Startall");
  for (int i = 0; i < count; ++i) {
    if (Call* call = requests().find(array[i])) call->begin();
  }
  return PMPI_Startall(count, array);
}

// --- Their completion ----------------------------------------------------------------------------

int MPI_Wait(MPI_Request* request, MPI_Status* status) {
  const SameContext same("MPI_Wait");
  Completing completing(1, request);
  const int rc = PMPI_Wait(request, status);
  completing.complete_all();
  return rc;
}

int MPI_Waitall(int count, MPI_Request* array, MPI_Status* statuses) {
  const SameContext same("MPI_Waitall");
  Completing completing(count, array);
  const int rc = PMPI_Waitall(count, array, statuses);
  rc == MPI_SUCCESS ? completing.complete_all() : completing.complete_freed();
  return rc;
}

int MPI_Waitany(int count, MPI_Request* array, int* index, MPI_Status* status) {
  const SameContext same("MPI_Waitany");
  Completing completing(count, array);
  const int rc = PMPI_Waitany(count, array, index, status);
  if (*index != MPI_UNDEFINED) completing.complete(*index);
  return rc;
}

int MPI_Waitsome(int count, MPI_Request* array, int* done, int* indices, MPI_Status* statuses) {
  const SameContext same("MPI_Waitsome");
  Completing completing(count, array);
  const int rc = PMPI_Waitsome(count, array, done, indices, statuses);
  for (int i = 0; *done != MPI_UNDEFINED && i < *done; ++i) completing.complete(indices[i]);
  return rc;
}

int MPI_Test(MPI_Request* request, int* flag, MPI_Status* status) {
  const SameContext same("MPI_Test");
  Completing completing(1, request);
  const int rc = PMPI_Test(request, flag, status);
  if (*flag) completing.complete_all();
  return rc;
}

int MPI_Testall(int count, MPI_Request* array, int* flag, MPI_Status* statuses) {
  const SameContext same("MPI_Testall");
  Completing completing(count, array);
  const int rc = PMPI_Testall(count, array, flag, statuses);
  if (rc != MPI_SUCCESS) {
    completing.complete_freed();
  } else if (*flag) {
    completing.complete_all();
  }
  return rc;
}

int MPI_Testany(int count, MPI_Request* array, int* index, int* flag, MPI_Status* status) {
  const SameContext same("MPI_Testany");
  Completing completing(count, array);
  const int rc = PMPI_Testany(count, array, index, flag, status);
  if (*flag && *index != MPI_UNDEFINED) completing.complete(*index);
  return rc;
}

int MPI_Testsome(int count, MPI_Request* array, int* done, int* indices, MPI_Status* statuses) {
  const SameContext same("MPI_Testsome");
  Completing completing(count, array);
  const int rc = PMPI_Testsome(count, array, done, indices, statuses);
  for (int i = 0; *done != MPI_UNDEFINED && i < *done; ++i) completing.complete(indices[i]);
  return rc;
}

// The request lives on, but the program may already read its buffer.
int MPI_Request_get_status(MPI_Request request, int* flag, MPI_Status* status) {
  const SameContext same("MPI_Request_get_status");
  const int rc = PMPI_Request_get_status(request, flag, status);
  Call* const call = *flag ? requests().find(request) : nullptr;
  if (call) call->end();
  return rc;
}

int MPI_Request_free(MPI_Request* request) {
  const SameContext same("MPI_Request_free");
  const std::unique_ptr<Call> call = requests().take(*request);
  const int rc = PMPI_Request_free(request);
  if (call && call->under_way()) call->abandon();
  return rc;
}

// --- From beginning to end -----------------------------------------------------------------------

int MPI_Init(int* argc, char*** argv) {
  if (settings().start == Start::early) driver();
  return PMPI_Init(argc, argv);
}

int MPI_Init_thread(int* argc, char*** argv, int wanted, int* provided) {
  if (settings().start == Start::early) driver();
  return PMPI_Init_thread(argc, argv, wanted, provided);
}

int MPI_Finalize(void) {
  report();
  requests().abandon_all();
  if (settings().end == End::shutdown && driver_is_open()) driver().reset();
  return PMPI_Finalize();
}

}  // extern "C"
