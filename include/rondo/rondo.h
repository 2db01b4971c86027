/* Rondo: collective communication between processes. The stable C face (C99); everything else is internal.
 *
 * A communicator joins `world` ranks, numbered from 0. A collective is called by every rank of a communicator, in the
 * same order and with the same count, dtype, operator and root; a difference is found and reported on every rank as
 * RONDO_ERR_MISMATCH, naming both calls, before any data is reduced.
 *
 * Rules that hold for every function below:
 *  - Operations. Each data call ends with `rondo_op **op`. NULL: the call blocks until its work is done. Otherwise the
 *    call starts the work, stores a handle in *op and returns; the buffers belong to Rondo until the operation has
 *    completed. When a call fails at once, *op is set to NULL.
 *  - Counts are elements (never bytes) and may exceed 2^31. A count of 0 is legal everywhere and takes part like any
 *    other. count * size of the type that overflows size_t is INVALID. A buffer may be NULL only when its count is 0.
 *  - In place is only what a function names as such. Any other overlap of buffers is INVALID.
 *  - Threads. A communicator may be used by several threads; the order of collectives on it must still be the same on
 *    all ranks, so two threads that call collectives on one communicator must order their calls themselves.
 *  - Failure. A wrong argument is reported by the call and changes nothing. A failure of the world (a lost peer, a
 *    time-out, an abort) breaks the communicator: this and every later call on it returns the first cause, on all
 *    ranks. Only rondo_destroy, rondo_op_*, rondo_free and the queries are useful then.
 *  - Time. No call waits for ever unless the time-out is set to never; see rondo_options.timeout_ns.
 *  - Rondo installs no signal handlers, never ends the process, and throws nothing. After fork() the child must not
 *    use the parent's communicators: calls there return UNSUPPORTED and leave the parent unaffected.
 */
#ifndef RONDO_H
#define RONDO_H

#include <stddef.h>
#include <stdint.h>

#include "rondo/version.h"

#if defined(__GNUC__) || defined(__clang__)
#define RONDO_API __attribute__((visibility("default")))
#else
#define RONDO_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct rondo_comm rondo_comm; /* a communicator, made by rondo_init or rondo_split, ended by rondo_destroy */
typedef struct rondo_op rondo_op;     /* one started operation, ended by rondo_op_free */

/* ---- statuses ---- */

/* 0 is success, 1 is "not yet", negative values are failures. rondo_error_text gives the cause in words. */
typedef enum {
  RONDO_OK = 0,
  RONDO_IN_PROGRESS = 1,      /* the operation has not completed (rondo_op_test, rondo_op_wait); nothing is broken */
  RONDO_ERR_INVALID = -1,     /* the caller broke the contract; nothing was started */
  RONDO_ERR_UNSUPPORTED = -2, /* legal, but not in this build, on this machine, or with the forced choice */
  RONDO_ERR_NO_MEMORY = -3,
  RONDO_ERR_SYSTEM = -4,   /* the operating system refused; the text has the errno */
  RONDO_ERR_PEER = -5,     /* another rank ended, or cannot be reached */
  RONDO_ERR_TIMEOUT = -6,  /* no progress for longer than the time-out */
  RONDO_ERR_ABORTED = -7,  /* rondo_abort or rondo_revoke, here or on another rank */
  RONDO_ERR_MISMATCH = -8, /* the ranks made different calls, or a message had another length */
  RONDO_ERR_AUTH = -9,     /* the other end does not hold the job's key */
  RONDO_ERR_INTERNAL = -10 /* a defect in Rondo */
} rondo_status;

/* ---- element types and reduction operators ---- */

/* float16, bfloat16 and the two float8 types are reduced in float32 and rounded once, to nearest even. float16,
 * bfloat16 and E5M2 overflow to infinity, E4M3 to NaN. Integers wrap modulo 2^bits. */
typedef enum {
  RONDO_INT8 = 0,
  RONDO_UINT8 = 1,
  RONDO_INT32 = 2,
  RONDO_UINT32 = 3,
  RONDO_INT64 = 4,
  RONDO_UINT64 = 5,
  RONDO_FLOAT16 = 6,
  RONDO_FLOAT32 = 7,
  RONDO_FLOAT64 = 8,
  RONDO_BFLOAT16 = 9,
  RONDO_FLOAT8_E4M3 = 10,
  RONDO_FLOAT8_E5M2 = 11,
  RONDO_INT16 = 12,
  RONDO_UINT16 = 13,
  RONDO_DTYPE_MAX_ = 0x7fffffff
} rondo_dtype;

