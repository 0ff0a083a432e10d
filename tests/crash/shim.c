/* Sees every call by which this process changes files below one folder: writes it down, or makes it fail.

   Preloaded (LD_PRELOAD), so that it sees what Python, Rust and SQLite do alike. It is told what to do by the functions
   at the end. Whether it misses anything is tested: what it wrote down, replayed, must be what is on the disk. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static char root[4096];
static int journal = -1;
static long count, fail_at, fail_kind; /* kinds: 1 a full disk from then on, 2 EIO once, 3 half a write, 4 ENOMEM once */

#define REAL(name, result, ...) \
    static result (*real)(__VA_ARGS__); \
    if (!real) real = (result (*)(__VA_ARGS__))dlsym(RTLD_NEXT, name)

static int below(const char *path) { return root[0] && path && strncmp(path, root, strlen(root)) == 0; }

static int path_of(int fd, char *path) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, 4095);
    if (n < 0) return 0;
    path[n] = 0;
    return below(path);
}

static void absolute(int folder, const char *path, char *out) {
    char base[4096] = "";
    if (path[0] != '/') {
        if (folder == AT_FDCWD) { if (!getcwd(base, sizeof base)) base[0] = 0; }
        else { char link[64]; snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
               ssize_t n = readlink(link, base, 4095); base[n < 0 ? 0 : n] = 0; }
        snprintf(out, 4096, "%.2000s/%.2000s", base, path);
    } else snprintf(out, 4096, "%.4000s", path);
}

static void put(const void *data, size_t n) {
    REAL("write", ssize_t, int, const void *, size_t);
    while (n) { ssize_t done = real(journal, data, n); if (done <= 0) return; data = (const char *)data + done; n -= done; }
}

/* kind, inode, offset, lengths of path, other path and data; then those three */
static void note(char kind, long inode, long offset, const char *path, const char *other, const void *data, size_t n) {
    if (journal < 0) return;
    int kept = errno;
    long head[6] = {kind, inode, offset, (long)strlen(path), other ? (long)strlen(other) : 0, (long)n};
    put(head, sizeof head); put(path, head[3]); if (other) put(other, head[4]); put(data, n);
    errno = kept;
}

static long inode_of(int fd) { struct stat s; return fstat(fd, &s) ? 0 : (long)s.st_ino; }

/* 0: go on; -1: fail, errno is set; 1: do half of it */
static int fault(int writes) {
    count++;
    if (!fail_at || count < fail_at) return 0;
    if (fail_kind == 1) { if (!writes) return 0; errno = ENOSPC; return -1; }
    if (count > fail_at) return 0;
    if (fail_kind == 3) return writes ? 1 : 0;
    errno = fail_kind == 4 ? ENOMEM : EIO;
    return -1;
}

static int opened(int fd, const char *path, int flags, int existed) {
    if (fd >= 0) {
        if ((flags & O_CREAT) && !existed) note('c', inode_of(fd), 0, path, 0, 0, 0);
        else if (flags & O_TRUNC) note('t', inode_of(fd), 0, path, 0, 0, 0);
    }
    return fd;
}

static int open_any(int folder, const char *path, int flags, mode_t mode) {
    REAL("openat64", int, int, const char *, int, ...);
    char full[4096];
    absolute(folder, path, full);
    int changes = below(full) && (flags & (O_CREAT | O_TRUNC));
    struct stat s;
    int existed = changes && stat(full, &s) == 0;
    if (changes && (!existed || (flags & O_TRUNC)) && fault(!existed)) { if (errno) return -1; }
    int fd = real(folder, path, flags, mode);
    return changes ? opened(fd, full, flags, existed) : fd;
}

#define MODE(flags) mode_t mode = 0; if ((flags) & (O_CREAT | O_TMPFILE)) { va_list a; va_start(a, flags); mode = va_arg(a, mode_t); va_end(a); }
int open(const char *p, int flags, ...) { MODE(flags) return open_any(AT_FDCWD, p, flags, mode); }
int open64(const char *p, int flags, ...) { MODE(flags) return open_any(AT_FDCWD, p, flags, mode); }
int openat(int d, const char *p, int flags, ...) { MODE(flags) return open_any(d, p, flags, mode); }
int openat64(int d, const char *p, int flags, ...) { MODE(flags) return open_any(d, p, flags, mode); }

