/* A 32-bit program without a libc, which any x86-64 compiler can build: reports that it is ready, and waits. */

/* The numbers of i386's system calls (linux: arch/x86/entry/syscalls/syscall_32.tbl). */
enum { WRITE = 4, PAUSE = 29 };

static int call(int number, int a, const void *b, int c) {
    int result;
    __asm__ volatile("int $0x80" : "=a"(result) : "a"(number), "b"(a), "c"(b), "d"(c) : "memory");
    return result;
}

void _start(void) {
    call(WRITE, 1, "ready\n", 6);
    for (;;) call(PAUSE, 0, 0, 0);
}