/* AVG divides the sum by the number of ranks: integers after the wrap, truncating towards zero; floating types multiply
 * by 1/world before the one rounding. A NaN operand makes the result of SUM, PROD, MAX, MIN and AVG a NaN; MAX and MIN
 * order -0 below +0. BAND, BOR and BXOR are defined for integers only. Values from 0x10000 are reserved. */
typedef enum {
  RONDO_SUM = 0,
  RONDO_PROD = 1,
  RONDO_MAX = 2,
  RONDO_MIN = 3,
  RONDO_AVG = 4,
  RONDO_BAND = 5,
  RONDO_BOR = 6,
  RONDO_BXOR = 7,
  RONDO_REDOP_MAX_ = 0x7fffffff
} rondo_redop;

/* ---- making a communicator ---- */

/* Levels of the text that rondo_options.log receives. */
enum { RONDO_LOG_ERROR = 0, RONDO_LOG_WARNING = 1, RONDO_LOG_INFO = 2, RONDO_LOG_DEBUG = 3 };

/* Start from RONDO_OPTIONS_INIT, in which every field means "from the environment". Strings are copied by rondo_init.
 * Fields are only ever appended; `size` tells the library which of them the caller knows. */
typedef struct {
  size_t size;            /* sizeof(rondo_options) */
  int32_t rank;           /* this rank, or -1; given together with world */
  int32_t world;          /* the number of ranks, or -1; 0 and anything below -1 is INVALID */
  const char* rendezvous; /* where the ranks meet: "tcp://host:port", "file:///path", or "inproc://name" for ranks that
                             are threads of one process; NULL: environment */
  const char* key;        /* the job key that proves membership: 64 hexadecimal digits; erased on destroy; NULL:
                             environment */
  const char* transports; /* allowed transports in order of preference, "shm,tcp"; NULL: environment */
  const char* interface;  /* network interfaces to use: names, prefixes, CIDR, ^ excludes; NULL: environment */
  int64_t timeout_ns;     /* longest wait without any progress; 0: environment; -1: never give up */
  uint32_t determinism;  /* 0: environment; 1: same bits run after run; 2: bits do not depend on algorithm, transport or
                            chunking; 3: exact sum, rounded once */
  const char* algorithm; /* "ring" for all, or "allreduce:tree;broadcast:^chain"; NULL: environment. A choice that is
                            impossible for a call is UNSUPPORTED at that call, never ignored */
  const char* host_id;   /* ranks with equal ids are taken to be on one host; NULL: found out */
  const char* config;    /* "NAME=value;...": any variable of the environment table, before the environment itself */
  void (*log)(void* arg, int level, const char* text); /* receives log lines, from any thread; NULL: stderr */
  void* log_arg;                                       /* first argument of log */
} rondo_options;

/* clang-format off */
#define RONDO_OPTIONS_INIT { sizeof(rondo_options), -1, -1, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL, NULL, NULL, NULL }
/* clang-format on */

/* Joins the job and stores a communicator over all its ranks in *comm. Blocks until every rank has joined, or the
 * time-out names those that have not. `options` NULL: everything from the launcher's environment (rondo-run, torchrun,
 * Open MPI, PMI, Slurm, ...); no launcher at all: rank 0 of 1.
 * INVALID: options contradict each other or the environment. SYSTEM, TIMEOUT, PEER, AUTH, MISMATCH (another version,
 * world size or rank twice), UNSUPPORTED (a transport that this build lacks), NO_MEMORY. On failure *comm is NULL and
 * rondo_error_text(NULL, ...) of the same thread has the cause. */
RONDO_API rondo_status rondo_init(const rondo_options* options, rondo_comm** comm);

/* Makes communicators of parts of `comm`: ranks that pass the same color >= 0 form one, ordered by key, ties in the
 * order of `comm`. A negative color takes no part and receives *out = NULL with OK. Collective over `comm`; blocks. The
 * new communicator shares the threads and links of `comm` and may outlive it. Failures are reported on `comm`. */
RONDO_API rondo_status rondo_split(rondo_comm* comm, int32_t color, int32_t key, rondo_comm** out);

