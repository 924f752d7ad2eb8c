"""A volume of objects on an S3 server (moto), behind a proxy that delays, denies, fails and cuts its answers; over TLS and through proxies of the
client's side; two servers of one volume."""

import base64
import contextlib
import http.client
import http.server
import os
import pathlib
import socket
import ssl
import subprocess
import threading
import time

import nbd

from volumes.checks import Failed, Skipped, check, check_refused, wait_until
from volumes.server import KIB, MIB, MOST_SECONDS, Volume, free_port, make_volume
from volumes.tls import make_certificates

NEEDS = ("openssl",)
PYTHON = pathlib.Path(__file__).resolve().parents[2] / "target/test-tools/bin/python"
BLOCK = 64 * KIB
OBJECT = 4 * MIB
SIZE = 32 * MIB
KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_REGION": "us-east-1"}


@contextlib.contextmanager
def s3_server(folder):
    """The port of a new S3 server with an empty bucket."""
    if not PYTHON.exists() or subprocess.run([PYTHON, "-c", "import moto"], capture_output=True, check=False).returncode:
        raise Skipped("not installed: moto (tests/install-tools.sh)")
    port = free_port()
    with (folder / "s3.log").open("wb") as log:
        # Its own home: it looks for nobody's keys.
        environment = {"PATH": os.environ["PATH"], "HOME": str(folder)}
        process = subprocess.Popen([PYTHON, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)], stdout=log, stderr=log, env=environment)
    try:

        def makes_the_bucket():
            with contextlib.suppress(OSError):
                return request(port, "PUT", "/bucket")[0] == 200

        if not wait_until(makes_the_bucket, MOST_SECONDS):
            raise Failed(f"the S3 server does not answer after {MOST_SECONDS} s: {(folder / 's3.log').read_text()[-1000:]}")
        yield port
    finally:
        process.kill()
        process.wait()


def request(port, method, path, body=None, headers=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=MOST_SECONDS)
    # As boto3 would sign it: moto tells services apart by this.
    signed = {"Authorization": "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=0"}
    connection.request(method, path, body, headers or signed)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, answer.getheaders(), content


