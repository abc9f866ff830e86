/*
 * A layer between a process and its disk, by LD_PRELOAD: it knows what a power cut would leave.
 *
 * Every call of the C library that changes a file of one folder, or makes such a change durable,
 * comes here first. It is passed on to the kernel; `durable_image.c` is told. On order a sync or a
 * write fails, syncs take longer or lie, the disk seems full, and the wall clock is wrong.
 *
 * Calls go to the kernel by number, so that no other library's stand-in and no lookup lies between.
 * What cannot be followed is refused loudly: shared writable mappings, stdio, renamed directories.
 * Not seen at all: io_uring, system calls by number, and sync(), which here makes nothing durable.
 *
 * A failed sync leaves the pages clean and not durable, as Linux does: a second sync succeeds and
 * proves nothing.
 */
#define _GNU_SOURCE
#include "durable_image.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#if !defined(__linux__) || !defined(__LP64__)
#error "this layer knows the calls of 64-bit Linux only"
#endif

#define EXPORT __attribute__((visibility("default")))
#define ALIAS(name) __attribute__((visibility("default"), alias(name)))
#define NANOSECONDS 1000000000LL
#define HERE ((off_t)-1) /* at the descriptor's own position */

__attribute__((constructor)) static void begin(void)
{
    image_begin();
}

/* Take an order that is good for one call: the error number to fail with, or 0. */
static int take(int64_t *order)
{
    if (!__atomic_load_n(order, __ATOMIC_RELAXED))
        return 0;
    int number = (int)__atomic_exchange_n(order, 0, __ATOMIC_SEQ_CST);
    if (number)
        __atomic_fetch_add(&control->failed, 1, __ATOMIC_RELAXED);
    return number;
}

static void count(uint64_t *counter, uint64_t amount)
{
    __atomic_fetch_add(counter, amount, __ATOMIC_RELAXED);
}

static bool lies(void)
{
    return __atomic_load_n(&control->lies, __ATOMIC_RELAXED) != 0;
}

/* A slow disk is slow when it syncs; killed meanwhile, what it was to sync is not durable. One that
 * hangs (less than no time) is asked again and again whether it still does. */
static void delay_sync(void)
{
    int64_t pause = __atomic_load_n(&control->sync_nanoseconds, __ATOMIC_RELAXED);
    while (pause < 0) {
        struct timespec look = {0, NANOSECONDS / 100};
        nanosleep(&look, NULL);
        pause = __atomic_load_n(&control->sync_nanoseconds, __ATOMIC_RELAXED);
    }
    if (pause > 0) {
        struct timespec rest = {pause / NANOSECONDS, pause % NANOSECONDS};
        while (nanosleep(&rest, &rest) && errno == EINTR)
            ;
    }
}

/* Writing ------------------------------------------------------------------------------------ */

/* The place of a write that names none. Asked with the file's lock held. */
static off_t place_now(int descriptor, bool appends)
{
    struct stat status;
    if (!appends)
        return syscall(SYS_lseek, descriptor, 0, SEEK_CUR);
    return fstat(descriptor, &status) ? 0 : status.st_size;
}

/* A write whose place may be known only when it is done; gives where it ended in `past`. */
static ssize_t write_marked(struct tracked *file, int descriptor, const struct iovec *parts,
                            int part_count, off_t offset, int flags, bool appends, off_t *past)
{
    bool is_placed = offset != HERE && !appends;
    size_t length = 0;
    for (int part = 0; part < part_count; part++)
        length += parts[part].iov_len;
    if (!is_placed)
        image_lock(file);
    off_t start = is_placed ? offset : place_now(descriptor, appends);
    image_mark(file, start, start + (off_t)length);
    ssize_t written = syscall(SYS_pwritev2, descriptor, parts, part_count, offset, 0L, flags);
    if (written > 0) {
        *past = is_placed ? offset + written : place_now(descriptor, appends);
        image_mark(file, *past - written, *past);
    }
    if (!is_placed) {
        int number = errno;
        image_unlock(file);
        errno = number;
    }
    return written;
}

