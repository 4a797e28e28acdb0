/* The shim's only output: one line on stderr, "fikit: ...". */
#ifndef FIKIT_SHIM_LOG_H
#define FIKIT_SHIM_LOG_H

void fikit_log(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
