/*
 * A Ruby that a Ruby starts has the policy's allocator from its beginning.
 *
 * The runtime takes the policy's entry out of LD_PRELOAD, so that no other program gets it (crates/runtime/src/inheritance.rs). Here it
 * comes back where the program that is about to be executed is Ruby by its name or by its script's first line. A Ruby that is not
 * recognized (behind a shell, under another name) starts itself again; this only saves the second start.
 *
 * All of it may run in the child of a vfork(2): nothing is allocated or written but on the stack, of which it takes at most 8 KiB,
 * as glibc's own execvp does for the names that it tries (PATH_MAX). The smallest thread has 16 KiB.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* An environment with more, or with longer lists, is passed on as it is; a Ruby then starts itself again. */
enum { MAX_VARIABLES = 512, MAX_LIST = 1024, FIRST_LINE = 256 };

typedef int Execve(const char *, char *const[], char *const[]);

/* Whoever else interposes execve, or glibc. */
static Execve *next;

__attribute__((constructor)) static void find_next(void)
{
    next = (Execve *)dlsym(RTLD_NEXT, "execve");
}

static int pass(const char *path, char *const arguments[], char *const environment[])
{
    return next ? next(path, arguments, environment) : (int)syscall(SYS_execve, path, arguments, environment);
}

/* The value of a variable, whose name is given with its `=`; NULL when it is not set. */
static const char *value_of(char *const environment[], const char *name)
{
    size_t length = strlen(name);
    for (; *environment; environment++)
        if (!strncmp(*environment, name, length))
            return *environment + length;
    return NULL;
}

/* `UNBLOAT=0` and its like (`OFF` in crates/contract/src/vocabulary.rs). */
static int is_off(const char *word)
{
    return word && (!strcmp(word, "0") || !strcmp(word, "off") || !strcmp(word, "false") || !strcmp(word, "no"));
}

/* Whether a list in the manner of LD_PRELOAD holds an item (ld.so(8)). */
static int holds(const char *list, const char *item)
{
    size_t length = strlen(item);
    for (; *list; list += strspn(list, " :")) {
        size_t end = strcspn(list, " :");
        if (end == length && !memcmp(list, item, length))
            return 1;
        list += end;
    }
    return 0;
}

/* Whether the last part of a path is `name`, or `name` with a version: ruby, ruby3.1. */
static int is_called(const char *path, size_t length, const char *name)
{
    size_t expected = strlen(name), start = length;
    while (start > 0 && path[start - 1] != '/')
        start--;
    if (length - start < expected || memcmp(path + start, name, expected))
        return 0;
    for (start += expected; start < length; start++)
        if (path[start] != '.' && (path[start] < '0' || path[start] > '9'))
            return 0;
    return 1;
}

/* Whether the words behind `#!` begin with a Ruby, or with an env(1) that is given one. */
static int names_ruby(const char *line)
{
    for (int first = 1;; first = 0) {
        line += strspn(line, " \t");
        size_t length = strcspn(line, " \t");
        if (is_called(line, length, "ruby"))
            return 1;
        if (length == 0 || !(first ? is_called(line, length, "env") : *line == '-'))
            return 0;
        line += length;
    }
}

static int is_ruby(const char *path)
{
    struct stat status;
    char head[FIRST_LINE] = { 0 };
    /* A device may act on being opened. */
    if (syscall(SYS_newfstatat, AT_FDCWD, path, &status, 0) || !S_ISREG(status.st_mode))
        return 0;
    int file = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (file < 0)
        return 0;
    ssize_t length = read(file, head, sizeof head - 1);
    close(file);
    if (length < 4)
        return 0;
    head[strcspn(head, "\r\n")] = 0;
    if (!memcmp(head, "#!", 2))
        return names_ruby(head + 2);
    return !memcmp(head, "\177ELF", 4) && is_called(path, strlen(path), "ruby");
}

int execve(const char *path, char *const arguments[], char *const environment[])
{
    static const char NAME[] = "LD_PRELOAD=";
    if (!environment)
        return pass(path, arguments, environment);
    const char *entry = value_of(environment, "UNBLOAT_PRELOAD="), *list = value_of(environment, NAME);
    const char *options = value_of(environment, "RUBYOPT=");
    if (!entry || !*entry || (list && holds(list, entry)) || !options || !strstr(options, "/libunbloat.so") ||
        is_off(value_of(environment, "UNBLOAT=")) || !is_ruby(path))
        return pass(path, arguments, environment);

    size_t count = 0, changed = 0, entry_length = strlen(entry), list_length = list ? strlen(list) : 0;
    while (environment[count])
        count++;
    if (count > MAX_VARIABLES || entry_length > MAX_LIST || list_length > MAX_LIST)
        return pass(path, arguments, environment);
    char joined[sizeof NAME + entry_length + list_length + 1], *copy[count + 2];
    char *end = mempcpy(mempcpy(joined, NAME, sizeof NAME - 1), entry, entry_length);
    if (list_length) {
        *end++ = ':';
        end = mempcpy(end, list, list_length);
    }
    *end = 0;
    for (size_t index = 0; index < count; index++)
        if (strncmp(environment[index], NAME, sizeof NAME - 1))
            copy[changed++] = environment[index];
    copy[changed++] = joined;
    copy[changed] = NULL;
    return pass(path, arguments, copy);
}

int execv(const char *path, char *const arguments[])
{
    return execve(path, arguments, environ);
}
