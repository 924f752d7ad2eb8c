"""ext4 on a volume: a tree of files written, checked by fsck and compared after a new start, and after `kill -9` in mid-write."""

import hashlib
import os
import random
import threading

from volumes import mounted
from volumes.checks import check, run, wait_until
from volumes.server import MIB, make_volume

NEEDS = (*mounted.NEEDS, "tar", "fstrim")
SIZE = 256 * MIB
TREE = 100 * MIB


def make_tree(folder):
    """About 100 MiB in files from nothing to 1 MiB, most of them small."""
    chosen = random.Random(11)
    made = number = 0
    while made < TREE:
        directory = folder / f"{number % 13}" / f"{number % 7}"
        directory.mkdir(parents=True, exist_ok=True)
        content = chosen.randbytes(int(chosen.random() ** 8 * MIB))
        (directory / f"file-{number}").write_bytes(content)
        made += len(content)
        number += 1


def digests(folder):
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).digest() for path in folder.rglob("file-*")}


def check_tree(start, folder, page):
    tree = folder / "tree"
    volume = make_volume(folder, "volume", SIZE, page=page)
    written = digests(tree)
    with start(volume, cache="32MiB") as server:
        with mounted.LoopDevice(server.uri("volume"), folder) as loop:
            run("mkfs.ext4", "-q", loop.device)
            on_volume = loop.mount()
            run("sh", "-c", 'tar -C "$1" -c . | tar -C "$2" -x', "copy", tree, on_volume)
            run("sync", "-f", on_volume)
            # Else they would be read from the page cache.
            loop.umount()
            loop.mount()
            check(f"{len(written)} files copied are read as written (pages of {page})", digests(on_volume) == written)
            for path in sorted(on_volume.rglob("file-*"))[::3]:
                path.unlink()
                del written[str(path.relative_to(on_volume))]
            run("fstrim", on_volume)
            loop.umount()
            mounted.check_file_system("files copied and a third removed", loop.device)
        check("SIGTERM ends the server with 0", server.stop() == 0, server.told())
    mounted.check_file_system("the server's end, in the file", volume.path)
    with start(volume, cache="32MiB") as server:
        with mounted.LoopDevice(server.uri("volume"), folder) as loop:
            check("mounted after a new start: the same files", digests(loop.mount()) == written)
            loop.umount()


def check_kill(start, folder):
    volume = make_volume(folder, "volume", SIZE)
    synced = {}

    def write_and_sync(directory):
        number = 0
        try:
            while True:
                path = directory / f"file-{number}"
                content = random.Random(number).randbytes(random.Random(number).randrange(200_000))
                with path.open("wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
                # Its name as well: a new file's fsync makes ext4 commit its directory's entry too.
                synced[path.name] = hashlib.sha256(content).digest()
                number += 1
        except OSError:
            pass  # the server has been killed

    with start(volume, cache="16MiB") as server:
        with mounted.LoopDevice(server.uri("volume"), folder) as loop:
            run("mkfs.ext4", "-q", loop.device)
            writer = threading.Thread(target=write_and_sync, args=[loop.mount()])
            writer.start()
            wait_until(lambda: len(synced) >= 300, 15)
            server.kill()
            writer.join()
    check("files were written and synced until kill -9", len(synced) >= 10, f"{len(synced)} files")
    with start(volume, cache="16MiB") as server:
        with mounted.LoopDevice(server.uri("volume"), folder) as loop:
            found = digests(loop.mount())
            missing = [name for name, digest in synced.items() if found.get(name) != digest]
            check(f"{len(synced)} synced files are whole after the journal's replay", not missing, f"{len(missing)} are not")
            loop.umount()
            mounted.check_file_system("kill -9 and the journal's replay", loop.device)


def test(start, folder):
    mounted.need_devices()
    mounted.check_flushes_arrive(folder)
    make_tree(folder / "tree")
    for page in ["4KiB", "64KiB"]:
        check_tree(start, folder, page)
    check_kill(start, folder)
