/* The C face of the C++ core: all that the Open MPI component sees of it.
 *
 * One core per process. Functions return GPUAR_OK or a negative code; none throws, none prints
 * except through gpuar_params.log. Unless said otherwise they may be called from any thread.
 * None of them calls back into MPI except through the callbacks given here. */
#ifndef GPUAR_CORE_H
#define GPUAR_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda_reduce/types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  GPUAR_OK = 0,
  GPUAR_ERR = -1, /* anything else; the message has been logged */
  GPUAR_ERR_NO_MEMORY = -2,
  GPUAR_ERR_UNREACHABLE = -3, /* a peer is gone or cannot be contacted */
  GPUAR_ERR_TRUNCATED = -4,   /* ranks disagree on the length of the message */
  GPUAR_ERR_DECLINED = -5     /* this communicator is not ours */
};

typedef struct gpuar_core gpuar_core;
typedef struct gpuar_comm gpuar_comm;
typedef struct gpuar_call gpuar_call; /* one nonblocking call, or a persistent request */

/* Everything a user can set. Those marked * shape the wire: they are hashed into the published
 * record and must agree between ranks. */
typedef struct gpuar_params {
  int priority;          /* * among Open MPI's components; the core only publishes it */
  const char* algorithm; /* * "auto" or a name */
  size_t segment_size;   /* * bytes per segment; 0: chosen by the cost model */
  int pipeline_depth;    /* * segments in flight; 0: chosen */
  size_t eager_limit;    /*   bytes up to which a message is sent without rendezvous;
                              0: the transport's measured default */
  bool reproducible;     /* * one association by rank alone */
  bool progress_thread;
  const char* test_node_size; /* * "" or "2" or "1,3": pretend nodes, for tests */
  int spin;                   /*   polls of our own worker before a blocking call turns to wait() */
  int verbose;
  bool thread_multiple;          /*   MPI_THREAD_MULTIPLE: lock */
  bool yield;                    /*   more ranks than cores: never spin */
  const char* test_fault;        /*   "" or the name of a deliberate defect, for tests */
  void (*log)(const char* line); /* one complete line, no newline */
} gpuar_params;

typedef struct gpuar_counters {
  uint64_t blocking; /* calls served, by form */
  uint64_t nonblocking;
  uint64_t persistent;    /* starts */
  uint64_t fallbacks;     /* communicators that gpuar should have served and declined */
  uint64_t declined_size; /* communicators of one process and intercommunicators: not ours */
  uint64_t bytes_sent;    /* handed to UCX, payload only */
  uint64_t messages_sent;
} gpuar_counters;

/* The counters of this process; valid before open and after close. */
gpuar_counters* gpuar_get_counters(void);

/* Checks the parameters (an unknown algorithm name lists the valid ones) and brings UCX up. On
 * failure no core is made, `why` says why, and gpuar_refusal still gives a record to publish, so
 * that the other ranks learn of it. Params are copied. */
int gpuar_core_open(const gpuar_params* params, gpuar_core** core, char* why, size_t why_bytes);

/* thread_multiple and yield are only known later than open. */
void gpuar_core_set_threads(gpuar_core* core, bool thread_multiple, bool yield);

/* Ends all traffic; destroys UCX, only in the process that opened it. Before it, gpuar_core_flush
 * has run and all ranks have met in MPI_Finalize. Safe on NULL. */
void gpuar_core_flush(gpuar_core* core);
void gpuar_core_close(gpuar_core* core);

/* What this process publishes before MPI's own exchange: the record (who am I, can I, how am I
 * set up) and, under a second key, the UCX address. Valid until close. */
enum { GPUAR_RECORD_MAX = 512 };
size_t gpuar_core_record(const gpuar_core* core, const void** bytes);
size_t gpuar_core_address(const gpuar_core* core, const void** bytes);
/* A record that says "no" and why, for a process whose core did not come up. Returns its size. */
size_t gpuar_refusal(const gpuar_params* params, const char* why, uint8_t out[GPUAR_RECORD_MAX]);

/* How the core looks up what a process published. `process` is the component's 64-bit name of a
 * process, the same for that process in every communicator. Returns the size, 0 if that process
 * published nothing, and copies at most `capacity` bytes (asks again with more if it was short).
 * Called at most once per process and key. */
typedef struct gpuar_directory {
  size_t (*record)(void* context, uint64_t process, void* out, size_t capacity);
  size_t (*address)(void* context, uint64_t process, void* out, size_t capacity);
  /* The host of a process that published nothing, if Open MPI knows it; ends in a zero byte. */
  void (*host)(void* context, uint64_t process, char* out, size_t capacity);
  void* context;
} gpuar_directory;

typedef struct gpuar_comm_desc {
  uint64_t id_high, id_low; /* the context id, equal on all members */
  int32_t rank, size;
  const uint64_t* processes; /* size names, by rank */
  const char* name;
  const gpuar_directory* directory;
} gpuar_comm_desc;

/* Decides, from the published records of the members alone, whether gpuar serves this
 * communicator: every member computes the same answer. GPUAR_ERR_DECLINED with a sentence naming
 * rank, host and the differing item in `why` if not. No communication. */
int gpuar_comm_create(gpuar_core* core, const gpuar_comm_desc* desc, gpuar_comm** comm, char* why,
                      size_t why_bytes);

/* Safe on NULL and while calls are active: those keep it alive. */
void gpuar_comm_release(gpuar_comm* comm);

/* Reduces through the component (user-defined operations, types of unusual layout):
 * out = left ∘ right for `count` elements; out may be left or right. Returns GPUAR_OK or less. */
typedef int (*gpuar_custom_reduce)(void* context, void* out, const void* left, const void* right,
                                   size_t count);

/* One call. Elements are contiguous, `element_bytes` each (the component packs other layouts).
 * in == out means in place. Either `custom` is NULL and op and type say what to do, or `custom`
 * does it. */
typedef struct gpuar_args {
  const void* in;
  void* out;
  size_t count;
  size_t element_bytes;
  gpuar_op op;
  gpuar_type type;
  gpuar_custom_reduce custom;
  void* custom_context;
  bool commutative;
} gpuar_args;

/* True if op and type are reduced by gpuar's own functors; else give `custom`. */
bool gpuar_can_reduce(gpuar_op op, gpuar_type type);

/* Blocking. Polls a bounded number of times, then calls wait() again and again until done
 * (wait is opal_progress, which in turn calls gpuar_progress). */
int gpuar_allreduce(gpuar_comm* comm, const gpuar_args* args, void (*wait)(void));

/* Nonblocking: returns at once. `done(user, status)` is called exactly once, from
 * gpuar_progress, never from within this function and with no lock held; the call is gone after
 * it. */
typedef void (*gpuar_done)(void* user, int status);
int gpuar_iallreduce(gpuar_comm* comm, const gpuar_args* args, gpuar_done done, void* user);

/* Persistent: bound once, started often; `done` once per start. Free only while inactive. */
int gpuar_allreduce_init(gpuar_comm* comm, const gpuar_args* args, gpuar_done done, void* user,
                         gpuar_call** call);
int gpuar_call_start(gpuar_call* call);
void gpuar_call_free(gpuar_call* call);

/* Moves everything on, without waiting; returns the number of events. If another thread is at it,
 * returns 0 at once. */
int gpuar_progress(gpuar_core* core);

/* True while any call is under way in this process: one load. */
bool gpuar_active(const gpuar_core* core);

#ifdef __cplusplus
}
#endif

#endif
