//! `forebay serve`, `forebay control` and `forebay top` as a user runs them.
#![cfg(unix)]

#[path = "../command/mod.rs"]
mod command;
mod control;
mod inherited;
mod reload;
#[path = "../command/running.rs"]
mod running;
#[path = "../command/server.rs"]
mod server;

use command::{answer, failure};
use server::{Server, get};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const MIB: u64 = 1 << 20;

/// A folder of the test's own, and the path of a file in it.
fn folder() -> (tempfile::TempDir, impl Fn(&str) -> PathBuf) {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let path = folder.path().to_owned();
    (folder, move |name: &str| path.join(name))
}

/// A sparse file.
fn sparse(path: &Path, bytes: u64) -> String {
    std::fs::File::create(path).and_then(|file| file.set_len(bytes)).expect("a sparse file");
    path.to_str().expect("it is text").to_owned()
}

#[test]
fn what_is_wrong_with_the_options_is_told_with_exit_code_2() {
    let (_folder, path) = folder();
    let image = sparse(&path("image"), MIB);
    let volume = format!("a={image}");
    let with = |option: &str| format!("{volume},{option}");
    for (arguments, told) in [
        (vec![], "there is no volume to serve; name one, as in --volume data=/srv/data.img"),
        (vec!["-V", "image"], "write NAME=PATH"),
        (vec!["-V", "a="], "a path is missing"),
        (vec!["-V", "=x"], "`=x` has no name: write NAME=PATH"),
        (vec!["-V", "a=memory:0"], "`memory:0` has no bytes"),
        (vec!["-V", "a=memory:1000TiB"], "volumes of 1000 TiB in memory are more than"),
        (vec!["-V", "a=/no/such/file,create=0"], "volume a: create=0 makes a volume without bytes"),
        (vec!["-V", "a=/no/such/file,create=1MiB,read-only"], "volume a: create= and read-only exclude each other"),
        (
            vec!["-V", &volume, "--max-request", "1GiB"],
            "--max-request 1 GiB is more than a quarter of --buffers, 256 MiB",
        ),
        (vec!["-V", &volume, "--page", "3"], "a page of 3 bytes: it is a power of two from 4 KiB to 2 MiB"),
        (vec!["-V", &volume, "--metrics", "9190"], "write 127.0.0.1:9100 or localhost:9100"),
        (vec!["-V", &volume, "-V", &volume], "two volumes are named `a`"),
        (vec!["-V", &with("polcy=lru")], "unknown field `polcy` (did you mean `policy`?), expected one of"),
        (vec!["-V", &with("policy=lruu")], "there is no policy `lruu`"),
        (vec!["-V", &volume, "-p", "opt"], "it can be simulated, not run"),
        (vec!["-V", &volume, "-p", "lru-sp:manager=rmin"], "it can be simulated, not run"),
        (vec!["-V", &with("page=5000,size=1MiB")], "volume a: a page of 5000 bytes: it is a power of two"),
        (vec!["-V", &with("size=1000000")], "volume a: a cache of 1000000 bytes is no multiple of its page, 4 KiB"),
        (vec!["-V", &volume, "-c", "4KiB"], "make it larger"),
        (vec!["-V", &volume, "-c", "much"], "`much` is no number of bytes"),
        (vec!["-V", &volume, "-l", "10809"], "write tcp:127.0.0.1:10809"),
        (vec!["-V", &volume, "--dirty-limit", "200%"], "write 50% or 0.5"),
        (vec!["-V", &volume, "--dirty-age", "soon"], "write 5s"),
        (vec!["-V", &volume, "--delay", "drum"], "--delay drum: there is no such device; there are table-1"),
        (vec!["-V", &volume, "--rate", "0"], "a limit of 0 a second"),
        (vec!["-V", &volume, "--tls", "require"], "TLS needs --tls-certificates FOLDER"),
        (vec!["-V", &volume, "--tls-cert", "c.pem"], "--tls-key <FILE>"),
        (vec!["-V", &with("manager=mru")], "volume a: manager= needs --policy lru-sp"),
        (vec!["-V", &with("manager=rmin"), "-p", "lru-sp"], "there is no manager `rmin` to run"),
        (vec!["-V", &volume, "--workers", "5000"], "take fewer"),
        (vec!["-V", &volume, "--record", "trace.txt"], "let its name end in .parquet or .csv"),
        (vec!["-V", &volume, "--log", "loud,="], "write info"),
        (vec!["-V", &volume, "--log", "nonsense"], "`nonsense` is no level: write info"),
        (vec!["-V", &volume, "--max-connections", "0"], "--max-connections must be above 0"),
        (vec!["-V", &volume, "--max-connections-per-peer", "0"], "--max-connections-per-peer must be above 0"),
        (
            vec!["-V", &volume, "--max-connections", "8", "--max-connections-per-peer", "9"],
            "--max-connections-per-peer must be at most --max-connections, 8",
        ),
        (vec!["-V", &volume, "--workers", "0"], "--workers must be above 0"),
        (vec!["-V", &format!("a\nb={image}")], "the name `a\\nb` has control characters"),
    ] {
        let message = failure(&[&["serve"], &arguments[..]].concat(), 2);
        assert!(message.contains(told), "{arguments:?}: {message}");
    }
}

