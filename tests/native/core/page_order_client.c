/* The client's side of page_order.cpp: the shim's own gate, page writer and tables, with nothing behind them. */
#include "gate/gate.h"
#include "base/handle_map.h"
#include "gate/marker.h"
#include "base/monitor.h"
#include "base/page.h"
#include "base/symbols.h"

#include "../../support/no_moves.h"
#include "page_order.h"

void *fikit_slots[FIKIT_SYMBOLS];
static struct fikit_device device;
static HANDLE_MAP(names);

/* What gate.c calls besides. Nobody sleeps here, and nobody is gone. */
void fikit_doorbell(struct fikit_device *rung) { (void)rung; }
void fikit_monitor_look(struct fikit_device *looked_at, int64_t interval_ns) { (void)looked_at, (void)interval_ns; }
bool fikit_markers_poll(struct fikit_device *polled) { return (void)polled, false; }
void fikit_marker_end_run(struct fikit_device *of, struct fikit_stream *entry, CUstream stream) { (void)of, (void)entry, (void)stream; }

void client_has(struct fikit_page *page) { device.page = page; }

void client_reports(uint64_t value) { fikit_page_put(device.page, FIKIT_ENTRY_LAUNCH, (uint32_t)value, value, (int64_t)value); }

uint32_t client_asks(uint64_t bytes) { return fikit_gate_wait_to_copy(&device, FIKIT_COPY_IN, bytes).request_seq; }

uint32_t client_posts(uint64_t bytes) { return fikit_page_post(device.page, (uint32_t)bytes, FIKIT_COPY_NONE, bytes, (int64_t)bytes); }
void client_withdraws(void) { fikit_page_withdraw(device.page); }
bool client_rings(void) { return fikit_page_needs_bell(device.page); }

bool client_may_go(void) { return fikit_gate_open(device.page); }
bool client_goes_on(uint64_t launches) { return !fikit_run_over(device.page, launches); }

void client_names(uintptr_t handle, const void *name) { handle_map_put(&names, handle, (uintptr_t)name, 0); }
const void *client_name_of(uintptr_t handle) { return (const void *)handle_map_get(&names, handle); }

void client_finds(void *function) { fikit_slot_fill(FIKIT_SYM_cuInit, function); }
void *client_calls(void) { return (void *)REAL(cuInit); }
