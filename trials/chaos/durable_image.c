/*
 * The durable image of a folder: what a power cut would leave of it, kept while it is changed.
 *
 * Two things are kept outside of the folder, and both say what IS durable, not what was changed:
 *
 *   IMAGES/<inode>        the durable bytes of a file that was changed at least once;
 *   IMAGES/<inode>.marks  which of its pages may differ from that, as bits in shared memory;
 *   NAMES/tree/...        the durable names: directories, and hard links to the real files.
 *
 * So nothing has to be recorded before a write. Whatever differs between a file and its image, or
 * between the folder and the tree of names, was not made durable; after a SIGKILL, whichever
 * instruction it met, comparing the two finds it (faulty_disk.py does). A sync copies what differs
 * into the image. One that was killed half-way has copied a part, and that is allowed: it had not
 * returned. The hard link keeps a removed or replaced file alive until its directory is synced.
 *
 * Invariants:
 *   A file of the folder without marks was never changed: it is durable as it is if it has a second
 *   link (its durable name), and nothing of it is durable otherwise.
 *   A page that differs from the image is marked, unless a sync of it failed. Marks are set before
 *   the change, and again after it because a sync in between may have taken them away. A sync that
 *   was killed leaves `is_settling`, and the next process marks every page.
 *   The image is written only under the file's lock and only with what the file holds at that
 *   moment: an older state never replaces a newer one.
 *
 * One process at a time writes to the folder; its threads, and processes it forks, may do so at once.
 */
#define _GNU_SOURCE
#include "durable_image.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE_BYTES 4096
#define MARK_WORDS 8192 /* 64 pages each: files of up to 2 GiB */
#define COPY_BYTES 65536
#define BUCKETS 256

struct marks {
    uint64_t is_settling;
    uint64_t unused[7];
    uint64_t words[MARK_WORDS];
};

struct tracked {
    struct tracked *next;
    ino_t inode;
    pthread_mutex_t lock; /* guards the image, and both descriptors */
    bool is_gone;
    int live;  /* the file itself, for reading */
    int image; /* its durable bytes */
    off_t image_size;
    struct marks *marks; /* stays mapped for ever: marking takes no lock */
};

struct control *control;

static char folder[PATH_MAX]; /* of the process's files */
static size_t folder_length;
static char images[PATH_MAX];
static char names[PATH_MAX];
static dev_t directory_device; /* they differ on overlay file systems */
static dev_t file_device;

static struct tracked *buckets[BUCKETS];
static ino_t outside[BUCKETS]; /* inodes found to be elsewhere: spares a look at their path */
static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t names_lock = PTHREAD_MUTEX_INITIALIZER;

/* Open, without being seen by our own stand-ins. */
static int open_raw(const char *path, int flags)
{
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_CLOEXEC, 0600);
}

__attribute__((noreturn)) static void fail(const char *what, const char *which)
{
    char text[PATH_MAX + 256];
    int length = snprintf(text, sizeof text, "faulty disk: %s %s: %s\n", what, which,
                          strerror(errno));
    syscall(SYS_write, STDERR_FILENO, text, length);
    abort();
}

int image_refuse(const char *what)
{
    char text[256];
    int length = snprintf(text, sizeof text,
                          "faulty disk: REFUSED: %s cannot be undone by a power cut\n", what);
    syscall(SYS_write, STDERR_FILENO, text, length);
    __atomic_fetch_add(&control->refused, 1, __ATOMIC_RELAXED);
    errno = ENOTSUP;
    return -1;
}

/* Both halves of a path that must fit. */
static void join(char result[PATH_MAX], const char *directory, const char *name)
{
    const char *slash = *name ? "/" : "";
    if (snprintf(result, PATH_MAX, "%s%s%s", directory, slash, name) >= PATH_MAX) {
        errno = ENAMETOOLONG;
        fail("cannot follow", name);
    }
}

/* A child of fork has one thread: locks that others held would stay locked for ever. */
static void after_fork(void)
{
    pthread_mutex_init(&table_lock, NULL);
    pthread_mutex_init(&names_lock, NULL);
    for (int bucket = 0; bucket < BUCKETS; bucket++)
        for (struct tracked *file = buckets[bucket]; file; file = file->next)
            pthread_mutex_init(&file->lock, NULL);
}

