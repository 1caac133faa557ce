/* gpuar.h: MPI handles for what MPI has none: the 16-bit floating types fp16 and bf16, operations
 * on them, and the average. One header and nothing to link, for C99 and C++11, and any MPI 3.0 or
 * newer; from other languages by MPI_Op_c2f and MPI_Type_c2f.
 *
 *     MPI_Op average;
 *     gpuar_op(GPUAR_AVERAGE, &average);
 *     MPI_Datatype half;
 *     gpuar_type(GPUAR_FP16, &half);
 *     MPI_Allreduce(MPI_IN_PLACE, gradients, count, half, average, comm);
 *
 * Handles are the caller's, as from MPI_Op_create and MPI_Type_commit: MPI_Op_free, MPI_Type_free.
 * Both functions may be called by several threads at once, if MPI may be. They return MPI_SUCCESS
 * or an error code, for which the error handler of MPI_COMM_WORLD has been called.
 *
 * GPUAR_SUM, GPUAR_MIN, GPUAR_MAX: on fp16, bf16, and datatypes made of one of them. Each addition
 * is done in float and rounded once, to nearest even. Good for every reduction of MPI that takes
 * user-defined operations; where the gpuar component serves the call, by its vectorised kernels.
 *
 * GPUAR_AVERAGE: on every floating and complex type of MPI besides, and datatypes made of one of
 * them: the sum, which must itself be in the type's range, divided once by the number of ranks.
 * Only in MPI_Allreduce, MPI_Iallreduce and persistent allreduce on communicators that the gpuar
 * component serves, or of one rank. gpuar_op() fails where the component is not loaded; on a
 * communicator that it declines, and in other calls, the error handler of MPI_COMM_WORLD is called,
 * and if that returns, all results are NaN: never a sum for an average. */
#ifndef GPUAR_H
#define GPUAR_H

#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum gpuar_op_name { GPUAR_SUM, GPUAR_MIN, GPUAR_MAX, GPUAR_AVERAGE } gpuar_op_name;
typedef enum gpuar_type_name { GPUAR_FP16, GPUAR_BF16 } gpuar_type_name;

/* Makes a handle for an operation. */
static inline int gpuar_op(gpuar_op_name name, MPI_Op* op);

/* Makes a handle, committed, for a type of 2 bytes. */
static inline int gpuar_type(gpuar_type_name name, MPI_Datatype* type);

/* --- The rest is not for use: names that end in _ may change --------------------------------- */

static inline int gpuar_error_(int error_class, const char* text) {
  int code = error_class;
  MPI_Errhandler handler = MPI_ERRORS_RETURN;
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
  /* MPI would end the job with this text, but Open MPI 4.1's daemon loses it at times. */
  if (MPI_ERRORS_ARE_FATAL == handler) fprintf(stderr, "%s\n", text);
  MPI_Errhandler_free(&handler);
  if (MPI_SUCCESS == MPI_Add_error_code(error_class, &code)) MPI_Add_error_string(code, text);
  MPI_Comm_call_errhandler(MPI_COMM_WORLD, code);
  return code;
}

/* A type carries its name within: a block of no elements, at a displacement that says which it is.
 * The mark survives MPI_Type_dup and MPI_Type_get_contents, and needs no state of this process. */
enum { gpuar_fp16_mark_ = 0x66703136, gpuar_bf16_mark_ = 0x62663136 };

static inline int gpuar_type(gpuar_type_name name, MPI_Datatype* type) {
  const int lengths[2] = {1, 0};
  const MPI_Aint places[2] = {0, GPUAR_FP16 == name ? gpuar_fp16_mark_ : gpuar_bf16_mark_};
  int rc = MPI_Type_create_hindexed(2, lengths, places, MPI_UINT16_T, type);
  if (MPI_SUCCESS == rc) {
    rc = MPI_Type_set_name(*type, GPUAR_FP16 == name ? "gpuar_fp16" : "gpuar_bf16");
  }
  return MPI_SUCCESS == rc ? MPI_Type_commit(type) : rc;
}

/* --- Without the component: the operations on fp16 and bf16 ----------------------------------- */

