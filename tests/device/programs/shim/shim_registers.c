/*
 * A call that the shim only passes on, with more arguments than registers carry, of both kinds. Built as the driver
 * (-DDRIVER) and as the program: prints what the driver makes of them, through the lazy stub and then through the jump. The look-up
 * of the name, during the first call, spoils every register that it may.
 */
#include <stdio.h>

#define ARGUMENTS                                                                                                    \
  long a, long b, long c, long d, long e, long f, long g, long h, double r, double s, double t, double u, double v, \
      double w, double x, double y, long i, double z

#ifdef DRIVER
typedef long function(ARGUMENTS);

static long sum(ARGUMENTS) {
  return (long)(a + 2 * b + 3 * c + 5 * d + 7 * e + 11 * f + 13 * g + 17 * h + 19 * i + 23 * r + 29 * s + 31 * t + 37 * u +
                41 * v + 43 * w + 47 * x + 53 * y + 59 * z);
}

/* The loader calls this when the name is looked up. */
static function *found(void) {
#if defined(__aarch64__)
  __asm__ volatile("movi v0.16b, #255\n movi v1.16b, #255\n movi v2.16b, #255\n movi v3.16b, #255\n movi v4.16b, #255\n"
                   "movi v5.16b, #255\n movi v6.16b, #255\n movi v7.16b, #255\n mov x8, #1\n"
                   ::: "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "x8");
#elif defined(__x86_64__)
  __asm__ volatile("pcmpeqd %%xmm0, %%xmm0\n pcmpeqd %%xmm1, %%xmm1\n pcmpeqd %%xmm2, %%xmm2\n pcmpeqd %%xmm3, %%xmm3\n"
                   "pcmpeqd %%xmm4, %%xmm4\n pcmpeqd %%xmm5, %%xmm5\n pcmpeqd %%xmm6, %%xmm6\n pcmpeqd %%xmm7, %%xmm7\n"
                   ::: "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7");
#endif
  return sum;
}

__attribute__((visibility("default"), ifunc("found"))) function cuCoredumpGetAttribute;
#else
long cuCoredumpGetAttribute(ARGUMENTS);

int main(void) {
  for (int round = 0; round < 2; round++)
    printf("%ld\n", cuCoredumpGetAttribute(1, 20, 300, 4000, 50000, 600000, 7000000, 80000000, 1, 2.5, 3, 4.5, 5, 6.5, 7, 8.5, 9, 10));
  return 0;
}
#endif
