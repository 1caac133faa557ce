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

#include "coll_gpuar/tools.h"
#include "cuda_reduce/types.h"

#ifdef __cplusplus
extern "C" {
#endif

enum {
  GPUAR_OK = 0,
  GPUAR_ERR = -1, /* anything else; the message has been logged */
  GPUAR_ERR_NO_MEMORY = -2,
  GPUAR_ERR_UNREACHABLE = -3,    /* a peer is silent or cannot be contacted */
  GPUAR_ERR_TRUNCATED = -4,      /* ranks disagree on the length of the message */
  GPUAR_ERR_DECLINED = -5,       /* this communicator is not ours */
  GPUAR_ERR_UNDEFINED = -6,      /* the operation is not defined on this type */
  GPUAR_ERR_PROCESS_FAILED = -7, /* a member has ended or is lost, */
  GPUAR_ERR_REVOKED = -8         /* or the program has revoked the communicator */
};

typedef struct gpuar_core gpuar_core;
typedef struct gpuar_comm gpuar_comm;
typedef struct gpuar_call gpuar_call; /* one nonblocking call, or a persistent request */

/* Everything a user can set. Those marked * shape the wire: they are hashed into the published
 * record and must agree between ranks. Those marked + may change at any time, and are read at each
 * call. */
/* Bytes up to which a call on device memory goes through the host, where nothing else is said or
 * measured. */
#define GPUAR_DEVICE_LIMIT ((size_t)64 << 10)

typedef struct gpuar_params {
  int priority;          /* * among Open MPI's components; the core only publishes it */
  const char* algorithm; /* * "auto" or a name */
  size_t segment_size;   /* * bytes per segment; 0: chosen by the cost model */
  int pipeline_depth;    /* * segments in flight; 0: chosen */
  size_t eager_limit;    /*   bytes up to which a message is sent without rendezvous;
                              0: the transport's measured default */
  size_t mailbox_size;   /*   bytes up to which it goes through a mailbox within a machine */
  bool reproducible;     /* * one association by rank alone */
  const char* expect;    /* * "auto", "ask", "host" or "device": what plans are made for */
  bool progress_thread;
  size_t device_limit;     /* + GPUAR_DEVICE_LIMIT, or bytes up to which a message on a device goes
                              through host memory */
  size_t pool_size;        /*   idle scratch kept per device, and pinned memory in all, in bytes */
  bool sync_device;        /* + wait for work queued on the buffer's device before a call */
  const char* tuning_file; /* * "" or a path: the content is what must agree */
  const char* test_node_size; /* * "", "2", "1,3", "4/2": pretend nodes, for tests */
  const char* report;  /* * (whether) "" or "0": none, "1": a table, or a file to write it to */
  const char* trace;   /* * (whether) "" or "0": none, else the name of the files to write it to */
  size_t trace_events; /*   that are kept; the latest */
  bool check;          /* * compare what the ranks call before a call's data moves */
  int check_timeout;   /*   seconds that a checked call waits before it asks who is missing */
  int timeout;         /*   seconds of silence after which a call fails; 0: none */
  int spin;            /* + polls of our own worker before a blocking call turns to wait() */
  int verbose;         /* + */
  int local_rank;      /*   among the job's processes of this host; -1: unknown */
  int local_ranks;
  bool thread_multiple;          /*   MPI_THREAD_MULTIPLE: lock */
  bool yield;                    /*   more ranks than cores: never spin */
  const char* test_fault;        /*   "" or the name of a deliberate defect, for tests */
  void (*log)(const char* line); /* one complete line, no newline */
} gpuar_params;

typedef struct gpuar_counters {
  uint64_t blocking; /* calls served, by form */
  uint64_t nonblocking;
  uint64_t persistent;          /* starts */
  uint64_t fallbacks;           /* communicators that gpuar should have served and declined */
  uint64_t fallbacks_missing;   /* of these: a member has no gpuar, */
  uint64_t fallbacks_refusing;  /* or has one that did not come up, */
  uint64_t fallbacks_different; /* or one that is set up differently */
  uint64_t declined;            /* intercommunicators, and one process that has no core: not ours */
  uint64_t bytes_sent;          /* handed to UCX, payload only */
  uint64_t messages_sent;
  uint64_t device_calls; /* calls on device memory, by any form */
  uint64_t through_host; /* of these, carried through host memory */
  uint64_t kernel_launches;
  uint64_t device_copies; /* gpuar's own, in any direction */
  uint64_t
      time_ns; /* in calls, from the first moment to the last; only where a report or a trace */
  uint64_t wait_ns;    /* is kept; of this, spent waiting for ranks that entered later */
  uint64_t pool_bytes; /* now: idle scratch memory on the host */
} gpuar_counters;

/* The counters of this process; valid before open and after close. */
gpuar_counters* gpuar_get_counters(void);

/* Checks the parameters (an unknown algorithm name lists the valid ones) and brings UCX up. On
 * failure no core is made, `why` says why, and gpuar_refusal still gives a record to publish, so
 * that the other ranks learn of it. Params must outlive the core. */
int gpuar_core_open(const gpuar_params* params, gpuar_core** core, char* why, size_t why_bytes);

/* thread_multiple and yield are only known later than open. */
void gpuar_core_set_threads(gpuar_core* core, bool thread_multiple, bool yield);

/* Ends all traffic; destroys UCX, only in the process that opened it. Before it, gpuar_core_flush
 * has run and all ranks have met in MPI_Finalize. Safe on NULL. */
void gpuar_core_flush(gpuar_core* core);
void gpuar_core_close(gpuar_core* core);

/* Brings the counters up to date: by themselves they are as the last call's progress left them. */
void gpuar_core_take_stock(gpuar_core* core);

/* Gives the idle scratch memory of host and devices back to the system. */
void gpuar_core_release_pools(gpuar_core* core);

/* The report. At the end every process gives its part, as bytes that are valid until the next call
 * (none if no report is kept), and one of them writes the report of the job from all parts, in
 * order of rank, one after the other. */
size_t gpuar_report_part(gpuar_core* core, const void** bytes);
void gpuar_report_write(const gpuar_core* core, const void* parts, const int* sizes, int count);

/* At the end, if a trace is kept: writes this process's file. `rank` is that of the process in its
 * job, `who` what becomes part of the file's name. */
void gpuar_trace_write(gpuar_core* core, uint64_t process, int rank, const char* who);

/* What this process publishes before MPI's own exchange: the record (who am I, can I, how am I
 * set up) and, under a second key, the UCX address. Valid until close. */
enum { GPUAR_RECORD_MAX = 640 };
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

/* Parameters that a communicator may have of its own, by hints in its info. */
typedef enum gpuar_hint {
  GPUAR_HINT_ALGORITHM,
  GPUAR_HINT_SEGMENT_SIZE,
  GPUAR_HINT_PIPELINE_DEPTH,
  GPUAR_HINT_REPRODUCIBLE,
  GPUAR_HINT_EXPECT,
  GPUAR_HINTS
} gpuar_hint;

typedef struct gpuar_comm_desc {
  uint64_t id_high, id_low; /* the context id, equal on all members */
  int32_t rank, size;
  const uint64_t* processes; /* size names, by rank */
  const char* name;
  const gpuar_directory* directory;
  /* Hints that come with the communicator, alike on all members; they take the place of the
   * parameters of the same name. NULL: not given. */
  const char* hints[GPUAR_HINTS];
  /* Asked while calls are under way; NULL where communicators cannot be revoked. */
  bool (*is_revoked)(const void* handle);
  const void* handle;
} gpuar_comm_desc;

/* Decides, from the published records of the members alone, whether gpuar serves this
 * communicator: every member computes the same answer. GPUAR_ERR_DECLINED with a sentence naming
 * rank, host and the differing item in `why` if not; `reason` is then equal for communicators that
 * one and the same thing keeps from being served. No communication. */
int gpuar_comm_create(gpuar_core* core, const gpuar_comm_desc* desc, gpuar_comm** comm,
                      uint64_t* reason, char* why, size_t why_bytes);

/* Whether a hint that was given is used; one that makes no sense is not. */
bool gpuar_comm_uses_hint(const gpuar_comm* comm, gpuar_hint hint);

/* What would be chosen for a call of this shape with a predefined operation. GPUAR_OK or less. */
int gpuar_comm_ask(gpuar_comm* comm, size_t count, size_t element_bytes, gpuar_answer* answer);
/* For gpuar's tools, as JSON; valid until the next call of either. This process: its place, its
 * devices, its UCX. And by which transports it reaches each rank; "": not yet. */
const char* gpuar_core_about(gpuar_core* core);
const char* gpuar_comm_peers(gpuar_comm* comm);

/* The names that the parameter `algorithm` takes; valid for ever. */
const char* gpuar_algorithms(void);
const char* gpuar_compositions(void);
/* The tuning file in use; "" if there is none. Valid until close. */
const char* gpuar_tuning_file(const gpuar_core* core);

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
  int32_t divide_by; /* for an average: what each element of the result is divided by, once; 0: it
                        is not divided */
} gpuar_args;

