/* The report of the job, gathered with MPI's own calls: in MPI_Finalize, before anything is taken
 * down, they still work. And the trace, which each process writes by itself. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coll_gpuar/component/coll_gpuar.h"

/* Where each part begins; returns the bytes of all. */
static int lay_out(const int* sizes, int* offsets, int count) {
  int bytes = 0;
  for (int i = 0; i < count; ++i) {
    offsets[i] = bytes;
    bytes += sizes[i];
  }
  return bytes;
}

static void gather(const void* part, int size, int ranks, bool writes) {
  int* sizes = writes ? calloc(2 * (size_t)ranks, sizeof *sizes) : NULL;
  writes = NULL != sizes;
  int* offsets = writes ? sizes + ranks : NULL;
  const int rc = PMPI_Gather(&size, 1, MPI_INT, sizes, 1, MPI_INT, 0, MPI_COMM_WORLD);
  const int bytes = writes && MPI_SUCCESS == rc ? lay_out(sizes, offsets, ranks) : 0;
  unsigned char* parts = writes ? malloc((size_t)bytes + 1) : NULL;
  if (MPI_SUCCESS == rc && MPI_SUCCESS == PMPI_Gatherv(part, size, MPI_BYTE, parts, sizes, offsets,
                                                       MPI_BYTE, 0, MPI_COMM_WORLD)) {
    if (writes) gpuar_report_write(coll_gpuar.core, parts, sizes, ranks);
  }
  free(parts);
  free(sizes);
}

/* A part tells whether a report is kept, and where gpuar serves MPI_COMM_WORLD, its processes agree
 * on that: they all gather, or none does. */
void coll_gpuar_report(void) {
  const void* part = NULL;
  const size_t size = gpuar_report_part(coll_gpuar.core, &part);
  if (0 == size) return;
  if (!coll_gpuar.serves_world) {
    coll_gpuar_log("gpuar: no report (coll_gpuar_report): gpuar does not serve MPI_COMM_WORLD");
    return;
  }
  gather(part, (int)size, ompi_comm_size(MPI_COMM_WORLD), 0 == ompi_comm_rank(MPI_COMM_WORLD));
}

/* Processes that MPI_Comm_spawn started have ranks of their own, and files of their own. */
void coll_gpuar_trace(void) {
  MPI_Comm parent = MPI_COMM_NULL;
  (void)PMPI_Comm_get_parent(&parent);
  char who[64];
  if (MPI_COMM_NULL == parent) {
    snprintf(who, sizeof who, "%d", coll_gpuar.world_rank);
  } else {
    snprintf(who, sizeof who, "spawned-%" PRIx32 ".%d", (uint32_t)OPAL_PROC_MY_NAME.jobid,
             coll_gpuar.world_rank);
  }
  uint64_t process = 0;
  memcpy(&process, &OPAL_PROC_MY_NAME, sizeof process);
  gpuar_trace_write(coll_gpuar.core, process, coll_gpuar.world_rank, who);
}