static ssize_t write_parts(int descriptor, const struct iovec *parts, int part_count, off_t offset,
                           int flags)
{
    struct stat status;
    struct tracked *file = control ? image_of_changed(descriptor, &status) : NULL;
    if (!file)
        return syscall(SYS_pwritev2, descriptor, parts, part_count, offset, 0L, flags);

    int modes = fcntl(descriptor, F_GETFL);
    bool appends = (flags & RWF_APPEND) || (modes & O_APPEND);
    bool is_synced = (flags & (RWF_DSYNC | RWF_SYNC)) || (modes & O_DSYNC);
    count(&control->writes, 1);
    int failure = take(&control->fail_write);
    if (failure) {
        errno = failure;
        return -1;
    }
    failure = is_synced ? take(&control->fail_sync) : 0;
    bool is_durable = is_synced && !failure && !lies();
    if (!is_durable)
        flags &= ~(RWF_DSYNC | RWF_SYNC);

    off_t past = 0;
    ssize_t written =
        write_marked(file, descriptor, parts, part_count, offset, flags, appends, &past);
    if (written <= 0)
        return written;
    count(&control->bytes, written);
    if (failure) {
        image_unmark(file, past - written, past);
        errno = failure;
        return -1;
    }
    if (is_synced) {
        count(&control->syncs, 1);
        delay_sync();
        if (is_durable)
            image_settle_range(file, past - written, past);
    }
    return written;
}

EXPORT ssize_t write(int descriptor, const void *bytes, size_t length)
{
    if (!control)
        return syscall(SYS_write, descriptor, bytes, length);
    struct iovec part = {(void *)bytes, length};
    struct stat status;
    if (fstat(descriptor, &status) || !S_ISREG(status.st_mode))
        return syscall(SYS_write, descriptor, bytes, length);
    return write_parts(descriptor, &part, 1, HERE, 0);
}

EXPORT ssize_t writev(int descriptor, const struct iovec *parts, int part_count)
{
    struct stat status;
    if (!control || fstat(descriptor, &status) || !S_ISREG(status.st_mode))
        return syscall(SYS_writev, descriptor, parts, part_count);
    return write_parts(descriptor, parts, part_count, HERE, 0);
}

EXPORT ssize_t pwrite(int descriptor, const void *bytes, size_t length, off_t offset)
{
    struct iovec part = {(void *)bytes, length};
    if (!control || offset < 0)
        return syscall(SYS_pwrite64, descriptor, bytes, length, offset);
    return write_parts(descriptor, &part, 1, offset, 0);
}

EXPORT ssize_t pwritev(int descriptor, const struct iovec *parts, int part_count, off_t offset)
{
    if (!control || offset < 0)
        return syscall(SYS_pwritev, descriptor, parts, part_count, offset, 0L);
    return write_parts(descriptor, parts, part_count, offset, 0);
}

EXPORT ssize_t pwritev2(int descriptor, const struct iovec *parts, int part_count, off_t offset,
                        int flags)
{
    return write_parts(descriptor, parts, part_count, offset, flags);
}

/* As much as can come from that file. */
static off_t length_from(int source, size_t length)
{
    struct stat status;
    if (fstat(source, &status) || !S_ISREG(status.st_mode))
        return INT_MAX;
    return length < (size_t)status.st_size ? (off_t)length : status.st_size;
}

EXPORT ssize_t copy_file_range(int source, off_t *from, int target, off_t *to, size_t length,
                               unsigned flags)
{
    struct stat status;
    struct tracked *file = control ? image_of_changed(target, &status) : NULL;
    if (!file)
        return syscall(SYS_copy_file_range, source, from, target, to, length, flags);
    image_lock(file);
    off_t start = to ? *to : place_now(target, false);
    off_t end = start + length_from(source, length);
    image_mark(file, start, end);
    ssize_t copied = syscall(SYS_copy_file_range, source, from, target, to, length, flags);
    image_mark(file, start, end);
    image_unlock(file);
    count(&control->writes, 1);
    return copied;
}

EXPORT ssize_t sendfile(int target, int source, off_t *from, size_t length)
{
    struct stat status;
    struct tracked *file = control ? image_of_changed(target, &status) : NULL;
    if (!file)
        return syscall(SYS_sendfile, target, source, from, length);
    image_lock(file);
    off_t start = place_now(target, false);
    off_t end = start + length_from(source, length);
    image_mark(file, start, end);
    ssize_t copied = syscall(SYS_sendfile, target, source, from, length);
    image_mark(file, start, end);
    image_unlock(file);
    count(&control->writes, 1);
    return copied;
}

