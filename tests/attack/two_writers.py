"""A file that is served, and QEMU: neither writes what the other has open."""

import subprocess

from shared.servers import Failed
from shared.wire import MIB

QUICK, FULL = 60, 60


def attack(lab):
    if not lab.has("qemu-io", "qemu-nbd"):
        return
    volume = lab.volume("volume", 16 * MIB)
    with lab.forebay(volumes=[f"volume={volume}"]) as server:
        command = ["qemu-io", "--format", "raw", "-c", "write -P 7 0 4096", volume]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        said = (done.stdout + done.stderr).strip()
        lab.holds("QEMU does not write a file that is served", done.returncode != 0 and "lock" in said, said)
        with server.client() as client:
            lab.holds("and its bytes are as they were", not any(client.read(0, 4096)))
    with lab.qemu_nbd(volume):
        try:
            with lab.forebay(volumes=[f"volume={volume}"]) as server:
                lab.holds("a file that QEMU has open is not served", False, server.last_said())
        except Failed as refused:
            lab.holds("a file that QEMU has open is not served", True)
            lab.note(str(refused))
