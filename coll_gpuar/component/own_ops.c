/* The operations of gpuar.h. Each is an MPI_Op made of a function of this file, which gpuar.h finds
 * in MPI_INFO_ENV; by that function it is known here. A communicator that gpuar serves never calls
 * it. What does is another component's reduction: there sum, min and max are right all the same,
 * and the average, which no pairwise function can give, is an error. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll_gpuar/component/coll_gpuar.h"
#include "ompi/info/info.h"

/* --- What a datatype is made of --------------------------------------------------------------- */

/* gpuar.h marks its types by a block of no elements at this displacement. */
enum { fp16_mark = 0x66703136, bf16_mark = 0x62663136 };

static int marked_as(int combiner, int addresses, const int* integer, const MPI_Aint* address) {
  if (MPI_COMBINER_HINDEXED != combiner || 2 != addresses || 0 != integer[2]) return -1;
  if (fp16_mark == address[1]) return GPUAR_FLOAT16;
  return bf16_mark == address[1] ? GPUAR_BFLOAT16 : -1;
}

/* Of several types the one that all of them are made of; frees what MPI_Type_get_contents made. */
static int common(MPI_Datatype* inner, int types) {
  int element = -1;
  for (int i = 0; i < types; ++i) {
    const int of_this = coll_gpuar_element_of(inner[i]);
    element = 0 == i || of_this == element ? of_this : -1;
    if (!ompi_datatype_is_predefined(inner[i])) PMPI_Type_free(&inner[i]);
  }
  return element;
}

/* By MPI's own functions: Open MPI's internal ones differ between releases. */
int coll_gpuar_element_of(const ompi_datatype_t* datatype) {
  if (ompi_datatype_is_predefined(datatype)) return coll_gpuar_types_element(datatype);
  MPI_Datatype handle = (MPI_Datatype)(uintptr_t)datatype;
  int integers = 0;
  int addresses = 0;
  int types = 0;
  int combiner = 0;
  PMPI_Type_get_envelope(handle, &integers, &addresses, &types, &combiner);
  if (types < 1) return -1;
  enum { few = 8 }; /* of a type of gpuar.h itself; no allocation for those */
  int few_integers[few];
  MPI_Aint few_addresses[few];
  MPI_Datatype few_types[few];
  const bool fits = integers <= few && addresses <= few && types <= few;
  int* integer = fits ? few_integers : malloc(((size_t)integers + 1) * sizeof *integer);
  MPI_Aint* address = fits ? few_addresses : malloc(((size_t)addresses + 1) * sizeof *address);
  MPI_Datatype* inner = fits ? few_types : malloc((size_t)types * sizeof(MPI_Datatype));
  const bool room = NULL != integer && NULL != address && NULL != inner;
  int element = room ? -1 : COLL_GPUAR_NO_ROOM;
  if (room && MPI_SUCCESS == PMPI_Type_get_contents(handle, integers, addresses, types, integer,
                                                    address, inner)) {
    element = marked_as(combiner, addresses, integer, address);
    const int made_of = common(inner, types);
    if (element < 0) element = made_of;
  }
  if (!fits) {
    free(integer);
    free(address);
    free(inner);
  }
  return element;
}

bool coll_gpuar_own_op_takes(const coll_gpuar_own_op* own, int element) {
  if (element < 0) return false;
  if (own->average) return gpuar_can_divide((gpuar_type)element);
  return GPUAR_FLOAT16 == element || GPUAR_BFLOAT16 == element;
}

/* --- Where gpuar does not serve --------------------------------------------------------------- */

/* Says what is wrong and calls the error handler. Should that return, nobody may take the operands
 * for a result: bytes of all ones are NaN in every floating type. */
static void refuse(const char* why, void* inout, int count, ompi_datatype_t* datatype) {
  static volatile int said;
  if (0 == __atomic_exchange_n(&said, 1, __ATOMIC_RELAXED)) coll_gpuar_log(why);
  size_t size = 0;
  (void)ompi_datatype_type_size(datatype, &size);
  coll_gpuar_buffer* ones = coll_gpuar_buffer_take((size_t)count * size);
  if (NULL == ones) {
    coll_gpuar_log("gpuar: no memory to mark the results of a failed reduction as invalid");
    PMPI_Abort(MPI_COMM_WORLD, MPI_ERR_NO_MEM);
    return;
  }
  memset(ones->bytes, 0xff, (size_t)count * size);
  (void)coll_gpuar_unpack(datatype, (size_t)count, ones->bytes, inout, (size_t)count * size);
  coll_gpuar_buffer_put(ones);
  PMPI_Comm_call_errhandler(MPI_COMM_WORLD, MPI_ERR_OP);
}

