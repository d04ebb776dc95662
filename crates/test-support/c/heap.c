/* A heap of known shape, for tests. usage: heap THREADS CHUNKS MAX_SIZE KEEP_ONE_IN MAPPED [BREAK]
 *
 * Each thread allocates CHUNKS blocks of 1 to MAX_SIZE bytes and frees all but one in KEEP_ONE_IN (0: keeps all).
* MAPPED blocks of 1 MiB and more get their own mappings. BREAK is a series of letters, applied to the program break at
 * equal intervals while the first thread allocates: b blocks its growth, u unblocks it, m moves it as code other than
 * malloc would. Then it prints "ready" and reads commands line by line:
 *   info     prints malloc_info as one line
 *   mallinfo prints mallinfo2: arena fordblks uordblks hblks hblkhd keepcost
 *   trim     malloc_trim(0); prints anonymous resident KiB before and after (smaps_rollup), and its result
*   live     prints the bytes held by the program: malloc_usable_size over all blocks kept, and their number
 *   churn    the threads allocate and free until the next line
*   fork     forks a child that waits; prints its PID
 *   aligned  maps one more block of 100 MiB, aligned to 64 KiB, and writes 8 MiB of it
 *   corrupt  overwrites the size of a chunk in the middle of the main arena
 *   deface   overwrites the size of the first block with a mapping of its own
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <sys/mman.h>
#include <sys/prctl.h>

static unsigned threads, chunks, keep_one_in, mapped;
static size_t max_size;
static void ***kept;              /* per thread, in memory that malloc does not manage */
static const char *breaks = "";
static pthread_barrier_t arranged;
static int churning, active;      /* active: number of churning threads */

static void *pages(size_t bytes) {
    void *p = mmap(0, bytes + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) abort();
    return p;
}

static uint32_t next(uint32_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 17;
    return *state ^= *state << 5;
}