/* Leaves the communicator and frees it; local, never waits for collectives of others, bounded in time. Outstanding
 * operations complete with ABORTED; their handles stay valid until freed. Memory of rondo_alloc that is still held is
 * freed. NULL is legal and does nothing. Ending the process without this reaches the others as PEER. Never call it
 * while another thread is inside a call on `comm`, except that a blocked thread may first be released by rondo_abort.
 */
RONDO_API rondo_status rondo_destroy(rondo_comm* comm);

/* The calling rank and the number of ranks, in the communicator and among the ranks of it that share this host; local
 * ranks are numbered from 0 in rank order. Never block; -1 when comm is NULL. */
RONDO_API int32_t rondo_rank(const rondo_comm* comm);
RONDO_API int32_t rondo_world(const rondo_comm* comm);
RONDO_API int32_t rondo_local_rank(const rondo_comm* comm);
RONDO_API int32_t rondo_local_world(const rondo_comm* comm);

/* ---- collectives ----
 * All return OK, INVALID (arguments), UNSUPPORTED (the forced algorithm or determinism level cannot do this call),
 * NO_MEMORY, MISMATCH, or the cause that has broken the communicator. A non-blocking call reports all but INVALID and
 * UNSUPPORTED through its operation. `world` and `rank` below are those of `comm`. */

/* out[i] = redop over all ranks of in[i], on every rank, with identical bits on all ranks. `in` and `out`: count
 * elements. In place: in == out. */
RONDO_API rondo_status rondo_allreduce(rondo_comm* comm, const void* in, void* out, size_t count, rondo_dtype dtype,
                                       rondo_redop redop, rondo_op** op);

/* As allreduce, with the result on `root` only. Elsewhere `out` is not used and may be NULL; it may also be `in`, whose
 * contents stay unchanged there. In place on the root: in == out. */
RONDO_API rondo_status rondo_reduce(rondo_comm* comm, const void* in, void* out, size_t count, rondo_dtype dtype,
                                    rondo_redop redop, int32_t root, rondo_op** op);

/* Copies count elements of `buf` from `root` to every other rank's `buf`. */
RONDO_API rondo_status rondo_broadcast(rondo_comm* comm, void* buf, size_t count, rondo_dtype dtype, int32_t root,
                                       rondo_op** op);

/* Every rank gives count_per_rank elements; `out` receives world * count_per_rank, in rank order, on every rank.
 * In place: in == out + rank * count_per_rank elements. */
RONDO_API rondo_status rondo_allgather(rondo_comm* comm, const void* in, void* out, size_t count_per_rank,
                                       rondo_dtype dtype, rondo_op** op);

/* Allgather with a count per rank: rank r gives counts[r] elements, placed at displs[r] elements from the start of
 * `out` on every rank; displs NULL: packed in rank order. in_count must equal counts[rank]; counts must be the same on
 * all ranks, displs are each rank's own and their parts must not overlap. Both arrays have world entries and are copied
 * by the call. In place: in == out + displs[rank] elements. */
RONDO_API rondo_status rondo_allgatherv(rondo_comm* comm, const void* in, size_t in_count, void* out,
                                        const size_t* counts, const size_t* displs, rondo_dtype dtype, rondo_op** op);

/* `in` has world * out_count elements; rank r receives in `out` the reduction over all ranks of part r of `in`, that is
 * of elements [r * out_count, (r + 1) * out_count). In place: out == in + rank * out_count elements; the other parts of
 * `in` are then undefined afterwards. */
RONDO_API rondo_status rondo_reduce_scatter(rondo_comm* comm, const void* in, void* out, size_t out_count,
                                            rondo_dtype dtype, rondo_redop redop, rondo_op** op);

/* Reduce-scatter with a count per rank: `in` has the sum of counts[] elements, the parts packed in rank order, and rank
 * r receives part r, counts[r] elements. counts has world entries, is the same on all ranks, and is copied by the call.
 * In place: out == in + (counts[0] + ... + counts[rank - 1]) elements. */
RONDO_API rondo_status rondo_reduce_scatterv(rondo_comm* comm, const void* in, void* out, const size_t* counts,
                                             rondo_dtype dtype, rondo_redop redop, rondo_op** op);

/* `in` and `out` have world * count_per_pair elements; part r of `in` goes to rank r, part r of `out` comes from rank
 * r. No in-place form. */
