/* A manager of a program's own, for a process that reads a file again and again in the same order, as cscope reads its database. It learns the
 * order in which blocks are used, and gives up those that are needed last: the ones used most recently.
 *
 *     cc -O2 -Wall -Iinclude -o same_order examples/same_order.c
 *     forebay mount src /mnt/src --policy lru-sp --cache 64MiB --manager-socket /run/forebay/manager
 *     cd /mnt/src && cscope -d                             # in another terminal
 *     ./same_order /run/forebay/manager $(pidof cscope) /mnt/src/cscope.out
 *
 * It ends when the process does. docs/own-managers.md explains the messages.
 */
#include "forebay_manager.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

enum where { ABSENT, USED, LISTED };

/* The resident blocks that have been used and are not on the cache's list are USED, in a ring whose head is `blocks`, the one used last before it. */
static struct {
    uint64_t blocks, used, listed;
    uint64_t *before, *after;
    unsigned char *where;
} order;

static void learn_file(uint64_t blocks) {
    order.blocks = blocks;
    order.used = order.listed = 0;
    order.before = realloc(order.before, (blocks + 1) * sizeof *order.before);
    order.after = realloc(order.after, (blocks + 1) * sizeof *order.after);
    order.where = realloc(order.where, blocks + 1);
    if (!order.before || !order.after || !order.where) {
        perror("memory");
        exit(1);
    }
    order.before[blocks] = order.after[blocks] = blocks;
    memset(order.where, ABSENT, blocks + 1);
}

static void put(uint64_t block, enum where where) {
    uint64_t head = order.blocks, last;
    if (order.where[block] == USED) {
        order.after[order.before[block]] = order.after[block];
        order.before[order.after[block]] = order.before[block];
        order.used--;
    }
    order.listed -= order.where[block] == LISTED;
    order.where[block] = (unsigned char)where;
    order.listed += where == LISTED;
    if (where == USED) {
        last = order.before[head];
        order.before[block] = last;
        order.after[block] = head;
        order.after[last] = order.before[head] = block;
        order.used++;
    }
}

static void put_all(const struct forebay_manager_message *message, enum where where) {
    for (uint64_t block = message->first; block < order.blocks && block - message->first < message->count; block++)
        put(block, where);
}

int main(int argc, char **argv) {
    struct forebay_manager_message message;
    uint64_t pages = 0, most = 0;
    int manager, file, begun = 0;
    if (argc != 4) {
        fprintf(stderr, "usage: same_order SOCKET PROCESS FILE\n");
        return 2;
    }
    /* As long as it is open, the cache knows it by this descriptor. */
    file = open(argv[3], O_RDONLY);
    manager = file < 0 ? -1 : forebay_manager_connect(argv[1], atoi(argv[2]), 0);
    if (manager < 0 || forebay_manager_add(manager, file) < 0) {
        perror(file < 0 ? argv[3] : argv[1]);
        return 1;
    }
    /* The cache ends the connection when the process has ended. */
    while (forebay_manager_next(manager, &message) > 0) {
        struct pollfd more = {manager, POLLIN, 0};
        switch (message.kind) {
        case FOREBAY_MANAGER_READY:
            pages = message.count;
            most = pages / 8 < 16 ? 16 : pages / 8 > 1024 ? 1024 : pages / 8;
            break;
        case FOREBAY_MANAGER_FILE:
            learn_file(message.first);
            printf("ready\n");
            fflush(stdout);
            break;
        case FOREBAY_MANAGER_ADMITTED:
        case FOREBAY_MANAGER_HIT:
            put_all(&message, USED);
            break;
        case FOREBAY_MANAGER_EVICTED:
            put_all(&message, ABSENT);
            begun = 1;
            break;
        case FOREBAY_MANAGER_LOST:
            /* What it believes of the list may be wrong now: it learns anew. */
            learn_file(order.blocks);
            break;
        case FOREBAY_MANAGER_REFUSED:
            fprintf(stderr, "%s: %s\n", argv[1], forebay_manager_why(message.file));
            return 1;
        }
        /* A list that is made before the cache is full has blocks on it that are not the last ones any more. */
        if ((!begun && order.used + order.listed + most < pages) || order.listed >= most / 2 || poll(&more, 1, 0) > 0)
            continue;
        while (order.listed < most && order.used > 0) {
            uint64_t block = order.before[order.blocks];
            if (forebay_manager_give_up(manager, 0, block, 1) < 0)
                return 0;
            put(block, LISTED);
        }
    }
    return 0;
}
