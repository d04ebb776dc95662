/*
* Included before every file of jemalloc and ruby.c: requests the versions that these functions had before glibc
 * 2.34 moved them from libpthread and libdl into libc, so that the library loads on glibc 2.31 (Debian 11) as well.
* Newer releases keep these versions for old programs.
 */
#if defined(__x86_64__)
#define UNBLOAT_BASE "GLIBC_2.2.5"
#define UNBLOAT_NAME "GLIBC_2.12"
#elif defined(__aarch64__)
#define UNBLOAT_BASE "GLIBC_2.17"
#define UNBLOAT_NAME "GLIBC_2.17"
#endif

#ifdef UNBLOAT_BASE
#define UNBLOAT_FROM(symbol, version) __asm__(".symver " #symbol "," #symbol "@" version);
UNBLOAT_FROM(dlsym, UNBLOAT_BASE)
UNBLOAT_FROM(pthread_create, UNBLOAT_BASE)
UNBLOAT_FROM(pthread_join, UNBLOAT_BASE)
UNBLOAT_FROM(pthread_key_create, UNBLOAT_BASE)
UNBLOAT_FROM(pthread_mutex_trylock, UNBLOAT_BASE)
UNBLOAT_FROM(pthread_mutexattr_destroy, UNBLOAT_BASE)
UNBLOAT_FROM(pthread_mutexattr_init, UNBLOAT_BASE)
UNBLOAT_FROM(pthread_mutexattr_settype, UNBLOAT_BASE)
UNBLOAT_FROM(pthread_setspecific, UNBLOAT_BASE)
UNBLOAT_FROM(pthread_sigmask, UNBLOAT_BASE)
UNBLOAT_FROM(pthread_getname_np, UNBLOAT_NAME)
UNBLOAT_FROM(pthread_setname_np, UNBLOAT_NAME)
#endif