/* inout = in op inout, with gaps between the elements. */
static int reduce_with_gaps(gpuar_op op, gpuar_type type, void* in, void* inout, size_t count,
                            ompi_datatype_t* datatype) {
  size_t size = 0;
  (void)ompi_datatype_type_size(datatype, &size);
  const size_t bytes = count * size;
  coll_gpuar_buffer* left = coll_gpuar_buffer_take(bytes);
  coll_gpuar_buffer* right = coll_gpuar_buffer_take(bytes);
  int status = NULL != left && NULL != right ? GPUAR_OK : GPUAR_ERR_NO_MEMORY;
  if (GPUAR_OK == status) status = coll_gpuar_pack(datatype, count, in, left->bytes, bytes);
  if (GPUAR_OK == status) status = coll_gpuar_pack(datatype, count, inout, right->bytes, bytes);
  if (GPUAR_OK == status) {
    gpuar_reduce_local(op, type, right->bytes, left->bytes, right->bytes,
                       bytes / gpuar_element_bytes(type));
    status = coll_gpuar_unpack(datatype, count, right->bytes, inout, bytes);
  }
  coll_gpuar_buffer_put(left);
  coll_gpuar_buffer_put(right);
  return status;
}

static void reduce(const coll_gpuar_own_op* own, void* in, void* inout, int count,
                   ompi_datatype_t* datatype) {
  const int element = coll_gpuar_element_of(datatype);
  if (!coll_gpuar_own_op_takes(own, element)) {
    refuse("gpuar: " COLL_GPUAR_HALF_ONLY, inout, count, datatype);
  } else if (!coll_gpuar_is_packed(datatype)) {
    const int status =
        reduce_with_gaps(own->op, (gpuar_type)element, in, inout, (size_t)count, datatype);
    if (GPUAR_OK != status) refuse("gpuar: cannot pack operands", inout, count, datatype);
  } else {
    size_t size = 0;
    (void)ompi_datatype_type_size(datatype, &size);
    gpuar_reduce_local(own->op, (gpuar_type)element, inout, in, inout,
                       (size_t)count * size / gpuar_element_bytes((gpuar_type)element));
  }
}

/* --- The operations --------------------------------------------------------------------------- */

static void sum(void* in, void* inout, int* count, MPI_Datatype* datatype);
static void min(void* in, void* inout, int* count, MPI_Datatype* datatype);
static void max(void* in, void* inout, int* count, MPI_Datatype* datatype);
static void average(void* in, void* inout, int* count, MPI_Datatype* datatype);

static const coll_gpuar_own_op own_ops[] = {
    {"gpuar_sum", sum, GPUAR_SUM, false},
    {"gpuar_min", min, GPUAR_MIN, false},
    {"gpuar_max", max, GPUAR_MAX, false},
    {"gpuar_average", average, GPUAR_SUM, true},
};
enum { own_op_count = sizeof own_ops / sizeof own_ops[0] };

static void sum(void* in, void* inout, int* count, MPI_Datatype* datatype) {
  reduce(&own_ops[0], in, inout, *count, *datatype);
}

static void min(void* in, void* inout, int* count, MPI_Datatype* datatype) {
  reduce(&own_ops[1], in, inout, *count, *datatype);
}

static void max(void* in, void* inout, int* count, MPI_Datatype* datatype) {
  reduce(&own_ops[2], in, inout, *count, *datatype);
}

static void average(void* in, void* inout, int* count, MPI_Datatype* datatype) {
  (void)in;
  refuse(
      "gpuar: GPUAR_AVERAGE in a call that gpuar does not serve: it is for MPI_Allreduce, "
      "MPI_Iallreduce and persistent allreduce, on intracommunicators that gpuar does not decline "
      "(a line above says why it declined one); divide a sum there",
      inout, *count, *datatype);
}

const coll_gpuar_own_op* coll_gpuar_own_op_find(const ompi_op_t* op) {
  if (ompi_op_is_intrinsic((ompi_op_t*)(uintptr_t)op)) return NULL;
  for (int i = 0; i < own_op_count; ++i) {
    coll_gpuar_function* const function = (coll_gpuar_function*)own_ops[i].function;
    if (coll_gpuar_function_of(op) == function) return &own_ops[i];
  }
  return NULL;
}

void coll_gpuar_own_ops_publish(void) {
  for (int i = 0; i < own_op_count; ++i) {
    char text[32];
    snprintf(text, sizeof text, "0x%" PRIxPTR, (uintptr_t)own_ops[i].function);
    (void)opal_info_set(&ompi_mpi_info_env.info.super, own_ops[i].key, text);
  }
}
