/* Who calls coll_iallreduce: the program, or Open MPI itself.
 *
 * MPI_Comm_idup, and every other function that makes a communicator, lets the parent agree on a
 * context id by coll_iallreduce (ompi/communicator/comm_cid.c), from progress callbacks and so, of
 * MPI_Comm_idup, at another place among the program's calls on each rank. Nothing in the arguments
 * tells them apart, but their return address does: it lies in the library that holds comm_cid.c,
 * and not in the MPI function. All else is the program's: an MPI function that is in a library of
 * its own (Open MPI 6.0), or one that would end in a jump to coll_iallreduce. */
#define _GNU_SOURCE /* dladdr */
#include <dlfcn.h>
#include <string.h>

#include "coll_gpuar/component/coll_gpuar.h"

static gpuar_stream look_up(const void* return_address) {
  Dl_info caller;
  Dl_info ids;
  if (0 == dladdr(return_address, &caller)) return GPUAR_STREAM_PROGRAM;
  if (0 == dladdr((const void*)(uintptr_t)ompi_comm_nextcid, &ids)) return GPUAR_STREAM_PROGRAM;
  if (caller.dli_fbase != ids.dli_fbase) return GPUAR_STREAM_PROGRAM;
  /* PMPI_Iallreduce, its alias, or a variant of it: bindings for other languages call that. */
  const bool in_mpi_function =
      NULL != caller.dli_sname && NULL != strstr(caller.dli_sname, "MPI_Iallreduce");
  return in_mpi_function ? GPUAR_STREAM_PROGRAM : GPUAR_STREAM_INTERNAL;
}

/* There is one such place of each, or very few: the last ones are remembered, for a look-up walks a
 * table of symbols. */
gpuar_stream coll_gpuar_stream_of(const void* return_address) {
  static const void* last[2];
  for (int stream = GPUAR_STREAM_PROGRAM; stream <= GPUAR_STREAM_INTERNAL; ++stream) {
    if (return_address == __atomic_load_n(&last[stream], __ATOMIC_RELAXED)) {
      return (gpuar_stream)stream;
    }
  }
  const gpuar_stream stream = look_up(return_address);
  __atomic_store_n(&last[stream], return_address, __ATOMIC_RELAXED);
  return stream;
}
