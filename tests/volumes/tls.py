"""TLS: a client that trusts the certificate's authority is served, any other is not."""

import random

from volumes.checks import check, run
from volumes.server import MIB, make_volume

NEEDS = ("nbdinfo", "nbdcopy", "openssl")


def make_certificates(folder, name):
    """An authority, and a server's certificate of it, under the names that libnbd, nbdkit and QEMU share."""
    folder = folder / name
    folder.mkdir()
    extensions = folder / "extensions"
    extensions.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\n")
    new = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    key, request = folder / "server-key.pem", folder / "request.pem"
    authority = ["-keyout", folder / "ca-key.pem", "-out", folder / "ca-cert.pem"]
    run(*new, "-x509", "-days", "2", "-subj", f"/CN=Authority {name}", *authority)
    run(*new, "-subj", "/CN=localhost", "-keyout", key, "-out", request)
    authority = ["-CA", folder / "ca-cert.pem", "-CAkey", folder / "ca-key.pem", "-CAcreateserial"]
    sign = ["openssl", "x509", "-req", "-days", "2", *authority, "-extfile", extensions]
    run(*sign, "-in", request, "-out", folder / "server-cert.pem")
    return folder


def test(start, folder):
    trusted, other = make_certificates(folder, "trusted"), make_certificates(folder, "other")
    volume = make_volume(folder, "volume", 16 * MIB)
    source, back = folder / "source", folder / "back"
    source.write_bytes(random.Random(10).randbytes(16 * MIB))

    def check_served(where, uri, plain_uri):
        def with_authority(certificates):
            return f"{uri}{'&' if '?' in uri else '?'}tls-certificates={certificates}"

        said = run("nbdinfo", with_authority(trusted))
        check(f"{where}: nbdinfo with the authority's certificate", "newstyle-fixed with TLS" in said, said)
        run("nbdcopy", "--flush", source, with_authority(trusted))
        run("nbdcopy", with_authority(trusted), back)
        check(f"{where}: nbdcopy in and out", back.read_bytes() == source.read_bytes() == volume.path.read_bytes())
        if where == "tcp":  # on a unix socket libnbd asks for no particular host, and then verifies nothing
            said = run("nbdinfo", with_authority(other), fails=True)
            check(f"{where}: a client that trusts another authority refuses", "certificate" in said.lower(), said)
        said = run("nbdinfo", plain_uri, fails=True)
        check(f"{where}: a client without TLS is refused", "tls" in said.lower() or "policy" in said.lower(), said)
        said = run("nbdinfo", with_authority(trusted))
        check(f"{where}: alive after them", "newstyle-fixed with TLS" in said, said)

    with start(volume, certificates=trusted) as server:
        check_served("unix", f"nbds+unix:///volume?socket={server.socket}", server.uri("volume"))
        check("the server ends with 0", server.stop() == 0, server.told())
    with start(volume, certificates=trusted, tcp=True) as server:
        check_served("tcp", f"nbds://localhost:{server.port}/volume", server.uri("volume"))
        check("the server ends with 0", server.stop() == 0, server.told())
