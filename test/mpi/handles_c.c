#include "handles_c.h"

#include "gpuar.h"

MPI_Datatype half_made_in_c(void) {
  MPI_Datatype type = MPI_DATATYPE_NULL;
  gpuar_type(GPUAR_FP16, &type);
  return type;
}

MPI_Op sum_made_in_c(void) {
  MPI_Op op = MPI_OP_NULL;
  gpuar_op(GPUAR_SUM, &op);
  return op;
}
