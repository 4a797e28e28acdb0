/*
 * What a client (the shim in a job's process) and fikitd say to each other: the one header both sides include.
 *
 * Two roads:
 *  - a SOCK_SEQPACKET Unix socket for rare messages (one struct per packet, host byte order, one machine);
 *  - one shared page per client and GPU: a sealed memfd made by the daemon, sent with WELCOME; and beside it one memory
 *    page per job and GPU, which all processes of the job share (struct fikit_memory, at the end).
 *
 * The client is untrusted. It can damage only its own page; the daemon reads every field once, checks it, and never
 * uses a client's value as an index, size or time without a bound. All times are CLOCK_MONOTONIC nanoseconds.
 * Which order each word is written and read in: docs/design/contracts.md, "Memory order of the shared pages".
 */
#ifndef FIKIT_PROTOCOL_H
#define FIKIT_PROTOCOL_H

#include <stdint.h>

#ifdef __cplusplus
#include <atomic>
#define FIKIT_ATOMIC(T) std::atomic<T>
extern "C" {
#else
#include <stdatomic.h>
#define FIKIT_ATOMIC(T) _Atomic T
#endif

/* A shim and a fikitd work together in the newest version that both know (struct fikit_hello), so that either can be replaced
 * while the other runs. A version adds words where the one before had padding and gives none another meaning, so all have the
 * same sizes. Not served any more: 1.
 *   2  the words below, if nothing else is said
 *   3  run_until (the shim reads it). Nobody else writes there: in a page of version 2 it stays 0, and so means nothing.
 *   4  copies: the entry COPY, copies_ask_from (the shim reads it), request_copy and request_bytes. In older pages the shim
 *      reports no copy and holds none.
 *   5  fills_ask and collective_names (the shim reads both). Older shims let fills pass, and know no names but their own.
 *   6  moves: what of the client's memory is to be on the GPU. Older shims move none, and their clients are not held for theirs.
 *   7  plans: which of it when, launch by launch (struct fikit_plan, in the same file behind the page). Older shims carry none out.
 *   8  moves_per_s: the link's rate of each direction. Older shims say one of both (bytes_per_s of struct fikit_plan) and leave these 0. */
#define FIKIT_PROTOCOL_OLDEST 2u
#define FIKIT_PROTOCOL_VERSION 8u
#define FIKIT_SINCE_RUNS 3u
#define FIKIT_SINCE_COPIES 4u
#define FIKIT_SINCE_FILLS 5u
#define FIKIT_SINCE_MOVES 6u
#define FIKIT_SINCE_PLANS 7u
#define FIKIT_MEMORY_VERSION 2u /* of the memory page, which the processes of a job share whatever version they are of */
#define FIKIT_PAGE_MAGIC 0x464b5047u /* "FKPG" */

#define FIKIT_SOCKET_NAME "fikitd.sock"      /* in run_dir; shims connect here */
#define FIKIT_USERS_DIRECTORY "users"        /* in run_dir: <uid>.sock, for the shims of that user, who alone can connect */
#define FIKIT_DEFAULT_RUN_DIR "/run/fikit"
#define FIKIT_ENV_SOCKET "FIKIT_SOCKET"      /* full path of the socket; set by the SPANK plugin or `fikit run` */

#define FIKIT_RING_ENTRIES 4096u             /* power of two */
#define FIKIT_SLOTS 4096u                    /* kernel identities per client; slot 0 = "not described" */
#define FIKIT_MARKS 64u                      /* completion marks of one client that can be out at a time; power of two */
#define FIKIT_MARKS_BYTES 4096u              /* what of the page the GPU may write: one page of memory */
#define FIKIT_MEMORY_MAGIC 0x464b4d4du       /* "FKMM" */
#define FIKIT_MEMORY_SHARES 256u             /* processes of a job that use one GPU at a time */
#define FIKIT_WAIT_BUCKETS 40u               /* wait histogram: bucket b counts waits in [2^b, 2^(b+1)) ns */
#define FIKIT_NAME_BYTES 1024u
#define FIKIT_REASON_BYTES 256u
#define FIKIT_COLLECTIVES_BYTES 2048u        /* patterns of names, each NUL-terminated; the last one is empty */
#define FIKIT_MESSAGE_BYTES 2048u            /* no packet is larger */
#define FIKIT_ANSWER_S 5                     /* a shim waits so long for the answer to its HELLO; until a later one, it runs unmanaged */

/* ---------------------------------------------------------------- socket messages */

enum fikit_message_type {
  FIKIT_MSG_HELLO = 1,   /* client: one per process and GPU, first packet of a connection */
  FIKIT_MSG_WELCOME = 2, /* daemon: you are managed. SCM_RIGHTS: [0] page memfd, [1] doorbell eventfd,
                            [2] memory page memfd */
  FIKIT_MSG_REFUSED = 3, /* daemon: run as if fikit were not there; reason is one sentence */
  FIKIT_MSG_KERNEL = 4,  /* client: describes a slot, once, before or shortly after its first launch */
  FIKIT_MSG_JOIN = 5,    /* daemon, to who asks to JOIN: become a client of MPS. A head and nothing else. The place is the
                            program's for as long as it keeps the connection */
  FIKIT_MSG_OUTSIDE = 6, /* client, after JOIN: the driver refused it as a client of MPS. It gives its place up, and hangs up */
};

struct fikit_message_head {
  uint32_t type;  /* enum fikit_message_type */
  uint32_t bytes; /* whole packet */
};

enum fikit_purpose {
  FIKIT_PURPOSE_WORK = 0,  /* uses the GPU */
  FIKIT_PURPOSE_WATCH = 1, /* only asks how much memory the job has (NVML): has no share, is no client of the dispatcher */
  FIKIT_PURPOSE_JOIN = 2,  /* before cuInit, of a program that would become a client of the MPS server that fikitd runs: may it?
                              Answered by JOIN, or by REFUSED: then it runs outside. The GPU is not known yet, and 0 */
};
#define FIKIT_PURPOSE_MASK 0xffu
/* In the purpose of who WORKs: the driver says that the program is a client of MPS, fikitd's or another; or that it is none. Neither: the
 * driver does not say (before CU_DEVICE_ATTRIBUTE_MPS_ENABLED). */
#define FIKIT_HELLO_MPS 0x100u
#define FIKIT_HELLO_NO_MPS 0x200u
#define FIKIT_MPS_DIRECTORY "mps" /* in run_dir: below it are the pipe directories of fikitd's MPS servers */

struct fikit_hello {
  struct fikit_message_head head;
  uint32_t version; /* the oldest with which the shim works; a fikitd of version 2 welcomes no other than 2 */
  uint16_t purpose; /* enum fikit_purpose, and FIKIT_HELLO_MPS or FIKIT_HELLO_NO_MPS */
  uint16_t newest;  /* the newest with which it works. 0: it says only one. In version 2 this was the upper half of purpose,
                       where that fikitd recognises WATCH by the whole word: who watches says 0 */
  uint8_t gpu_uuid[16]; /* cuDeviceGetUuid of the device this connection is about */
  uint64_t gpu_memory_bytes;
  char gpu_name[256]; /* NUL-terminated; an emulated device says "Emulated" in it */
};

struct fikit_welcome {
  struct fikit_message_head head;
  uint32_t version; /* in which both go on; the page's, too */
  uint32_t page_bytes;   /* of its file: with what lies behind the page */
  uint32_t memory_bytes; /* size of the memory page */
  uint32_t memory_share; /* which of its shares is this client's, below FIKIT_MEMORY_SHARES */
};

struct fikit_refused {
  struct fikit_message_head head;
  char reason[FIKIT_REASON_BYTES];
};

struct fikit_outside {
  struct fikit_message_head head;
  int32_t refusal; /* CUresult of cuInit as a client: 805 to 809; 0: the driver found no server, and runs outside */
  int32_t outside; /* CUresult of the second cuInit, outside MPS */
};

enum fikit_kernel_kind {
  FIKIT_KIND_KERNEL = 0,
  FIKIT_KIND_GRAPH = 1,
  FIKIT_KIND_COOPERATIVE = 2, /* cooperative or collective (NCCL and its like), or a graph with such a kernel: waits for its own like,
                                 so it is no filler, and once started not to be starved */
};

struct fikit_kernel {
  struct fikit_message_head head;
  uint32_t slot; /* 1 .. FIKIT_SLOTS-1 */
  uint32_t kind; /* enum fikit_kernel_kind */
  uint64_t module_hash; /* of the image's bytes; 0 = unknown. For a graph: its structural hash */
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t shared_bytes; /* dynamic shared memory */
  uint32_t reserved;
  char name[FIKIT_NAME_BYTES]; /* mangled function name, NUL-terminated, truncated if longer */
};

/* ---------------------------------------------------------------- the shared page */

enum fikit_gate { FIKIT_GATE_OPEN = 0, FIKIT_GATE_CLOSED = 1 };

/* What a ring entry reports. */
enum fikit_entry_kind {
  FIKIT_ENTRY_LAUNCH = 1,  /* a launch through an OPEN gate. t_ns: just before the real call */
  FIKIT_ENTRY_GRANTED = 2, /* a launch through a CLOSED gate with grant `value` (its request_seq), or below run_until: then
                              the newest grant */
  FIKIT_ENTRY_DRAINED = 3, /* every launch with launch_seq <= value is known complete at t_ns (host sync returned). slot: for
                              so many ns, 2^32 - 1 at most, had the host waited, in one wait or in several at once one
                              after the other; 0: it says nothing of that, as older shims did */
  FIKIT_ENTRY_DONE = 4,    /* the launch with grant `value`, the last one of its run, has completed (marker seen at t_ns). The
                              last one of a run that fikitd has ended is the one before the client asks again */
  FIKIT_ENTRY_SAMPLE = 5,  /* measured: one run of `slot`, launched after `before`, took `value` ns of device time */
  FIKIT_ENTRY_GAP = 6,     /* measured: the device was idle `value` ns after a run of `slot`, launched after `before`, until
                              the next launch of this process started */
  FIKIT_ENTRY_EXPIRED = 7, /* the lease of a closed gate ran out; the launch went through ungranted */
  FIKIT_ENTRY_MARK = 8,    /* mark `slot` stands behind a launch on the device: once it is reached, every launch with
                              launch_seq <= value is complete */
  FIKIT_ENTRY_MARK_GRANT = 9, /* mark `slot` stands behind the launch with grant `value`, the last one of its run as for
                                 DONE; or behind the copy */
  FIKIT_ENTRY_COPY = 10, /* a copy of `value` bytes, handed over at t_ns. slot: enum fikit_copy. Since version 4; only while
                            somebody with another priority shares the GPU */
  FIKIT_ENTRY_TOUCHES = 11, /* launch number `before`, of `slot`, was looked at for the memory that its arguments name: `value` TOUCH
                               entries about it follow, FIKIT_TOUCHES at most. Other daemons look at neither */
  FIKIT_ENTRY_TOUCH = 12,   /* launch number `before` names memory: of the allocation with number `slot` (below FIKIT_TOUCH_ALLOCATIONS),
                               from page `value` (its lower half, counted from the allocation's begin) on; the upper half: pages of
                               the allocation. Where it is known how many pages it touches from there on (copies, memsets), slot is
                               that number of pages x FIKIT_TOUCH_ALLOCATIONS more: older daemons look at no such entry */
  FIKIT_ENTRY_FREED = 13,   /* after launch number `before`, and before the next one, the program gave back the allocation with number
                               `slot`: nobody needs its contents any more. Since version 7 */
};

/* What a program's kernels touch (jobs with memory on the host, and measured ones): memory of 1 MiB and more, numbered in the order
 * of its allocation, where memory of a size takes the lowest number that memory of that size has given back. */
#define FIKIT_TOUCHES 64u              /* of one launch */
#define FIKIT_TOUCH_ALLOCATIONS 4096u  /* numbers are below this */
#define FIKIT_TOUCH_PAGE_BYTES 4096u
#define FIKIT_TOUCH_LENGTH 0xfffffu       /* the most pages that a place is known to have; of a longer one it is not known */

/* Between host and device; the device makes the copies of each direction one after the other. */
enum fikit_copy { FIKIT_COPY_NONE = 0, FIKIT_COPY_IN = 1, FIKIT_COPY_OUT = 2 };
#define FIKIT_COPY_DIRECTIONS 2u

/* The slots of the three launches before a measured one, as `before` holds them: the newest in the lowest 16 bits, 0 where
 * there was none. */
#define FIKIT_BEFORE_LAUNCHES 3u
#define FIKIT_BEFORE_BITS 16u
/* How well a SAMPLE is known, above those slots in `before`; without either bit: as the device itself would say it. Older shims
 * set none, older daemons look at none. */
#define FIKIT_TIMED_IDLE (UINT64_C(1) << 48)     /* its stream was idle: the launch's way to the device is reckoned off */
#define FIKIT_TIMED_DOUBTFUL (UINT64_C(1) << 49) /* so it was, and its way is not known: the first launch of a kernel loads it */

/* One ring entry. Producers: any thread of the client. claim: i = ring_head.fetch_add(1); stamp = 0 (relaxed), fill,
 * stamp = i + 1 (release). The daemon accepts an entry only if stamp == i + 1 before and after reading it. The ring
 * overwrites: a daemon that falls behind by more than FIKIT_RING_ENTRIES continues at the oldest entry still there. */
struct fikit_entry {
  FIKIT_ATOMIC(uint64_t) stamp;
  union {
    int64_t t_ns;    /* when; SAMPLE, GAP, TOUCHES, TOUCH and FREED have no time */
    uint64_t before; /* SAMPLE, GAP: which launches came before it; TOUCHES, TOUCH, FREED: launch_seq of the launch */
  };
  uint32_t slot;
  uint32_t kind; /* enum fikit_entry_kind */
  uint64_t value;
};

/* Memory of a client whose job has host_bytes, and who moves it. Since version 6; all 0 in other jobs. Movable: managed memory that
 * the shim allocated in the place of plain memory. A goal is a wish: memory that is elsewhere is found all the same, late. Each piece
 * of a move is a copy, and asks as one where copies ask (copies_ask_from): so moves wait while a job above is expected to copy. */
struct fikit_moves {
  /* Written by the daemon, which wakes the client then. */
  FIKIT_ATOMIC(uint64_t) goal_bytes; /* so many of movable_bytes are to be on the GPU, written before `goal`; UINT64_MAX: all */
  FIKIT_ATOMIC(uint32_t) goal;       /* number of this wish; 0: nobody has one, and nothing is moved */
  uint8_t pad0[52];

  /* Written by the client: a cache line of its own. */
  FIKIT_ATOMIC(uint64_t) movable_bytes;  /* allocated and not freed */
  FIKIT_ATOMIC(uint64_t) resident_bytes; /* of these on the GPU, as far as the client knows: it sees no page fault */
  FIKIT_ATOMIC(uint64_t) in_bytes;       /* moved to the GPU ahead, in all; */
  FIKIT_ATOMIC(uint64_t) out_bytes;      /* and away from it */
  FIKIT_ATOMIC(uint64_t) missed_bytes;   /* were to be on the GPU and not there when its work went on: these come by page faults */
  FIKIT_ATOMIC(uint64_t) moving_ns;      /* for so long has a thread of it stood at the gate and moved */
  FIKIT_ATOMIC(uint32_t) reached;        /* the newest goal that it has done what it can for; written after the words above */
  FIKIT_ATOMIC(uint32_t) turns;          /* times that memory was brought, each after some had been sent away */
  FIKIT_ATOMIC(uint32_t) failures;       /* moves that the driver refused; each ends the moving for its goal */
  uint32_t reserved;
};

/* No fikitd gives a lease longer than half of this: lease_ms is 10 s at most, and a lease ten times that while nothing is launched. (Of half, since a client may
 * have read the clock before.) One that ends further ahead is none, so that whatever a faulty fikitd wrote last holds a launch for a bounded time. */
#define FIKIT_MOST_LEASE_NS INT64_C(200000000000)

struct fikit_page {
  /* Constant after WELCOME; written by the daemon. */
  uint32_t magic;
  uint32_t version;
  uint32_t page_bytes;
  uint32_t measure;    /* 1: time every launch (--fikit-measure); the gate is closed only while it is the turn of another
                          process of its job, which is measured too */
  int64_t lease_ns;    /* how long a closed gate may hold without being renewed */
  int64_t spin_ns;     /* how long to spin at a closed gate before futex-waiting */
  uint32_t sample_every; /* time one launch in so many also when not measuring; 0: none */
  uint8_t pad0[28];

  /* Written by the daemon, read on the launch path: a cache line of its own. */
  FIKIT_ATOMIC(uint32_t) gate;      /* enum fikit_gate */
  FIKIT_ATOMIC(uint32_t) wake;      /* futex word: the daemon adds 1 and wakes after every change below or of gate */
  FIKIT_ATOMIC(uint32_t) grant_seq; /* the request with this request_seq may launch */
  FIKIT_ATOMIC(uint32_t) awake;     /* 1: the dispatcher is polling; no doorbell needed */
  FIKIT_ATOMIC(int64_t) gate_until_ns; /* a CLOSED gate counts as OPEN after this moment, and where it is more than FIKIT_MOST_LEASE_NS ahead; renewed by the daemon */
  FIKIT_ATOMIC(uint64_t) ring_tail; /* entries the daemon has consumed (measuring clients ring the doorbell at half) */
  FIKIT_ATOMIC(uint32_t) marker_interval; /* put a mark behind one launch in so many, and where the bits below say so; 0: none */
  /* Since version 5. 1: a memset or copy within the device is a launch; 0, as older daemons had it with MPS: passes. */
  FIKIT_ATOMIC(uint32_t) fills_ask;
  /* Since version 3: at a CLOSED gate a launch of a known slot (known_slots; older shims: of any) goes on without asking
   * while launch_seq is below this. The daemon raises and lowers it at any time; it says "not after that", so a launch that
   * has looked already still goes: at most one for each thread that is just then launching. */
  FIKIT_ATOMIC(uint64_t) run_until;
  /* Since version 4: at a CLOSED gate a copy of so many bytes asks, as a launch does; 0: none does. [0] IN, [1] OUT. No run covers
   * it. */
  FIKIT_ATOMIC(uint64_t) copies_ask_from[FIKIT_COPY_DIRECTIONS];

  /* Written by the client's launch path. */
  FIKIT_ATOMIC(uint64_t) ring_head;
  FIKIT_ATOMIC(uint64_t) launch_seq; /* launches issued so far, kernels and graphs, open or granted */
  uint8_t pad3[48];

  /* Written by the client's slow path (closed gate). One requester at a time per process. */
  FIKIT_ATOMIC(uint32_t) request_seq;  /* +1 for each request; never 0 */
  FIKIT_ATOMIC(uint32_t) waiting;      /* 1 while request_seq waits; written after the fields below */
  FIKIT_ATOMIC(uint32_t) request_slot;
  FIKIT_ATOMIC(uint32_t) request_copy; /* enum fikit_copy. NONE: a launch. Since version 4 */
  FIKIT_ATOMIC(int64_t) request_ns;
  FIKIT_ATOMIC(uint64_t) wait_count;   /* closed-gate waits, and their total length */
  FIKIT_ATOMIC(uint64_t) wait_total_ns;
  FIKIT_ATOMIC(uint64_t) expired_count;
  FIKIT_ATOMIC(uint64_t) marker_count; /* completion markers issued */
  FIKIT_ATOMIC(uint64_t) request_bytes; /* of a copy. Since version 4 */

  FIKIT_ATOMIC(uint32_t) wait_histogram[FIKIT_WAIT_BUCKETS];
  FIKIT_ATOMIC(int64_t) first_launch_ns; /* 0 = none yet */
  FIKIT_ATOMIC(int64_t) last_drained_ns; /* t_ns of the newest DRAINED, also when the ring lost it */
  uint8_t pad5[80];

  FIKIT_ATOMIC(uint64_t) slot_launches[FIKIT_SLOTS]; /* exact launch counts by identity */
  struct fikit_entry ring[FIKIT_RING_ENTRIES];

  /* Written by the daemon, a bit for each slot: it knows how long the slot runs (a launch of one that it does not know gets
   * a mark each time); the device is often idle after it (gets a mark unless one was put, or a drain seen, just before). */
  FIKIT_ATOMIC(uint32_t) known_slots[FIKIT_SLOTS / 32];
  FIKIT_ATOMIC(uint32_t) gap_slots[FIKIT_SLOTS / 32];

  /* Constant after WELCOME; written by the daemon. Since version 5: patterns (fnmatch(3)) of the names of kernels that the site
   * knows to wait for others on other GPUs: their slots are of kind COOPERATIVE. */
  char collective_names[FIKIT_COLLECTIVES_BYTES];
  struct fikit_moves moves; /* since version 6 */
  FIKIT_ATOMIC(uint64_t) most_movable_bytes; /* the most that moves.movable_bytes was lately, and when it last was: in stream order a program takes and gives */
  FIKIT_ATOMIC(int64_t) most_movable_ns;     /* back the memory of a whole pass between two looks at it. Since version 7; 0: by a client that does not say it */
  FIKIT_ATOMIC(uint64_t) moves_per_s[FIKIT_COPY_DIRECTIONS]; /* bytes that a plan's moves take of the device per second, each move by itself, as its events say;
                                                                [0] IN, [1] OUT. 0: too few were timed yet. Since version 8 */
  uint8_t pad6[2560 - FIKIT_COLLECTIVES_BYTES - sizeof(struct fikit_moves) - 32];

  /* Written by the GPU, where the client could register this one page of memory with it. Mark number n (from 1) is word
   * n % FIKIT_MARKS, and reached once the word is n. A number is given out when the one FIKIT_MARKS before it was reached. */
  FIKIT_ATOMIC(uint32_t) marks[FIKIT_MARKS];
  uint8_t pad7[FIKIT_MARKS_BYTES - 4 * FIKIT_MARKS];
};

/* ---------------------------------------------------------------- the plan, behind the page */

/* A program whose memory has less room on the GPU than it needs goes through the same launches again and again: a pass. A plan says which
 * pieces of its memory leave and come back in each pass, and behind which launch. It is a wish, as a goal is: what is not there comes by a
 * page fault. The plan lies behind the page of a client, in the same file, from version 7 on (fikit_plan_of); untouched it takes no memory. */
#define FIKIT_CHUNK_BYTES (2u << 20)   /* what a GPU moves as a whole */
#define FIKIT_PLAN_CHUNKS 32u          /* of one move: 64 MiB, about 3 ms of the link */
#define FIKIT_PLAN_MOVES 8192u
#define FIKIT_PLAN_LAUNCHES 16384u     /* of a pass */

/* Launches are counted from 0, the first one of the pass. */
struct fikit_plan_move {
  uint32_t after;      /* the launch at whose end it may begin */
  uint32_t before;     /* IN: the launch that needs it, and waits for it on the GPU: of the next pass unless it is behind `after`. OUT: 0 */
  uint32_t chunk;      /* the first, from the allocation's begin */
  uint16_t allocation; /* its number, below FIKIT_TOUCH_ALLOCATIONS, as TOUCH entries have it */
  uint8_t chunks;      /* 1 .. FIKIT_PLAN_CHUNKS; the allocation's last one may be shorter */
  uint8_t copy;        /* enum fikit_copy: IN or OUT; NONE: a first use */
};

/* Behind the moves stand first uses: chunks that launch `before` is the first to touch since the program took their memory. The plan counts them as being on the GPU
 * from that launch on, so there is room for them there, and nowhere else. They are no moves, and stand in the order of `before`; `after` is 0. */

/* Written by the daemon, whole: number = 0, fence release, the rest, number (release). Read by the client: number acquire, the rest copied,
 * fence acquire, number again. */
struct fikit_plan {
  FIKIT_ATOMIC(uint32_t) number;       /* of this plan; another one each time. 0: there is none, or it is being written */
  FIKIT_ATOMIC(uint32_t) launches;     /* of a pass, 1 .. FIKIT_PLAN_LAUNCHES */
  FIKIT_ATOMIC(uint64_t) first_launch; /* launch_seq of the first launch of a pass (launches count from 1); the next pass follows it at once */
  FIKIT_ATOMIC(int64_t) until_ns;      /* not carried out after that; the daemon renews it, at any time, while the program keeps to its passes */
  FIKIT_ATOMIC(uint32_t) count;        /* of moves */
  FIKIT_ATOMIC(uint32_t) first_uses;   /* entries behind the moves; with them FIKIT_PLAN_MOVES at most. A client may look at none */

  /* Written by the client. */
  FIKIT_ATOMIC(uint32_t) taken;        /* the newest plan that it works by, or 0 */
  FIKIT_ATOMIC(uint32_t) refused;      /* moves that the driver refused; after one the plan is dropped */
  FIKIT_ATOMIC(uint64_t) carried_out;  /* moves and first uses handed to the driver, of all plans */
  FIKIT_ATOMIC(uint64_t) skipped;      /* moves that were due and were not: the place was gone, a capture was under way, nobody came by in time; first
                                          uses that the driver refused */
  FIKIT_ATOMIC(uint64_t) bytes_per_s;  /* of as many bytes in as out, moved one behind the other; 0: moves_per_s of the page is not known of both. A fikitd
                                          before version 8 takes it for either direction's */

  struct fikit_plan_move moves[FIKIT_PLAN_MOVES]; /* in the order in which they begin; `after` never goes down. Behind them the first uses */
};

/* ---------------------------------------------------------------- the memory page */

/* What one process of the job holds on this GPU. Written by that process; set to zero by the daemon once it is gone. */
struct fikit_memory_share {
  FIKIT_ATOMIC(uint64_t) held_bytes;   /* allocated and not freed */
  FIKIT_ATOMIC(uint64_t) wanted_bytes; /* a request that is being decided; shown before it is added to held_bytes */
  FIKIT_ATOMIC(uint64_t) peak_bytes;   /* most that was held at a time */
  FIKIT_ATOMIC(uint64_t) plain_bytes;  /* of held_bytes, where the job has host_bytes: what cannot leave the GPU */
  uint64_t reserved[4];
};

/* One page for a job and a GPU: a limit and what its processes hold. Whatever they write into it is their own affair: no
 * other job reads it. There is no common sum, so that nothing is lost when a process dies between two stores. With a limit,
 * a request is shown in wanted_bytes first, then everybody's wanted and held bytes are added up (wanted first); of two
 * requests that see each other and do not fit together, the one in the lower share goes on. */
struct fikit_memory {
  /* Constant; written by the daemon. */
  uint32_t magic;
  uint32_t version;
  uint32_t memory_bytes;
  uint32_t reserved0;
  uint64_t limit_bytes; /* 0 = none */
  uint64_t host_bytes;  /* beside limit_bytes, so many may be held that lie in host memory while nobody uses them: the shim makes
                           allocations managed memory, and what it leaves plain is limit_bytes at most. 0: none, and nothing is made
                           managed. Older shims know limit_bytes alone */
  uint8_t pad0[32];

  FIKIT_ATOMIC(uint32_t) shares; /* written by the daemon: shares in use are below this */
  uint32_t reserved1;
  FIKIT_ATOMIC(uint64_t) peak_bytes; /* most that all processes held at a time, as far as they saw it */
  FIKIT_ATOMIC(uint64_t) refused;    /* requests beyond the limit */
  uint8_t pad1[40];

  struct fikit_memory_share share[FIKIT_MEMORY_SHARES];
};

#ifdef __cplusplus
}
#define FIKIT_STATIC_ASSERT static_assert
#else
#define FIKIT_STATIC_ASSERT _Static_assert
#endif

FIKIT_STATIC_ASSERT(sizeof(struct fikit_entry) == 32, "a ring entry is half a cache line");
FIKIT_STATIC_ASSERT(sizeof(struct fikit_page) % FIKIT_MARKS_BYTES == 0, "the marks begin and end a page of memory");
FIKIT_STATIC_ASSERT(sizeof(struct fikit_moves) == 128, "the daemon's words of moves and the client's are a cache line each");
FIKIT_STATIC_ASSERT(sizeof(struct fikit_plan_move) == 16, "four moves of a plan are a cache line");
FIKIT_STATIC_ASSERT(sizeof(struct fikit_plan) == 64 + 16 * FIKIT_PLAN_MOVES, "before the moves of a plan is one cache line");
FIKIT_STATIC_ASSERT(sizeof(struct fikit_memory_share) == 64, "a process's share is a cache line");
FIKIT_STATIC_ASSERT(sizeof(struct fikit_memory) % 64 == 0, "the memory page is whole cache lines");
FIKIT_STATIC_ASSERT(sizeof(struct fikit_kernel) <= FIKIT_MESSAGE_BYTES, "a message fits a packet");

#endif