static void read_path(char path[PATH_MAX], const char *variable)
{
    const char *value = getenv(variable);
    if (!value || *value != '/' || strlen(value) >= PATH_MAX - 64) {
        errno = EINVAL;
        fail("needs a full path in", variable);
    }
    strcpy(path, value);
}

void image_begin(void)
{
    if (!getenv("FAULTY_DISK_DATA"))
        return;
    char path[PATH_MAX];
    struct stat status;
    read_path(folder, "FAULTY_DISK_DATA");
    read_path(images, "FAULTY_DISK_IMAGES");
    read_path(names, "FAULTY_DISK_NAMES");
    folder_length = strlen(folder);
    if (stat(names, &status)) /* on the folder's file system, or hard links could not work */
        fail("cannot find", names);
    directory_device = status.st_dev;
    join(path, names, "probe");
    if (stat(path, &status))
        fail("cannot find", path);
    file_device = status.st_dev;

    read_path(path, "FAULTY_DISK_CONTROL");
    int descriptor = open_raw(path, O_RDWR);
    if (descriptor < 0)
        fail("cannot open", path);
    struct control *page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED,
                                descriptor, 0);
    if (page == MAP_FAILED || page->magic != CONTROL_MAGIC)
        fail("cannot use", path);
    /* Stays open: the lock ends with the last process, and says that one is still there. */
    if (flock(descriptor, LOCK_SH))
        fail("cannot lock", path);
    pthread_atfork(NULL, NULL, after_fork);
    __atomic_fetch_add(&page->processes, 1, __ATOMIC_RELAXED);
    control = page;
}

bool image_contains(int descriptor, const struct stat *status, char relative[PATH_MAX])
{
    char link[64], path[PATH_MAX];
    if (status->st_dev != (S_ISDIR(status->st_mode) ? directory_device : file_device))
        return false;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < (ssize_t)folder_length)
        return false;
    path[length] = 0;
    if (memcmp(path, folder, folder_length) || (path[folder_length] && path[folder_length] != '/'))
        return false;
    strcpy(relative, path + folder_length + (path[folder_length] == '/'));
    return true;
}

/* Files -------------------------------------------------------------------------------------- */

static void set_marks(struct tracked *file, off_t start, off_t end, bool is_set)
{
    if (start >= end)
        return;
    uint64_t page = (uint64_t)start / PAGE_BYTES, last = (uint64_t)(end - 1) / PAGE_BYTES;
    if (last >= (uint64_t)MARK_WORDS * 64) {
        errno = EFBIG;
        fail("cannot follow", "a file of more than 2 GiB");
    }
    while (page <= last) {
        unsigned first = page % 64;
        uint64_t count = last - page + 1 < 64 - first ? last - page + 1 : 64 - first;
        uint64_t bits = (count == 64 ? ~0ULL : (1ULL << count) - 1) << first;
        uint64_t *word = &file->marks->words[page / 64];
        if (is_set)
            __atomic_fetch_or(word, bits, __ATOMIC_SEQ_CST);
        else
            __atomic_fetch_and(word, ~bits, __ATOMIC_SEQ_CST);
        page += count;
    }
}

void image_mark(struct tracked *file, off_t start, off_t end)
{
    set_marks(file, start, end, true);
}

void image_unmark(struct tracked *file, off_t start, off_t end)
{
    set_marks(file, start, end, false);
}

void image_lock(struct tracked *file)
{
    pthread_mutex_lock(&file->lock);
}

void image_unlock(struct tracked *file)
{
    pthread_mutex_unlock(&file->lock);
}

static void resize_image(struct tracked *file, off_t size)
{
    if (syscall(SYS_ftruncate, file->image, size))
        fail("cannot resize the image in", images);
    file->image_size = size;
}

static bool is_zero(const char *bytes, size_t count)
{
    return count == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0);
}

/* Bring a part of the image to what the file holds now. Zeros behind its end stay a hole. */
static void copy_to_image(struct tracked *file, off_t start, off_t end)
{
    char buffer[COPY_BYTES];
    while (start < end) {
        size_t wanted = end - start < COPY_BYTES ? (size_t)(end - start) : COPY_BYTES;
        ssize_t count = pread(file->live, buffer, wanted, start);
        if (count < 0)
            fail("cannot read a file in", folder);
        if (count == 0)
            return; /* it ends here, or was cut meanwhile */
        if (start < file->image_size || !is_zero(buffer, count)) {
            if (syscall(SYS_pwrite64, file->image, buffer, count, start) != count)
                fail("cannot write an image in", images);
            if (file->image_size < start + count)
                file->image_size = start + count;
        }
        start += count;
    }
}

