/* Many threads with the smallest stacks, each with one small block of memory. Prints the number of threads. */
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static pthread_barrier_t started;

static void *wait_forever(void *unused) {
    void *volatile block = malloc(100); /* volatile: an unused allocation may be optimized away */
    pthread_barrier_wait(&started);
    for (;;) pause();
    return block ? unused : block;
}

int main(int argc, char **argv) {
    int wanted = argc > 1 ? atoi(argv[1]) : 1, got = 0;
    pthread_attr_t attributes;
    pthread_t thread;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN);
    pthread_barrier_init(&started, NULL, 2);
    /* One after the other, so that a limit is hit in pthread_create and not in a thread that waits for others. */
    while (got < wanted && pthread_create(&thread, &attributes, wait_forever, NULL) == 0) {
        pthread_barrier_wait(&started);
        got++;
    }
    printf("%d\n", got + 1);
    fflush(stdout);
    for (;;) pause();
}
