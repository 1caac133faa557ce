// The exported functions. UCX's memory hooks overwrite the first bytes of those that allocate and
// free, and relocate only simple instructions: each entry begins with 16 bytes of stack adjustments
// that cancel. Then one gate counts the call, lets failures be injected, and jumps to where the
// simulator's function is, with the caller's arguments and return address untouched.

.macro entry name
    .globl \name
    .type \name, @function
    .weak simgpu_\name
    .hidden simgpu_\name
    .p2align 4
\name:
    subq $8, %rsp
    subq $-8, %rsp
    subq $8, %rsp
    subq $-8, %rsp
    movl $entry_number, %eax
    jmp gate
    .size \name, .-\name
    .set entry_number, entry_number + 1
.endm

    .text
    .set entry_number, 0
#define DRIVER_NAME(name) entry name
#include "names.def"
#undef DRIVER_NAME

    .p2align 4
    .type gate, @function
gate:
    .cfi_startproc
    .irp register, rdi, rsi, rdx, rcx, r8, r9
    pushq %\register
    .cfi_adjust_cfa_offset 8
    .endr
    subq $8, %rsp
    .cfi_adjust_cfa_offset 8
    movl %eax, %edi
    movq 56(%rsp), %rsi
    call simgpu_enter
    addq $8, %rsp
    .cfi_adjust_cfa_offset -8
    .irp register, r9, r8, rcx, rdx, rsi, rdi
    popq %\register
    .cfi_adjust_cfa_offset -8
    .endr
    jmp *%rax
    .cfi_endproc
    .size gate, .-gate

// Null where the simulator has no such function.
    .section .data.rel.ro, "aw"
    .globl simgpu_functions
    .hidden simgpu_functions
    .hidden simgpu_enter
    .p2align 3
simgpu_functions:
#define DRIVER_NAME(name) .quad simgpu_##name
#include "names.def"

#undef DRIVER_NAME
    .globl simgpu_entries
    .hidden simgpu_entries
simgpu_entries:
#define DRIVER_NAME(name) .quad name
#include "names.def"

    .section .note.GNU-stack, "", @progbits
