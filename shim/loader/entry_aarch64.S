/*
 * entry_x86_64.S for aarch64: the two places where C cannot be used, for arguments of unknown number and type must pass
 * untouched. By AAPCS64 arguments travel in x0-x7, x8 (where a large result goes) and q0-q7; the callee keeps the rest.
 * "hint #34" is BTI C: this code may be entered by an indirect call, on processors that check.
 */
    .section .note.GNU-stack,"",%progbits
    .text

/* A slot's first call: the stub left the slot's number in w17. Keep every argument register, resolve, go on to the result. */
    .globl fikit_lazy
    .hidden fikit_lazy
    .type fikit_lazy, %function
fikit_lazy:
    .cfi_startproc
    stp x29, x30, [sp, #-224]!
    .cfi_adjust_cfa_offset 224
    .cfi_rel_offset x29, 0
    .cfi_rel_offset x30, 8
    mov x29, sp
    stp x0, x1, [sp, #16]
    stp x2, x3, [sp, #32]
    stp x4, x5, [sp, #48]
    stp x6, x7, [sp, #64]
    str x8, [sp, #80]
    stp q0, q1, [sp, #96]
    stp q2, q3, [sp, #128]
    stp q4, q5, [sp, #160]
    stp q6, q7, [sp, #192]
    mov w0, w17
    bl fikit_resolve
    mov x16, x0
    ldp q0, q1, [sp, #96]
    ldp q2, q3, [sp, #128]
    ldp q4, q5, [sp, #160]
    ldp q6, q7, [sp, #192]
    ldr x8, [sp, #80]
    ldp x6, x7, [sp, #64]
    ldp x4, x5, [sp, #48]
    ldp x2, x3, [sp, #32]
    ldp x0, x1, [sp, #16]
    ldp x29, x30, [sp], #224
    .cfi_restore x29
    .cfi_restore x30
    .cfi_adjust_cfa_offset -224
    br x16
    .cfi_endproc
    .size fikit_lazy, . - fikit_lazy

/* dlsym(handle, name) and dlvsym(handle, name, version). A name that is not ours leaves by a jump with the caller's x30, so
 * that RTLD_NEXT still means "after the caller". fikit_dlsym_filter answers in x0 and x1 (struct answer, dlsym.c). */
.macro HOOK name, next
    .globl \name
    .type \name, %function
\name:
    .cfi_startproc
    hint #34
    stp x29, x30, [sp, #-48]!
    .cfi_adjust_cfa_offset 48
    .cfi_rel_offset x29, 0
    .cfi_rel_offset x30, 8
    mov x29, sp
    stp x0, x1, [sp, #16]
    str x2, [sp, #32]
.ifc \name, dlsym
    mov x2, xzr
.endif
    bl fikit_dlsym_filter
    cbz x1, 1f
    ldp x29, x30, [sp], #48
    .cfi_remember_state
    .cfi_restore x29
    .cfi_restore x30
    .cfi_adjust_cfa_offset -48
    ret
1:  .cfi_restore_state
    ldp x0, x1, [sp, #16]
    ldr x2, [sp, #32]
    ldp x29, x30, [sp], #48
    .cfi_restore x29
    .cfi_restore x30
    .cfi_adjust_cfa_offset -48
    adrp x16, \next
    ldr x16, [x16, :lo12:\next]
    br x16
    .cfi_endproc
    .size \name, . - \name
.endm

HOOK dlsym, fikit_next_dlsym
HOOK dlvsym, fikit_next_dlvsym
