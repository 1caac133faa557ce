/* From MPI's arguments to the core's. The core sees contiguous elements only: what gpuar reduces
 * itself lies so in the user's memory; everything else travels packed where its layout has gaps,
 * and is reduced by Open MPI's own call of the operation. */
#include <stdio.h>
#include <string.h>

#include "coll_gpuar/component/coll_gpuar.h"
#include "opal/datatype/opal_convertor.h"

/* Operands of an operation are laid out, or copied, this many bytes at a time. */
enum { piece_bytes = 64 * 1024 };

/* --- Layout ----------------------------------------------------------------------------------- */

/* Where elements lie from a base address on: one begins every `stride` bytes and stays within
 * `low` to `high` of its own beginning. Operations may write all of [lb, ub) and of the data. */
typedef struct layout {
  ptrdiff_t low;
  ptrdiff_t high;
  ptrdiff_t stride;
} layout;

static layout layout_of(const ompi_datatype_t* datatype) {
  ptrdiff_t lb = 0;
  ptrdiff_t extent = 0;
  ptrdiff_t true_lb = 0;
  ptrdiff_t true_extent = 0;
  (void)ompi_datatype_get_extent(datatype, &lb, &extent);
  (void)ompi_datatype_get_true_extent(datatype, &true_lb, &true_extent);
  layout of = {.low = 0, .high = true_lb + true_extent, .stride = extent};
  if (lb < of.low) of.low = lb;
  if (true_lb < of.low) of.low = true_lb;
  if (lb + extent > of.high) of.high = lb + extent;
  return of;
}

/* True if an array of such elements is their bytes, in order and nothing else. */
static bool is_packed(const ompi_datatype_t* datatype) {
  ptrdiff_t lb = 0;
  ptrdiff_t extent = 0;
  ptrdiff_t true_lb = 0;
  ptrdiff_t true_extent = 0;
  size_t size = 0;
  (void)ompi_datatype_get_extent(datatype, &lb, &extent);
  (void)ompi_datatype_get_true_extent(datatype, &true_lb, &true_extent);
  (void)ompi_datatype_type_size(datatype, &size);
  return 0 == lb && 0 == true_lb && extent == (ptrdiff_t)size && true_extent == extent &&
         ompi_datatype_is_contiguous_memory_layout(datatype, 2);
}

static int fail(int status, const char* what, size_t bytes, const ompi_datatype_t* datatype) {
  char line[COLL_GPUAR_WHY_BYTES];
  snprintf(line, sizeof line,
           "gpuar: allreduce on rank %d of MPI_COMM_WORLD: %s %zu bytes of datatype %s",
           coll_gpuar.world_rank, what, bytes, datatype->name);
  coll_gpuar_log(line);
  return status;
}

static int pack(const ompi_datatype_t* datatype, size_t count, const void* from, void* to,
                size_t bytes) {
  opal_convertor_t convertor;
  OBJ_CONSTRUCT(&convertor, opal_convertor_t);
  opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &datatype->super, count, from,
                                           0, &convertor);
  struct iovec piece = {.iov_base = to, .iov_len = bytes};
  uint32_t pieces = 1;
  size_t packed = bytes;
  const int32_t rc = opal_convertor_pack(&convertor, &piece, &pieces, &packed);
  OBJ_DESTRUCT(&convertor);
  if (rc >= 0 && packed == bytes) return GPUAR_OK;
  return fail(GPUAR_ERR, "cannot pack", bytes, datatype);
}

static int unpack(const ompi_datatype_t* datatype, size_t count, const void* from, void* to,
                  size_t bytes) {
  opal_convertor_t convertor;
  OBJ_CONSTRUCT(&convertor, opal_convertor_t);
  opal_convertor_copy_and_prepare_for_recv(ompi_mpi_local_convertor, &datatype->super, count, to, 0,
                                           &convertor);
  struct iovec piece = {.iov_base = (void*)(uintptr_t)from, .iov_len = bytes};
  uint32_t pieces = 1;
  size_t unpacked = bytes;
  const int32_t rc = opal_convertor_unpack(&convertor, &piece, &pieces, &unpacked);
  OBJ_DESTRUCT(&convertor);
  if (rc >= 0 && unpacked == bytes) return GPUAR_OK;
  return fail(GPUAR_ERR, "cannot unpack", bytes, datatype);
}

/* --- Reduction through Open MPI --------------------------------------------------------------- */

/* The operation is inout = in op inout. */
static void operate(const coll_gpuar_binding* binding, const void* in, void* inout, size_t count) {
  ompi_op_reduce(binding->op, (void*)(uintptr_t)in, inout, count, binding->datatype);
}

/* Elements that lie as the core holds them. */
static int reduce_packed(const coll_gpuar_binding* binding, unsigned char* out,
                         const unsigned char* left, const unsigned char* right, size_t count) {
  const size_t element = binding->args.element_bytes;
  if (out != left) {
    if (out != right) memcpy(out, right, count * element);
    operate(binding, left, out, count);
    return GPUAR_OK;
  }
  const size_t piece = element < piece_bytes ? piece_bytes / element : 1;
  coll_gpuar_buffer* copy = coll_gpuar_buffer_take(piece * element);
  if (NULL == copy) return GPUAR_ERR_NO_MEMORY;
  for (size_t done = 0; done < count; done += piece) {
    const size_t now = count - done < piece ? count - done : piece;
    memcpy(copy->bytes, right + done * element, now * element);
    operate(binding, left + done * element, copy->bytes, now);
    memcpy(out + done * element, copy->bytes, now * element);
  }
  coll_gpuar_buffer_put(copy);
  return GPUAR_OK;
}