RONDO_API rondo_status rondo_alltoall(rondo_comm* comm, const void* in, void* out, size_t count_per_pair,
                                      rondo_dtype dtype, rondo_op** op);

/* Alltoall with a count per pair: in_counts[r] elements at in_displs[r] of `in` go to rank r, out_counts[r] elements at
 * out_displs[r] of `out` come from it; displs NULL: packed in rank order. out_counts[r] must equal what rank r passes
 * as in_counts for this rank, else MISMATCH. The arrays have world entries and are copied by the call; parts of `out`
 * must not overlap. No in-place form. */
RONDO_API rondo_status rondo_alltoallv(rondo_comm* comm, const void* in, const size_t* in_counts,
                                       const size_t* in_displs, void* out, const size_t* out_counts,
                                       const size_t* out_displs, rondo_dtype dtype, rondo_op** op);

/* Every rank gives count elements; `root` receives world * count in rank order in `out`, which elsewhere is not used
 * and may be NULL. No in-place form. */
RONDO_API rondo_status rondo_gather(rondo_comm* comm, const void* in, void* out, size_t count, rondo_dtype dtype,
                                    int32_t root, rondo_op** op);

/* `root` gives world * count elements in `in`, which elsewhere is not used and may be NULL; rank r receives part r,
 * count elements, in `out`. No in-place form. */
RONDO_API rondo_status rondo_scatter(rondo_comm* comm, const void* in, void* out, size_t count, rondo_dtype dtype,
                                     int32_t root, rondo_op** op);

/* Completes on no rank before every rank has called it. */
RONDO_API rondo_status rondo_barrier(rondo_comm* comm, rondo_op** op);

/* ---- point to point ---- */

/* Any peer, in rondo_recv_tag. */
#define RONDO_ANY (-1)

/* Sends count elements of `buf` to rank `peer`, or receives them from it. Messages of one (sender, receiver, tag) are
 * received in the order in which they were sent; rondo_send and rondo_recv are the forms with tag 0, and tags are never
 * negative. The receiver's count and element size must be those of the message: another length is MISMATCH, never a
 * truncation. A blocking send may wait for its receive. A rank may send to itself when one of the two calls does not
 * block. A receive from RONDO_ANY takes the message of any sender with that tag; what it holds must say who sent it. */
RONDO_API rondo_status rondo_send(rondo_comm* comm, const void* buf, size_t count, rondo_dtype dtype, int32_t peer,
                                  rondo_op** op);
RONDO_API rondo_status rondo_recv(rondo_comm* comm, void* buf, size_t count, rondo_dtype dtype, int32_t peer,
                                  rondo_op** op);
RONDO_API rondo_status rondo_send_tag(rondo_comm* comm, const void* buf, size_t count, rondo_dtype dtype, int32_t peer,
                                      int64_t tag, rondo_op** op);
RONDO_API rondo_status rondo_recv_tag(rondo_comm* comm, void* buf, size_t count, rondo_dtype dtype, int32_t peer,
                                      int64_t tag, rondo_op** op);

/* Between begin and end, sends and receives of the calling thread on `comm` that pass op NULL are started but not
 * waited for; rondo_group_end waits for all of them and returns the first failure in the order of the calls. So any
 * exchange can be written without thinking of order. Groups nest: only the outermost end waits. Collectives inside a
 * group are INVALID, and so is an end without a begin. */
RONDO_API rondo_status rondo_group_begin(rondo_comm* comm);
RONDO_API rondo_status rondo_group_end(rondo_comm* comm);

/* ---- persistent operations ---- */

/* What one operation may have of its own. Start from RONDO_CALL_OPTIONS_INIT, in which every field means "as the
 * communicator has it"; strings are copied. determinism, algorithm, prescale and postscale must be the same on all
 * ranks, as the arguments of the call must; the others are each rank's own. Fields are only ever appended. */
typedef struct {
  size_t size;           /* sizeof(rondo_call_options) */
  uint32_t determinism;  /* as in rondo_options; 0: the communicator's */
  int64_t timeout_ns;    /* longest wait without any progress; 0: the communicator's; -1: never give up */
  const char* algorithm; /* as in rondo_options; NULL: the communicator's */
  const char* name;      /* appears in the texts of time-outs and differing calls, "layer4.bias"; NULL: none */
  double prescale;       /* the inputs are multiplied by this before they are reduced ... */
  double postscale;      /* ... and the results by this, each with one rounding. Finite; other values than 1 only for
                            reductions of floating types */
  int32_t priority;      /* of operations under way at once, those with a higher number are moved first */
} rondo_call_options;