/* Sizes -------------------------------------------------------------------------------------- */

static off_t larger(off_t one, off_t other)
{
    return one > other ? one : other;
}

EXPORT int ftruncate(int descriptor, off_t size)
{
    struct stat status;
    struct tracked *file = control ? image_of_changed(descriptor, &status) : NULL;
    if (!file)
        return (int)syscall(SYS_ftruncate, descriptor, size);
    off_t end = larger(size, status.st_size);
    off_t start = size < status.st_size ? size : status.st_size;
    image_mark(file, start, end);
    int result = (int)syscall(SYS_ftruncate, descriptor, size);
    image_mark(file, start, end);
    return result;
}

EXPORT int truncate(const char *path, off_t size)
{
    if (!control)
        return (int)syscall(SYS_truncate, path, size);
    int descriptor = (int)syscall(SYS_openat, AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
    if (descriptor < 0)
        return -1;
    int result = ftruncate(descriptor, size), number = errno;
    close(descriptor);
    errno = number;
    return result;
}

EXPORT int fallocate(int descriptor, int mode, off_t offset, off_t length)
{
    struct stat status;
    struct tracked *file = control ? image_of_changed(descriptor, &status) : NULL;
    if (!file)
        return (int)syscall(SYS_fallocate, descriptor, mode, offset, length);
    off_t end = larger(offset + length, status.st_size);
    image_mark(file, offset, end);
    int result = (int)syscall(SYS_fallocate, descriptor, mode, offset, length);
    image_mark(file, offset, end);
    return result;
}

EXPORT int posix_fallocate(int descriptor, off_t offset, off_t length)
{
    int before = errno;
    int number = fallocate(descriptor, 0, offset, length) ? errno : 0;
    errno = before;
    return number;
}

/* Syncs -------------------------------------------------------------------------------------- */

static int sync_one(int descriptor, long number)
{
    struct stat status;
    char relative[PATH_MAX];
    struct tracked *file = NULL;
    if (!control || fstat(descriptor, &status))
        return (int)syscall(number, descriptor);
    if (S_ISREG(status.st_mode))
        file = image_of_known(descriptor, &status);
    bool is_directory = S_ISDIR(status.st_mode);
    if (!file && !image_contains(descriptor, &status, relative))
        return (int)syscall(number, descriptor);

    count(is_directory ? &control->directory_syncs : &control->syncs, 1);
    int failure = take(&control->fail_sync);
    if (failure) {
        if (file)
            image_unmark(file, 0, status.st_size);
        errno = failure;
        return -1;
    }
    delay_sync();
    if (!lies()) {
        /* First the image: what other threads write during the real sync is not promised. */
        if (is_directory && !image_settle_directory(relative, status.st_ino)) {
            errno = ENOSPC;
            return -1;
        }
        if (file)
            image_settle(file);
        if (syscall(number, descriptor))
            return -1;
    }
    return 0;
}

EXPORT int fsync(int descriptor)
{
    return sync_one(descriptor, SYS_fsync);
}

EXPORT int fdatasync(int descriptor)
{
    return sync_one(descriptor, SYS_fdatasync);
}

/* Names -------------------------------------------------------------------------------------- */

/* O_TRUNC changes a file before anybody has a descriptor of it: look at it first. */
static struct tracked *before_cut(int directory, const char *path)
{
    struct stat status;
    int probe = (int)syscall(SYS_openat, directory, path, O_RDONLY | O_CLOEXEC, 0);
    if (probe < 0)
        return NULL;
    struct tracked *file = image_of_changed(probe, &status);
    if (file)
        image_mark(file, 0, status.st_size);
    close(probe);
    return file;
}

static int open_at(int directory, const char *path, int flags, mode_t mode)
{
    struct stat before;
    if (!control || !(flags & (O_CREAT | O_TRUNC)) || (flags & O_PATH))
        return (int)syscall(SYS_openat, directory, path, flags, mode);
    bool is_created = fstatat(directory, path, &before, 0) && errno == ENOENT;
    bool is_cut = !is_created && (flags & O_TRUNC) && S_ISREG(before.st_mode);
    struct tracked *file = is_cut ? before_cut(directory, path) : NULL;
    int descriptor = (int)syscall(SYS_openat, directory, path, flags, mode);
    if (descriptor >= 0 && is_created)
        image_of_created(descriptor);
    else if (descriptor >= 0 && file)
        image_mark(file, 0, before.st_size);
    return descriptor;
}

/* The mode is there only if a file may be created. */
#define MODE_OF(flags, last)                                                                       \
    ({                                                                                             \
        mode_t mode_ = 0;                                                                          \
        if ((flags) & (O_CREAT | __O_TMPFILE)) {                                                   \
            va_list list_;                                                                         \
            va_start(list_, last);                                                                 \
            mode_ = (mode_t)va_arg(list_, int);                                                    \
            va_end(list_);                                                                         \
        }                                                                                          \
        mode_;                                                                                     \
    })

EXPORT int open(const char *path, int flags, ...)
{
    return open_at(AT_FDCWD, path, flags, MODE_OF(flags, flags));
}

EXPORT int openat(int directory, const char *path, int flags, ...)
{
    return open_at(directory, path, flags, MODE_OF(flags, flags));
}

EXPORT int creat(const char *path, mode_t mode)
{
    return open_at(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode);
}

/* What a program calls that was built with _FORTIFY_SOURCE and names no mode. */
EXPORT int __open_2(const char *path, int flags)
{
    return open_at(AT_FDCWD, path, flags, 0);
}

EXPORT int __openat_2(int directory, const char *path, int flags)
{
    return open_at(directory, path, flags, 0);
}

/* Its names would have to be followed from one path to another: nobody has needed it. */
static bool is_directory_inside(int directory, const char *path)
{
    struct stat status;
    char relative[PATH_MAX];
    if (fstatat(directory, path, &status, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(status.st_mode))
        return false;
    int probe = (int)syscall(SYS_openat, directory, path, O_PATH | O_CLOEXEC, 0);
    bool is_inside = probe >= 0 && image_contains(probe, &status, relative);
    close(probe);
    return is_inside;
}

EXPORT int renameat2(int from, const char *source, int to, const char *target, unsigned flags)
{
    if (!control)
        return (int)syscall(SYS_renameat2, from, source, to, target, flags);
    if (is_directory_inside(from, source))
        return image_refuse("renaming a directory");
    image_lock_names();
    int result = (int)syscall(SYS_renameat2, from, source, to, target, flags), number = errno;
    image_unlock_names();
    errno = number;
    return result;
}

EXPORT int renameat(int from, const char *source, int to, const char *target)
{
    return renameat2(from, source, to, target, 0);
}

EXPORT int rename(const char *source, const char *target)
{
    return renameat2(AT_FDCWD, source, AT_FDCWD, target, 0);
}

/* Refused ------------------------------------------------------------------------------------ */

EXPORT void *mmap(void *address, size_t length, int protection, int flags, int descriptor,
                  off_t offset)
{
    struct stat status;
    bool shares = (flags & MAP_SHARED) && (protection & PROT_WRITE) && !(flags & MAP_ANONYMOUS);
    if (control && shares && image_of_changed(descriptor, &status)) {
        image_refuse("a shared writable mapping");
        return MAP_FAILED;
    }
    return (void *)syscall(SYS_mmap, address, length, protection, flags, descriptor, offset);
}

EXPORT FILE *fopen(const char *path, const char *mode)
{
    static FILE *(*real)(const char *, const char *);
    if (!real)
        real = (FILE * (*)(const char *, const char *)) dlsym(RTLD_NEXT, "fopen");
    if (control && strpbrk(mode, "wa+")) {
        struct stat status;
        char relative[PATH_MAX];
        int probe = open_at(AT_FDCWD, path, O_PATH | O_CLOEXEC, 0);
        bool is_inside =
            probe >= 0 && !fstat(probe, &status) && image_contains(probe, &status, relative);
        close(probe);
        if (is_inside) {
            image_refuse("writing through stdio");
            return NULL;
        }
    }
    return real(path, mode);
}

/* Space -------------------------------------------------------------------------------------- */

static void pretend_free(struct statvfs *statistics)
{
    int64_t bytes = __atomic_load_n(&control->free_bytes, __ATOMIC_RELAXED);
    fsblkcnt_t blocks = bytes < 0 ? ~0UL : (uint64_t)bytes / statistics->f_frsize;
    if (statistics->f_bavail > blocks)
        statistics->f_bavail = blocks;
    if (statistics->f_bfree > blocks)
        statistics->f_bfree = blocks;
}

EXPORT int fstatvfs(int descriptor, struct statvfs *statistics)
{
    static int (*real)(int, struct statvfs *);
    if (!real)
        real = (int (*)(int, struct statvfs *))dlsym(RTLD_NEXT, "fstatvfs");
    struct stat status;
    char relative[PATH_MAX];
    int result = real(descriptor, statistics);
    if (!result && control && !fstat(descriptor, &status) &&
        image_contains(descriptor, &status, relative))
        pretend_free(statistics);
    return result;
}

EXPORT int statvfs(const char *path, struct statvfs *statistics)
{
    int descriptor = (int)syscall(SYS_openat, AT_FDCWD, path, O_PATH | O_CLOEXEC, 0);
    if (descriptor < 0)
        return -1;
    int result = fstatvfs(descriptor, statistics), number = errno;
    close(descriptor);
    errno = number;
    return result;
}

/* The wall clock ----------------------------------------------------------------------------- */

static int real_clock(clockid_t clock, struct timespec *now)
{
    static int (*real)(clockid_t, struct timespec *); /* no system call: the vDSO answers */
    if (!real)
        real = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
    return real(clock, now);
}

static int64_t clock_error(int64_t real)
{
    uint64_t turn;
    int64_t error;
    do {
        turn = __atomic_load_n(&control->clock_turn, __ATOMIC_ACQUIRE);
        error = control->clock_offset;
        if (control->clock_drift != 0)
            error += (int64_t)((double)(real - control->clock_since) * control->clock_drift);
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
    } while ((turn & 1) || turn != __atomic_load_n(&control->clock_turn, __ATOMIC_RELAXED));
    return error;
}

EXPORT int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = real_clock(clock, now);
    bool is_wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE || clock == CLOCK_TAI;
    if (is_wall && !result && control && control->clock_turn) {
        int64_t real = now->tv_sec * NANOSECONDS + now->tv_nsec;
        real += clock_error(real);
        now->tv_sec = real / NANOSECONDS;
        now->tv_nsec = real % NANOSECONDS;
    }
    return result;
}

EXPORT int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
    struct timespec fine;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &fine);
    now->tv_sec = fine.tv_sec;
    now->tv_usec = fine.tv_nsec / 1000;
    return result;
}

