/* Counts the calls of malloc and its kin in the whole process, those of UCX's libraries
 * and of Open MPI's point-to-point components apart. The
 * program defines these functions itself, before any library: nothing needs to be preloaded. */
#ifndef GPUAR_TEST_MPI_COUNT_ALLOCATIONS_H
#define GPUAR_TEST_MPI_COUNT_ALLOCATIONS_H

#ifdef __cplusplus
extern "C" {
#endif

/* Counts from zero, for the calling thread and all others. */
void start_counting_allocations(void);

/* Stops counting, and returns how many there were outside those. */
unsigned long stop_counting_allocations(void);

/* How many calls those made meanwhile. */
unsigned long allocations_of_others(void);

/* Where the first of them came from: frames as `object(function+offset)`, into standard error. */
void print_first_allocation(void);

#ifdef __cplusplus
}
#endif

#endif
