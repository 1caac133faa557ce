/* The operations and element types that gpuar reduces itself, as the C component and the C++ core
 * both name them. Names follow the bits, not the language: MPI_INT and MPI_INTEGER4 are both
 * GPUAR_INT32. */
#ifndef GPUAR_TYPES_H
#define GPUAR_TYPES_H

typedef enum gpuar_op {
  GPUAR_SUM,
  GPUAR_PROD,
  GPUAR_MIN,
  GPUAR_MAX,
  GPUAR_LAND,
  GPUAR_LOR,
  GPUAR_LXOR,
  GPUAR_BAND,
  GPUAR_BOR,
  GPUAR_BXOR,
  GPUAR_MINLOC,
  GPUAR_MAXLOC,
  GPUAR_OP_COUNT
} gpuar_op;

typedef enum gpuar_type {
  GPUAR_INT8,
  GPUAR_INT16,
  GPUAR_INT32,
  GPUAR_INT64,
  GPUAR_UINT8,
  GPUAR_UINT16,
  GPUAR_UINT32,
  GPUAR_UINT64,
  GPUAR_FLOAT16,  /* IEEE binary16 */
  GPUAR_BFLOAT16, /* the upper half of a float */
  GPUAR_FLOAT32,
  GPUAR_FLOAT64,
  GPUAR_LONG_DOUBLE,
  GPUAR_FLOAT128, /* IEEE binary128: Fortran REAL(16), which is not long double on x86 */
  GPUAR_COMPLEX_FLOAT32,
  GPUAR_COMPLEX_FLOAT64,
  GPUAR_COMPLEX_LONG_DOUBLE,
  GPUAR_COMPLEX_FLOAT128,
  GPUAR_BOOL,     /* C _Bool, C++ bool: one byte, 0 or 1 */
  GPUAR_BYTE,     /* MPI_BYTE: bitwise operations only */
  GPUAR_LOGICAL8, /* Fortran LOGICAL of 8, 16, 32 and 64 bits: false is 0, true is 1 */
  GPUAR_LOGICAL16,
  GPUAR_LOGICAL32,
  GPUAR_LOGICAL64,
  /* value and index: struct { value; index; } with the C compiler's layout, padding included */
  GPUAR_FLOAT32_INT,
  GPUAR_FLOAT64_INT,
  GPUAR_LONG_DOUBLE_INT,
  GPUAR_LONG_INT,        /* struct { long; int; } */
  GPUAR_SHORT_INT,       /* struct { short; int; } */
  GPUAR_INT32_INT32,     /* MPI_2INT, MPI_2INTEGER */
  GPUAR_FLOAT32_FLOAT32, /* MPI_2REAL */
  GPUAR_FLOAT64_FLOAT64, /* MPI_2DOUBLE_PRECISION */
  GPUAR_TYPE_COUNT
} gpuar_type;

#endif