#define RONDO_CALL_OPTIONS_INIT \
  { sizeof(rondo_call_options), 0, 0, NULL, NULL, 1.0, 1.0, 0 }

/* Makes a persistent operation: the collective of the same name on these buffers, to be started any number of times.
 * Everything that can be done once is done here: checks, the choice of the algorithm, its schedule. Local, not
 * collective: nothing is started, no rank waits for another. The arguments are those of the collective, arrays of
 * counts are copied, and the contents of the buffers are read at each start. `options` NULL: all as the communicator
 * has it. The handle in *op is for rondo_start, rondo_op_test, rondo_op_wait and rondo_op_free. With a prescale, in
 * place or where the result is as large as the input, no memory is used beside the buffers.
 * INVALID, UNSUPPORTED (the forced algorithm or determinism level cannot do this call), NO_MEMORY, or the cause that
 * has broken the communicator; then *op is NULL. */
RONDO_API rondo_status rondo_allreduce_init(rondo_comm* comm, const void* in, void* out, size_t count,
                                            rondo_dtype dtype, rondo_redop redop, const rondo_call_options* options,
                                            rondo_op** op);
RONDO_API rondo_status rondo_reduce_init(rondo_comm* comm, const void* in, void* out, size_t count, rondo_dtype dtype,
                                         rondo_redop redop, int32_t root, const rondo_call_options* options,
                                         rondo_op** op);
RONDO_API rondo_status rondo_broadcast_init(rondo_comm* comm, void* buf, size_t count, rondo_dtype dtype, int32_t root,
                                            const rondo_call_options* options, rondo_op** op);
RONDO_API rondo_status rondo_allgather_init(rondo_comm* comm, const void* in, void* out, size_t count_per_rank,
                                            rondo_dtype dtype, const rondo_call_options* options, rondo_op** op);
RONDO_API rondo_status rondo_allgatherv_init(rondo_comm* comm, const void* in, size_t in_count, void* out,
                                             const size_t* counts, const size_t* displs, rondo_dtype dtype,
                                             const rondo_call_options* options, rondo_op** op);
RONDO_API rondo_status rondo_reduce_scatter_init(rondo_comm* comm, const void* in, void* out, size_t out_count,
                                                 rondo_dtype dtype, rondo_redop redop,
                                                 const rondo_call_options* options, rondo_op** op);
RONDO_API rondo_status rondo_reduce_scatterv_init(rondo_comm* comm, const void* in, void* out, const size_t* counts,
                                                  rondo_dtype dtype, rondo_redop redop,
                                                  const rondo_call_options* options, rondo_op** op);
RONDO_API rondo_status rondo_alltoall_init(rondo_comm* comm, const void* in, void* out, size_t count_per_pair,
                                           rondo_dtype dtype, const rondo_call_options* options, rondo_op** op);
RONDO_API rondo_status rondo_alltoallv_init(rondo_comm* comm, const void* in, const size_t* in_counts,
                                            const size_t* in_displs, void* out, const size_t* out_counts,
                                            const size_t* out_displs, rondo_dtype dtype,
                                            const rondo_call_options* options, rondo_op** op);
RONDO_API rondo_status rondo_gather_init(rondo_comm* comm, const void* in, void* out, size_t count, rondo_dtype dtype,
                                         int32_t root, const rondo_call_options* options, rondo_op** op);
RONDO_API rondo_status rondo_scatter_init(rondo_comm* comm, const void* in, void* out, size_t count, rondo_dtype dtype,
                                          int32_t root, const rondo_call_options* options, rondo_op** op);
RONDO_API rondo_status rondo_barrier_init(rondo_comm* comm, const rondo_call_options* options, rondo_op** op);

/* Starts the persistent operation: one call of its collective, in the order of calls on its communicator, matched by
 * calls of the other ranks, persistent or not, with the same arguments and the same options. Never blocks, allocates
 * nothing; the buffers belong to Rondo until the operation has completed, as rondo_op_test or rondo_op_wait says. Those
 * two return OK for one that was never started. Legal between rondo_group_begin and rondo_group_end. No other thread
 * may be inside a wait for `op` from an earlier start.
 * INVALID: not a persistent operation, or still under way. ABORTED: its communicator has been destroyed. Else the cause
 * that has broken the communicator. */
