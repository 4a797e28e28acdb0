/*
 * The two places where C cannot be used: arguments of unknown number and type must pass untouched.
 */
    .section .note.GNU-stack,"",@progbits
    .text

/* A slot's first call: the stub pushed the slot's number. Keep every argument register, resolve, go on to the result. */
    .globl fikit_lazy
    .hidden fikit_lazy
    .type fikit_lazy, @function
fikit_lazy:
    .cfi_startproc
    .cfi_adjust_cfa_offset 8
    pushq %rdi
    pushq %rsi
    pushq %rdx
    pushq %rcx
    pushq %r8
    pushq %r9
    pushq %rax
    pushq %r10
    .cfi_adjust_cfa_offset 64
    subq $128, %rsp
    .cfi_adjust_cfa_offset 128
    movups %xmm0, 0(%rsp)
    movups %xmm1, 16(%rsp)
    movups %xmm2, 32(%rsp)
    movups %xmm3, 48(%rsp)
    movups %xmm4, 64(%rsp)
    movups %xmm5, 80(%rsp)
    movups %xmm6, 96(%rsp)
    movups %xmm7, 112(%rsp)
    movl 192(%rsp), %edi
    call fikit_resolve
    movq %rax, %r11
    movups 0(%rsp), %xmm0
    movups 16(%rsp), %xmm1
    movups 32(%rsp), %xmm2
    movups 48(%rsp), %xmm3
    movups 64(%rsp), %xmm4
    movups 80(%rsp), %xmm5
    movups 96(%rsp), %xmm6
    movups 112(%rsp), %xmm7
    addq $128, %rsp
    .cfi_adjust_cfa_offset -128
    popq %r10
    popq %rax
    popq %r9
    popq %r8
    popq %rcx
    popq %rdx
    popq %rsi
    popq %rdi
    addq $8, %rsp
    .cfi_adjust_cfa_offset -72
    jmp *%r11
    .cfi_endproc
    .size fikit_lazy, . - fikit_lazy

/* dlsym(handle, name) and dlvsym(handle, name, version). A name that is not ours leaves by a jump, so that RTLD_NEXT
 * still means "after the caller". */
.macro HOOK name, next
    .globl \name
    .type \name, @function
\name:
    .cfi_startproc
    endbr64
    pushq %rdi
    pushq %rsi
    pushq %rdx
    .cfi_adjust_cfa_offset 24
.ifc \name, dlsym
    xorl %edx, %edx
.endif
    call fikit_dlsym_filter
    popq %rcx
    popq %rsi
    popq %rdi
    .cfi_adjust_cfa_offset -24
    testl %edx, %edx
    movq %rcx, %rdx
    jz 1f
    ret
1:  jmp *\next(%rip)
    .cfi_endproc
    .size \name, . - \name
.endm

HOOK dlsym, fikit_next_dlsym
HOOK dlvsym, fikit_next_dlvsym