static inline float gpuar_widen_(gpuar_type_name name, uint16_t half) {
  const uint32_t magnitude = half & 0x7fffU;
  const float scale = 5.9604644775390625e-8F; /* 2^-24: the smallest subnormal fp16 */
  float value;
  uint32_t bits = magnitude << 16;
  if (GPUAR_FP16 == name && magnitude < 0x400) { /* subnormal, or zero */
    value = (float)magnitude * scale;
    memcpy(&bits, &value, sizeof bits);
  } else if (GPUAR_FP16 == name) { /* infinity and NaN have the largest exponent */
    bits = (magnitude << 13) + ((magnitude < 0x7c00 ? 112U : 224U) << 23);
  }
  bits |= (uint32_t)(half & 0x8000U) << 16;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* To nearest even. */
static inline uint16_t gpuar_round_(gpuar_type_name name, float value) {
  const unsigned lost = GPUAR_FP16 == name ? 13 : 16; /* bits */
  const uint32_t rebias = GPUAR_FP16 == name ? 112U << 23 : 0;
  const float half = 0.5F;
  uint32_t all, magnitude, half_bits, sign;
  memcpy(&all, &value, sizeof all);
  memcpy(&half_bits, &half, sizeof half_bits);
  magnitude = all & 0x7fffffffU;
  sign = (all >> 16) & 0x8000U;
  if (magnitude > 0x7f800000U) { /* NaN: quiet, its upper payload kept */
    return (uint16_t)(sign | ((GPUAR_FP16 == name ? 0x7e00U : 0x7fc0U) |
                              ((magnitude >> lost) & (GPUAR_FP16 == name ? 0x3ffU : 0x7fU))));
  }
  if (GPUAR_FP16 == name && magnitude >= 0x47800000U) return (uint16_t)(sign | 0x7c00U);
  if (GPUAR_FP16 == name && magnitude < 0x38800000U) { /* subnormal: 0.5 has that last digit */
    memcpy(&value, &magnitude, sizeof value);
    value += half;
    memcpy(&magnitude, &value, sizeof magnitude);
    return (uint16_t)(sign | (magnitude - half_bits));
  }
  magnitude += (1U << (lost - 1)) - 1 + ((magnitude >> lost) & 1U);
  return (uint16_t)(sign | ((magnitude - rebias) >> lost));
}

/* inout = in op inout, element by element. */
static inline void gpuar_combine_(gpuar_op_name op, gpuar_type_name type, const void* in,
                                  void* inout, size_t count) {
  for (size_t i = 0; i < count; ++i) {
    uint16_t a, b;
    memcpy(&a, (const char*)in + 2 * i, 2);
    memcpy(&b, (const char*)inout + 2 * i, 2);
    const float x = gpuar_widen_(type, a), y = gpuar_widen_(type, b);
    if (GPUAR_SUM == op) b = gpuar_round_(type, x + y);
    if (GPUAR_MIN == op ? x < y : GPUAR_MAX == op && x > y) b = a;
    memcpy((char*)inout + 2 * i, &b, 2);
  }
}

/* Whether all that a datatype holds is fp16, or all bf16; then also which. */
static inline int gpuar_holds_(MPI_Datatype type, gpuar_type_name* name) {
  int integers = 0, addresses = 0, types = 0, combiner = 0, same = 1;
  MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
  if (0 == types) return 0;
  int* integer = (int*)malloc(((size_t)integers + 1) * sizeof *integer);
  MPI_Aint* address = (MPI_Aint*)malloc(((size_t)addresses + 1) * sizeof *address);
  MPI_Datatype* inner = (MPI_Datatype*)malloc((size_t)types * sizeof(MPI_Datatype));
  const int got = integer && address && inner;
  if (got) MPI_Type_get_contents(type, integers, addresses, types, integer, address, inner);
  const int may_be_marked = got && MPI_COMBINER_HINDEXED == combiner && 2 == addresses;
  const MPI_Aint mark = may_be_marked && 0 == integer[2] ? address[1] : 0;
  const int marked = gpuar_fp16_mark_ == mark || gpuar_bf16_mark_ == mark;
  if (marked) *name = gpuar_fp16_mark_ == mark ? GPUAR_FP16 : GPUAR_BF16;
  for (int i = 0; got && i < types; ++i) {
    gpuar_type_name of_this = GPUAR_FP16;
    int i1, i2, i3, named;
    if (!marked) same = same && gpuar_holds_(inner[i], &of_this) && (0 == i || of_this == *name);
    if (!marked) *name = of_this;
    MPI_Type_get_envelope(inner[i], &i1, &i2, &i3, &named);
    if (MPI_COMBINER_NAMED != named) MPI_Type_free(&inner[i]);
  }
  free(integer);
  free(address);
  free(inner);
  return got && same;
}

/* Layouts with gaps are packed first. Returns 0 if that fails. */
static inline int gpuar_combine_packed_(gpuar_op_name op, gpuar_type_name half, void* in,
                                        void* inout, int count, MPI_Datatype type) {
  int size = 0;
  MPI_Aint lb = 0, extent = 0;
  MPI_Type_size(type, &size);
  MPI_Type_get_extent(type, &lb, &extent);
  char* a = (char*)malloc((size_t)size);
  char* b = (char*)malloc((size_t)size);
  int good = a && b;
  for (int i = 0; i < count && good; ++i) {
    int packed_a = 0, packed_b = 0, unpacked = 0;
    char* here = (char*)inout + i * extent;
    MPI_Pack((char*)in + i * extent, 1, type, a, size, &packed_a, MPI_COMM_SELF);
    MPI_Pack(here, 1, type, b, size, &packed_b, MPI_COMM_SELF);
    good = packed_a == size && packed_b == size; /* the bytes, and no header of the library's */
    if (good) gpuar_combine_(op, half, a, b, (size_t)size / 2);
    if (good) MPI_Unpack(b, size, &unpacked, here, 1, type, MPI_COMM_SELF);
  }
  free(a);
  free(b);
  return good;
}

static inline void gpuar_reduce_(gpuar_op_name op, void* in, void* inout, int count,
                                 MPI_Datatype type) {
  gpuar_type_name half = GPUAR_FP16;
  int size = 0;
  MPI_Aint lb = 0, extent = 0, true_lb = 0, true_extent = 0;
  if (!gpuar_holds_(type, &half)) {
    gpuar_error_(MPI_ERR_OP,
                 "gpuar.h: GPUAR_SUM, GPUAR_MIN and GPUAR_MAX take fp16 or bf16 from "
                 "gpuar_type(), and datatypes made of one of them; other types have "
                 "MPI_SUM, MPI_MIN, MPI_MAX");
    return;
  }
  MPI_Type_size(type, &size);
  MPI_Type_get_extent(type, &lb, &extent);
  MPI_Type_get_true_extent(type, &true_lb, &true_extent);
  if (0 == true_lb && size == extent && size == true_extent) { /* no gaps */
    gpuar_combine_(op, half, in, inout, (size_t)count * (size_t)size / 2);
  } else if (!gpuar_combine_packed_(op, half, in, inout, count, type)) {
    gpuar_error_(MPI_ERR_OTHER, "gpuar.h: cannot pack a datatype made of fp16 or bf16");
  }
}

static inline void gpuar_sum_(void* in, void* inout, int* count, MPI_Datatype* type) {
  gpuar_reduce_(GPUAR_SUM, in, inout, *count, *type);
}
static inline void gpuar_min_(void* in, void* inout, int* count, MPI_Datatype* type) {
  gpuar_reduce_(GPUAR_MIN, in, inout, *count, *type);
}
static inline void gpuar_max_(void* in, void* inout, int* count, MPI_Datatype* type) {
  gpuar_reduce_(GPUAR_MAX, in, inout, *count, *type);
}

/* --- With the component ----------------------------------------------------------------------- */

/* The component knows an operation by its function, and publishes its own ones in MPI_INFO_ENV.
 * Returns 0 and leaves *function if there is none. */
static inline int gpuar_published_(const char* key, MPI_User_function** function) {
  char text[32] = "";
  char* end = text;
  int found = 0;
#if MPI_VERSION >= 4
  int length = (int)sizeof text;
  MPI_Info_get_string(MPI_INFO_ENV, key, &length, text, &found);
#else
  MPI_Info_get(MPI_INFO_ENV, key, (int)sizeof text - 1, text, &found);
#endif
  if (found) *function = (MPI_User_function*)(uintptr_t)strtoull(text, &end, 16);
  return found;
}

static inline int gpuar_op(gpuar_op_name name, MPI_Op* op) {
  const char* const keys[] = {"gpuar_sum", "gpuar_min", "gpuar_max", "gpuar_average"};
  MPI_User_function* const own[] = {gpuar_sum_, gpuar_min_, gpuar_max_};
  MPI_User_function* function = own[GPUAR_AVERAGE == name ? 0 : name];
  *op = MPI_OP_NULL;
  if (gpuar_published_(keys[name], &function) || GPUAR_AVERAGE != name) {
    return MPI_Op_create(function, 1, op);
  }
  return gpuar_error_(
      MPI_ERR_UNSUPPORTED_OPERATION,
      "gpuar.h: GPUAR_AVERAGE needs the gpuar component, which this process has not "
      "loaded; run with mpirun --mca coll gpuar, or divide a sum yourself");
}

#endif