#[test]
fn options_that_make_no_sense_are_refused_before_anything_is_listened_at() {
    let (_folder, path) = folder();
    let volume = format!("a={},manager=mru", sparse(&path("image"), MIB));
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("its number").to_string();
    let message = failure(&["serve", "-V", &volume, "-l", &address], 2);
    assert!(message.contains("volume a: manager= needs --policy lru-sp"), "{message}");
}

#[test]
fn what_fails_in_the_system_is_told_with_exit_code_1() {
    let (_folder, path) = folder();
    let image = sparse(&path("image"), MIB);
    let volume = format!("a={image}");
    let missing = format!("a={}", path("missing").display());
    let created = format!("a={},create=1MiB", path("created").display());
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = port.local_addr().map(|address| (port, format!("tcp:{address}"))).unwrap();
    for (arguments, told) in [
        (vec!["-V", &missing], "No such file or directory"),
        (vec!["-V", &missing], "create=SIZE makes it"),
        (vec!["-V", "a=/dev/null"], "name a regular file or a block device"),
        (vec!["-V", "a=gopher://x/y"], "write file:///, memory:/// or s3://"),
        (vec!["-V", &created, "-l", &port.1], "another program listens there"),
        (vec!["-V", &volume, "-l", "unix:/no/such/folder/socket"], "cannot listen on unix:/no/such/folder/socket"),
        (vec!["-V", &volume, "--tls-certificates", "/no"], "/no/server-cert.pem"),
    ] {
        // Tests beside this one may listen where servers do by default.
        let message = failure(&[&["serve", "-l", "tcp:127.0.0.1:0"], &arguments[..]].concat(), 1);
        assert!(message.contains(told), "{arguments:?}: {message}");
    }
    assert!(!path("created").exists(), "a volume was made and is not served");
    assert!(
        failure(&["top", "127.0.0.1:1", "--once"], 1)
            .contains("is there a `forebay serve`, `mount` or `steer` with --metrics 127.0.0.1:1?")
    );
}

#[test]
fn a_configuration_file_that_is_not_there_is_a_wrong_option() {
    assert!(failure(&["serve", "--config", "/no/such.toml"], 2).contains("/no/such.toml: No such file"));
}

#[test]
fn a_wrong_configuration_file_is_told_by_its_line() {
    let (_folder, path) = folder();
    let config = path("serve.toml");
    std::fs::write(&config, "cache = \"1MiB\"\n\n[[volume]]\nname = \"a\"\npth = \"/x\"\n").unwrap();
    let message = failure(&["serve", "--config", config.to_str().unwrap()], 2);
    assert!(message.contains("serve.toml: line 5, `pth = \"/x\"`: unknown field `pth`"), "{message}");
}

#[test]
fn what_was_written_is_read_and_in_the_file_after_sigterm() {
    let (folder, path) = folder();
    let image = sparse(&path("image"), 4 * MIB);
    let server = Server::start(folder.path(), &["-V", &format!("a={image}"), "--cache", "1MiB"]);
    let mut client = server.client("a");
    let data: Vec<u8> = (0..3 * MIB).map(|at| (at / 4096 % 251) as u8).collect();
    for (index, part) in data.chunks(100_000).enumerate() {
        assert_eq!(client.write(1000 + 100_000 * index as u64, part), 0);
    }
    assert!(server.try_client("b").is_none(), "there is no such volume");
    let mut other = server.client("");
    assert_eq!(other.read(1000, 3 << 20), data, "the only volume is the default one, and its caches are one");
    assert_eq!(client.write(4 * MIB - 1, b"12"), 28, "beyond the end there is no space");
    let socket = server.socket.clone();
    server.stop();
    assert!(!socket.exists());
    assert!(std::fs::read(&image).unwrap()[1000..][..data.len()] == data);
}

