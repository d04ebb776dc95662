// Blocks the main thread in one system call, made from inline assembly with a known value in every register, and
// prints the outcome:
//
//   result=N errno=N ms=N registers=ok|… mask=ok|… handled=N stack=ok|bad
//
// usage: waits KIND [threads=N] [busy] [altstack] [heap] [restart] [helper]
// restart: its handler is installed with SA_RESTART. helper: a second thread, which nobody can borrow, calls
// exec on a byte `e` of stdin, and ends on any other.
// A child process triggers the end of the wait, so that the program has a single thread unless requested otherwise.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <immintrin.h>
#include <linux/futex.h>
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define VECTORS 32
struct state {
    uint64_t number, argument[6];      // 0, 8..48
    uint64_t kept[6];                  // 56: rbx rbp r12 r13 r14 r15 put in
    uint64_t after[6];                 // 104: and as they came out
    uint64_t arguments_after[6];       // 152: rdi rsi rdx r10 r8 r9
    uint64_t result;                   // 200
    uint64_t flags;                    // 208
    uint64_t stack;                    // 216
    uint64_t mxcsr_in, mxcsr_out;      // 224, 232
    uint64_t fcw_in, fcw_out;          // 240, 248
    uint64_t masks[8], masks_after[8]; // 256, 320
    unsigned char in[VECTORS][64] __attribute__((aligned(64)));  // 384
    unsigned char out[VECTORS][64] __attribute__((aligned(64))); // 2432
} __attribute__((aligned(64)));

// void waits_512(struct state *), waits_256, waits_128
#define BODY(NAME, LOAD, STORE)                                                                                        \
    __asm__(".text\n.globl " NAME "\n.type " NAME ",@function\n" NAME ":\n"                                            \
            "push %rbx\npush %rbp\npush %r12\npush %r13\npush %r14\npush %r15\npush %rdi\n"                            \
            "fninit\nfldcw 240(%rdi)\nfld1\nldmxcsr 224(%rdi)\n" LOAD                                                  \
            "mov 56(%rdi),%rbx\nmov 64(%rdi),%rbp\nmov 72(%rdi),%r12\nmov 80(%rdi),%r13\nmov 88(%rdi),%r14\nmov "       \
            "96(%rdi),%r15\n"                                                                                          \
            "mov %rsp,216(%rdi)\nmov (%rdi),%rax\nmov 16(%rdi),%rsi\nmov 24(%rdi),%rdx\nmov 32(%rdi),%r10\nmov "       \
            "40(%rdi),%r8\nmov 48(%rdi),%r9\n"                                                                         \
            "movq $0x0123456789abcdef,%rcx\nmov %rcx,-8(%rsp)\nmov %rcx,-128(%rsp)\n" /* the red zone is ours */        \
            "mov 8(%rdi),%rdi\nstc\nsyscall\n"                                                                         \
            "mov (%rsp),%rcx\npushfq\npop 208(%rcx)\nmov %rdi,152(%rcx)\nmov %rsi,160(%rcx)\nmov %rdx,168(%rcx)\nmov " \
            "%r10,176(%rcx)\nmov %r8,184(%rcx)\nmov %r9,192(%rcx)\nmov %rax,200(%rcx)\n"                               \
            "mov %rbx,104(%rcx)\nmov %rbp,112(%rcx)\nmov %r12,120(%rcx)\nmov %r13,128(%rcx)\nmov %r14,136(%rcx)\nmov " \
            "%r15,144(%rcx)\n"                                                                                         \
            "sub %rsp,216(%rcx)\nstmxcsr 232(%rcx)\nfnstcw 248(%rcx)\n" STORE                                          \
            "fstp %st(0)\nfninit\npop %rdi\npop %r15\npop %r14\npop %r13\npop %r12\npop %rbp\npop %rbx\nret\n");
#define X4(M, A, B, C, D) M(A) M(B) M(C) M(D)
#define ALL16(M)                                                                                                       \
    X4(M, "0", "1", "2", "3") X4(M, "4", "5", "6", "7") X4(M, "8", "9", "10", "11") X4(M, "12", "13", "14", "15")
#define ALL32(M)                                                                                                       \
    ALL16(M) X4(M, "16", "17", "18", "19") X4(M, "20", "21", "22", "23") X4(M, "24", "25", "26", "27")                 \
    X4(M, "28", "29", "30", "31")
