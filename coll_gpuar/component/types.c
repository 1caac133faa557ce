/* Which operations and element types gpuar reduces itself. Open MPI numbers both: predefined
 * datatypes and their duplicates carry an id, predefined operations their Fortran handle. */
#include <stddef.h>
#include <wchar.h>

#include "coll_gpuar/component/coll_gpuar.h"

enum { max_ops = OMPI_OP_BASE_FORTRAN_OP_MAX, max_types = OMPI_DATATYPE_MAX_PREDEFINED };

static int op_table[max_ops];
static int type_table[max_types];
static bool served[GPUAR_OP_COUNT][GPUAR_TYPE_COUNT];

typedef enum kind { signed_integer, unsigned_integer, real, complex_number, logical } kind;

/* The type of that many bytes, -1 if gpuar has none. */
static int sized_type(kind of, size_t bytes) {
  static const int by_log2[][4] = {
      [signed_integer] = {GPUAR_INT8, GPUAR_INT16, GPUAR_INT32, GPUAR_INT64},
      [unsigned_integer] = {GPUAR_UINT8, GPUAR_UINT16, GPUAR_UINT32, GPUAR_UINT64},
      [real] = {-1, GPUAR_FLOAT16, GPUAR_FLOAT32, GPUAR_FLOAT64},
      [complex_number] = {-1, -1, -1, GPUAR_COMPLEX_FLOAT32},
      [logical] = {GPUAR_LOGICAL8, GPUAR_LOGICAL16, GPUAR_LOGICAL32, GPUAR_LOGICAL64},
  };
  switch (bytes) {
    case 1:
      return by_log2[of][0];
    case 2:
      return by_log2[of][1];
    case 4:
      return by_log2[of][2];
    case 8:
      return by_log2[of][3];
    case 16:
      return complex_number == of ? GPUAR_COMPLEX_FLOAT64 : -1;
    default:
      return -1;
  }
}

static void add_type(const ompi_datatype_t* datatype, int type) {
  size_t size = 0;
  (void)ompi_datatype_type_size(datatype, &size);
  const bool available = 0 != size; /* a Fortran type that the compiler lacks has no size */
  if (available && type >= 0 && datatype->id >= 0 && datatype->id < max_types) {
    type_table[datatype->id] = type;
  }
}

static void add_sized(kind of, size_t how_many, const MPI_Datatype* datatypes) {
  for (size_t i = 0; i < how_many; ++i) {
    size_t size = 0;
    (void)ompi_datatype_type_size(datatypes[i], &size);
    add_type(datatypes[i], sized_type(of, size));
  }
}

#define ADD_SIZED(of, ...)                                            \
  do {                                                                \
    const MPI_Datatype datatypes[] = {__VA_ARGS__};                   \
    add_sized(of, sizeof datatypes / sizeof datatypes[0], datatypes); \
  } while (0)

static void add_numbers(void) {
  const kind wide_character = (wchar_t)-1 < 0 ? signed_integer : unsigned_integer;
  ADD_SIZED(wide_character, MPI_WCHAR);
  ADD_SIZED(signed_integer, MPI_CHAR, MPI_SIGNED_CHAR, MPI_SHORT, MPI_INT, MPI_LONG, MPI_LONG_LONG,
            MPI_INT8_T, MPI_INT16_T, MPI_INT32_T, MPI_INT64_T, MPI_AINT, MPI_OFFSET, MPI_COUNT,
            MPI_INTEGER, MPI_INTEGER1, MPI_INTEGER2, MPI_INTEGER4, MPI_INTEGER8);
  /* MPI_BYTE shares its id with these: the same bits, and the bitwise operations are the same. */
  ADD_SIZED(unsigned_integer, MPI_UNSIGNED_CHAR, MPI_UNSIGNED_SHORT, MPI_UNSIGNED,
            MPI_UNSIGNED_LONG, MPI_UNSIGNED_LONG_LONG, MPI_UINT8_T, MPI_UINT16_T, MPI_UINT32_T,
            MPI_UINT64_T, MPI_CHARACTER);
  ADD_SIZED(real, MPI_FLOAT, MPI_DOUBLE, MPI_REAL, MPI_DOUBLE_PRECISION, MPI_REAL4, MPI_REAL8);
  /* fp16, where compilers and Open MPI's configuration have it */
#if OMPI_HAVE_FORTRAN_REAL2
  ADD_SIZED(real, MPI_REAL2);
#endif
#if defined(OMPI_HAVE_MPI_EXT_SHORTFLOAT)
  ADD_SIZED(real, MPIX_SHORT_FLOAT);
#endif
  ADD_SIZED(complex_number, MPI_C_COMPLEX, MPI_C_FLOAT_COMPLEX, MPI_C_DOUBLE_COMPLEX, MPI_COMPLEX,
            MPI_DOUBLE_COMPLEX, MPI_COMPLEX8, MPI_COMPLEX16, MPI_CXX_FLOAT_COMPLEX,
            MPI_CXX_DOUBLE_COMPLEX);
  add_type(MPI_LONG_DOUBLE, GPUAR_LONG_DOUBLE);
  add_type(MPI_C_LONG_DOUBLE_COMPLEX, GPUAR_COMPLEX_LONG_DOUBLE);
  add_type(MPI_CXX_LONG_DOUBLE_COMPLEX, GPUAR_COMPLEX_LONG_DOUBLE);
}

