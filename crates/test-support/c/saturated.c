/* A program that is always inside malloc and detects everything that goes wrong in it. usage: saturated CHURNERS
 *
 * CHURNERS threads allocate, fill, check and free. Beside them, threads make system calls through libc and check the
 * result, errno, how long it took and what they got: reads of a numbered pipe, poll, nanosleep, condition variables,
 * epoll with and without a timeout, a mutex that two hand to each other, signals that are counted. On the first error
 * the program prints it and aborts. Prints "ready", then for each input line "ok", the minimum number of rounds of any
 * thread since the last line, and the number of EINTR results of epoll_wait.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define MARK 77 /* errno, which no successful call may change here */
#define MAX_THREADS 64
static volatile long rounds[MAX_THREADS];
static volatile long eintr;
static int threads;
static __thread int self;

static void wrong(const char *what, long value) {
    char text[200];
    int n = snprintf(text, sizeof text, "wrong: %s: %ld (errno %d)\n", what, value, errno);
    if (write(1, text, n) != n) _exit(3);
    abort();
}

#define CHECK(CONDITION, VALUE)                                                                                        \
    do {                                                                                                               \
        if (!(CONDITION)) wrong(#CONDITION, (long)(VALUE));                                                            \
    } while (0)

static int64_t now_ns(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static void *churner(void *number) {
    self = (int)(intptr_t)number;
    unsigned seed = 7919u * (unsigned)self;
    unsigned char *block[256] = {0};
    size_t size[256] = {0};
    for (;;) {
        int i = rand_r(&seed) % 256;
        for (size_t k = 0; block[i] && k < size[i]; k += 61) CHECK(block[i][k] == (unsigned char)(size[i] + k), k);
        free(block[i]);
        size[i] = 16 + (unsigned)rand_r(&seed) % 40000;
        block[i] = malloc(size[i]);
        for (size_t k = 0; k < size[i]; k += 61) block[i][k] = (unsigned char)(size[i] + k);
        rounds[self]++;
    }
}

static int numbers[2];
static void *writer(void *number) {
    self = (int)(intptr_t)number;
    for (unsigned char next = 0;; next++, rounds[self]++) {
        CHECK(write(numbers[1], &next, 1) == 1, next);
        usleep(3000);
    }
}

static void *reader(void *number) {
    self = (int)(intptr_t)number;
    for (unsigned char next = 0, got;; next++, rounds[self]++) {
        errno = MARK;
        CHECK(read(numbers[0], &got, 1) == 1, got);
        CHECK(errno == MARK, errno);
        CHECK(got == next, got);
    }
}

static void *poller(void *number) {
    self = (int)(intptr_t)number;
    for (;; rounds[self]++) {
        int64_t start = now_ns(CLOCK_MONOTONIC);
        errno = MARK;
        int result = poll(0, 0, 20);
        CHECK(result == 0, result);
        CHECK(errno == MARK, errno);
        CHECK(now_ns(CLOCK_MONOTONIC) - start >= 20000000, now_ns(CLOCK_MONOTONIC) - start);
    }
}

static void *sleeper(void *number) {
    self = (int)(intptr_t)number;
    for (;; rounds[self]++) {
        struct timespec t = {0, 15000000};
        int64_t start = now_ns(CLOCK_MONOTONIC);
        errno = MARK;
        int result = nanosleep(&t, 0);
        CHECK(result == 0, result);
        CHECK(errno == MARK, errno);
        CHECK(now_ns(CLOCK_MONOTONIC) - start >= 15000000, now_ns(CLOCK_MONOTONIC) - start);
    }
}

static void *timed_waiter(void *number) {
    self = (int)(intptr_t)number;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_cond_t never = PTHREAD_COND_INITIALIZER;
    pthread_mutex_lock(&mutex);
    for (;; rounds[self]++) {
        int64_t until = now_ns(CLOCK_REALTIME) + 12000000;
        struct timespec t = {until / 1000000000, until % 1000000000};
        int result;
        do result = pthread_cond_timedwait(&never, &mutex, &t);
        while (result == 0); /* spurious wake-ups are allowed */
        CHECK(result == ETIMEDOUT, result);
        CHECK(now_ns(CLOCK_REALTIME) >= until, result);
    }
}

static int event;
static void *epoller(void *number) {
    self = (int)(intptr_t)number;
    int epoll = epoll_create1(0);
    struct epoll_event add = {.events = EPOLLIN, .data.u64 = 42}, got;
    epoll_ctl(epoll, EPOLL_CTL_ADD, event, &add);
    for (;; rounds[self]++) {
        uint64_t count;
        errno = MARK;
        int result = epoll_wait(epoll, &got, 1, -1);
        if (result < 0 && errno == EINTR) {
            eintr++;
            continue;
        }
        CHECK(result == 1 && got.data.u64 == 42, result);
        CHECK(errno == MARK, errno);
        CHECK(read(event, &count, 8) == 8 && count >= 1, count);
    }
}

static void *pinger(void *number) {
    self = (int)(intptr_t)number;
    for (;; rounds[self]++) {
        uint64_t one = 1;
        CHECK(write(event, &one, 8) == 8, one);
        usleep(5000);
    }
}

static void *epoll_timer(void *number) {
    self = (int)(intptr_t)number;
    int epoll = epoll_create1(0);
    struct epoll_event got;
    for (;; rounds[self]++) {
        int64_t start = now_ns(CLOCK_MONOTONIC);
        errno = MARK;
        int result = epoll_wait(epoll, &got, 1, 25);
        if (result < 0 && errno == EINTR) {
            eintr++;
            continue;
        }
        CHECK(result == 0, result);
        CHECK(errno == MARK, errno);
        CHECK(now_ns(CLOCK_MONOTONIC) - start >= 24900000, now_ns(CLOCK_MONOTONIC) - start);
    }
}

static pthread_mutex_t turn_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
static long turn;
static void *player(void *number) {
    self = (int)(intptr_t)number;
    pthread_mutex_lock(&turn_mutex);
    for (;; rounds[self]++) {
        while (turn % 2 != self % 2) pthread_cond_wait(&turn_changed, &turn_mutex);
        turn++;
        pthread_cond_broadcast(&turn_changed);
        if (turn % 64 == 0) usleep(1000);
    }
}

static volatile long handled;
static pthread_t suspended;
static void on_signal(int signal) {
    (void)signal;
    free(malloc(100)); /* allowed: the thread handles signals only while it waits for them */
    handled++;
}

static void *suspender(void *number) {
    self = (int)(intptr_t)number;
    sigset_t let_in;
    sigfillset(&let_in);
    sigdelset(&let_in, SIGUSR1);
    for (;; rounds[self]++) {
        int result = sigsuspend(&let_in);
        CHECK(result == -1 && errno == EINTR, result);
    }
}

static void *signaler(void *number) {
    self = (int)(intptr_t)number;
    for (long sent = 1;; sent++, rounds[self]++) {
        pthread_kill(suspended, SIGUSR1);
        int64_t start = now_ns(CLOCK_MONOTONIC);
        while (handled < sent) {
            usleep(4000);
            CHECK(now_ns(CLOCK_MONOTONIC) - start < 60000000000LL, handled - sent);
        }
        CHECK(handled == sent, handled - sent);
    }
}

static pthread_t start(void *(*body)(void *)) {
    pthread_t thread;
    if (pthread_create(&thread, 0, body, (void *)(intptr_t)threads++)) abort();
    return thread;
}

int main(int argc, char **argv) {
    int churners = argc > 1 ? atoi(argv[1]) : 4;
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGUSR1);
    sigprocmask(SIG_BLOCK, &blocked, 0);
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, 0);
    event = eventfd(0, 0);
    if (pipe(numbers)) return 1;
    start(player), start(player);
    start(writer), start(reader), start(poller), start(sleeper), start(timed_waiter);
    start(epoller), start(pinger), start(epoll_timer);
    suspended = start(suspender);
    start(signaler);
    for (int i = 0; i < churners; i++) start(churner);
    long before[MAX_THREADS] = {0};
    char line[64];
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        long fewest = -1;
        for (int i = 0; i < threads; i++) {
            long made = rounds[i] - before[i];
            before[i] = rounds[i];
            if (fewest < 0 || made < fewest) fewest = made;
        }
        printf("ok fewest=%ld eintr=%ld\n", fewest, eintr);
        fflush(stdout);
    }
    return 0;
}
