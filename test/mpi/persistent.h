/* The persistent call under one name. Before MPI 4, Open MPI offers it as an extension. */
#ifndef GPUAR_TEST_MPI_PERSISTENT_H
#define GPUAR_TEST_MPI_PERSISTENT_H

#include <mpi.h>

#if MPI_VERSION < 4
#include <mpi-ext.h>

static inline int persistent_allreduce_init(const void* in, void* out, int count, MPI_Datatype type,
                                            MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  return MPIX_Allreduce_init(in, out, count, type, op, comm, MPI_INFO_NULL, request);
}
#else
static inline int persistent_allreduce_init(const void* in, void* out, int count, MPI_Datatype type,
                                            MPI_Op op, MPI_Comm comm, MPI_Request* request) {
  return MPI_Allreduce_init(in, out, count, type, op, comm, MPI_INFO_NULL, request);
}
#endif

#endif
