/* A file that is a disk with moods: slow reads, writes and flushes, a hang, errors. A file system of one file, by FUSE (linux/fuse.h).

   device FUSE BACKING, two descriptors, serves the file from BACKING. It takes commands, one a line, and answers each with `done`:
   `read SECONDS`, `write SECONDS` and `flush SECONDS` say what each takes, `rate BYTES` what it reads and writes in a second, `hang`, `fail`
   and `go` how it is from now on. The kernel keeps nothing of the file, so that all servers see the same device, and has one write or
   flush under way at a time, as a disk without a queue.

   It is in C, so that what a client waits for is the server and not an interpreter's lock. FUSE is spoken by hand: the delay filter of
   nbdkit delays no flush, and nothing that is installed hangs on demand. */

#include <errno.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define THREADS 48
/* Bytes of one transfer. */
#define MOST (1 << 20)

static int fuse, backing;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER, arm = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct moods {
    double read, write, flush, rate;
    bool hangs, fails;
} moods;

static void rest(double seconds) {
    if (seconds <= 0)
        return;
    struct timespec left = {(time_t)seconds, (long)((seconds - (time_t)seconds) * 1e9)};
    while (nanosleep(&left, &left) && errno == EINTR)
        ;
}

/* What the device makes an operation wait for; its error. */
static int endure(unsigned op, size_t length) {
    pthread_mutex_lock(&lock);
    while (moods.hangs)
        pthread_cond_wait(&changed, &lock);
    struct moods now = moods;
    pthread_mutex_unlock(&lock);
    if (now.rate > 0 && length) {
        pthread_mutex_lock(&arm);
        rest(length / now.rate);
        pthread_mutex_unlock(&arm);
    }
    rest(op == FUSE_READ ? now.read : op == FUSE_WRITE ? now.write : now.flush);
    pthread_mutex_lock(&lock);
    bool fails = moods.fails;
    pthread_mutex_unlock(&lock);
    return fails ? -EIO : 0;
}

static long attributes(struct fuse_attr_out *out) {
    struct stat status;
    if (fstat(backing, &status))
        return -errno;
    memset(out, 0, sizeof *out);
    out->attr = (struct fuse_attr){.ino = 1, .size = status.st_size, .blocks = status.st_blocks, .mode = 0100600, .nlink = 1, .uid = getuid(), .gid = getgid(), .blksize = 4096};
    return sizeof *out;
}

/* The bytes of the answer, or its error. */
static long answer(const struct fuse_in_header *request, const void *body, void *out) {
    switch (request->opcode) {
    case FUSE_INIT: {
        const struct fuse_init_in *init = body;
        struct fuse_init_out *said = memset(out, 0, sizeof *said);
        said->major = 7;
        said->minor = init->minor < 31 ? init->minor : 31;
        said->max_readahead = init->max_readahead;
        said->flags = init->flags & (FUSE_ASYNC_READ | FUSE_BIG_WRITES | FUSE_ASYNC_DIO | FUSE_MAX_PAGES);
        said->max_background = 512;
        said->congestion_threshold = 384;
        said->max_write = MOST;
        said->time_gran = 1;
        said->max_pages = MOST / 4096;
        return sizeof *said;
    }
    case FUSE_GETATTR:
    case FUSE_SETATTR:
        return attributes(out);
    case FUSE_OPEN: {
        struct fuse_open_out *opened = memset(out, 0, sizeof *opened);
        opened->open_flags = FOPEN_DIRECT_IO;
        return sizeof *opened;
    }
    case FUSE_READ: {
        const struct fuse_read_in *read = body;
        long error = endure(FUSE_READ, read->size);
        long length = error ? error : pread(backing, out, read->size, read->offset);
        return !error && length < 0 ? -errno : length;
    }
    case FUSE_WRITE: {
        const struct fuse_write_in *write = body;
        long error = endure(FUSE_WRITE, write->size);
        long length = error ? error : pwrite(backing, write + 1, write->size, write->offset);
        if (length < 0)
            return error ? error : -errno;
        struct fuse_write_out *written = memset(out, 0, sizeof *written);
        written->size = length;
        return sizeof *written;
    }
    case FUSE_FSYNC:
        return endure(FUSE_FSYNC, 0);
    case FUSE_FLUSH:
    case FUSE_RELEASE:
    case FUSE_DESTROY:
        return 0;
    }
    return -ENOSYS;
}

/* Answers the kernel, a request at a time; many threads do. */
static void *serve(void *unused) {
    (void)unused;
    char *request = malloc(MOST + 8192), *out = malloc(MOST);
    while (request && out) {
        ssize_t length = read(fuse, request, MOST + 8192);
        if (length < 0) {
            if (errno == ENOENT || errno == EINTR || errno == EAGAIN)
                continue;
            return NULL; /* unmounted */
        }
        const struct fuse_in_header *header = (const void *)request;
        if (header->opcode == FUSE_FORGET || header->opcode == FUSE_BATCH_FORGET || header->opcode == FUSE_INTERRUPT)
            continue;
        long answered = answer(header, header + 1, out);
        size_t bytes = answered > 0 ? answered : 0;
        struct fuse_out_header head = {.len = sizeof head + bytes, .error = answered < 0 ? answered : 0, .unique = header->unique};
        struct iovec parts[] = {{&head, sizeof head}, {out, bytes}};
        /* The process that asked may be gone. */
        if (writev(fuse, parts, 2) < 0)
            continue;
    }
    return NULL;
}

static bool obey(const char *line) {
    char word[16] = "";
    double number = 0;
    int words = sscanf(line, "%15s %lf", word, &number);
    double *wanted = !strcmp(word, "read") ? &moods.read : !strcmp(word, "write") ? &moods.write : !strcmp(word, "flush") ? &moods.flush : !strcmp(word, "rate") ? &moods.rate : NULL;
    pthread_mutex_lock(&lock);
    bool known = true;
    if (words == 2 && wanted)
        *wanted = number;
    else if (words == 1 && !strcmp(word, "hang"))
        moods.hangs = true;
    else if (words == 1 && !strcmp(word, "fail"))
        moods.fails = true;
    else if (words == 1 && !strcmp(word, "go"))
        moods.hangs = moods.fails = false;
    else
        known = false;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return known;
}

int main(int count, char **arguments) {
    if (count != 3) {
        fprintf(stderr, "usage: device FUSE BACKING, two descriptors\n");
        return 2;
    }
    fuse = atoi(arguments[1]);
    backing = atoi(arguments[2]);
    for (int number = 0; number < THREADS; number++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, serve, NULL)) {
            fprintf(stderr, "no thread\n");
            return 1;
        }
    }
    char line[64];
    while (fgets(line, sizeof line, stdin)) {
        if (!obey(line)) {
            fprintf(stderr, "unknown command: %s", line);
            return 1;
        }
        puts("done");
        fflush(stdout);
    }
    return 0;
}