#define MASKS(M) X4(M, "1", "2", "3", "4") M("5") M("6") M("7")
#define LOAD512(N) "vmovdqa64 384+64*" N "(%rdi),%zmm" N "\n"
#define STORE512(N) "vmovdqa64 %zmm" N ",2432+64*" N "(%rcx)\n"
#define LOADK(N) "kmovw 256+8*" N "(%rdi),%k" N "\n"
#define STOREK(N) "kmovw %k" N ",320+8*" N "(%rcx)\n"
#define LOAD256(N) "vmovdqa 384+64*" N "(%rdi),%ymm" N "\n"
#define STORE256(N) "vmovdqa %ymm" N ",2432+64*" N "(%rcx)\n"
#define LOAD128(N) "movdqa 384+64*" N "(%rdi),%xmm" N "\n"
#define STORE128(N) "movdqa %xmm" N ",2432+64*" N "(%rcx)\n"
BODY("waits_512", ALL32(LOAD512) MASKS(LOADK), ALL32(STORE512) MASKS(STOREK) "vzeroupper\n")
BODY("waits_256", ALL16(LOAD256), ALL16(STORE256) "vzeroupper\n")
BODY("waits_128", ALL16(LOAD128), ALL16(STORE128))
void waits_512(struct state *);
void waits_256(struct state *);
void waits_128(struct state *);

static struct state s;
static volatile int handled;
static void on_signal(int signal) { handled += signal == SIGUSR1; }

static int64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000LL + t.tv_nsec / 1000;
}

static const char *registers(int width, int vectors) {
    for (int i = 0; i < 6; i++) {
        if (s.kept[i] != s.after[i]) return "kept";
        // A timeout known only to the program is shortened in its register; everything else is unchanged.
        if (s.argument[i] != s.arguments_after[i] && !(s.number == SYS_epoll_wait && i == 3)) return "arguments";
    }
    if (s.stack != 0) return "stack";
    if (s.mxcsr_in != s.mxcsr_out) return "mxcsr";
    if (s.fcw_in != s.fcw_out) return "fcw";
    for (int i = 0; i < vectors; i++)
        if (memcmp(s.in[i], s.out[i], width)) return "vectors";
    for (int i = 1; width == 64 && i < 8; i++)
        if (s.masks[i] != s.masks_after[i]) return "masks";
    return "ok";
}

static void *sleeper(void *unused) {
    (void)unused;
    for (;;) pause();
    return 0;
}

// Churns the allocator and checks its own data.
static void *churner(void *unused) {
    (void)unused;
    unsigned seed = (unsigned)(uintptr_t)&unused;
    unsigned char *block[64] = {0};
    size_t size[64] = {0};
    for (;;) {
        int i = rand_r(&seed) % 64;
        for (size_t k = 0; block[i] && k < size[i]; k += 97)
            if (block[i][k] != (unsigned char)(size[i] + k)) abort();
        free(block[i]);
        size[i] = 16 + rand_r(&seed) % 60000;
        block[i] = malloc(size[i]);
        for (size_t k = 0; k < size[i]; k += 97) block[i][k] = (unsigned char)(size[i] + k);
    }
}

// Obeys a byte from stdin. It waits in a call from which no thread is borrowed.
static void *helper(void *unused) {
    (void)unused;
    char order;
    fcntl(0, F_SETFL, O_NONBLOCK);
    sigset_t none;
    sigemptyset(&none);
    while (read(0, &order, 1) != 1) sigtimedwait(&none, 0, &(struct timespec){0, 5000000});
    if (order == 'e') execl("/bin/sh", "sh", "-c", "echo replaced", (char *)0);
    return 0;
}

// A heap with much to return: every eighth page-sized block is kept.
static void bloat(int blocks) {
    char **block = calloc(blocks, sizeof *block);
    for (int i = 0; i < blocks; i++) memset(block[i] = malloc(9000), i, 9000);
    for (int i = 0; i < blocks; i++)
        if (i % 8) free(block[i]);
}

