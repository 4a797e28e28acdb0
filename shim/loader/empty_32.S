/* The shim of 32-bit programs: nothing, so that their loader loads it and they run as ever, unmanaged. */
    .section .note.GNU-stack,"",@progbits