static void disturb_break(char how) {
    static void *block;
    switch (how) {
    case 'b': {
        void *end = (void *)(((uintptr_t)sbrk(0) + 4095) & ~(uintptr_t)4095);
        block = mmap(end, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (block != end) abort();
        break;
    }
    case 'u':
        munmap(block, 4096);
        break;
    case 'm':
        memset(sbrk(3 * 4096), 0x11, 3 * 4096);
        break;
    default:
        abort();
    }
}

static void arrange(unsigned thread) {
    uint32_t state = 2463534242u + 77 * thread;
    void **mine = kept[thread] = pages(chunks * sizeof(void *));
    const char *disturbance = thread ? "" : breaks;
    unsigned distance = chunks / (strlen(disturbance) + 1) + 1;
    for (unsigned i = 0; i < chunks; i++) {
        if (*disturbance && (i + 1) % distance == 0) disturb_break(*disturbance++);
        size_t size = 1 + next(&state) % max_size;
        mine[i] = malloc(size);
        memset(mine[i], 0x5a, size);
    }
    if (!keep_one_in) return;
    for (unsigned i = 0; i < chunks; i++)
        if (next(&state) % keep_one_in) {
            free(mine[i]);
            mine[i] = 0;
        }
}

static void *worker(void *argument) {
    unsigned thread = (uintptr_t)argument;
    char name[16];
    snprintf(name, sizeof name, "worker-%u", thread);
    pthread_setname_np(pthread_self(), name);
    arrange(thread);
    pthread_barrier_wait(&arranged);
    uint32_t state = 88172645u + thread;
    for (;;) {
        __atomic_add_fetch(&active, 1, __ATOMIC_SEQ_CST);
        int wanted = __atomic_load_n(&churning, __ATOMIC_SEQ_CST);
        for (int round = 0; wanted && round < 1000; round++) {
            unsigned i = next(&state) % chunks;
            free(kept[thread][i]);
            kept[thread][i] = malloc(1 + next(&state) % max_size);
        }
        __atomic_sub_fetch(&active, 1, __ATOMIC_SEQ_CST);
        if (!wanted) usleep(2000);
    }
    return 0;
}

/* Excludes file pages, because running code for the first time makes some resident. */
static unsigned long anonymous_kib(void) {
    static char text[4096];
    unsigned long kib = 0;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    if (!f) return 0;
    setvbuf(f, 0, _IONBF, 0);
    while (fgets(text, sizeof text, f))
        if (sscanf(text, "Anonymous: %lu", &kib) == 1) break;
    fclose(f);
    return kib;
}

static void print_info(void) {
    static char text[1 << 20];
    FILE *f = fmemopen(text, sizeof text, "w");
    malloc_info(0, f);
    fclose(f);
    for (char *p = text; *p; p++)
        if (*p == '\n') *p = ' ';
    puts(text);
}

int main(int argc, char **argv) {
    static char out[BUFSIZ], line[256];
    setvbuf(stdout, out, _IOFBF, sizeof out);
    setvbuf(stdin, 0, _IONBF, 0);
    if (argc < 6) return 2;
    if (argc > 6) breaks = argv[6];
    threads = atoi(argv[1]);
    chunks = atoi(argv[2]);
    max_size = strtoul(argv[3], 0, 0);
    keep_one_in = atoi(argv[4]);
    mapped = atoi(argv[5]);
    kept = pages((threads + 2) * sizeof *kept);
    arrange(0);
    kept[threads + 1] = pages(mapped * sizeof(void *));
    for (unsigned i = 0; i < mapped; i++) {
        size_t size = ((size_t)1 << 20) + i * 12345;
        kept[threads + 1][i] = malloc(size);
        memset(kept[threads + 1][i], 1, size);
    }
    pthread_barrier_init(&arranged, 0, threads + 1);
    for (unsigned t = 1; t <= threads; t++) {
        pthread_t id;
        if (pthread_create(&id, 0, worker, (void *)(uintptr_t)t)) abort();
    }
    pthread_barrier_wait(&arranged);
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin)) {
        /* No thread holds a temporary block while the blocks are counted. */
        __atomic_store_n(&churning, 0, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&active, __ATOMIC_SEQ_CST)) usleep(100);
        if (!strncmp(line, "info", 4)) {
            print_info();
        } else if (!strncmp(line, "mallinfo", 8)) {
#if __GLIBC_PREREQ(2, 33)
            struct mallinfo2 m = mallinfo2();
#else
            struct mallinfo m = mallinfo();
#endif
            printf("%zu %zu %zu %zu %zu %zu\n", (size_t)m.arena, (size_t)m.fordblks, (size_t)m.uordblks,
                   (size_t)m.hblks, (size_t)m.hblkhd, (size_t)m.keepcost);
        } else if (!strncmp(line, "trim", 4)) {
            unsigned long before = anonymous_kib();
            int released = malloc_trim(0);
            printf("%lu %lu %d\n", before, anonymous_kib(), released);
        } else if (!strncmp(line, "live", 4)) {
            size_t bytes = 0, count = 0;
            for (unsigned t = 0; t <= threads + 1; t++)
                for (unsigned i = 0; i < (t <= threads ? chunks : mapped); i++)
                    if (kept[t][i]) {
                        bytes += malloc_usable_size(kept[t][i]);
                        count++;
                    }
            printf("%zu %zu\n", bytes, count);
        } else if (!strncmp(line, "churn", 5)) {
            __atomic_store_n(&churning, 1, __ATOMIC_SEQ_CST);
            puts("churning");
        } else if (!strncmp(line, "fork", 4)) {
            pid_t child = fork();
            if (!child) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                for (;;) pause();
            }
            printf("%d\n", child);
        } else if (!strncmp(line, "aligned", 7)) {
            static void *block;
            if (posix_memalign(&block, 64 << 10, 100 << 20)) abort();
            memset((char *)block + (90 << 20), 1, 8 << 20);
            puts("aligned");
        } else if (!strncmp(line, "corrupt", 7)) {
            for (unsigned i = chunks / 2; i < chunks; i++)
                if (kept[0][i]) {
                    ((size_t *)kept[0][i])[-1] = 0x123456789abcde1;
                    break;
                }
            puts("corrupted");
        } else if (!strncmp(line, "deface", 6)) {
            ((size_t *)kept[threads + 1][0])[-1] = 0;
            puts("defaced");
        } else {
            puts("?");
        }
        fflush(stdout);
    }
    return 0;
}