int main(int argc, char **argv) {
    const char *kind = argc > 1 ? argv[1] : "pause";
    int threads = 0, busy = 0, on_altstack = 0, with_helper = 0;
    struct sigaction action = {.sa_handler = on_signal};
    for (int i = 2; i < argc; i++) {
        if (sscanf(argv[i], "threads=%d", &threads) == 1) continue;
        if (!strcmp(argv[i], "busy")) busy = 1;
        if (!strcmp(argv[i], "altstack")) on_altstack = 1;
        if (!strcmp(argv[i], "heap")) bloat(4000);
        if (!strcmp(argv[i], "restart")) action.sa_flags = SA_RESTART;
        if (!strcmp(argv[i], "helper")) with_helper = 1;
    }
    sigaction(SIGUSR1, &action, 0);
    stack_t alternate = {.ss_sp = malloc(65536), .ss_size = 65536}, seen;
    if (on_altstack) sigaltstack(&alternate, 0);
    sigset_t mask, after;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    sigaddset(&mask, SIGRTMIN + 3);
    sigprocmask(SIG_SETMASK, &mask, 0);
    raise(SIGUSR2); // stays pending

    int pipes[2], pair[2];
    if (pipe(pipes) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair)) return 1;
    struct sockaddr_un name = {.sun_family = AF_UNIX}; // an abstract name chosen by the kernel
    socklen_t length = sizeof name;
    int listener = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(listener, (struct sockaddr *)&name, sizeof(sa_family_t)) || listen(listener, 1)) return 1;
    getsockname(listener, (struct sockaddr *)&name, &length);
    static struct epoll_event events[4];
    int epoll = epoll_create1(0);
    epoll_ctl(epoll, EPOLL_CTL_ADD, pipes[0], &(struct epoll_event){.events = EPOLLIN});
    static struct pollfd fds;
    fds = (struct pollfd){.fd = pipes[0], .events = POLLIN};
    static struct timespec second = {1, 500000000}, rest;
    static struct timeval second_tv = {1, 500000};
    static char buffer[64];
    int *word = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    static fd_set set;
    FD_SET(pipes[0], &set);
    static sigset_t none;

    // The wait, and the event that ends it: w: a byte is written, f: the futex is woken, k: SIGUSR1, t: its timeout.
    char ends = 't';
    uint64_t *a = s.argument;