RONDO_API rondo_status rondo_start(rondo_op* op);

/* ---- operations ---- */

/* Drives progress once and reports: OK (completed), IN_PROGRESS, or the failure. Never blocks and never frees; after
 * completion it keeps returning the same status. Any thread. */
RONDO_API rondo_status rondo_op_test(rondo_op* op);

/* Waits for completion, at most timeout_ns: 0 only polls, a negative value sets no limit of its own (the
 * communicator's time-out still ends an operation that makes no progress). Returns the operation's status, or
 * IN_PROGRESS when the wait has expired, which breaks nothing. Never frees; several threads may wait for one op. */
RONDO_API rondo_status rondo_op_wait(rondo_op* op, int64_t timeout_ns);

/* Releases the handle, in any state. An operation still under way is detached, not cancelled: its buffers stay Rondo's
 * until it has completed. NULL is legal and does nothing. */
RONDO_API rondo_status rondo_op_free(rondo_op* op);

/* ---- memory ---- */

/* Memory that every rank on this host can read and write in place, so that collectives on it copy less. Local, not
 * collective; peers map it when it is first used. 128-byte aligned, zeroed; stored in *ptr, owned by the caller until
 * rondo_free or rondo_destroy. bytes 0 gives NULL and OK. Any pointer inside it may be passed to any call, on any
 * communicator that shares the links of `comm`. An allreduce for which every rank on the host passes such memory, input
 * and output, copies nothing. NO_MEMORY, SYSTEM. */
RONDO_API rondo_status rondo_alloc(rondo_comm* comm, size_t bytes, void** ptr);

/* Frees what rondo_alloc has given; no operation may still use it. NULL is legal. INVALID: any other pointer. */
RONDO_API rondo_status rondo_free(rondo_comm* comm, void* ptr);

/* ---- failure ---- */

/* Breaks the communicator on all ranks with `why` (copied; NULL: no reason) as the cause: every blocked and later call
 * returns ABORTED. From any thread, at any time before destroy, any number of times; the first cause stays. Local and
 * bounded: it tells the others but does not wait for them. */
RONDO_API rondo_status rondo_abort(rondo_comm* comm, const char* why);

/* As abort without a reason, for a rank that has seen a failure others may not have seen. */
RONDO_API rondo_status rondo_revoke(rondo_comm* comm);

/* OK, or the status that has broken the communicator. Never blocks. */
RONDO_API rondo_status rondo_health(const rondo_comm* comm);

/* ---- words ---- */

/* Writes the text of the calling thread's last failed call on `comm`, or else of the cause that has broken it, or else
 * "". comm NULL: of the thread's last failed rondo_init, rondo_start or rondo_op_ function. At most capacity bytes with
 * the final zero; returns the full length without the zero, so that a caller can size its buffer. text may be NULL when
 * capacity is 0. */
RONDO_API size_t rondo_error_text(const rondo_comm* comm, char* text, size_t capacity);

/* Writes how `comm` would run `collective` ("allreduce", "reduce_scatter", ...) on that many bytes per rank of that
 * type: the first line names the algorithm and its plan, further lines say why it was chosen, what else could run, what
 * could not and why, and which section and rows of a tuning file (RONDO_TUNE) count. Pure, never blocks.
 * Length and truncation as rondo_error_text. */
RONDO_API size_t rondo_explain(const rondo_comm* comm, const char* collective, size_t bytes, rondo_dtype dtype,
                               char* text, size_t capacity);

/* Names as the tools print them, "OK", "float32", "sum"; "unknown" for a value that has none. Static strings. */
RONDO_API const char* rondo_status_name(rondo_status status);
RONDO_API const char* rondo_dtype_name(rondo_dtype dtype);
RONDO_API const char* rondo_redop_name(rondo_redop redop);

/* Bytes of one element; 0 for a value that is no type. */
RONDO_API size_t rondo_dtype_size(rondo_dtype dtype);

/* The version of the library, as RONDO_VERSION is that of the header: major * 10000 + minor * 100 + patch. */
RONDO_API uint32_t rondo_version(void);

#ifdef __cplusplus
}
#endif

#endif
