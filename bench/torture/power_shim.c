/* Records what a PostgreSQL changes on disk: loaded with LD_PRELOAD, it appends an entry to the file in POWER_LOG after each call.
   An entry: a header, then `length` bytes of data (or two names, each ended by a zero byte, for names that change). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

struct entry { uint32_t kind, length; uint64_t inode; int64_t offset; };
enum { WRITE = 1, TRUNCATE, SYNC, CREATE, RENAME, UNLINK };

static int log_fd = -2;

#define REAL(name) ({ static __typeof__(&name) found; if (!found) found = (__typeof__(&name)) dlsym(RTLD_NEXT, #name); found; })

static int opened_log(void) {
    if (log_fd == -2) {
        const char *path = getenv("POWER_LOG");
        int fd = path ? REAL(open)(path, O_WRONLY | O_APPEND | O_CLOEXEC) : -1;
        log_fd = fd < 0 ? -1 : REAL(fcntl)(fd, F_DUPFD_CLOEXEC, 900); /* out of the way of descriptors that are counted */
        if (fd >= 0) REAL(close)(fd);
    }
    return log_fd;
}

static int regular(int fd, uint64_t *inode) {
    struct stat about;
    if (fstat(fd, &about) || !S_ISREG(about.st_mode)) return 0;
    *inode = about.st_ino;
    return 1;
}

static void note(uint32_t kind, uint64_t inode, int64_t offset, const struct iovec *parts, int count) {
    int before = errno;
    struct iovec all[66];
    struct entry head = {kind, 0, inode, offset};
    if (opened_log() >= 0 && count <= 64) {
        all[0].iov_base = &head;
        all[0].iov_len = sizeof head;
        for (int i = 0; i < count; i++) {
            all[i + 1] = parts[i];
            head.length += parts[i].iov_len;
        }
        if (REAL(writev)(log_fd, all, count + 1) != (ssize_t) (sizeof head + head.length)) abort();
    }
    errno = before;
}

static void note_names(uint32_t kind, uint64_t inode, const char *one, const char *other) {
    struct iovec parts[2] = {{(void *) one, strlen(one) + 1}, {(void *) other, strlen(other) + 1}};
    note(kind, inode, 0, parts, 2);
}

static void note_written(int fd, const struct iovec *parts, int count, int64_t offset, ssize_t done) {
    uint64_t inode;
    struct iovec kept[64];
    int used = 0;
    if (done <= 0 || fd == log_fd || !regular(fd, &inode)) return;
    for (int i = 0; i < count && done > 0 && used < 64; i++) {
        kept[used] = parts[i];
        if ((ssize_t) kept[used].iov_len > done) kept[used].iov_len = done;
        done -= kept[used++].iov_len;
    }
    note(WRITE, inode, offset, kept, used);
}

ssize_t pwrite(int fd, const void *data, size_t size, off_t offset) {
    ssize_t done = REAL(pwrite)(fd, data, size, offset);
    struct iovec part = {(void *) data, size};
    note_written(fd, &part, 1, offset, done);
    return done;
}
ssize_t pwrite64(int fd, const void *data, size_t size, off_t offset) { return pwrite(fd, data, size, offset); }

ssize_t pwritev(int fd, const struct iovec *parts, int count, off_t offset) {
    ssize_t done = REAL(pwritev)(fd, parts, count, offset);
    note_written(fd, parts, count, offset, done);
    return done;
}
ssize_t pwritev64(int fd, const struct iovec *parts, int count, off_t offset) { return pwritev(fd, parts, count, offset); }

ssize_t write(int fd, const void *data, size_t size) {
    ssize_t done = REAL(write)(fd, data, size);
    uint64_t inode;
    if (done > 0 && fd != log_fd && regular(fd, &inode)) {
        struct iovec part = {(void *) data, done};
        note(WRITE, inode, lseek(fd, 0, SEEK_CUR) - done, &part, 1);
    }
    return done;
}

int ftruncate(int fd, off_t size) {
    int done = REAL(ftruncate)(fd, size);
    uint64_t inode;
    if (!done && regular(fd, &inode)) note(TRUNCATE, inode, size, NULL, 0);
    return done;
}
int ftruncate64(int fd, off_t size) { return ftruncate(fd, size); }

int truncate(const char *path, off_t size) {
    int done = REAL(truncate)(path, size);
    struct stat about;
    if (!done && !stat(path, &about)) note(TRUNCATE, about.st_ino, size, NULL, 0);
    return done;
}

int posix_fallocate(int fd, off_t offset, off_t size) {
    int done = REAL(posix_fallocate)(fd, offset, size);
    uint64_t inode;
    struct stat about;
    if (!done && regular(fd, &inode) && !fstat(fd, &about)) note(TRUNCATE, inode, about.st_size, NULL, 0);
    return done;
}
int posix_fallocate64(int fd, off_t offset, off_t size) { return posix_fallocate(fd, offset, size); }

/* Covers what was recorded before it began. */
static int synced(int fd, int (*sync)(int)) {
    uint64_t inode;
    struct stat about;
    int64_t covers = opened_log() >= 0 && !fstat(log_fd, &about) ? about.st_size : 0;
    int done = sync(fd);
    if (!done && regular(fd, &inode)) note(SYNC, inode, covers, NULL, 0);
    return done;
}
int fsync(int fd) { return synced(fd, REAL(fsync)); }
int fdatasync(int fd) { return synced(fd, REAL(fdatasync)); }

static void note_opened(int fd, const char *path, int flags) {
    uint64_t inode;
    if (fd < 0 || !(flags & (O_CREAT | O_TRUNC)) || !regular(fd, &inode)) return;
    struct stat about;
    note_names(CREATE, inode, path, "");
    if (!fstat(fd, &about) && !about.st_size) note(TRUNCATE, inode, 0, NULL, 0);
}
int open(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = flags & O_CREAT ? va_arg(rest, int) : 0;
    va_end(rest);
    int fd = REAL(open)(path, flags, mode);
    note_opened(fd, path, flags);
    return fd;
}
int open64(const char *path, int flags, ...) {
    va_list rest;
    va_start(rest, flags);
    int mode = flags & O_CREAT ? va_arg(rest, int) : 0;
    va_end(rest);
    return open(path, flags, mode);
}
int rename(const char *one, const char *other) {
    int done = REAL(rename)(one, other);
    if (!done) note_names(RENAME, 0, one, other);
    return done;
}
int unlink(const char *path) {
    int done = REAL(unlink)(path);
    if (!done) note_names(UNLINK, 0, path, "");
    return done;
}
