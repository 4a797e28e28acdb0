/*
 * The rules by which a client goes at its page: when a launch or a copy asks, which launches a grant lets through, where marks
 * stand, what is worth a report. The shim and the simulator's jobs go by these functions, so that a simulated job does what a
 * real one would. All of them only read; nothing here takes a lock, calls the system or allocates.
 */
#ifndef FIKIT_RULES_H
#define FIKIT_RULES_H

#include "fikit_protocol.h"

#ifdef __cplusplus
#define FIKIT_LOAD(word, order) ((word).load(std::memory_order_##order))
#define FIKIT_LIKELY(condition, how) (condition)
#else
#include <stdbool.h>
#define FIKIT_LOAD(word, order) atomic_load_explicit(&(word), memory_order_##order)
#define FIKIT_LIKELY(condition, how) __builtin_expect(condition, how)
#endif

/* A few launches after a mark, the end of the work is still well reckoned. */
enum { FIKIT_FEW_LAUNCHES = 4 };

static inline bool fikit_slot_bit(const FIKIT_ATOMIC(uint32_t) * bits, uint32_t slot) {
  return (FIKIT_LOAD(bits[slot / 32], relaxed) >> slot % 32 & 1) != 0;
}

/* ---------------------------------------------------------------- the gate */

static inline bool fikit_gate_open(const struct fikit_page *page) {
  return FIKIT_LOAD(page->gate, acquire) == FIKIT_GATE_OPEN;
}

/* After so many launches: may no more go without asking? */
static inline bool fikit_run_over(const struct fikit_page *page, uint64_t launches) {
  return launches >= FIKIT_LOAD(page->run_until, acquire);
}

/* The next launch, of this slot, belongs to the run that was granted last. A run is of known length: a launch of unknown length
 * asks, and gets a mark of its own. */
static inline bool fikit_run_covers(const struct fikit_page *page, uint32_t slot) {
  return !fikit_run_over(page, FIKIT_LOAD(page->launch_seq, relaxed)) && fikit_slot_bit(page->known_slots, slot);
}

/* The same of what a request is about: a copy belongs to no run. */
static inline bool fikit_request_covered(const struct fikit_page *page, enum fikit_copy copy, uint32_t slot) {
  return copy == FIKIT_COPY_NONE && fikit_run_covers(page, slot);
}

/* What a client that waits is told: nothing yet, or why it goes on. GRANTED: its own request; COVERED: it belongs to the run of
 * `grant_seq`, which has grown meanwhile. */
enum fikit_gate_says { FIKIT_SAYS_WAIT, FIKIT_SAYS_GRANTED, FIKIT_SAYS_OPEN, FIKIT_SAYS_COVERED };
static inline enum fikit_gate_says fikit_gate_says(const struct fikit_page *page, uint32_t request_seq, enum fikit_copy copy, uint32_t slot) {
  if (FIKIT_LOAD(page->grant_seq, acquire) == request_seq)
    return FIKIT_SAYS_GRANTED;
  if (fikit_gate_open(page))
    return FIKIT_SAYS_OPEN;
  return fikit_request_covered(page, copy, slot) ? FIKIT_SAYS_COVERED : FIKIT_SAYS_WAIT;
}

/* After the launch that was counted last, another one may follow on the same grant: what is said of the grant's end is said of a
 * later launch, or when the client asks again. */
static inline bool fikit_run_goes_on(const struct fikit_page *page) {
  return !fikit_run_over(page, FIKIT_LOAD(page->launch_seq, relaxed));
}

/* The number of the request after this one. */
static inline uint32_t fikit_next_request(uint32_t request_seq) {
  return request_seq + 1 == 0 ? 1 : request_seq + 1;
}

/* ---------------------------------------------------------------- copies */

/* Does anybody want to know of this client's copies? */
static inline bool fikit_copies_matter(const struct fikit_page *page) {
  return !fikit_gate_open(page) || FIKIT_LOAD(page->marker_interval, relaxed) != 0;
}

/* A copy of so many bytes, to the device or from it, asks as a launch does. */
static inline bool fikit_copy_asks(const struct fikit_page *page, enum fikit_copy copy, uint64_t bytes) {
  uint64_t from = FIKIT_LOAD(page->copies_ask_from[copy - FIKIT_COPY_IN], relaxed);
  return from != 0 && bytes >= from && !fikit_gate_open(page);
}

/* Memsets and copies within the device are launches: the device does them as it does kernels. */
static inline bool fikit_fills_ask(const struct fikit_page *page) {
  return page->version >= FIKIT_SINCE_FILLS && FIKIT_LOAD(page->fills_ask, relaxed) != 0;
}

