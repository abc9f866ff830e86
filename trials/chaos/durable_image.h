/*
 * What would be left of a folder after a power cut: the contract between the two halves of the
 * faulty disk. `durable_image.c` keeps the image, `faulty_disk.c` stands in the process's way.
 */
#ifndef HOLDFAST_DURABLE_IMAGE_H
#define HOLDFAST_DURABLE_IMAGE_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/types.h>

#define CONTROL_MAGIC 0x314b534944544c46ULL /* "FLTDISK1" */
#define SECTOR_BYTES 512

/* One page shared with the test. `_FIELDS` of faulty_disk.py names the same fields in this order. */
struct control {
    uint64_t magic;
    /* Orders. The first two hold an error number and are taken by the first call that meets them. */
    int64_t fail_sync;
    int64_t fail_write;
    int64_t lies;
    int64_t sync_nanoseconds;
    int64_t free_bytes; /* -1: whatever the file system says */
    /* The wall clock: real + offset + (real - since) * drift. `clock_turn` is odd during a change. */
    uint64_t clock_turn;
    int64_t clock_since;
    int64_t clock_offset;
    double clock_drift;
    /* Counts. */
    uint64_t processes;
    uint64_t writes;
    uint64_t syncs;
    uint64_t directory_syncs;
    uint64_t bytes;
    uint64_t failed;
    uint64_t refused;
};

/* A file of the folder that was changed at least once. */
struct tracked;

/* NULL while the layer has nothing to do in this process. */
extern struct control *control;

/* Reads the environment and begins; does nothing without it. Ends the process if that fails. */
void image_begin(void);

/* Says on stderr what this layer cannot follow, counts it, sets errno to ENOTSUP; gives -1. */
int image_refuse(const char *what);

/* Whether an open file or directory is in the folder; `relative` gets its path in there. */
bool image_contains(int descriptor, const struct stat *status, char relative[PATH_MAX]);

/*
 * The file behind a descriptor, NULL if it is not a file of the folder. Must be asked before the
 * first change: what the file holds then is what is durable of it.
 */
struct tracked *image_of_changed(int descriptor, struct stat *status);

/* The same for a file that will not be changed now: NULL too if nothing ever changed it. */
struct tracked *image_of_known(int descriptor, const struct stat *status);

/* A file that was created just now: nothing of it is durable. */
struct tracked *image_of_created(int descriptor);

/* The place of the next write is known only after it: held around such writes. */
void image_lock(struct tracked *file);
void image_unlock(struct tracked *file);

/* These bytes may differ from the image. Said before a change and again after it. */
void image_mark(struct tracked *file, off_t start, off_t end);

/* These pages count as clean although they are not durable: what a kernel does after EIO. */
void image_unmark(struct tracked *file, off_t start, off_t end);

/* The whole file, or the sectors of a part of it, are durable now. */
void image_settle(struct tracked *file);
void image_settle_range(struct tracked *file, off_t start, off_t end);

/* The names in this directory are durable now; false if there is no room for that. */
bool image_settle_directory(const char *relative, ino_t inode);

/* Keep a rename out while names are made durable: it changes two of them at once. */
void image_lock_names(void);
void image_unlock_names(void);

#endif