class Proxy(http.server.ThreadingHTTPServer):
    """Passes requests on, until `mood` says otherwise: a function of method and path, to a word of `Handler.MOODS` or None."""

    daemon_threads = True

    def __init__(self, behind, certificates=None):
        self.behind = behind
        self.seen = []
        self.mood = lambda _method, _path: None
        self.passed = 0
        super().__init__(("127.0.0.1", 0), Handler)
        if certificates:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificates / "server-cert.pem", certificates / "server-key.pem")
            self.socket = context.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass  # clients that leave, which is what is tested

    def first(self, count, mood, wanted="PUT"):
        """The next requests of a method, `count` of them, meet this mood."""
        left = iter(range(count))
        self.mood = lambda method, _path: mood if method == wanted and next(left, None) is not None else None
        self.passed = 0

    def always(self, mood, *methods):
        self.mood = lambda method, _path: mood if method in methods else None

    def heal(self):
        self.mood = lambda _method, _path: None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    ERRORS = {"500": (500, "InternalError"), "503": (503, "SlowDown"), "403": (403, "AccessDenied")}

    def log_message(self, *_):
        pass

    def handle_one(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.server.seen.append((self.command, self.path, self.headers.get("Proxy-Authorization")))
        if self.path.startswith("http://"):  # as a client asks its proxy
            self.path = "/" + self.path.split("/", 3)[3]
            del self.headers["Host"]  # the server behind takes another host's name for a bucket
        mood = self.server.mood(self.command, self.path)
        if mood in self.ERRORS:
            status, code = self.ERRORS[mood]
            return self.answer(status, [], f"<Error><Code>{code}</Code><Message>as the test wants</Message></Error>".encode())
        if mood == "slow":
            time.sleep(4)
        if mood == "cut before":
            return self.cut()
        status, headers, content = request(self.server.behind, self.command, self.path, body, dict(self.headers))
        self.server.passed += 1
        if mood == "cut after":
            return self.cut()
        self.answer(status, headers, content, cut=mood == "cut within")

    def cut(self):
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def answer(self, status, headers, content, cut=False):
        self.send_response_only(status)
        of_the_proxy = ("connection", "transfer-encoding", "content-length")
        length = next((value for name, value in headers if name.lower() == "content-length"), len(content))
        for name, value in headers:
            if name.lower() not in of_the_proxy:
                self.send_header(name, value)
        # Of an answer to HEAD, the length is that of what is not sent.
        self.send_header("Content-Length", length if self.command == "HEAD" else len(content))
        self.end_headers()
        self.wfile.write(content[: len(content) // 2] if cut else content)
        if cut:
            self.wfile.flush()
            self.cut()

    def do_CONNECT(self):
        self.server.seen.append((self.command, self.path, self.headers.get("Proxy-Authorization")))
        host, port = self.path.rsplit(":", 1)
        with socket.create_connection((host, int(port)), timeout=MOST_SECONDS) as server:
            self.send_response_only(200)
            self.end_headers()
            self.wfile.flush()

            def pass_on(source, to):
                with contextlib.suppress(OSError):
                    while data := source.recv(65536):
                        to.sendall(data)
                with contextlib.suppress(OSError):
                    to.shutdown(socket.SHUT_WR)

            back = threading.Thread(target=pass_on, args=(server, self.connection), daemon=True)
            back.start()
            pass_on(self.connection, server)
            back.join(MOST_SECONDS)
        self.close_connection = True

    do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = handle_one


def block_of(number, version=1):
    return bytes([number % 251, version]) * (BLOCK // 2)


def keys(port):
    return request(port, "GET", "/bucket?list-type=2")[2].decode().count("<Key>volume/00")


def check_kept(start, proxy):
    """Written, flushed, killed, served again; trimmed; stopped."""
    volume = Volume("s3://bucket/volume", create=str(SIZE))
    with start(volume, cache="8MiB") as server:
        client = server.client("volume")
        for number in range(SIZE // BLOCK):
            client.pwrite(block_of(number), number * BLOCK)
        client.flush()
        server.kill()
    with start(Volume(volume.path), cache="8MiB") as server:
        client = server.client("volume")
        check("the volume is as long as it was made", client.get_size() == SIZE)
        wrong = [number for number in range(SIZE // BLOCK) if client.pread(BLOCK, number * BLOCK) != block_of(number)]
        check("what was flushed is there after kill -9", not wrong, f"{len(wrong)} blocks are wrong")
        client.trim(2 * OBJECT, 0)
        client.flush()
        there = keys(proxy.behind)
        check("trimmed objects take no space", there == SIZE // OBJECT - 2, f"{there} objects")
        check("and read as zeroes", client.pread(2 * OBJECT, 0) == bytes(2 * OBJECT))
        client.pwrite(block_of(3, 2), 3 * BLOCK)
        client.shutdown()
        check("SIGTERM ends the server with 0", server.stop() == 0, server.told())
    with start(Volume(volume.path, read_only=True), cache="8MiB") as server:
        client = server.client("volume")
        check("what was written is kept by the stop", client.pread(BLOCK, 3 * BLOCK) == block_of(3, 2))
        check_refused("a write to it read-only", lambda: client.pwrite(bytes(KIB), 0), "EPERM", by=nbd.Error)
        client.shutdown()


def check_passing(start, proxy):
    """Faults that pass: nothing fails, nothing is lost."""
    path = "s3://bucket/volume"
    with start(Volume(path), cache="8MiB") as server:
        client = server.client("volume")
        moods = [("503", "PUT"), ("500", "PUT"), ("cut before", "PUT"), ("cut after", "PUT"), ("503", "GET"), ("cut within", "GET")]
        for version, (mood, method) in enumerate(moods, 10):
            number = 4 * OBJECT // BLOCK + version
            proxy.first(2, mood, method)
            client.pwrite(block_of(number, version), number * BLOCK)
            try:
                client.flush()
            except nbd.Error as error:
                raise Failed(f"a flush while {method} meets `{mood}` twice: {error}: {server.told()}") from error
            what = f"a flush, and a read of another object, while {method} meets `{mood}` twice"
            other = 5 * OBJECT // BLOCK + version * (BLOCK // KIB) % (OBJECT // BLOCK)
            check(what, client.pread(BLOCK, other * BLOCK) == block_of(other))
        proxy.heal()
        client.shutdown()
        check("the server ends with 0", server.stop() == 0, server.told())
    with start(Volume(path), cache="8MiB") as server:
        client = server.client("volume")
        numbers = [(4 * OBJECT // BLOCK + version, version) for version in range(10, 10 + len(moods))]
        wrong = [number for number, version in numbers if client.pread(BLOCK, number * BLOCK) != block_of(number, version)]
        check("all of it is there afterwards", not wrong, f"wrong: {wrong}")
        client.shutdown()


def check_denied(start, proxy):
    path = "s3://bucket/volume"
    with start(Volume(path), cache="8MiB") as server:
        client = server.client("volume")
        proxy.always("403", "PUT")
        client.pwrite(block_of(1, 7), BLOCK)
        check_refused("a flush that S3 denies", client.flush, by=nbd.Error)
        check("the log says why", "AccessDenied" in server.told(), server.told())
        proxy.heal()
        client.flush()
        proxy.always("403", "GET")
        check_refused("a read that S3 denies", lambda: client.pread(BLOCK, 6 * OBJECT), by=nbd.Error)
        proxy.heal()
        check("and then not", client.pread(BLOCK, 6 * OBJECT) == block_of(6 * OBJECT // BLOCK))
        client.shutdown()
        check("the server ends with 0", server.stop() == 0, server.told())


def check_slow(start, folder, proxy):
    near = make_volume(folder, "near", MIB)
    with start(Volume("s3://bucket/volume"), near, cache="8MiB", options=["--device-timeout", "1s"]) as server:
        client, other = server.client("volume"), server.client("near")
        proxy.always("slow", "GET")
        began = time.monotonic()
        check_refused("a read that S3 answers too late (--device-timeout)", lambda: client.pread(KIB, 7 * OBJECT), by=nbd.Error)
        took = time.monotonic() - began
        check("it fails in time", took < 3.5, f"{took:.1f} s")
        check("the other volume is served meanwhile", other.pread(KIB, 0) == bytes(KIB))
        proxy.heal()
        check("and later it is read", client.pread(BLOCK, 7 * OBJECT) == block_of(7 * OBJECT // BLOCK))
        client.shutdown()
        other.shutdown()
        check("the server ends with 0", server.stop() == 0, server.told())


def check_gone(start, proxy):
    """S3 is gone for longer than a few tries take: a flush waits for it, as long as the user wants."""
    path = "s3://bucket/volume"
    with start(Volume(path), cache="8MiB") as server:
        client = server.client("volume")
        for mood in ("cut before", "503"):
            proxy.always(mood, "GET", "HEAD", "PUT")
            client.pwrite(block_of(1, 9), BLOCK)
            threading.Timer(12, proxy.heal).start()
            client.flush()
            check(f"a flush while S3 answers nothing but `{mood}` for 12 s", client.pread(BLOCK, BLOCK) == block_of(1, 9))
        client.shutdown()
        check("the server ends with 0", server.stop() == 0, server.told())
    with start(Volume(path, retry="1s"), cache="8MiB") as server:
        client = server.client("volume")
        proxy.always("503", "GET", "HEAD", "PUT")
        client.pwrite(block_of(1, 10), BLOCK)
        began = time.monotonic()
        check_refused("a flush with retry=1s", client.flush, by=nbd.Error)
        took = time.monotonic() - began
        check("it fails soon", took < 10, f"{took:.1f} s")
        proxy.heal()
        client.flush()
        client.shutdown()
        check("and the next one is whole: the server ends with 0", server.stop() == 0, server.told())


def check_two_servers(start, folder):
    """Two servers of one volume, which no storage of objects can keep apart: the one that comes too late fails, and undoes nothing."""
    path = "s3://bucket/volume"
    second = folder / "second"
    second.mkdir()
    with start(Volume(path), cache="8MiB") as one, start(Volume(path), cache="8MiB", folder=second) as another:
        first, later = one.client("volume"), another.client("volume")
        first.pwrite(block_of(1, 20), 2 * OBJECT)
        first.flush()
        later.pwrite(block_of(1, 21), 2 * OBJECT + BLOCK)
        later.flush()
        first.pwrite(block_of(1, 22), 2 * OBJECT + BLOCK)
        check_refused("the flush of the server that was overtaken", first.flush, by=nbd.Error)
        check_refused("its reads of storage", lambda: first.pread(KIB, 3 * OBJECT), by=nbd.Error)
        check("its log says why", "another server has changed object 2" in one.told(), one.told())
        check("it ends with 1", one.stop() == 1, one.told())
        later.pwrite(block_of(1, 23), 2 * OBJECT + 2 * BLOCK)
        later.flush()
        check("the other goes on, and ends with 0", another.stop() == 0, another.told())
    with start(Volume(path), cache="8MiB") as server:
        client = server.client("volume")
        found = [client.pread(BLOCK, 2 * OBJECT + number * BLOCK) for number in range(3)]
        check("every acknowledged flush is kept", found == [block_of(1, version) for version in (20, 21, 23)])
        client.shutdown()


@contextlib.contextmanager
def given(**variables):
    """These variables of the environment; None: it has none of that name."""
    before = {name: os.environ.get(name) for name in variables}

    def put(values):
        for name, value in values.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value

    put(variables)
    try:
        yield
    finally:
        put(before)


def check_refused_at_the_start(start, proxy):
    for what, path, mood, says in [
        ("a bucket that is not there", "s3://nowhere/volume", None, "there is no such bucket"),
        ("a volume that is not there", "s3://bucket/nowhere", None, "there is no volume; give a length to make one"),
        ("a bucket that S3 denies", "s3://bucket/volume", "403", "AccessDenied"),
    ]:
        proxy.always(mood, "GET", "PUT")
        try:
            with start(Volume(path), cache="8MiB"):
                raise Failed(f"{what}: it was served")
        except Failed as refused:
            check(f"{what} is refused at the start", says in str(refused), str(refused))
    proxy.always("503", "GET", "PUT")
    began = time.monotonic()
    try:
        with start(Volume("s3://bucket/volume"), cache="8MiB"):
            raise Failed("a server whose S3 fails: it serves")
    except Failed as refused:
        took = time.monotonic() - began
        check("S3 that fails is refused at the start, and soon", "SlowDown" in str(refused) and took < 10, f"{took:.1f} s: {refused}")
    proxy.heal()
    with given(AWS_ACCESS_KEY_ID=None, AWS_SECRET_ACCESS_KEY=None):
        # Where a machine of Amazon's would have its role's keys, nobody listens.
        os.environ["AWS_METADATA_ENDPOINT"] = f"http://127.0.0.1:{free_port()}"
        try:
            with start(Volume("s3://bucket/volume")):
                raise Failed("a server without keys: it serves")
        except Failed as refused:
            says = "Connection refused" in str(refused) and "AWS_ACCESS_KEY_ID is not set" in str(refused)
            check("a server without keys says so, and what it tried", says, str(refused))
        finally:
            del os.environ["AWS_METADATA_ENDPOINT"]


def check_encrypted(start, folder, behind):
    """Over TLS, with an authority to trust, straight and through a proxy."""
    trusted, other = make_certificates(folder, "s3-trusted"), make_certificates(folder, "s3-other")
    volume = Volume("s3://bucket/encrypted/volume", create=str(4 * MIB))

    def check_served(how, path):
        with start(path, cache="8MiB") as server:
            client = server.client("volume")
            for number in range(8):
                client.pwrite(block_of(number), number * BLOCK)
            client.flush()
            server.kill()
        with start(Volume(volume.path), cache="8MiB") as server:
            client = server.client("volume")
            wrong = [number for number in range(8) if client.pread(BLOCK, number * BLOCK) != block_of(number)]
            check(f"{how}: what was flushed is there after kill -9", not wrong, f"{len(wrong)} blocks are wrong")
            client.shutdown()

    who = "Basic " + base64.b64encode(b"user:secret").decode()
    with Proxy(behind, trusted) as server, Proxy(behind) as between:
        secure = {"AWS_ENDPOINT": f"https://localhost:{server.server_port}", "SSL_CERT_FILE": str(trusted / "ca-cert.pem")}
        with given(**secure):
            check_served("over TLS", volume)
            with given(SSL_CERT_FILE=str(other / "ca-cert.pem")):
                try:
                    with start(Volume(volume.path), cache="8MiB"):
                        raise Failed("S3 with a certificate of another authority: it is served")
                except Failed as refused:
                    check("a certificate of another authority is refused", "certificate" in str(refused), str(refused))
            with given(HTTPS_PROXY=f"http://user:secret@127.0.0.1:{between.server_port}", NO_PROXY=None):
                check_served("over TLS through a proxy", Volume(volume.path))
            tunnels = [(path, by) for method, path, by in between.seen if method == "CONNECT"]
            check("the proxy made a tunnel, and knew for whom", tunnels and set(tunnels) == {(f"localhost:{server.server_port}", who)}, tunnels)
            check("and saw nothing else", len(tunnels) == len(between.seen), between.seen)
            seen = len(between.seen)
            with given(HTTPS_PROXY=f"http://127.0.0.1:{between.server_port}", NO_PROXY="localhost"):
                check_served("past the proxy", Volume(volume.path))
            check("NO_PROXY goes past it", len(between.seen) == seen, between.seen[seen:])
        between.seen.clear()
        through = f"http://user:secret@127.0.0.1:{between.server_port}"
        with given(HTTP_PROXY=through, NO_PROXY=None, AWS_ENDPOINT="http://s3.example"):
            check_served("through a proxy without TLS", Volume(volume.path))
        whole = [path.startswith("http://s3.example/") and by == who for _, path, by in between.seen]
        check("the proxy got whole addresses, and knew for whom", whole and all(whole), between.seen[:3])


def test(start, folder):
    with s3_server(folder) as port, Proxy(port) as proxy:
        environment = {**KEYS, "AWS_ENDPOINT": f"http://127.0.0.1:{proxy.server_port}"}
        os.environ.update(environment)
        try:
            check_kept(start, proxy)
            check_passing(start, proxy)
            check_denied(start, proxy)
            check_slow(start, folder, proxy)
            check_gone(start, proxy)
            check_two_servers(start, folder)
            check_refused_at_the_start(start, proxy)
            check_encrypted(start, folder, port)
        finally:
            for name in environment:
                del os.environ[name]
            proxy.shutdown()