#[test]
fn one_file_has_one_writer_and_one_socket_one_server() {
    let (folder, path) = folder();
    let (image, other) = (sparse(&path("image"), MIB), sparse(&path("other"), MIB));
    let server = Server::start(folder.path(), &["-V", &format!("a={image}")]);
    let listen = format!("unix:{}", server.socket.display());
    for (options, refused) in [("", "is open elsewhere already"), (",read-only", "is written elsewhere")] {
        let message = failure(&["serve", "-V", &format!("b={image}{options}"), "-l", "tcp:127.0.0.1:0"], 1);
        assert!(message.contains(refused), "{message}");
    }
    let message = failure(&["serve", "-V", &format!("b={other}"), "-l", &listen], 1);
    assert!(message.contains("the socket is in use; another program listens there"), "{message}");
    server.signal("KILL");
    assert_eq!(server.end().0, None);
    assert!(path("socket").exists(), "a killed server leaves its socket");
    let reader = Server::start(folder.path(), &["-V", &format!("a={image},read-only")]);
    let message = failure(&["serve", "-V", &format!("b={image}"), "-l", "tcp:127.0.0.1:0"], 1);
    assert!(message.contains("is open elsewhere already"), "{message}");
    let elsewhere = path("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    Server::start(&elsewhere, &["-V", &format!("b={image},read-only")]).stop();
    reader.stop();
    Server::start(folder.path(), &["-V", &format!("a={image}")]).stop();
}

#[test]
fn a_write_through_volume_loses_nothing_when_the_server_is_killed() {
    let (folder, path) = folder();
    let image = sparse(&path("image"), MIB);
    let server = Server::start(folder.path(), &["-V", &format!("a={image},mode=write-through")]);
    assert_eq!(server.client("a").write(5000, &[7; 20_000]), 0);
    server.signal("KILL");
    assert_eq!(server.end().0, None);
    assert_eq!(std::fs::read(&image).unwrap()[5000..25_000], [7; 20_000]);
}

#[test]
fn a_read_only_volume_refuses_writes_and_others_may_have_it() {
    let (folder, path) = folder();
    let image = sparse(&path("image"), MIB);
    let both = [format!("a={image},read-only"), format!("b={image},read-only")];
    let server = Server::start(folder.path(), &["-V", &both[0], "-V", &both[1]]);
    assert_eq!(server.client("a").write(0, b"x"), 1, "it is not permitted");
    assert_eq!(server.client("b").read(0, 10), [0; 10]);
    server.stop();
}

#[test]
fn volumes_are_joined_from_files_memory_and_objects() {
    let (folder, path) = folder();
    let parts = [sparse(&path("one"), MIB), sparse(&path("two"), MIB)];
    let stripes = format!("stripes=stripe=64KiB:{}+{}", parts[0], parts[1]);
    let long = format!("long=concat:{}+memory:1MiB", sparse(&path("three"), MIB));
    let objects = format!("objects=file://{},create=9MiB", path("bucket").display());
    let arguments =
        ["-V", &stripes, "-V", &long, "-V", &objects, "-V", &format!("new={},create=2MiB", path("new").display())];
    let server = Server::start(folder.path(), &arguments);
    let data: Vec<u8> = (0..MIB / 2).map(|at| (at >> 16) as u8 + 1).collect();
    for volume in ["stripes", "long", "objects", "new"] {
        let mut client = server.client(volume);
        assert_eq!(client.write(MIB - MIB / 4, &data), 0, "{volume}");
        assert_eq!(client.flush(), 0, "{volume}");
        assert_eq!(client.read(MIB - MIB / 4, (MIB / 2) as u32), data, "{volume}");
    }
    server.stop();
    let (one, two) = (std::fs::read(&parts[0]).unwrap(), std::fs::read(&parts[1]).unwrap());
    assert_eq!((one[6 << 16], two[6 << 16], one[7 << 16]), (1, 2, 3), "stripes are on each in turn");
    assert_eq!(std::fs::metadata(path("new")).unwrap().len(), 2 * MIB);
    let server = Server::start(folder.path(), &["-V", &objects]);
    assert_eq!(server.client("objects").read(MIB - MIB / 4, (MIB / 2) as u32), data);
    server.stop();
}

#[test]
fn what_is_recorded_is_a_trace_of_what_was_asked() {
    let (folder, path) = folder();
    let image = sparse(&path("image"), MIB);
    let trace = path("trace.parquet");
    let arguments = ["-V", &format!("data={image}"), "--record", trace.to_str().unwrap()];
    let server = Server::start(folder.path(), &arguments);
    let mut client = server.client("data");
    for round in 0..3 {
        for block in 0..10 {
            client.read(block * 8192, 8192);
        }
        assert_eq!(client.write(round * 4096, &[1; 4096]), 0);
    }
    drop(client);
    assert!(!trace.exists(), "it appears when it is whole");
    let log = server.stop();
    assert!(log.contains("recorded 33 requests"), "{log}");
    let compare = ["compare", trace.to_str().unwrap(), "-p", "lru", "-s", "20", "--page-size", "4KiB", "-f", "csv"];
    let csv = answer(&[&compare[..], &["--readahead", "none"]].concat());
    let row: Vec<&str> = csv.lines().nth(1).expect("a row").split(',').collect();
    // 30 reads of two pages and 3 writes of one, to 20 pages that fit.
    assert_eq!(row[1..8], ["lru", "81920", "20", "4096", "63", "43", "20"], "{csv}");
    let info = answer(&["info", trace.to_str().unwrap()]);
    assert!(info.contains("reads       30") && info.contains("writes      3"), "{info}");
}

#[test]
fn figures_are_told_to_prometheus_and_to_top() {
    let (folder, path) = folder();
    let (image, other) = (sparse(&path("image"), MIB), sparse(&path("other"), MIB));
    let own = format!("own={other},policy=mq,size=1MiB,page=64KiB");
    let arguments = ["-V", &format!("data={image}"), "-V", &own, "--metrics", "127.0.0.1:0", "-p", "lru"];
    let mut server = Server::start(folder.path(), &arguments);
    let figures = server.figures_at();
    let mut client = server.client("data");
    for _ in 0..100 {
        client.read(0, 4096);
    }
    assert_eq!(client.flush(), 0);
    let page = get(&figures, "/metrics");
    assert!(page.contains("application/openmetrics-text"), "{page}");
    for line in [
        "forebay_client_requests_total{volume=\"data\",cache=\"shared\",command=\"read\"} 100",
        "forebay_cache_misses_total{cache=\"shared\",policy=\"lru\"} 1",
        "forebay_cache_page_bytes{cache=\"own\",policy=\"mq\"} 65536.0",
        "forebay_connections 1.0",
    ] {
        assert!(page.lines().any(|found| found == line), "{line} is not in\n{page}");
    }
    let json: serde_json::Value = serde_json::from_str(&answer(&["top", &figures, "--format", "json"])).unwrap();
    assert_eq!(json["volumes"][0]["name"], "data");
    assert_eq!(json["volumes"][0]["clients"]["requests"]["read"], 100);
    let table = answer(&["top", &figures, "--once"]);
    assert!(
        ["data", "own", "mq", "requests/s", "lru of cache shared"].iter().all(|text| table.contains(text)),
        "{table}"
    );
    let csv = answer(&["top", &figures, "--format", "csv"]);
    assert!(csv.starts_with("volume,cache,size_bytes,") && csv.contains("\ndata,shared,"), "{csv}");
    server.stop();
}

#[test]
fn volumes_have_managers_under_lru_sp() {
    let (folder, path) = folder();
    let (a, b) = (sparse(&path("a"), MIB), sparse(&path("b"), MIB));
    let arguments = [
        "-V",
        &format!("a={a},manager=mru,readahead=0"),
        "-V",
        &format!("b={b},readahead=0"),
        "-p",
        "lru-sp",
        "-c",
        "256KiB",
    ];
    let mut server = Server::start(folder.path(), &[&arguments[..], &["--metrics", "127.0.0.1:0"]].concat());
    let figures = server.figures_at();
    let mut hits = Vec::new();
    for volume in ["a", "b"] {
        let mut client = server.client(volume);
        for _ in 0..5 {
            // A loop over more than the cache: under LRU nothing hits, under MRU most does.
            for block in 0..80 {
                client.read(block * 4096, 4096);
            }
        }
        assert_eq!(client.flush(), 0);
        let json: serde_json::Value = serde_json::from_str(&answer(&["top", &figures, "-f", "json"])).unwrap();
        let volumes = json["volumes"].as_array().unwrap();
        let found = volumes.iter().find(|found| found["name"] == volume).expect("it is told");
        hits.push(found["hits"].as_u64().unwrap());
    }
    assert!(hits[0] > 150 && hits[1] == 0, "{hits:?}");
    server.stop();
}

#[test]
fn a_flush_that_fails_at_the_end_is_exit_code_1() {
    let (folder, path) = folder();
    let image = sparse(&path("image"), MIB);
    // No file may be written beyond 64 KiB, as on a full disk.
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 128; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_forebay")]);
    let server = Server::start_by(limited, folder.path(), &["-V", &format!("a={image}"), "--dirty-age", "1h"]);
    let mut client = server.client("a");
    assert_eq!(client.write(MIB / 2, &[1; 4096]), 0, "it is in the cache");
    assert_ne!(client.flush(), 0);
    drop(client);
    server.signal("TERM");
    let (code, log) = server.end();
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("forebay: volume a: writeback of 4096 bytes at byte 524288 failed"), "{log}");
}

