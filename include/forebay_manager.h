/* A manager of your own for the cache of `forebay mount --manager-socket PATH`: it learns what happens to pages of a process, and keeps a list of
 * blocks to go first. The cache takes from the list and never waits for it. docs/own-managers.md explains the messages.
 *
 *     struct forebay_manager_message message;
 *     int manager = forebay_manager_connect("/run/forebay/manager", 0, 64);    // of this process, at least 64 blocks on the list
 *     if (manager < 0 || forebay_manager_add(manager, fd) < 0) ...             // fd: open on the mount
 *     while (forebay_manager_next(manager, &message) > 0)
 *         if (message.kind == FOREBAY_MANAGER_ADMITTED)
 *             forebay_manager_give_up(manager, message.file, message.first, message.count);
 *
 * Header only; C99 and C++. Functions return -1 with errno where they fail.
 */
#ifndef FOREBAY_MANAGER_H
#define FOREBAY_MANAGER_H

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FOREBAY_MANAGER_VERSION 1

/* To the cache. */
#define FOREBAY_MANAGER_REGISTER 1  /* file: the version; first: the process, 0 for the sender; count: the low-water mark */
#define FOREBAY_MANAGER_ADD 2       /* first: a descriptor of the sender */
#define FOREBAY_MANAGER_GIVE_UP 3   /* count blocks of file, from first on */
#define FOREBAY_MANAGER_TAKE_BACK 4 /* all that were given up */

/* From the cache. Blocks are pages of the cache. */
#define FOREBAY_MANAGER_READY 101      /* file: the version; first: bytes of a block; count: pages of the cache */
#define FOREBAY_MANAGER_FILE 102       /* file: its number from now on; first: its blocks; count: the descriptor */
#define FOREBAY_MANAGER_ADMITTED 103   /* the process missed count blocks of file, from first on */
#define FOREBAY_MANAGER_READ_AHEAD 104 /* as many were read ahead for it */
#define FOREBAY_MANAGER_HIT 105        /* it hit as many */
#define FOREBAY_MANAGER_EVICTED 106    /* as many that it has used left the cache */
#define FOREBAY_MANAGER_LOW 107        /* the list has first blocks, fewer than count */
#define FOREBAY_MANAGER_LOST 108       /* count events were lost here */
#define FOREBAY_MANAGER_REFUSED 109    /* the message of kind first was, and the connection ends; file: why; count: what that speaks of */

struct forebay_manager_message {
    uint32_t kind;
    uint32_t file;
    uint64_t first;
    uint64_t count;
};

/* Why a message was refused. */
static inline const char *forebay_manager_why(uint32_t reason) {
    static const char *const reasons[] = {
        "the cache gave no reason",
        "the cache speaks another version of the protocol",
        "register first, and once",
        "there is no such process, or it is another user's",
        "the process has a manager already",
        "the cache's policy takes no managers: mount with --policy lru-sp",
        "the descriptor is no open file of this mount, or the cache may not look at it",
        "there are too many connections or files: close some",
        "no file has this number",
        "too many blocks in one message",
        "the cache does not know the message",
    };
    return reason < sizeof reasons / sizeof *reasons ? reasons[reason] : "for a reason newer than this program";
}

/* Sends a message. */
static inline int forebay_manager_send(int manager, uint32_t kind, uint32_t file, uint64_t first, uint64_t count) {
    struct forebay_manager_message message;
    const char *bytes = (const char *)&message;
    size_t sent = 0;
    memset(&message, 0, sizeof message);
    message.kind = kind;
    message.file = file;
    message.first = first;
    message.count = count;
    while (sent < sizeof message) {
        ssize_t more = send(manager, bytes + sent, sizeof message - sent, MSG_NOSIGNAL);
        if (more < 0 && errno == EINTR)
            continue;
        if (more < 0)
            return -1;
        sent += (size_t)more;
    }
    return 0;
}

/* Waits for a message: 1. At the end of the connection: 0. */
static inline int forebay_manager_next(int manager, struct forebay_manager_message *message) {
    size_t there = 0;
    while (there < sizeof *message) {
        ssize_t more = recv(manager, (char *)message + there, sizeof *message - there, 0);
        if (more < 0 && errno == EINTR)
            continue;
        if (more <= 0)
            return (int)more;
        there += (size_t)more;
    }
    return 1;
}

/* Connects, and registers for a process, 0 for this one. It is woken by FOREBAY_MANAGER_LOW when the list has fewer than low_water blocks. */
static inline int forebay_manager_connect(const char *path, pid_t process, uint64_t low_water) {
    struct sockaddr_un address;
    int manager, error;
    memset(&address, 0, sizeof address);
    address.sun_family = AF_UNIX;
    if (strlen(path) >= sizeof address.sun_path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, path);
    manager = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (manager < 0)
        return -1;
    if (connect(manager, (struct sockaddr *)&address, sizeof address) == 0 &&
        forebay_manager_send(manager, FOREBAY_MANAGER_REGISTER, FOREBAY_MANAGER_VERSION, (uint64_t)process, low_water) == 0)
        return manager;
    error = errno;
    close(manager);
    errno = error;
    return -1;
}

/* Manages a file that this process has open on the mount, and keeps open. FOREBAY_MANAGER_FILE answers its number. */
static inline int forebay_manager_add(int manager, int fd) {
    return forebay_manager_send(manager, FOREBAY_MANAGER_ADD, 0, (uint64_t)fd, 0);
}

/* Puts blocks on the list, behind those that are on it. A block that the process uses again is on it no more. */
static inline int forebay_manager_give_up(int manager, uint32_t file, uint64_t first, uint64_t count) {
    return forebay_manager_send(manager, FOREBAY_MANAGER_GIVE_UP, file, first, count);
}

/* Empties the list, as before another is sent. */
static inline int forebay_manager_take_back(int manager) {
    return forebay_manager_send(manager, FOREBAY_MANAGER_TAKE_BACK, 0, 0, 0);
}

#ifdef __cplusplus
}
#endif

#endif