EXPORT int timespec_get(struct timespec *now, int base)
{
    return base == TIME_UTC && !clock_gettime(CLOCK_REALTIME, now) ? base : 0;
}

EXPORT time_t time(time_t *result)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME_COARSE, &now);
    if (result)
        *result = now.tv_sec;
    return now.tv_sec;
}

/* Programs with 64-bit file offsets call the same by these names. */
ALIAS("open") int open64(const char *path, int flags, ...);
ALIAS("openat") int openat64(int directory, const char *path, int flags, ...);
ALIAS("creat") int creat64(const char *path, mode_t mode);
ALIAS("__open_2") int __open64_2(const char *path, int flags);
ALIAS("__openat_2") int __openat64_2(int directory, const char *path, int flags);
ALIAS("pwrite") ssize_t pwrite64(int, const void *, size_t, off64_t);
ALIAS("pwritev") ssize_t pwritev64(int, const struct iovec *, int, off64_t);
ALIAS("pwritev2") ssize_t pwritev64v2(int, const struct iovec *, int, off64_t, int);
ALIAS("sendfile") ssize_t sendfile64(int, int, off64_t *, size_t);
ALIAS("ftruncate") int ftruncate64(int, off64_t);
ALIAS("truncate") int truncate64(const char *, off64_t);
ALIAS("fallocate") int fallocate64(int, int, off64_t, off64_t);
ALIAS("posix_fallocate") int posix_fallocate64(int, off64_t, off64_t);
ALIAS("mmap") void *mmap64(void *, size_t, int, int, int, off64_t);
ALIAS("fopen") FILE *fopen64(const char *, const char *);
ALIAS("statvfs") int statvfs64(const char *, struct statvfs64 *);
ALIAS("fstatvfs") int fstatvfs64(int, struct statvfs64 *);
