/* What gpuar's own tools ask the component in the process in which they run. It publishes the
 * address of this table, in hexadecimal, in MPI_INFO_ENV under GPUAR_TOOLS_KEY. */
#ifndef GPUAR_TOOLS_H
#define GPUAR_TOOLS_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GPUAR_TOOLS_KEY "gpuar_tools_2" /* the number rises with every change of the table */

/* What gpuar chooses for a call. */
typedef struct gpuar_answer {
  char algorithm[64];     /* as coll_gpuar_algorithm takes it */
  uint64_t segment_bytes; /* whole call if larger */
  int32_t nodes;          /* on which the communicator sits */
  int32_t for_device;     /* 1: planned for device memory */
  int32_t from_file;      /* 1: the tuning file has an entry for it, served or not */
  char why[768];          /* one line for people */
} gpuar_answer;

typedef struct gpuar_tools {
  const char* algorithms; /* names that coll_gpuar_algorithm takes, separated by ", " */
  const char* compositions;
  const char* tuning_file; /* the one in use; "" if none */
  const char* pml;         /* the component that carries MPI's point-to-point messages */
  /* For `count` elements of a predefined type and operation; `comm` is an MPI_Comm. Returns 0, or
   * another value if gpuar does not serve this communicator. */
  int (*ask)(void* comm, size_t count, size_t element_bytes, gpuar_answer* answer);
  /* As JSON, valid until the next call of either: this process, its place, devices and UCX; and by
   * which transports it reaches each rank of a communicator, "" where no message has gone yet. NULL
   * if gpuar does not serve the communicator. */
  const char* (*about)(void);
  const char* (*peers)(void* comm);
} gpuar_tools;

#ifdef __cplusplus
}
#endif

#endif
