/* Stands in for the header of this name, which ompi/op/op.h includes and no installation of Open
 * MPI has. Where the real one is on the path (-Dopenmpi_source), that one is used. */
#if __has_include_next("ompi/mpi/fortran/base/fint_2_int.h")
#include_next "ompi/mpi/fortran/base/fint_2_int.h"
#else
#ifndef GPUAR_FINT_2_INT_H
#define GPUAR_FINT_2_INT_H
#define OMPI_INT_2_FINT(value) ((MPI_Fint)(value))
#define OMPI_FINT_2_INT(value) ((int)(value))
#endif
#endif