static off_t live_size(const struct tracked *file)
{
    struct stat status;
    if (fstat(file->live, &status))
        fail("cannot look at a file in", folder);
    return status.st_size;
}

void image_settle(struct tracked *file)
{
    image_lock(file);
    if (!file->is_gone) {
        uint64_t *words = file->marks->words;
        __atomic_store_n(&file->marks->is_settling, 1, __ATOMIC_SEQ_CST);
        off_t size = live_size(file);
        off_t reach = size > file->image_size ? size : file->image_size;
        if (size < file->image_size)
            resize_image(file, size);
        off_t word_bytes = 64 * PAGE_BYTES;
        for (off_t place = 0; place < reach; place += word_bytes) {
            uint64_t *word = &words[place / word_bytes];
            uint64_t bits = *word ? __atomic_exchange_n(word, 0, __ATOMIC_SEQ_CST) : 0;
            while (bits) { /* run by run of neighbouring pages */
                unsigned first = __builtin_ctzll(bits);
                uint64_t rest = ~(bits >> first);
                unsigned count = rest ? __builtin_ctzll(rest) : 64;
                off_t start = place + (off_t)first * PAGE_BYTES;
                copy_to_image(file, start, start + (off_t)count * PAGE_BYTES);
                bits &= count == 64 ? 0 : ~(((1ULL << count) - 1) << first);
            }
        }
        if (file->image_size != size)
            resize_image(file, size);
        __atomic_store_n(&file->marks->is_settling, 0, __ATOMIC_SEQ_CST);
    }
    image_unlock(file);
}

void image_settle_range(struct tracked *file, off_t start, off_t end)
{
    image_lock(file);
    if (!file->is_gone) {
        /* A disk writes whole sectors: with these bytes goes what else stands in theirs. */
        off_t past = (end + SECTOR_BYTES - 1) & ~(off_t)(SECTOR_BYTES - 1);
        copy_to_image(file, start & ~(off_t)(SECTOR_BYTES - 1), past);
        off_t size = live_size(file);
        if (size < file->image_size)
            resize_image(file, size);
        else if (file->image_size < end)
            resize_image(file, end < size ? end : size);
    }
    image_unlock(file);
}

static struct tracked *find(ino_t inode)
{
    struct tracked *file = buckets[inode % BUCKETS];
    while (file && (file->inode != inode || file->is_gone))
        file = file->next;
    return file;
}

