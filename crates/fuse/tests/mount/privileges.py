"""What is left of set-user-id, set-group-id and capabilities of a file after each kind of change: `privileges.py FOLDER`, by root.

Each line: the caller, the mode before, the call, whether it was allowed; then the mode, whether capabilities are there, and as whom the
file runs. On a mount and on the file system below it is to print the same, at once after the change.
"""

import ctypes, mmap, os, shutil, struct, subprocess, sys

folder = sys.argv[1]
path, source = os.path.join(folder, "file"), os.path.join(folder, "source")
OWNER, GROUP, OTHER = 1234, 4242, 65534
CALLERS = {
    "root": (0, 0, []),
    "owner": (OWNER, OWNER, []),
    "member": (OTHER, OTHER, [GROUP]),
    "stranger": (OTHER, OTHER, []),
}
# VFS_CAP_REVISION_2, effective; permitted: CAP_NET_RAW.
CAPABILITIES = struct.pack("<IIIII", 0x02000001, 1 << 13, 0, 0, 0)
# user::rwx user:7:rwx group::rwx mask::rwx other::rwx
ACCESS_LIST = struct.pack("<I", 2) + b"".join(
    struct.pack("<HHI", *entry) for entry in [(1, 7, 2**32 - 1), (2, 7, 7), (4, 7, 2**32 - 1), (16, 7, 2**32 - 1), (32, 7, 2**32 - 1)]
)
libc = ctypes.CDLL(None, use_errno=True)
PUNCH = 0x03


def opened(flags):
    return os.open(path, flags)


def end():
    return os.stat(path).st_size


def direct():
    room = mmap.mmap(-1, 4096)
    os.pwritev(opened(os.O_RDWR | os.O_DIRECT), [room], 1 << 20)


def mapped():
    with mmap.mmap(opened(os.O_RDWR), 4096) as room:
        room[4000:4001] = room[4000:4001]
        room.flush()


def punched():
    if libc.fallocate(opened(os.O_RDWR), PUNCH, ctypes.c_long(1 << 20), ctypes.c_long(4096)):
        raise OSError(ctypes.get_errno(), "fallocate")


def copied():
    os.copy_file_range(os.open(source, os.O_RDONLY), opened(os.O_WRONLY), 100, 0, 1 << 20)


def sent():
    target = opened(os.O_WRONLY)
    os.lseek(target, 1 << 20, os.SEEK_SET)
    os.sendfile(target, os.open(source, os.O_RDONLY), 0, 100)


def emptied():
    target = opened(os.O_WRONLY | os.O_TRUNC)
    with open(source, "rb") as program:
        os.write(target, program.read())


CALLS = {
    "append": lambda: os.write(opened(os.O_WRONLY | os.O_APPEND), b"x"),
    "overwrite": lambda: os.pwrite(opened(os.O_WRONLY), b"\x7f", 0),
    "write directly": direct,
    "write by mmap": mapped,
    "truncate": lambda: os.truncate(path, end() + 4096),
    "ftruncate": lambda: os.ftruncate(opened(os.O_WRONLY), end()),
    "empty": emptied,
    "fallocate": lambda: os.posix_fallocate(opened(os.O_WRONLY), end(), 4096),
    "punch": punched,
    "copy_file_range": copied,
    "sendfile": sent,
    "change the group": lambda: os.chown(path, -1, os.getgid()),
    "change the mode": lambda: os.chmod(path, 0o2767),
    "change the list": lambda: os.setxattr(path, "system.posix_acl_access", ACCESS_LIST),
    "change a time": lambda: os.utime(path),
    "read": lambda: os.read(opened(os.O_RDONLY), 1),
}


def as_caller(caller, call):
    process = os.fork()
    if process == 0:
        try:
            user, group, groups = CALLERS[caller]
            os.setgroups(groups)
            os.setresgid(group, group, group)
            os.setresuid(user, user, user)
            CALLS[call]()
        except OSError as error:
            os._exit(error.errno)
        except BaseException as error:
            print(caller, call, error, flush=True)
            os._exit(255)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


shutil.copy("/usr/bin/id", source)
os.chmod(source, 0o644)
for mode in (0o6777, 0o4777, 0o6767, 0o2777, 0o2767, 0o777):
    for call in CALLS:
        for caller in CALLERS:
            if os.path.exists(path):
                os.unlink(path)
            shutil.copy("/usr/bin/id", path)
            # The kernel knows its attributes before they are changed.
            os.chown(path, OWNER, GROUP)
            os.chmod(path, mode)
            if mode == 0o777:
                os.setxattr(path, "security.capability", CAPABILITIES)
            os.stat(path)
            error = as_caller(caller, call)
            left = os.stat(path).st_mode & 0o7777
            capable = "security.capability" in os.listxattr(path)
            runs = subprocess.run([path, "-u"], capture_output=True, text=True) if left & 0o111 else None
            user = "no one" if runs is None else runs.stdout.strip() or f"failure {runs.returncode}"
            print(f"{caller}, {mode:o}, {call}: {error}; {left:o}, {'capable' if capable else 'bare'}, runs as {user}")