#[test]
fn a_stop_gives_a_device_that_takes_nothing_up_and_writes_what_others_take() {
    let (folder, path) = folder();
    let (slow, well) = (sparse(&path("slow"), MIB), sparse(&path("well"), MIB));
    let slow = format!("slow={slow},rate=1KiB");
    let arguments = ["-V", &slow, "-V", &format!("well={well}"), "--dirty-age", "1h", "--stop-timeout", "1s"];
    let server = Server::start(folder.path(), &arguments);
    assert_eq!(server.client("slow").write(0, &[1; 512 << 10]), 0);
    assert_eq!(server.client("well").write(0, &[2; 512 << 10]), 0);
    server.signal("TERM");
    let (code, log) = server.end();
    assert_eq!(code, Some(1), "{log}");
    let told = "volume slow: what was written to it is not durable: its device has taken nothing for 1s";
    assert!(log.contains(told) && !log.contains("volume well: what"), "{log}");
    assert_eq!(std::fs::read(&well).unwrap()[..512 << 10], [2; 512 << 10]);
}

#[test]
fn a_stop_waits_for_a_slow_device_as_long_as_it_takes_something() {
    let (folder, path) = folder();
    let image = sparse(&path("image"), 16 * MIB);
    let arguments = ["-V", &format!("a={image},rate=4MiB"), "--dirty-age", "1h", "--stop-timeout", "2s", "-c", "64MiB"];
    let server = Server::start(folder.path(), &arguments);
    let mut client = server.client("a");
    assert_eq!(client.write(0, &vec![1; 12 << 20]), 0);
    drop(client);
    server.stop();
    assert!(std::fs::read(&image).unwrap()[..12 << 20].iter().all(|&byte| byte == 1));
}

