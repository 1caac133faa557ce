/* The persistent call under one name. Open MPI 4.1 offers it as an extension; from 5.0 on it has
 * its standard name, though MPI_VERSION still says 3 there. */
#ifndef GPUAR_TEST_MPI_PERSISTENT_H
#define GPUAR_TEST_MPI_PERSISTENT_H

#include <mpi.h>

#if OMPI_MAJOR_VERSION < 5
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