/* ---------------------------------------------------------------- plans */

/* Of the file in which a page of this version lies. */
static inline uint64_t fikit_page_file_bytes(uint32_t version) {
  return sizeof(struct fikit_page) + (version >= FIKIT_SINCE_PLANS ? sizeof(struct fikit_plan) : 0);
}

/* The plan behind a page that is mapped whole, of version 7 or newer. */
static inline struct fikit_plan *fikit_plan_behind(struct fikit_page *page) {
  return (struct fikit_plan *)(void *)(page + 1);
}

/* ---------------------------------------------------------------- marks and reports */

/* Behind the launch with this launch_seq, of this slot, fikitd wants a mark. `marked`: launch_seq of the newest mark, or of what
 * was last known to be complete. seq 0: the driver refused the launch. fikitd asks for marks only while a client with a lower
 * priority shares the GPU. */
static inline bool fikit_mark_wanted(const struct fikit_page *page, const FIKIT_ATOMIC(uint64_t) * marked, uint32_t slot, uint64_t seq) {
  uint32_t every = FIKIT_LOAD(page->marker_interval, relaxed);
  if (FIKIT_LIKELY(every == 0, 1) || seq == 0)
    return false;
  uint64_t launches = seq - FIKIT_LOAD(*marked, relaxed);
  return launches >= every || (launches >= FIKIT_FEW_LAUNCHES && fikit_slot_bit(page->gap_slots, slot)) ||
         !fikit_slot_bit(page->known_slots, slot);
}

/* Is the device too far behind to give the mark after number `last` a word of its own? */
static inline bool fikit_marks_all_out(const struct fikit_page *page, uint32_t last) {
  uint32_t before = last >= FIKIT_MARKS ? last + 1 - FIKIT_MARKS : 0;
  return before != 0 && FIKIT_LOAD(page->marks[before % FIKIT_MARKS], relaxed) != before;
}

/* The device has come to this mark. A later mark has the word only when this one was reached; numbers wrap. */
static inline bool fikit_mark_reached(const struct fikit_page *page, uint32_t number) {
  return (int32_t)(FIKIT_LOAD(page->marks[number % FIKIT_MARKS], acquire) - number) >= 0;
}

/* All up to launch number `seq` is complete; up to `claimed` that was said before. */
static inline bool fikit_drain_is_news(uint64_t seq, uint64_t claimed) {
  return seq > claimed;
}

/* Without work for so long, a program pauses. */
enum { FIKIT_PAUSE_NS = 50000000 };

/* A drain rings where the one before, at last_ns (0: there was none), is longer ago: the pause between them is over, and fikitd, who looks the
 * more rarely the longer nothing comes, would hear of it late, perhaps after the program's end. */
static inline bool fikit_drain_rings(int64_t last_ns, int64_t now_ns) {
  return last_ns <= now_ns - FIKIT_PAUSE_NS;
}

/* What the entry of a launch says: the request that it was granted, else its launch_seq. */
static inline uint64_t fikit_launch_value(enum fikit_entry_kind kind, uint32_t request_seq, uint64_t seq) {
  return kind == FIKIT_ENTRY_GRANTED ? request_seq : seq;
}

/* DRAINED says for how long the host had waited since began_ns; 0: it had only asked. */
static inline uint32_t fikit_waited_ns(int64_t began_ns, int64_t now_ns) {
  int64_t ns = now_ns - began_ns;
  if (began_ns == 0)
    return 0;
  return ns < 1 ? 1 : ns < UINT32_MAX ? (uint32_t)ns : UINT32_MAX;
}

/* A host that does so little between two waits has nothing else to do. */
enum { FIKIT_AT_ONCE_NS = 200000 };

/* A host's newest wait. */
struct fikit_wait {
  uint64_t seq; /* launches before it; UINT64_MAX: there was none */
  int64_t since_ns, until_ns;
};

/* A host that waits for one stream and at once for another, with no launch in between, waits once: that all is complete may be
 * known only after the last, which may have had nothing to wait for. Since when has it waited, by a wait that began at
 * began_ns (0: it only asked, at asked_ns)? */
static inline int64_t fikit_waits_since(struct fikit_wait *wait, uint64_t seq, int64_t began_ns, int64_t asked_ns) {
  int64_t from_ns = began_ns != 0 ? began_ns : asked_ns;
  if (wait->seq == seq && from_ns - wait->until_ns < FIKIT_AT_ONCE_NS)
    return wait->since_ns;
  wait->seq = began_ns != 0 ? seq : UINT64_MAX;
  wait->since_ns = began_ns;
  return began_ns;
}

#endif