#[test]
fn two_signals_at_once_are_one() {
    let (folder, path) = folder();
    let image = sparse(&path("image"), MIB);
    let server = Server::start(folder.path(), &["-V", &format!("a={image}"), "--dirty-age", "1h"]);
    assert_eq!(server.client("a").write(0, &[1; 512 << 10]), 0);
    server.signal("INT");
    server.signal("INT");
    server.signal("TERM");
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "{log}");
    assert!(std::fs::read(&image).unwrap()[..512 << 10].iter().all(|&byte| byte == 1));
}

#[test]
fn a_second_signal_stops_at_once() {
    let (folder, path) = folder();
    let image = sparse(&path("image"), MIB);
    let arguments = ["-V", &format!("a={image}"), "--rate", "1KiB", "--dirty-age", "1h"];
    let mut server = Server::start(folder.path(), &arguments);
    assert_eq!(server.client("a").write(0, &[1; 512 << 10]), 0);
    server.signal("TERM");
    server.wait_for("stopping");
    // Later than a second: sooner it is the same signal.
    std::thread::sleep(Duration::from_millis(1100));
    server.signal("INT");
    let (code, log) = server.end();
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("what is not written yet is lost"), "{log}");
}

#[test]
fn each_command_has_a_manual_page() {
    let (_folder, path) = folder();
    let pages = path("man");
    answer(&["manual", pages.to_str().unwrap()]);
    let help = answer(&["--help"]);
    let (_, commands) = help.split_once("Commands:\n").expect("there are commands");
    let commands = commands.lines().take_while(|line| !line.is_empty());
    // A description's further lines are set in.
    let names =
        commands.filter(|line| line.starts_with("  ") && !line.starts_with("   ")).map(|line| line.trim_start());
    let names = names.map(|line| line.split(' ').next().expect("a name")).filter(|name| *name != "help");
    let mut count = 0;
    for name in names {
        let page = std::fs::read_to_string(pages.join(format!("forebay-{name}.1"))).expect(name);
        assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH DESCRIPTION"), "{name}: {page}");
        count += 1;
    }
    assert!(count >= 13, "{count} commands");
    let serve = std::fs::read_to_string(pages.join("forebay-serve.1")).unwrap();
    for part in ["SIGNALS", "EXIT STATUS", "FILES", "EXAMPLES", "\\-\\-cache", "SIGHUP"] {
        assert!(serve.contains(part), "{part}");
    }
    assert!(std::fs::read_to_string(pages.join("forebay.1")).unwrap().contains("forebay\\-serve"));
}