static void add_logicals_and_pairs(void) {
  add_type(MPI_C_BOOL, GPUAR_BOOL);
  add_type(MPI_CXX_BOOL, GPUAR_BOOL);
  /* Other compilers say -1 or 255 for true; there Open MPI's own operation serves. */
  if (1 == OMPI_FORTRAN_VALUE_TRUE) ADD_SIZED(logical, MPI_LOGICAL);
  add_type(MPI_FLOAT_INT, GPUAR_FLOAT32_INT);
  add_type(MPI_DOUBLE_INT, GPUAR_FLOAT64_INT);
  add_type(MPI_LONG_DOUBLE_INT, GPUAR_LONG_DOUBLE_INT);
  add_type(MPI_LONG_INT, GPUAR_LONG_INT);
  add_type(MPI_SHORT_INT, GPUAR_SHORT_INT);
  add_type(MPI_2INT, GPUAR_INT32_INT32);
  if (sizeof(MPI_Fint) == sizeof(int32_t)) add_type(MPI_2INTEGER, GPUAR_INT32_INT32);
  add_type(MPI_2REAL, GPUAR_FLOAT32_FLOAT32);
  add_type(MPI_2DOUBLE_PRECISION, GPUAR_FLOAT64_FLOAT64);
}

static void add_ops(void) {
  const struct {
    MPI_Op handle;
    gpuar_op op;
  } ops[] = {
      {MPI_SUM, GPUAR_SUM},   {MPI_PROD, GPUAR_PROD},     {MPI_MIN, GPUAR_MIN},
      {MPI_MAX, GPUAR_MAX},   {MPI_LAND, GPUAR_LAND},     {MPI_LOR, GPUAR_LOR},
      {MPI_LXOR, GPUAR_LXOR}, {MPI_BAND, GPUAR_BAND},     {MPI_BOR, GPUAR_BOR},
      {MPI_BXOR, GPUAR_BXOR}, {MPI_MINLOC, GPUAR_MINLOC}, {MPI_MAXLOC, GPUAR_MAXLOC},
  };
  for (size_t i = 0; i < sizeof ops / sizeof ops[0]; ++i) {
    op_table[ops[i].handle->o_f_to_c_index] = ops[i].op;
  }
}

void coll_gpuar_types_init(void) {
  for (int i = 0; i < max_ops; ++i) op_table[i] = -1;
  for (int i = 0; i < max_types; ++i) type_table[i] = -1;
  add_ops();
  add_numbers();
  add_logicals_and_pairs();
  for (int op = 0; op < GPUAR_OP_COUNT; ++op) {
    for (int type = 0; type < GPUAR_TYPE_COUNT; ++type) {
      served[op][type] = gpuar_can_reduce((gpuar_op)op, (gpuar_type)type);
    }
  }
}

/* Open MPI gives REAL(16) the id of long double, because both fill 16 bytes. */
int coll_gpuar_types_element(const ompi_datatype_t* datatype) {
  if (datatype->id < 0 || datatype->id >= max_types) return -1;
  if (MPI_REAL16 == datatype) return GPUAR_FLOAT128;
  if (MPI_COMPLEX32 == datatype) return GPUAR_COMPLEX_FLOAT128;
  return type_table[datatype->id];
}

bool coll_gpuar_types_find(const ompi_op_t* op, const ompi_datatype_t* datatype, gpuar_op* op_out,
                           gpuar_type* type_out) {
  if (!(op->o_flags & OMPI_OP_FLAGS_INTRINSIC) || !ompi_datatype_is_predefined(datatype)) {
    return false;
  }
  if (op->o_f_to_c_index < 0 || op->o_f_to_c_index >= max_ops) return false;
  const int op_index = op_table[op->o_f_to_c_index];
  const int type_index = coll_gpuar_types_element(datatype);
  if (op_index < 0 || type_index < 0 || !served[op_index][type_index]) return false;
  *op_out = (gpuar_op)op_index;
  *type_out = (gpuar_type)type_index;
  return true;
}
