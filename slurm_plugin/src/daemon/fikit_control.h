/* One request to fikitd's control socket, never longer than a deadline: jobs do not wait for fikit. */
#ifndef FIKIT_CONTROL_H
#define FIKIT_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* CLOCK_MONOTONIC. */
int64_t fikit_now_us(void);
int64_t fikit_now_ms(void);

/* Sends `request` ("VERB ARG...") and stores the payload's first packet in `payload`, NUL-terminated and without the
 * leading "ok". False when nobody answered "ok" within timeout_ms. */
bool fikit_control(const char *run_dir, const char *request, int timeout_ms, char *payload, size_t size);

#endif