#define CALL(NUMBER, END, ...)                                                                                         \
    do {                                                                                                               \
        s.number = NUMBER, ends = END;                                                                                 \
        memcpy(a, (uint64_t[6]){__VA_ARGS__}, sizeof s.argument);                                                      \
    } while (0)
    struct timespec deadline; // set when the wait begins
    if (!strcmp(kind, "read")) CALL(SYS_read, 'w', pipes[0], (uint64_t)buffer, 64);
    else if (!strcmp(kind, "recv")) CALL(SYS_recvfrom, 's', pair[0], (uint64_t)buffer, 64);
    else if (!strcmp(kind, "poll")) CALL(SYS_poll, 'w', (uint64_t)&fds, 1, -1ULL);
    else if (!strcmp(kind, "poll-timeout")) CALL(SYS_poll, 't', (uint64_t)&fds, 1, 1500);
    else if (!strcmp(kind, "ppoll-timeout")) CALL(SYS_ppoll, 't', (uint64_t)&fds, 1, (uint64_t)&second, 0, 8);
    else if (!strcmp(kind, "ppoll-signal")) CALL(SYS_ppoll, 'k', (uint64_t)&fds, 1, 0, (uint64_t)&none, 8);
    else if (!strcmp(kind, "select-timeout")) CALL(SYS_select, 't', pipes[0] + 1, (uint64_t)&set, 0, 0, (uint64_t)&second_tv);
    else if (!strcmp(kind, "epoll")) CALL(SYS_epoll_wait, 'w', epoll, (uint64_t)events, 4, -1ULL);
    else if (!strcmp(kind, "epoll-timeout")) CALL(SYS_epoll_wait, 't', epoll, (uint64_t)events, 4, 1500);
    else if (!strcmp(kind, "nanosleep")) CALL(SYS_nanosleep, 't', (uint64_t)&second, 0);
    else if (!strcmp(kind, "nanosleep-rest")) CALL(SYS_nanosleep, 't', (uint64_t)&second, (uint64_t)&rest);
    else if (!strcmp(kind, "clock-nanosleep")) CALL(SYS_clock_nanosleep, 't', CLOCK_REALTIME, 0, (uint64_t)&second, 0);
    else if (!strcmp(kind, "clock-nanosleep-until")) CALL(SYS_clock_nanosleep, 't', CLOCK_MONOTONIC, TIMER_ABSTIME, (uint64_t)&deadline, 0);
    else if (!strcmp(kind, "futex")) CALL(SYS_futex, 'f', (uint64_t)word, FUTEX_WAIT, 0, 0);
    else if (!strcmp(kind, "futex-timeout")) CALL(SYS_futex, 't', (uint64_t)word, FUTEX_WAIT, 0, (uint64_t)&second);
    else if (!strcmp(kind, "futex-until")) CALL(SYS_futex, 't', (uint64_t)word, FUTEX_WAIT_BITSET, 0, (uint64_t)&deadline, 0, ~0U);
    else if (!strcmp(kind, "pause")) CALL(SYS_pause, 'k', 0);
    else if (!strcmp(kind, "sigsuspend")) CALL(SYS_rt_sigsuspend, 'k', (uint64_t)&none, 8);
    else if (!strcmp(kind, "accept")) CALL(SYS_accept, 'c', listener, 0, 0);
    else if (!strcmp(kind, "wait")) CALL(SYS_wait4, 'x', -1ULL, 0, 0, 0);
    else return 2;
    if (!strcmp(kind, "ppoll-signal") || !strcmp(kind, "sigsuspend")) {
        sigaddset(&none, SIGUSR2); // only SIGUSR1 is unblocked, and only during the call
        sigaddset(&mask, SIGUSR1);
        sigprocmask(SIG_SETMASK, &mask, 0);
    }

    int begin[2];
    if (pipe(begin)) return 1;
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (read(begin[0], &(char){0}, 1) != 1) _exit(1);
        usleep(1500000);
        if (ends == 'w' && write(pipes[1], "x", 1) != 1) _exit(1);
        if (ends == 's' && write(pair[1], "x", 1) != 1) _exit(1);
        if (ends == 'f') *word = 1, syscall(SYS_futex, word, FUTEX_WAKE, 1, 0, 0, 0);
        if (ends == 'k') kill(getppid(), SIGUSR1);
        if (ends == 'c' && connect(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&name, length)) _exit(1);
        if (ends == 'x') _exit(7);
        for (;;) pause();
    }
    for (int i = 0; i < threads + with_helper; i++) {
        pthread_t thread;
        sigset_t all, before;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        pthread_create(&thread, 0, i == threads ? helper : busy ? churner : sleeper, 0);
        pthread_sigmask(SIG_SETMASK, &before, 0);
    }

    for (int i = 0; i < VECTORS; i++)
        for (int k = 0; k < 64; k++) s.in[i][k] = (unsigned char)(i * 64 + k * 7 + 1);
    for (int i = 0; i < 6; i++) s.kept[i] = 0x1111111111111111ULL * (i + 1);
    for (int i = 0; i < 8; i++) s.masks[i] = 0x5a5a ^ i;
    s.mxcsr_in = 0x7f80, s.fcw_in = 0x077f; // rounding towards zero, single precision
    errno = 77;
    puts("ready");
    fflush(stdout);
    // On a busy machine much time may pass between what is above and here.
    clock_gettime(CLOCK_MONOTONIC, &deadline);
    deadline.tv_sec += 2;
    if (write(begin[1], "b", 1) != 1) return 1;
    int64_t start = now_us();
    int width = 16, vectors = 16;
    if (__builtin_cpu_supports("avx512f")) width = 64, vectors = 32, waits_512(&s);
    else if (__builtin_cpu_supports("avx2")) width = 32, waits_256(&s);
    else waits_128(&s);
    int64_t ms = (now_us() - start) / 1000;
    int error = errno;
    sigprocmask(SIG_SETMASK, 0, &after);
    sigset_t pending;
    sigpending(&pending);
    int mask_ok = !memcmp(&mask, &after, 8) && sigismember(&pending, SIGUSR2);
    sigaltstack(0, &seen);
    int stack_ok = !on_altstack || (seen.ss_sp == alternate.ss_sp && seen.ss_size == 65536 && seen.ss_flags == 0);
    printf("result=%ld errno=%d ms=%ld registers=%s mask=%s handled=%d stack=%s\n", (long)s.result, error, (long)ms,
           registers(width, vectors), mask_ok ? "ok" : "bad", handled, stack_ok ? "ok" : "bad");
    fflush(stdout);
    kill(child, SIGKILL);
    return 0;
}
