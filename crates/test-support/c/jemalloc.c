/* A heap of known shape under jemalloc, which prints jemalloc's own statistics.
   usage: jemalloc THREADS MEBIBYTES KEEP%   Says "ready"; then answers each line of its input with a line:
   stats  all figures as JSON, after a new epoch
   purge  RSS in bytes before and after arena.4096.purge
   fork   the number of a child, which has allocated some more, and its statistics
   busy, quiet  lets the threads allocate and free all the time, and stops them
   live   checks what every block holds, and says "intact"
   Compiled with -DPREFIX it calls je_malloc and so on. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#ifdef PREFIX
void *je_malloc(size_t), *je_calloc(size_t, size_t), *je_realloc(void *, size_t);
void je_free(void *);
int je_posix_memalign(void **, size_t, size_t), je_mallctl(const char *, void *, size_t *, void *, size_t);
#define malloc je_malloc
#define calloc je_calloc
#define realloc je_realloc
#define free je_free
#define posix_memalign je_posix_memalign
#endif

typedef int mallctl_t(const char *, void *, size_t *, void *, size_t);
static mallctl_t *ctl;

static char text[4 << 20];
static size_t text_length;

static void say(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    text_length += vsnprintf(text + text_length, sizeof text - text_length, format, arguments);
    va_end(arguments);
}

static void send_text(void) {
    for (size_t at = 0; at < text_length;) {
        ssize_t sent = write(1, text + at, text_length - at);
        if (sent <= 0) _exit(9);
        at += sent;
    }
    text_length = 0;
}

static size_t size_of(const char *name) {
    size_t value = 0, length = sizeof value;
    return ctl(name, &value, &length, NULL, 0) ? 0 : value;
}

static unsigned number_of(const char *name) {
    unsigned value = 0;
    size_t length = sizeof value;
    return ctl(name, &value, &length, NULL, 0) ? 0 : value;
}

static int is(const char *name) {
    unsigned char value = 0;
    size_t length = sizeof value;
    return ctl(name, &value, &length, NULL, 0) ? -1 : value;
}

static void arena_stats(unsigned arena, unsigned bins, unsigned large) {
    static const char *sizes[] = {"pactive", "pdirty", "pmuzzy", "base", "internal", "tcache_bytes", "resident", "retained",
        "small.allocated", "large.allocated", "dirty_decay_ms", "muzzy_decay_ms"};
    char name[128];
    say("{\"index\":%u", arena);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        snprintf(name, sizeof name, "stats.arenas.%u.%s", arena, sizes[i]);
        say(",\"%s\":%zd", sizes[i], (ssize_t)size_of(name));
    }
    snprintf(name, sizeof name, "stats.arenas.%u.nthreads", arena);
    say(",\"nthreads\":%u,\"bins\":[", number_of(name));
    for (unsigned i = 0; i < bins; i++) {
        snprintf(name, sizeof name, "stats.arenas.%u.bins.%u.curregs", arena, i);
        size_t regions = size_of(name);
        snprintf(name, sizeof name, "stats.arenas.%u.bins.%u.curslabs", arena, i);
        say("%s[%zu,%zu]", i ? "," : "", regions, size_of(name));
    }
    say("],\"large\":[");
    const char *comma = "";
    for (unsigned i = 0; i < large; i++) {
        snprintf(name, sizeof name, "stats.arenas.%u.lextents.%u.curlextents", arena, i);
        size_t count = size_of(name);
        if (!count) continue;
        snprintf(name, sizeof name, "arenas.lextent.%u.size", i);
        say("%s[%zu,%zu]", comma, size_of(name), count);
        comma = ",";
    }
    say("]}");
}

static void stats(void) {
    static const char *sizes[] = {"stats.allocated", "stats.active", "stats.metadata", "stats.resident", "stats.retained",
        "arenas.tcache_max", "arenas.page"};
    uint64_t epoch = 1;
    size_t length = sizeof epoch;
    ctl("epoch", &epoch, &length, &epoch, sizeof epoch);
    ctl("epoch", &epoch, &length, &epoch, sizeof epoch);
    const char *version = "";
    length = sizeof version;
    ctl("version", &version, &length, NULL, 0);
    say("{\"version\":\"%s\",\"opt.narenas\":%u", version, number_of("opt.narenas"));
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) say(",\"%s\":%zd", sizes[i], (ssize_t)size_of(sizes[i]));
    unsigned arenas = number_of("arenas.narenas"), bins = number_of("arenas.nbins"), large = number_of("arenas.nlextents");
    say(",\"arenas\":[");
    const char *comma = "";
    for (unsigned i = 0; i < arenas; i++) {
        char name[64];
        snprintf(name, sizeof name, "arena.%u.initialized", i);
        if (is(name) != 1) continue;
        say("%s", comma);
        arena_stats(i, bins, large);
        comma = ",";
    }
    say("]}\n");
}

static int mebibytes = 16, keep = 15;
static atomic_int busy, working;
static pthread_barrier_t filled;
static atomic_int damaged;

struct block { unsigned char *at; size_t size; unsigned char mark; };

static size_t pick(unsigned *seed) {
    unsigned r = rand_r(seed) % 1000;
    if (r < 600) return 8 + rand_r(seed) % 500;
    if (r < 950) return 512 + rand_r(seed) % 7000;
    if (r < 995) return 14337 + rand_r(seed) % 60000;
    return 100000 + rand_r(seed) % 3000000;
}

static void fill(struct block *block, size_t size, unsigned *seed) {
    block->size = size;
    block->mark = rand_r(seed);
    if (rand_r(seed) % 50 == 0) {
        if (posix_memalign((void **)&block->at, 1u << (6 + rand_r(seed) % 10), size)) abort();
    } else {
        block->at = malloc(size);
    }
    memset(block->at, block->mark, size);
}

static void check(struct block *block) {
    if (block->at && (block->at[0] != block->mark || block->at[block->size - 1] != block->mark)) damaged = 1;
}

static void drop(struct block *block) {
    check(block);
    free(block->at);
    block->at = NULL;
}

static void *work(void *argument) {
    unsigned seed = (unsigned)(long)argument * 7919 + 1;
    size_t limit = 1 << 20, count = 0, bytes = 0;
    struct block *blocks = calloc(limit, sizeof *blocks);
    while (bytes < (size_t)mebibytes << 20 && count < limit) {
        fill(&blocks[count], pick(&seed), &seed);
        bytes += blocks[count++].size;
    }
    for (size_t i = 0; i < count; i++)
        if ((int)(rand_r(&seed) % 100) >= keep && (i / 200) % 5) drop(&blocks[i]);
    pthread_barrier_wait(&filled);
    for (;;) {
        if (!busy) {
            usleep(1000);
            continue;
        }
        working++;
        while (busy) {
            struct block *block = &blocks[rand_r(&seed) % count];
            if (block->at) drop(block);
            else fill(block, 1 + pick(&seed) % 100000, &seed);
        }
        for (size_t i = 0; i < count; i++) check(&blocks[i]);
        working--;
    }
    return NULL;
}

static long rss(void) {
    char line[128] = "";
    int file = open("/proc/self/statm", O_RDONLY);
    if (read(file, line, sizeof line - 1) < 0) _exit(9);
    close(file);
    return atol(strchr(line, ' ')) * sysconf(_SC_PAGESIZE);
}

static void in_child(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    static struct block blocks[4000];
    unsigned seed = 5;
    for (int i = 0; i < 4000; i++) fill(&blocks[i], pick(&seed), &seed);
    for (int i = 0; i < 4000; i += 3) drop(&blocks[i]);
    say("%d ", getpid());
    stats();
    send_text();
    for (;;) pause();
}

int main(int count, char **arguments) {
    int threads = count > 1 ? atoi(arguments[1]) : 4;
    if (count > 2) mebibytes = atoi(arguments[2]);
    if (count > 3) keep = atoi(arguments[3]);
#ifdef PREFIX
    ctl = je_mallctl;
#else
    extern __attribute__((weak)) mallctl_t mallctl;
    ctl = mallctl ? mallctl : (mallctl_t *)dlsym(RTLD_DEFAULT, "mallctl");
#endif
    if (!ctl) return 8;
    pthread_barrier_init(&filled, NULL, threads + 1);
    pthread_t thread;
    pthread_attr_t small;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    for (long i = 0; i < threads; i++) pthread_create(&thread, &small, work, (void *)i);
    pthread_barrier_wait(&filled);
    usleep(200000);
    say("ready\n");
    send_text();
    char line[64];
    for (int at = 0; read(0, line + at, 1) == 1;) {
        if (line[at] != '\n') {
            at = (at + 1) % 63;
            continue;
        }
        line[at] = 0;
        at = 0;
        if (!strcmp(line, "stats")) stats();
        else if (!strcmp(line, "purge")) {
            long before = rss();
            ctl("arena.4096.purge", NULL, NULL, NULL, 0);
            say("%ld %ld\n", before, rss());
        } else if (!strcmp(line, "fork")) {
            if (!fork()) in_child();
        } else if (!strcmp(line, "busy")) {
            busy = 1;
            say("busy\n");
        } else if (!strcmp(line, "quiet")) {
            busy = 0;
            while (working) usleep(1000);
            say("quiet\n");
        } else if (!strcmp(line, "live")) say(damaged ? "damaged\n" : "intact\n");
        send_text();
    }
    return 0;
}
