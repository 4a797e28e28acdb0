/*
 * What stubs.S (generate.py) is made of: for each name of the driver that is not handled an exported jump through its slot, and
 * for each name a lazy entry, which a slot holds until the first call. Both leave every register that carries an argument
 * as it is.
 */
#if defined(__x86_64__)

.macro EXPORTED name, offset
    .globl \name
    .type \name, @function
    .p2align 4
\name:
    endbr64
    jmp *fikit_slots+\offset(%rip)
    .size \name, . - \name
.endm

/* Pushes the slot's number for fikit_lazy (entry_x86_64.S). */
.macro LAZY index
.Llazy\index:
    endbr64
    pushq $\index
    jmp fikit_lazy
.endm

#elif defined(__aarch64__)

/* x16 and x17 are the two registers that a call may lose on its way (AAPCS64, section 6.1.1: IP0, IP1). */
.macro EXPORTED name, offset
    .globl \name
    .type \name, %function
    .p2align 4
\name:
    hint #34 /* bti c */
    adrp x16, fikit_slots+\offset
    add x16, x16, :lo12:fikit_slots+\offset
    ldar x16, [x16] /* as REAL does: another thread may just have loaded the driver */
    br x16
    .size \name, . - \name
.endm

/* Leaves the slot's number in w17 for fikit_lazy (entry_aarch64.S). */
.macro LAZY index
.Llazy\index:
    hint #34 /* bti c */
    mov w17, #\index
    b fikit_lazy
.endm

#else
#error "shim: stub.h and an entry file exist for x86-64 and aarch64; another processor needs its own"
#endif

.macro SLOT index
    .quad .Llazy\index
.endm