ssize_t write(int fd, const void *data, size_t n) {
    REAL("write", ssize_t, int, const void *, size_t);
    char path[4096];
    if (fd == journal || !root[0] || !path_of(fd, path)) return real(fd, data, n);
    int f = fault(1);
    if (f < 0) return -1;
    ssize_t done = real(fd, data, f ? (n + 1) / 2 : n);
    if (done > 0) note('w', inode_of(fd), lseek(fd, 0, SEEK_CUR) - done, path, 0, data, done);
    return done;
}

static ssize_t pwrite_any(int fd, const void *data, size_t n, off_t offset) {
    REAL("pwrite64", ssize_t, int, const void *, size_t, off_t);
    char path[4096];
    if (!root[0] || !path_of(fd, path)) return real(fd, data, n, offset);
    int f = fault(1);
    if (f < 0) return -1;
    ssize_t done = real(fd, data, f ? (n + 1) / 2 : n, offset);
    if (done > 0) note('w', inode_of(fd), offset, path, 0, data, done);
    return done;
}
ssize_t pwrite(int fd, const void *d, size_t n, off_t o) { return pwrite_any(fd, d, n, o); }
ssize_t pwrite64(int fd, const void *d, size_t n, off_t o) { return pwrite_any(fd, d, n, o); }

ssize_t writev(int fd, const struct iovec *parts, int n) {
    REAL("writev", ssize_t, int, const struct iovec *, int);
    char path[4096];
    if (!root[0] || !path_of(fd, path)) return real(fd, parts, n);
    ssize_t total = 0;
    for (int i = 0; i < n; i++) {
        if (!parts[i].iov_len) continue;
        ssize_t done = write(fd, parts[i].iov_base, parts[i].iov_len);
        if (done < 0) return total ? total : -1;
        total += done;
        if ((size_t)done < parts[i].iov_len) break;
    }
    return total;
}

static int ftruncate_any(int fd, off_t n) {
    REAL("ftruncate64", int, int, off_t);
    char path[4096];
    if (!root[0] || !path_of(fd, path)) return real(fd, n);
    if (fault(0)) return -1;
    int r = real(fd, n);
    if (!r) note('t', inode_of(fd), n, path, 0, 0, 0);
    return r;
}
int ftruncate(int fd, off_t n) { return ftruncate_any(fd, n); }
int ftruncate64(int fd, off_t n) { return ftruncate_any(fd, n); }

#define SYNC(name) int name(int fd) { REAL(#name, int, int); char path[4096]; \
    if (!root[0] || !path_of(fd, path)) return real(fd); if (fault(0)) return -1; \
    int r = real(fd); if (!r) note('s', inode_of(fd), 0, path, 0, 0, 0); return r; }
SYNC(fsync)
SYNC(fdatasync)

int rename(const char *from, const char *to) {
    REAL("rename", int, const char *, const char *);
    char a[4096], b[4096];
    absolute(AT_FDCWD, from, a); absolute(AT_FDCWD, to, b);
    if (!below(a)) return real(from, to);
    if (fault(0)) return -1;
    int r = real(from, to);
    if (!r) note('r', 0, 0, a, b, 0, 0);
    return r;
}

#define REMOVE(name, kind) int name(const char *path) { REAL(#name, int, const char *); char a[4096]; \
    absolute(AT_FDCWD, path, a); if (!below(a)) return real(path); if (fault(0)) return -1; \
    int r = real(path); if (!r) note(kind, 0, 0, a, 0, 0, 0); return r; }
REMOVE(unlink, 'u')
REMOVE(rmdir, 'u')

int mkdir(const char *path, mode_t mode) {
    REAL("mkdir", int, const char *, mode_t);
    char a[4096];
    absolute(AT_FDCWD, path, a);
    if (!below(a)) return real(path, mode);
    if (fault(1)) return -1;
    int r = real(path, mode);
    if (!r) note('d', 0, 0, a, 0, 0, 0);
    return r;
}

/* --- what the tests call --- */

void shim_watch(const char *folder, int descriptor) { snprintf(root, sizeof root, "%s", folder); journal = descriptor; count = 0; }
void shim_stop(void) { root[0] = 0; journal = -1; fail_at = 0; }
void shim_mark(long number) { note('m', 0, number, "", 0, 0, 0); }
void shim_fail(long at, long kind) { fail_at = at; fail_kind = kind; count = 0; }
long shim_count(void) { return count; }