/* One piece: both operands are laid out as the user's operation expects them. */
static int reduce_piece(const coll_gpuar_binding* binding, unsigned char* out,
                        const unsigned char* left, const unsigned char* right, size_t count,
                        unsigned char* left_base, unsigned char* right_base) {
  const size_t bytes = count * binding->args.element_bytes;
  int status = unpack(binding->datatype, count, left, left_base, bytes);
  if (GPUAR_OK == status) status = unpack(binding->datatype, count, right, right_base, bytes);
  if (GPUAR_OK != status) return status;
  operate(binding, left_base, right_base, count);
  return pack(binding->datatype, count, right_base, out, bytes);
}

static int reduce_laid_out(const coll_gpuar_binding* binding, unsigned char* out,
                           const unsigned char* left, const unsigned char* right, size_t count) {
  const layout of = layout_of(binding->datatype);
  const size_t span = (size_t)(of.high - of.low);
  const bool disjoint = of.stride >= (ptrdiff_t)span && of.stride < piece_bytes;
  const size_t piece = disjoint ? (size_t)(piece_bytes / of.stride) : 1;
  const size_t room = span + (piece - 1) * (disjoint ? (size_t)of.stride : 0);
  const size_t element = binding->args.element_bytes;

  coll_gpuar_buffer* left_room = coll_gpuar_buffer_take(room);
  coll_gpuar_buffer* right_room = coll_gpuar_buffer_take(room);
  int status = NULL != left_room && NULL != right_room ? GPUAR_OK : GPUAR_ERR_NO_MEMORY;
  for (size_t done = 0; GPUAR_OK == status && done < count; done += piece) {
    const size_t now = count - done < piece ? count - done : piece;
    status =
        reduce_piece(binding, out + done * element, left + done * element, right + done * element,
                     now, left_room->bytes - of.low, right_room->bytes - of.low);
  }
  coll_gpuar_buffer_put(left_room);
  coll_gpuar_buffer_put(right_room);
  return status;
}

static int reduce(void* context, void* out, const void* left, const void* right, size_t count) {
  const coll_gpuar_binding* binding = context;
  return NULL == binding->packed ? reduce_packed(binding, out, left, right, count)
                                 : reduce_laid_out(binding, out, left, right, count);
}

/* --- Binding ---------------------------------------------------------------------------------- */

bool coll_gpuar_is_empty(size_t count, const ompi_datatype_t* datatype) {
  size_t size = 0;
  (void)ompi_datatype_type_size(datatype, &size);
  return 0 == count || 0 == size;
}

static void retain(coll_gpuar_binding* binding) {
  if (!ompi_op_is_intrinsic(binding->op)) OBJ_RETAIN(binding->op);
  if (!ompi_datatype_is_predefined(binding->datatype)) OBJ_RETAIN(binding->datatype);
}

/* Bytes between elements of a predefined type in an array: its extent, padding included. */
static size_t bytes_in_array(const ompi_datatype_t* datatype) {
  ptrdiff_t lb = 0;
  ptrdiff_t extent = 0;
  (void)ompi_datatype_get_extent(datatype, &lb, &extent);
  return (size_t)extent;
}

int coll_gpuar_bind(coll_gpuar_binding* binding, const void* send, void* receive, size_t count,
                    ompi_datatype_t* datatype, ompi_op_t* op) {
  binding->op = op;
  binding->datatype = datatype;
  binding->count = count;
  binding->send = MPI_IN_PLACE == send ? receive : send;
  binding->receive = receive;
  binding->packed = NULL;

  gpuar_args* args = &binding->args;
  *args = (gpuar_args){.in = binding->send, .out = receive, .count = count, .commutative = true};
  if (coll_gpuar_types_find(op, datatype, &args->op, &args->type)) {
    args->element_bytes = bytes_in_array(datatype);
    return GPUAR_OK;
  }
  (void)ompi_datatype_type_size(datatype, &args->element_bytes);
  args->custom = reduce;
  args->custom_context = binding;
  args->commutative = ompi_op_is_commute(op);
  if (!is_packed(datatype)) {
    const size_t bytes = count * args->element_bytes;
    binding->packed = coll_gpuar_buffer_take(bytes);
    if (NULL == binding->packed) {
      return fail(GPUAR_ERR_NO_MEMORY, "no memory to pack", bytes, datatype);
    }
    args->in = binding->packed->bytes;
    args->out = binding->packed->bytes;
  }
  retain(binding);
  return GPUAR_OK;
}

void coll_gpuar_binding_release(coll_gpuar_binding* binding) {
  coll_gpuar_buffer_put(binding->packed);
  binding->packed = NULL;
  if (NULL == binding->args.custom) return;
  if (!ompi_op_is_intrinsic(binding->op)) OBJ_RELEASE(binding->op);
  if (!ompi_datatype_is_predefined(binding->datatype)) OBJ_RELEASE(binding->datatype);
}

int coll_gpuar_binding_load(coll_gpuar_binding* binding) {
  if (NULL == binding->packed) return GPUAR_OK;
  return pack(binding->datatype, binding->count, binding->send, binding->packed->bytes,
              binding->count * binding->args.element_bytes);
}

int coll_gpuar_binding_store(coll_gpuar_binding* binding) {
  if (NULL == binding->packed) return GPUAR_OK;
  return unpack(binding->datatype, binding->count, binding->packed->bytes, binding->receive,
                binding->count * binding->args.element_bytes);
}