static struct marks *map_marks(int descriptor)
{
    if (syscall(SYS_ftruncate, descriptor, sizeof(struct marks)))
        fail("cannot size the marks in", images);
    struct marks *marks = (struct marks *)syscall(SYS_mmap, NULL, sizeof(struct marks),
                                                  PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    if (marks == MAP_FAILED)
        fail("cannot map the marks in", images);
    close(descriptor);
    return marks;
}

/* Begin an image; the marks get their name last, and only a file with marks counts as followed. */
static void begin_image(struct tracked *file, const char *path, const struct stat *status,
                        bool is_created)
{
    char draft[PATH_MAX + 16], marks[PATH_MAX + 16];
    snprintf(draft, sizeof draft, "%s.draft", path);
    snprintf(marks, sizeof marks, "%s.marks", path);
    unlink(marks);
    file->image = open_raw(path, O_RDWR | O_CREAT | O_TRUNC);
    int descriptor = open_raw(draft, O_RDWR | O_CREAT | O_TRUNC);
    if (file->image < 0 || descriptor < 0)
        fail("cannot make an image in", images);
    if (!is_created && status->st_nlink > 1) {
        copy_to_image(file, 0, status->st_size);
        if (file->image_size != status->st_size)
            resize_image(file, status->st_size);
    }
    file->marks = map_marks(descriptor);
    if (syscall(SYS_renameat2, AT_FDCWD, draft, AT_FDCWD, marks, 0))
        fail("cannot name the marks in", images);
}

/* Go on with the image that an earlier process left; false if there is none. */
static bool resume_image(struct tracked *file, const char *path, const struct stat *status)
{
    char marks[PATH_MAX + 16];
    struct stat image;
    snprintf(marks, sizeof marks, "%s.marks", path);
    int descriptor = open_raw(marks, O_RDWR);
    if (descriptor < 0)
        return false;
    file->marks = map_marks(descriptor);
    file->image = open_raw(path, O_RDWR);
    if (file->image < 0 || fstat(file->image, &image))
        fail("cannot open an image in", images);
    file->image_size = image.st_size;
    if (file->marks->is_settling) { /* it was killed in a sync: marks may be missing */
        image_mark(file, 0, image.st_size > status->st_size ? image.st_size : status->st_size);
        file->marks->is_settling = 0;
    }
    return true;
}

enum purpose { CHANGED, KNOWN, CREATED };

static struct tracked *follow(int descriptor, const struct stat *status, enum purpose purpose)
{
    char path[PATH_MAX], number[64], self[64];
    pthread_mutex_lock(&table_lock);
    struct tracked *file = find(status->st_ino);
    if (!file) {
        snprintf(number, sizeof number, "%llu", (unsigned long long)status->st_ino);
        snprintf(self, sizeof self, "/proc/self/fd/%d", descriptor);
        join(path, images, number);
        file = calloc(1, sizeof *file);
        if (!file || (file->live = open_raw(self, O_RDONLY)) < 0)
            fail("cannot read", self);
        file->inode = status->st_ino;
        pthread_mutex_init(&file->lock, NULL);
        bool is_followed = purpose != CREATED && resume_image(file, path, status);
        if (!is_followed && purpose != KNOWN) {
            begin_image(file, path, status, purpose == CREATED);
            is_followed = true;
        }
        if (is_followed) {
            file->next = buckets[file->inode % BUCKETS];
            buckets[file->inode % BUCKETS] = file;
        } else {
            close(file->live);
            free(file);
            file = NULL;
        }
    }
    pthread_mutex_unlock(&table_lock);
    return file;
}

static struct tracked *look_up(int descriptor, const struct stat *status, enum purpose purpose)
{
    if (!S_ISREG(status->st_mode) || status->st_dev != file_device)
        return NULL;
    ino_t *elsewhere = &outside[status->st_ino % BUCKETS];
    if (purpose == CREATED) {
        __atomic_store_n(elsewhere, 0, __ATOMIC_RELAXED);
    } else {
        pthread_mutex_lock(&table_lock);
        struct tracked *file = find(status->st_ino);
        pthread_mutex_unlock(&table_lock);
        if (file)
            return file;
        if (__atomic_load_n(elsewhere, __ATOMIC_RELAXED) == status->st_ino)
            return NULL;
    }
    char relative[PATH_MAX];
    if (!image_contains(descriptor, status, relative)) {
        __atomic_store_n(elsewhere, status->st_ino, __ATOMIC_RELAXED);
        return NULL;
    }
    return follow(descriptor, status, purpose);
}

struct tracked *image_of_changed(int descriptor, struct stat *status)
{
    return fstat(descriptor, status) ? NULL : look_up(descriptor, status, CHANGED);
}

struct tracked *image_of_known(int descriptor, const struct stat *status)
{
    return look_up(descriptor, status, KNOWN);
}

struct tracked *image_of_created(int descriptor)
{
    struct stat status;
    return fstat(descriptor, &status) ? NULL : look_up(descriptor, &status, CREATED);
}

/* Files without any name, real or durable, cannot come back: let go of them. */
static void drop_nameless(void)
{
    char path[PATH_MAX], number[64], marks[PATH_MAX + 16];
    struct stat status;
    pthread_mutex_lock(&table_lock);
    for (int bucket = 0; bucket < BUCKETS; bucket++) {
        for (struct tracked **place = &buckets[bucket]; *place;) {
            struct tracked *file = *place;
            if (fstat(file->live, &status) || status.st_nlink > 0) {
                place = &file->next;
                continue;
            }
            snprintf(number, sizeof number, "%llu", (unsigned long long)file->inode);
            join(path, images, number);
            snprintf(marks, sizeof marks, "%s.marks", path);
            unlink(marks);
            unlink(path);
            image_lock(file);
            file->is_gone = true;
            close(file->live);
            close(file->image);
            image_unlock(file);
            *place = file->next; /* a thread may still hold it: a few bytes stay behind */
        }
    }
    pthread_mutex_unlock(&table_lock);
}

/* Names -------------------------------------------------------------------------------------- */

void image_lock_names(void)
{
    pthread_mutex_lock(&names_lock);
}

void image_unlock_names(void)
{
    pthread_mutex_unlock(&names_lock);
}

static void remove_tree(const char *path)
{
    if (unlink(path) == 0 || errno == ENOENT)
        return;
    DIR *directory = opendir(path);
    if (!directory)
        fail("cannot remove", path);
    for (struct dirent *entry; (entry = readdir(directory));) {
        char inner[PATH_MAX];
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        join(inner, path, entry->d_name);
        remove_tree(inner);
    }
    closedir(directory);
    if (rmdir(path))
        fail("cannot remove", path);
}

/* A directory that was synced before its own name was: its names wait under its inode. */
static void early_path(char path[PATH_MAX], ino_t inode)
{
    if (snprintf(path, PATH_MAX, "%s/early/%llu", names, (unsigned long long)inode) >= PATH_MAX)
        fail("cannot follow", names);
}

/* The tree of names is on the folder's file system, which may be full. Under the names' lock. */
static bool is_full;

static void must_be_full(const char *what, const char *which)
{
    if (errno != ENOSPC && errno != EDQUOT)
        fail(what, which);
    is_full = true;
}

static void settle_names(const char *listed, const char *real, const char *kept, bool is_removal);

static void settle_name(const char *real, const char *kept)
{
    char draft[PATH_MAX];
    struct stat now, then;
    if (lstat(real, &now))
        return; /* it went meanwhile */
    bool is_known = lstat(kept, &then) == 0;
    if (S_ISDIR(now.st_mode)) {
        if (is_known && S_ISDIR(then.st_mode))
            return;
        if (is_known)
            remove_tree(kept);
        early_path(draft, now.st_ino);
        if (syscall(SYS_renameat2, AT_FDCWD, draft, AT_FDCWD, kept, 0) == 0)
            settle_names(kept, real, kept, true); /* the number may be that of one before it */
        else if (mkdir(kept, 0700))
            must_be_full("cannot make", kept);
        return;
    }
    if (is_known && then.st_ino == now.st_ino)
        return;
    if (is_known && S_ISDIR(then.st_mode))
        remove_tree(kept);
    join(draft, names, "draft");
    unlink(draft);
    if (linkat(AT_FDCWD, real, AT_FDCWD, draft, 0)) {
        if (errno != ENOENT)
            must_be_full("cannot link", real);
        return;
    }
    if (syscall(SYS_renameat2, AT_FDCWD, draft, AT_FDCWD, kept, 0))
        must_be_full("cannot name", kept);
}

/* Every name in `listed` with its path in both trees; what is new comes first, see the Python. */
static void settle_names(const char *listed, const char *real, const char *kept, bool is_removal)
{
    DIR *directory = opendir(listed);
    if (!directory)
        fail("cannot list", listed);
    for (struct dirent *entry; (entry = readdir(directory));) {
        char now[PATH_MAX], then[PATH_MAX];
        struct stat status;
        if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
            continue;
        join(now, real, entry->d_name);
        join(then, kept, entry->d_name);
        if (!is_removal)
            settle_name(now, then);
        else if (lstat(now, &status) && errno == ENOENT)
            remove_tree(then);
    }
    closedir(directory);
}

bool image_settle_directory(const char *relative, ino_t inode)
{
    char real[PATH_MAX], tree[PATH_MAX], kept[PATH_MAX];
    struct stat status;
    join(real, folder, relative);
    join(tree, names, "tree");
    image_lock_names();
    is_full = false;
    join(kept, tree, relative);
    if (lstat(kept, &status) || !S_ISDIR(status.st_mode)) {
        early_path(kept, inode);
        if (mkdir(kept, 0700) && errno != EEXIST)
            fail("cannot make", kept);
    }
    settle_names(real, real, kept, false);
    bool is_done = !is_full;
    if (is_done) /* or a renamed file would have lost its old name without the new one */
        settle_names(kept, real, kept, true);
    image_unlock_names();
    drop_nameless();
    return is_done;
}
