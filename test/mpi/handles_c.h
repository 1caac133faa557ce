/* Handles of gpuar.h that another translation unit has made: in C99. */
#pragma once

#include <mpi.h>

#ifdef __cplusplus
extern "C" {
#endif

MPI_Datatype half_made_in_c(void);
MPI_Op sum_made_in_c(void);

#ifdef __cplusplus
}
#endif
