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

bool coll_gpuar_is_packed(const ompi_datatype_t* datatype) {
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

/* The other ranks may count on this one's part: they are told that it does not come. */
static int give_up(const coll_gpuar_binding* binding, int status) {
  gpuar_abandon(binding->comm, status, "its part of the data cannot be packed");
  return status;
}

static int fail(int status, const char* what, size_t bytes, const ompi_datatype_t* datatype) {
  char line[COLL_GPUAR_WHY_BYTES];
  snprintf(line, sizeof line,
           "gpuar: allreduce on rank %d of MPI_COMM_WORLD: %s %zu bytes of datatype %s",
           coll_gpuar.world_rank, what, bytes, datatype->name);
  coll_gpuar_log(line);
  return status;
}

static int refuse_type(const ompi_datatype_t* datatype, const char* what_is_taken) {
  char line[COLL_GPUAR_WHY_BYTES];
  snprintf(line, sizeof line,
           "gpuar: allreduce on rank %d of MPI_COMM_WORLD: %s does not fit the operation: %s",
           coll_gpuar.world_rank,
           '\0' != datatype->name[0] ? datatype->name : "a datatype without a name", what_is_taken);
  coll_gpuar_log(line);
  return GPUAR_ERR_UNDEFINED;
}

int coll_gpuar_pack(const ompi_datatype_t* datatype, size_t count, const void* from, void* to,
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

int coll_gpuar_unpack(const ompi_datatype_t* datatype, size_t count, const void* from, void* to,
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
  int status = coll_gpuar_unpack(binding->datatype, count, left, left_base, bytes);
  if (GPUAR_OK == status)
    status = coll_gpuar_unpack(binding->datatype, count, right, right_base, bytes);
  if (GPUAR_OK != status) return status;
  operate(binding, left_base, right_base, count);
  return coll_gpuar_pack(binding->datatype, count, right_base, out, bytes);
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
  binding->retained = true;
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

/* Packed elements for the core, where the user's layout has gaps. */
static int take_packed(coll_gpuar_binding* binding) {
  if (coll_gpuar_is_packed(binding->datatype)) return GPUAR_OK;
  gpuar_args* args = &binding->args;
  const size_t bytes = args->count * args->element_bytes;
  binding->packed = coll_gpuar_buffer_take(bytes);
  if (NULL == binding->packed) {
    return give_up(binding,
                   fail(GPUAR_ERR_NO_MEMORY, "no memory to pack", bytes, binding->datatype));
  }
  args->in = binding->packed->bytes;
  args->out = binding->packed->bytes;
  return GPUAR_OK;
}

/* Open MPI's own call of the operation reduces. */
static int bind_custom(coll_gpuar_binding* binding) {
  gpuar_args* args = &binding->args;
  (void)ompi_datatype_type_size(binding->datatype, &args->element_bytes);
  args->custom = reduce;
  args->custom_context = binding;
  args->commutative = ompi_op_is_commute(binding->op);
  return take_packed(binding);
}

/* An operation of gpuar.h: gpuar's own functors reduce what the datatype is made of. */
static int bind_own(coll_gpuar_binding* binding, const coll_gpuar_own_op* own, int ranks) {
  const int element = coll_gpuar_element_of(binding->datatype);
  if (COLL_GPUAR_NO_ROOM == element) {
    return give_up(binding,
                   fail(GPUAR_ERR_NO_MEMORY, "no memory to look into", 0, binding->datatype));
  }
  if (!coll_gpuar_own_op_takes(own, element)) {
    return refuse_type(binding->datatype,
                       own->average ? COLL_GPUAR_FLOATING_ONLY : COLL_GPUAR_HALF_ONLY);
  }
  size_t size = 0;
  (void)ompi_datatype_type_size(binding->datatype, &size);
  gpuar_args* args = &binding->args;
  args->op = own->op;
  args->type = (gpuar_type)element;
  args->element_bytes = gpuar_element_bytes(args->type);
  args->count = binding->count * (size / args->element_bytes);
  args->divide_by = own->average ? ranks : 0;
  return take_packed(binding);
}

int coll_gpuar_bind(coll_gpuar_binding* binding, gpuar_comm* comm, const void* send, void* receive,
                    size_t count, ompi_datatype_t* datatype, ompi_op_t* op, int ranks) {
  binding->comm = comm;
  binding->op = op;
  binding->datatype = datatype;
  binding->count = count;
  binding->send = MPI_IN_PLACE == send ? receive : send;
  binding->receive = receive;
  binding->packed = NULL;
  binding->retained = false;

  gpuar_args* args = &binding->args;
  *args = (gpuar_args){.in = binding->send, .out = receive, .count = count, .commutative = true};
  if (coll_gpuar_types_find(op, datatype, &args->op, &args->type)) {
    args->element_bytes = bytes_in_array(datatype);
    return GPUAR_OK;
  }
  const coll_gpuar_own_op* own = coll_gpuar_own_op_find(op);
  const int status = NULL != own ? bind_own(binding, own, ranks) : bind_custom(binding);
  if (GPUAR_OK == status) retain(binding);
  return status;
}

void coll_gpuar_binding_release(coll_gpuar_binding* binding) {
  coll_gpuar_buffer_put(binding->packed);
  binding->packed = NULL;
  if (!binding->retained) return;
  if (!ompi_op_is_intrinsic(binding->op)) OBJ_RELEASE(binding->op);
  if (!ompi_datatype_is_predefined(binding->datatype)) OBJ_RELEASE(binding->datatype);
}

/* An address inside the buffer: the one that MPI was given need not be, if the true lower bound is
 * not zero. */
static const void* first_byte(const coll_gpuar_binding* binding, const void* buffer) {
  ptrdiff_t true_lb = 0;
  ptrdiff_t true_extent = 0;
  (void)ompi_datatype_get_true_extent(binding->datatype, &true_lb, &true_extent);
  return (const unsigned char*)buffer + true_lb;
}

static int load(coll_gpuar_binding* binding) {
  const size_t bytes = binding->args.count * binding->args.element_bytes;
  if (!gpuar_on_device(coll_gpuar.core, first_byte(binding, binding->send))) {
    return coll_gpuar_pack(binding->datatype, binding->count, binding->send, binding->packed->bytes,
                           bytes);
  }
  const int status = coll_gpuar_device_pack(binding->datatype, binding->count, binding->send,
                                            binding->packed->bytes);
  return GPUAR_OK == status ? status
                            : fail(status, "cannot copy from the device", bytes, binding->datatype);
}

static int wait_for_queued_work(const coll_gpuar_binding* binding) {
  const int status =
      gpuar_wait_for_queued_work(coll_gpuar.core, first_byte(binding, binding->send));
  if (GPUAR_OK != status || binding->send == binding->receive) return status;
  return gpuar_wait_for_queued_work(coll_gpuar.core, first_byte(binding, binding->receive));
}

int coll_gpuar_binding_load(coll_gpuar_binding* binding) {
  if (NULL == binding->packed) return GPUAR_OK;
  int status = wait_for_queued_work(binding);
  if (GPUAR_OK == status) status = load(binding);
  return GPUAR_OK == status ? status : give_up(binding, status);
}

int coll_gpuar_binding_store(coll_gpuar_binding* binding) {
  if (NULL == binding->packed) return GPUAR_OK;
  const size_t bytes = binding->args.count * binding->args.element_bytes;
  if (!gpuar_on_device(coll_gpuar.core, first_byte(binding, binding->receive))) {
    return coll_gpuar_unpack(binding->datatype, binding->count, binding->packed->bytes,
                             binding->receive, bytes);
  }
  const int status = coll_gpuar_device_unpack(binding->datatype, binding->count,
                                              binding->packed->bytes, binding->receive);
  return GPUAR_OK == status ? status
                            : fail(status, "cannot copy to the device", bytes, binding->datatype);
}
