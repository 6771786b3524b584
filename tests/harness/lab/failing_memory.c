/* Memory that runs out on request, for programs that load this library first (LD_PRELOAD).

   Between failing_memory_arm() and failing_memory_disarm() the allocations of at least `at_least` bytes are counted, and
   those numbered first to last fail. Python's own small objects come from arenas and are not seen here. */

#define _GNU_SOURCE
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static atomic_int armed;
static atomic_long counted, first, last, least;

void failing_memory_arm(long from, long until, long at_least)
{
    atomic_store(&counted, 0);
    atomic_store(&first, from);
    atomic_store(&last, until);
    atomic_store(&least, at_least);
    atomic_store(&armed, 1);
}

/* The number of allocations since it was armed. */
long failing_memory_disarm(void)
{
    atomic_store(&armed, 0);
    return atomic_load(&counted);
}

static int fails(size_t bytes)
{
    if (!atomic_load(&armed) || bytes < (size_t)atomic_load(&least)) return 0;
    long number = atomic_fetch_add(&counted, 1) + 1;
    if (number < atomic_load(&first) || number > atomic_load(&last)) return 0;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t bytes) { return fails(bytes) ? NULL : __libc_malloc(bytes); }
void *calloc(size_t count, size_t bytes) { return fails(count * bytes) ? NULL : __libc_calloc(count, bytes); }
void *realloc(void *old, size_t bytes) { return fails(bytes) ? NULL : __libc_realloc(old, bytes); }
void *memalign(size_t border, size_t bytes) { return fails(bytes) ? NULL : __libc_memalign(border, bytes); }
void *aligned_alloc(size_t border, size_t bytes) { return memalign(border, bytes); }

int posix_memalign(void **found, size_t border, size_t bytes)
{
    void *memory = memalign(border, bytes);
    if (!memory) return ENOMEM;
    *found = memory;
    return 0;
}
