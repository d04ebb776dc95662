/*
* Additions to jemalloc for Ruby servers: suitable defaults, and malloc_trim.
 *
 * Linked with jemalloc's static archive into libunbloat-jemalloc.so (crates/bundle/build.rs).
 */
#include <stddef.h>

int mallctl(const char *name, void *oldp, size_t *oldlenp, void *newp, size_t newlen);

/*
* jemalloc's defaults, which MALLOC_CONF overrides key by key (jemalloc(3), TUNING). docs/method/lean.md gives the
 * reasons and figures.
 */
const char *malloc_conf = UNBLOAT_MALLOC_CONF;

/*
 * glibc's malloc_trim(3): Process.warmup of Ruby 3.3 and later calls it before a server forks, and so do others. On
 * glibc's empty heap it would do nothing. 4096 is MALLCTL_ARENAS_ALL (jemalloc/jemalloc_macros.h).
 */
int malloc_trim(size_t pad)
{
    (void)pad;
    return mallctl("arena.4096.purge", NULL, NULL, NULL, 0) == 0;
}