/* True if op and type are reduced by gpuar's own functors; else give `custom`. */
bool gpuar_can_reduce(gpuar_op op, gpuar_type type);
/* True if a result of this type can be divided: floating and complex types. */
bool gpuar_can_divide(gpuar_type type);

size_t gpuar_element_bytes(gpuar_type type);

/* out = left ∘ right on this process alone, by gpuar's own functors, which must have the pair. */
void gpuar_reduce_local(gpuar_op op, gpuar_type type, void* out, const void* left,
                        const void* right, size_t count);

/* Blocking. Polls a bounded number of times, then calls wait() again and again until done
 * (wait is opal_progress, which in turn calls gpuar_progress). */
int gpuar_allreduce(gpuar_comm* comm, const gpuar_args* args, void (*wait)(void));

/* Every rank makes the calls of one stream in the same order; between the streams the order may
 * differ from rank to rank. Blocking calls are the program's. */
typedef enum gpuar_stream {
  GPUAR_STREAM_PROGRAM,
  GPUAR_STREAM_INTERNAL /* calls that Open MPI makes itself, from within its progress */
} gpuar_stream;

/* Nonblocking: returns at once. `done(user, status)` is called exactly once, from
 * gpuar_progress, never from within this function and with no lock held; the call is gone after
 * it. */
