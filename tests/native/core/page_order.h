/* What page_order.cpp asks of the shim's code (page_order_client.c). */
#ifndef PAGE_ORDER_H
#define PAGE_ORDER_H

#include "fikit_protocol.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void client_has(struct fikit_page *page);
void client_reports(uint64_t value);
uint32_t client_asks(uint64_t bytes); /* which request was granted; 0: none */
uint32_t client_posts(uint64_t bytes);
void client_withdraws(void);
bool client_rings(void);
bool client_may_go(void);
bool client_goes_on(uint64_t launches);
void client_names(uintptr_t handle, const void *name);
const void *client_name_of(uintptr_t handle);
void client_finds(void *function);
void *client_calls(void);

#ifdef __cplusplus
}
#endif

#endif
