/* A thread that waits inside a function, or next to it: in a frame that contains leftovers of the function's earlier calls.
   usage: inside inside|beside
   Prints "ready", then the addresses between which the code of that function lies. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void pause_in_read(void) {
    char byte;
    do
        if (read(0, &byte, 1) != 1) _exit(1);
    while (byte != '\n');
}

static void nothing(void) {}

/* Like malloc's calls of functions that may block. Leaves its return address on the stack below its caller. */
__attribute__((noinline)) static void forbidden(void (*callback)(void)) {
    char *volatile frame = __builtin_alloca(64);
    frame[0] = 0;
    callback();
    frame[1] = 0;
}
__attribute__((noinline)) static void behind_forbidden(void) { nothing(); }

/* Leaves the return address far below its caller's frame, where nothing else reaches. */
__attribute__((noinline)) static void forbidden_far_below(void) {
    char *volatile frame = __builtin_alloca(16 << 10);
    frame[0] = 0;
    forbidden(nothing);
    frame[1] = 0;
}

/* A large, unwritten frame on top of the leftovers of `forbidden`. */
__attribute__((noinline)) static void beside(void) {
    char *volatile frame = __builtin_alloca(64 << 10);
    frame[0] = 0;
    pause_in_read();
    frame[1] = 0;
}

int main(int argc, char **argv) {
    printf("ready\n%p %p\n", (void *)forbidden, (void *)behind_forbidden);
    fflush(stdout);
    forbidden_far_below();
    if (argc > 1 && strcmp(argv[1], "inside") == 0)
        forbidden(pause_in_read);
    else
        beside();
    printf("done\n");
    return 0;
}