typedef void (*gpuar_done)(void* user, int status);
int gpuar_iallreduce(gpuar_comm* comm, gpuar_stream stream, const gpuar_args* args, gpuar_done done,
                     void* user);

/* Persistent: bound once, started often; `done` once per start. Free only while inactive. */
int gpuar_allreduce_init(gpuar_comm* comm, const gpuar_args* args, gpuar_done done, void* user,
                         gpuar_call** call);
int gpuar_call_start(gpuar_call* call);
void gpuar_call_free(gpuar_call* call);

/* Ends all calls of the communicator with this status, here and on the other ranks: this rank
 * cannot take part in one. Logged with `why`. */
void gpuar_abandon(gpuar_comm* comm, int status, const char* why);

/* Whether the host must not touch this memory: gpuar_copy does. Nearly free in a process that uses
 * no CUDA. */
bool gpuar_on_device(gpuar_core* core, const void* pointer);

/* Waits, if params.sync_device says so, until the work queued in the context of this memory is
 * done. Other calls go on meanwhile. GPUAR_OK or less. */
int gpuar_wait_for_queued_work(gpuar_core* core, const void* pointer);

/* Copies between memory of any kinds and waits for it. */
int gpuar_copy(gpuar_core* core, void* to, const void* from, size_t bytes);

/* Moves everything on, without waiting; returns the number of events. If another thread is at it,
 * returns 0 at once. */
int gpuar_progress(gpuar_core* core);

/* True while any call is under way in this process: one load. */
bool gpuar_active(const gpuar_core* core);

#ifdef __cplusplus
}
#endif

#endif
