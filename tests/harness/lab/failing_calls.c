/* A disk that fails on request, for programs that load this library first (LD_PRELOAD).

   Counts the calls that change files below one directory (and, if asked, those that read them) and lets one of them,
   or all from one on, fail. Only calls below the directory count, so that imports and the terminal do not. Every
   counted call is written to a log, the failed ones marked.

   Armed by failing_calls_arm(), or at the start by EIGEN2_FAILING_CALLS="first:last:error:reads:directory:log".
   error is an errno; -1 lets a write do half of its work; -2 does that and lets the next call say ENOSPC.
   No lock is taken and nothing is allocated: a fork at any moment is safe. fsync succeeds without doing anything: what
   it adds is seen by a power cut alone. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SHORT = -1, TORN = -2 };
enum { GO_ON, FAIL, HALF };

static char directory[PATH_MAX], log_path[PATH_MAX];
static size_t directory_length;
static atomic_long counted;
static long first, last;
static int error_number, with_reads;
static atomic_int armed;

void failing_calls_arm(const char *below, long from, long until, int error, int reads, const char *log)
{
    snprintf(directory, sizeof directory, "%s", below);
    snprintf(log_path, sizeof log_path, "%s", log);
    directory_length = strlen(directory);
    first = from, last = until, error_number = error, with_reads = reads;
    atomic_store(&counted, 0);
    atomic_store(&armed, 1);
}

__attribute__((constructor)) static void arm_from_environment(void)
{
    const char *wish = getenv("EIGEN2_FAILING_CALLS");
    char below[PATH_MAX], log[PATH_MAX];
    long from, until;
    int error, reads;
    if (wish && sscanf(wish, "%ld:%ld:%d:%d:%4095[^:]:%4095s", &from, &until, &error, &reads, below, log) == 6)
        failing_calls_arm(below, from, until, error, reads, log);
}

static int is_below(const char *path)
{
    return strncmp(path, directory, directory_length) == 0 &&
           (path[directory_length] == '/' || path[directory_length] == '\0');
}

static int descriptor_path(int descriptor, char *path)
{
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = syscall(SYS_readlink, link, path, PATH_MAX - 1);
    if (length < 0) return 0;
    path[length] = '\0';
    return 1;
}

static int full_path(int at, const char *name, char *path)
{
    if (!name) return 0;
    if (name[0] == '/') return snprintf(path, PATH_MAX, "%s", name) < PATH_MAX;
    char base[PATH_MAX];
    if (at == AT_FDCWD ? syscall(SYS_getcwd, base, sizeof base) < 0 : !descriptor_path(at, base)) return 0;
    return snprintf(path, PATH_MAX, "%s/%s", base, name) < PATH_MAX;
}

static int decide(const char *call, const char *path, int may_be_half)
{
    if (!is_below(path) || strcmp(path, log_path) == 0) return GO_ON;
    long number = atomic_fetch_add(&counted, 1) + 1;
    int verdict = GO_ON;
    if (number >= first && number <= last) verdict = error_number < 0 ? (may_be_half ? HALF : GO_ON) : FAIL;
    if (error_number == TORN && number == first + 1 && may_be_half) verdict = FAIL;
    char line[PATH_MAX + 64];
    int length = snprintf(line, sizeof line, "%ld %s %s%s\n", number, call, path + directory_length,
                          verdict == FAIL ? " FAILS" : verdict == HALF ? " HALF" : "");
    int log = (int)syscall(SYS_openat, AT_FDCWD, log_path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (log >= 0) {
        if (syscall(SYS_write, log, line, length) < 0) verdict = FAIL;
        syscall(SYS_close, log);
    }
    if (verdict == FAIL) errno = error_number == TORN ? ENOSPC : error_number;
    return verdict;
}

static int on_name(const char *call, int at, const char *name)
{
    char path[PATH_MAX];
    if (!atomic_load(&armed)) return GO_ON;
    int before = errno, verdict = full_path(at, name, path) ? decide(call, path, 0) : GO_ON;
    if (verdict == GO_ON) errno = before;
    return verdict;
}

static int on_descriptor(const char *call, int descriptor, int may_be_half)
{
    char path[PATH_MAX];
    if (!atomic_load(&armed)) return GO_ON;
    int before = errno, verdict = descriptor_path(descriptor, path) ? decide(call, path, may_be_half) : GO_ON;
    if (verdict != FAIL) errno = before;
    return verdict;
}

static int on_open(int at, const char *name, int flags)
{
    int changes = (flags & O_ACCMODE) != O_RDONLY || (flags & (O_CREAT | O_TRUNC));
    if (!changes && !with_reads) return GO_ON;
    return on_name(changes ? "open" : "look", at, name);
}

#define REAL(name) ({ static __typeof__(&name) real; if (!real) real = dlsym(RTLD_NEXT, #name); real; })

#define OPEN(name)                                                                                                   \
    int name(const char *path, int flags, ...)                                                                       \
    {                                                                                                                \
        va_list rest;                                                                                                \
        va_start(rest, flags);                                                                                       \
        mode_t mode = va_arg(rest, mode_t);                                                                          \
        va_end(rest);                                                                                                \
        return on_open(AT_FDCWD, path, flags) == FAIL ? -1 : REAL(name)(path, flags, mode);                          \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(name)                                                                                                 \
    int name(int at, const char *path, int flags, ...)                                                               \
    {                                                                                                                \
        va_list rest;                                                                                                \
        va_start(rest, flags);                                                                                       \
        mode_t mode = va_arg(rest, mode_t);                                                                          \
        va_end(rest);                                                                                                \
        return on_open(at, path, flags) == FAIL ? -1 : REAL(name)(at, path, flags, mode);                            \
    }
OPENAT(openat)
OPENAT(openat64)

#define FOPEN(name)                                                                                                  \
    FILE *name(const char *path, const char *mode)                                                                   \
    {                                                                                                                \
        int flags = mode[0] == 'r' && !strchr(mode, '+') ? O_RDONLY : O_RDWR;                                        \
        return on_open(AT_FDCWD, path, flags) == FAIL ? NULL : REAL(name)(path, mode);                               \
    }
FOPEN(fopen)
FOPEN(fopen64)

#define WRITE(name, parameters, ...)                                                                                 \
    ssize_t name parameters                                                                                          \
    {                                                                                                                \
        int verdict = on_descriptor(#name, descriptor, count > 1);                                                   \
        if (verdict == HALF) count /= 2;                                                                             \
        return verdict == FAIL ? -1 : REAL(name)(descriptor, bytes, __VA_ARGS__);                                    \
    }
WRITE(write, (int descriptor, const void *bytes, size_t count), count)
WRITE(pwrite, (int descriptor, const void *bytes, size_t count, off_t offset), count, offset)
WRITE(pwrite64, (int descriptor, const void *bytes, size_t count, off64_t offset), count, offset)

ssize_t writev(int descriptor, const struct iovec *parts, int count)
{
    return on_descriptor("writev", descriptor, 0) == FAIL ? -1 : REAL(writev)(descriptor, parts, count);
}

#define READ(name, parameters, ...)                                                                                  \
    ssize_t name parameters                                                                                          \
    {                                                                                                                \
        int failed = with_reads && on_descriptor(#name, descriptor, 0) == FAIL;                                      \
        return failed ? -1 : REAL(name)(descriptor, bytes, __VA_ARGS__);                                             \
    }
READ(read, (int descriptor, void *bytes, size_t count), count)
READ(pread, (int descriptor, void *bytes, size_t count, off_t offset), count, offset)
READ(pread64, (int descriptor, void *bytes, size_t count, off64_t offset), count, offset)

#define ON_NAME(name, parameters, at, path, ...)                                                                     \
    int name parameters { return on_name(#name, at, path) == FAIL ? -1 : REAL(name)(__VA_ARGS__); }
ON_NAME(rename, (const char *from, const char *to), AT_FDCWD, to, from, to)
ON_NAME(renameat, (int at, const char *from, int there, const char *to), there, to, at, from, there, to)
ON_NAME(renameat2, (int at, const char *from, int there, const char *to, unsigned flags), there, to, at, from, there, to, flags)
ON_NAME(link, (const char *from, const char *to), AT_FDCWD, to, from, to)
ON_NAME(linkat, (int at, const char *from, int there, const char *to, int flags), there, to, at, from, there, to, flags)
ON_NAME(symlink, (const char *target, const char *path), AT_FDCWD, path, target, path)
ON_NAME(symlinkat, (const char *target, int at, const char *path), at, path, target, at, path)
ON_NAME(unlink, (const char *path), AT_FDCWD, path, path)
ON_NAME(unlinkat, (int at, const char *path, int flags), at, path, at, path, flags)
ON_NAME(rmdir, (const char *path), AT_FDCWD, path, path)
ON_NAME(mkdir, (const char *path, mode_t mode), AT_FDCWD, path, path, mode)
ON_NAME(mkdirat, (int at, const char *path, mode_t mode), at, path, at, path, mode)
ON_NAME(truncate, (const char *path, off_t length), AT_FDCWD, path, path, length)
ON_NAME(truncate64, (const char *path, off64_t length), AT_FDCWD, path, path, length)

#define ON_DESCRIPTOR(name, parameters, ...)                                                                         \
    int name parameters { return on_descriptor(#name, descriptor, 0) == FAIL ? -1 : REAL(name)(__VA_ARGS__); }
ON_DESCRIPTOR(ftruncate, (int descriptor, off_t length), descriptor, length)
ON_DESCRIPTOR(ftruncate64, (int descriptor, off64_t length), descriptor, length)

#define SYNC(name)                                                                                                   \
    int name(int descriptor)                                                                                         \
    {                                                                                                                \
        if (on_descriptor(#name, descriptor, 0) == FAIL) return -1;                                                  \
        return atomic_load(&armed) ? 0 : REAL(name)(descriptor);                                                     \
    }
SYNC(fsync)
SYNC(fdatasync)
