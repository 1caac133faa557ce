// MPI_Allreduce_init under the name that this MPI gives it: Open MPI 4.1 offers it as an extension.
#pragma once

#include <mpi.h>
#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION < 5
#include <mpi-ext.h>
#endif

namespace bench {

inline int allreduce_init(const void* in, void* out, int count, MPI_Datatype type, MPI_Op op,
                          MPI_Comm comm, MPI_Request* request) {
#if defined(OMPI_MAJOR_VERSION) && OMPI_MAJOR_VERSION < 5
  return MPIX_Allreduce_init(in, out, count, type, op, comm, MPI_INFO_NULL, request);
#else
  return MPI_Allreduce_init(in, out, count, type, op, comm, MPI_INFO_NULL, request);
#endif
}

}  // namespace bench
