/* Elements with gaps between them in device memory: Open MPI's convertor can only read and write
 * host memory, so it is asked where the pieces lie, and each is copied by itself. The gaps are the
 * program's: they are neither read nor written. */
#include "coll_gpuar/component/coll_gpuar.h"
#include "opal/datatype/opal_convertor.h"

enum { pieces_at_once = 64 };

typedef int (*copy_piece)(void* user, unsigned char* packed, size_t bytes);

static int copy_down(void* user, unsigned char* packed, size_t bytes) {
  return gpuar_copy(coll_gpuar.core, packed, user, bytes);
}

static int copy_up(void* user, unsigned char* packed, size_t bytes) {
  return gpuar_copy(coll_gpuar.core, user, packed, bytes);
}

/* Pieces that follow each other without a gap are one. */
static int walk(opal_convertor_t* convertor, unsigned char* packed, copy_piece copy) {
  unsigned char* at = NULL;
  size_t bytes = 0;
  int last = 0;
  while (!last) {
    struct iovec pieces[pieces_at_once];
    uint32_t count = pieces_at_once;
    size_t described = 0;
    last = opal_convertor_raw(convertor, pieces, &count, &described);
    if (last < 0 || (0 == count && !last)) return GPUAR_ERR;
    for (uint32_t i = 0; i < count; ++i) {
      if (NULL != at && at + bytes == (unsigned char*)pieces[i].iov_base) {
        bytes += pieces[i].iov_len;
        continue;
      }
      if (bytes > 0) {
        const int status = copy(at, packed, bytes);
        if (GPUAR_OK != status) return status;
        packed += bytes;
      }
      at = pieces[i].iov_base;
      bytes = pieces[i].iov_len;
    }
  }
  return bytes > 0 ? copy(at, packed, bytes) : GPUAR_OK;
}

static int move(const ompi_datatype_t* datatype, size_t count, const void* user, void* packed,
                copy_piece copy) {
  opal_convertor_t convertor;
  OBJ_CONSTRUCT(&convertor, opal_convertor_t);
  opal_convertor_copy_and_prepare_for_send(ompi_mpi_local_convertor, &datatype->super, count, user,
                                           0, &convertor);
  const int status = walk(&convertor, packed, copy);
  OBJ_DESTRUCT(&convertor);
  return status;
}

int coll_gpuar_device_pack(const ompi_datatype_t* datatype, size_t count, const void* from,
                           void* to) {
  return move(datatype, count, from, to, copy_down);
}

int coll_gpuar_device_unpack(const ompi_datatype_t* datatype, size_t count, const void* from,
                             void* to) {
  return move(datatype, count, to, (void*)(uintptr_t)from, copy_up);
}
