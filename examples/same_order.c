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

/* The resident blocks that have been used, in a ring in the order of their last uses. The head is `blocks`; the one used last is before it. */
static struct {
    uint64_t blocks, count;
    uint64_t *before, *after;
    unsigned char *resident;
} order;

static void learn_file(uint64_t blocks) {
    order.blocks = blocks;
    order.count = 0;
    order.before = realloc(order.before, (blocks + 1) * sizeof *order.before);
    order.after = realloc(order.after, (blocks + 1) * sizeof *order.after);
    order.resident = realloc(order.resident, blocks + 1);
    if (!order.before || !order.after || !order.resident) {
        perror("memory");
        exit(1);
    }
    order.before[blocks] = order.after[blocks] = blocks;
    memset(order.resident, 0, blocks + 1);
}

static void evict(uint64_t block) {
    if (!order.resident[block])
        return;
    order.after[order.before[block]] = order.after[block];
    order.before[order.after[block]] = order.before[block];
    order.resident[block] = 0;
    order.count--;
}

static void use(uint64_t block) {
    uint64_t head = order.blocks, last;
    evict(block);
    last = order.before[head];
    order.before[block] = last;
    order.after[block] = head;
    order.after[last] = order.before[head] = block;
    order.resident[block] = 1;
    order.count++;
}

static void each(const struct forebay_manager_message *message, void (*act)(uint64_t)) {
    for (uint64_t block = message->first; block < order.blocks && block - message->first < message->count; block++)
        act(block);
}

int main(int argc, char **argv) {
    struct forebay_manager_message message;
    uint64_t pages = 0, most = 0, news = 0, block;
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
            each(&message, use);
            break;
        case FOREBAY_MANAGER_EVICTED:
            each(&message, evict);
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
        news += message.count;
        /* A list made before the cache is full would hold blocks that are not the last ones any more; so would one that is never made anew. */
        if ((!begun && order.count + most < pages) || news < most / 4 || poll(&more, 1, 0) > 0)
            continue;
        news = 0;
        if (forebay_manager_take_back(manager) < 0)
            return 0;
        block = order.before[order.blocks];
        for (uint64_t left = most; left > 0 && block != order.blocks; left--, block = order.before[block])
            if (forebay_manager_give_up(manager, 0, block, 1) < 0)
                return 0;
    }
    return 0;
}
