//! Limits, signals, a mask and streams that a server inherits: it serves, and loses nothing.

use crate::running::{Running, wait_until};
use crate::server::{Client, Server};
use crate::{MIB, folder, sparse};
use std::fs;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs forebay by a program that changes what it inherits.
fn by(words: &[&str]) -> Command {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(env!("CARGO_BIN_EXE_forebay"));
    command
}

/// A shell that runs a line before forebay.
fn shell(line: &str) -> Command {
    by(&["sh", "-c", &format!("{line} exec \"$0\" \"$@\"")])
}

/// A line of `/proc/PID/NAME`.
fn line_of(process: u32, file: &str, begin: &str) -> String {
    let all = fs::read_to_string(format!("/proc/{process}/{file}")).expect("it runs");
    all.lines().find(|line| line.starts_with(begin)).expect("such a line").to_owned()
}

fn mode(path: impl AsRef<Path>) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[test]
fn a_client_that_writes_behind_the_longest_file_gets_an_error_and_the_others_go_on() {
    let (folder, path) = folder();
    let volumes =
        [("long", 4 * MIB), ("short", MIB / 2)].map(|(name, bytes)| format!("{name}={}", sparse(&path(name), bytes)));
    let limited = by(&["env", "--default-signal=XFSZ", "prlimit", "--fsize=1048576"]);
    let server = Server::start_by(limited, folder.path(), &["-V", &volumes[0], "-V", &volumes[1]]);
    let (mut long, mut short) = (server.client("long"), server.client("short"));
    assert_eq!(long.write(2 * MIB, &[1; 4096]), 0, "it is in the cache");
    assert_eq!(long.flush(), 28, "no space");
    assert_eq!((short.write(0, &[2; 4096]), short.flush()), (0, 0));
    assert_eq!((long.write(0, &[3; 4096]), fs::read(path("short")).unwrap()[0]), (0, 2));
    server.signal("TERM");
    let (code, log) = server.end();
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("`ulimit -f` lets this process write files up to 1 MiB: writes behind that fail"), "{log}");
    assert!(log.contains("volume long: writeback of 4096 bytes at byte 2097152 failed"), "{log}");
    assert_eq!(fs::read(path("long")).unwrap()[0], 3, "what can be written is");
}

#[test]
fn a_volume_that_cannot_be_made_leaves_no_file() {
    let (_folder, path) = folder();
    let volume = format!("a={},create=4MiB", path("a").display());
    let done = by(&["prlimit", "--fsize=1048576"]).args(["serve", "-V", &volume]).output().expect("it runs");
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.code() == Some(1) && said.contains("cannot be made: File too large"), "{said}");
    assert!(!path("a").exists());
}

#[test]
fn signals_that_were_blocked_or_ignored_stop_it_and_those_of_terminals_do_not() {
    for how in ["--block-signal", "--ignore-signal"] {
        let (folder, path) = folder();
        let volume = format!("a={}", sparse(&path("a"), MIB));
        let server = Server::start_by(by(&["env", how]), folder.path(), &["-V", &volume, "--dirty-age", "1h"]);
        assert_eq!(server.client("a").write(0, &[7; 4096]), 0);
        let mask = |name: &str| {
            let line = line_of(server.id(), "status", name);
            u64::from_str_radix(line.split('\t').nth(1).unwrap(), 16).unwrap()
        };
        let has = |mask: u64, signal: u32| mask >> (signal - 1) & 1 == 1;
        // SIGXFSZ, SIGTTIN, SIGTTOU and SIGPIPE; SIGCHLD.
        let ignored = mask("SigIgn:");
        assert_eq!([25, 21, 22, 13, 17].map(|signal| has(ignored, signal)), [true, true, true, true, false], "{how}");
        assert_eq!(mask("SigBlk:"), 0, "{how}");
        server.stop();
        assert_eq!(fs::read(path("a")).unwrap()[0], 7);
    }
}

#[test]
fn a_hangup_under_nohup_ends_nothing() {
    let (folder, path) = folder();
    let volume = format!("a={}", sparse(&path("a"), MIB));
    let mut server = Server::start_by(by(&["env", "--ignore-signal=HUP"]), folder.path(), &["-V", &volume]);
    server.signal("HUP");
    server.wait_for("nothing has changed");
    assert_eq!(server.client("a").write(0, &[7; 4096]), 0);
    server.stop();
}

#[test]
fn soft_limits_are_raised_and_addresses_are_a_limit_of_memory() {
    let (folder, path) = folder();
    let volume = format!("a={},create=1MiB", path("a").display());
    let limited = by(&["prlimit", "--nofile=100:500", "--core=0:0", "--as=300000000:800000000"]);
    let server = Server::start_by(limited, folder.path(), &["-V", &volume, "-c", "64MiB"]);
    let limit = |name| line_of(server.id(), "limits", name).split_whitespace().rev().nth(2).unwrap().to_owned();
    assert_eq!(limit("Max open files"), "500");
    assert_eq!(limit("Max address space"), "800000000");
    assert_eq!(limit("Max core file size"), "0", "no core file was wanted");
    assert_eq!(server.client("a").write(0, &[7; 4096]), 0);
    server.stop();
    let refused = by(&["prlimit", "--as=800000000"]).args(["serve", "-V", &volume, "-c", "512MiB"]).output();
    let said = String::from_utf8(refused.expect("it runs").stderr).unwrap();
    assert!(
        said.contains("need more memory than the 381 MiB that this machine, a control group or `ulimit` allows"),
        "{said}"
    );
}

#[test]
fn the_last_of_the_processor_time_is_for_a_stop_in_order() {
    let (folder, path) = folder();
    let volume = format!("a={}", sparse(&path("a"), MIB));
    let arguments = ["-V", &volume, "--dirty-age", "1h"];
    let server = Server::start_by(by(&["prlimit", "--cpu=2"]), folder.path(), &arguments);
    let mut client = server.client("a");
    assert_eq!(client.write(0, &[7; 4096]), 0);
    // Until a second of its time is used up: it then takes no more requests.
    let mut reads = 0;
    while client.try_read(0, MIB as u32).is_some() {
        reads += 1;
    }
    drop(client);
    let (code, log) = server.end();
    assert_eq!(code, Some(0), "after {reads} reads: {log}");
    assert!(log.contains("the processor time that `ulimit -t` allows is nearly used up"), "{log}");
    assert_eq!(fs::read(path("a")).unwrap()[0], 7);
}

#[test]
fn nobody_but_its_user_can_write_what_it_makes_whatever_the_mask() {
    for (mask, expected) in [("0", 0o664), ("022", 0o644), ("077", 0o600), ("0777", 0o600)] {
        let (folder, path) = folder();
        let (volume, trace) = (format!("a={},create=1MiB", path("a").display()), path("t.csv").display().to_string());
        let arguments = ["-V", &volume, "--record", &trace];
        let server = Server::start_by(shell(&format!("umask {mask};")), folder.path(), &arguments);
        assert_eq!(mode(&server.socket) & 0o002, 0, "{mask}: the socket");
        assert_eq!(server.client("a").write(0, &[7; 4096]), 0);
        server.stop();
        assert_eq!((mode(path("a")), mode(trace)), (expected, expected), "umask {mask}");
    }
}

#[test]
fn nothing_of_the_log_gets_into_a_volume_where_the_standard_streams_are_closed() {
    let (folder, path) = folder();
    let (image, socket) = (sparse(&path("a"), MIB), folder.path().join("socket"));
    let at = format!("unix:{}", socket.display());
    let mut command = shell("exec 0<&- 1>&- 2>&-;");
    command.args(["serve", "-V", &format!("a={image}"), "-l", &at, "--log", "trace", "--direct", "no"]);
    let mut server = Running::start(command.stdout(Stdio::null()));
    wait_until("it listens", || fs::metadata(&socket).is_ok_and(|found| found.file_type().is_socket()));
    let written: Vec<u8> = (0..MIB).map(|at| (at / 4096) as u8).collect();
    let mut client = Client::shake(UnixStream::connect(&socket).expect("it listens"), "a").expect("a volume");
    assert_eq!((client.write(0, &written), client.flush()), (0, 0));
    drop(client);
    server.signal("TERM");
    assert_eq!((server.end(), &*server.log), (Some(0), ""));
    assert!(fs::read(&image).unwrap() == written);
}

#[test]
fn with_too_few_threads_it_says_so_or_serves_and_loses_nothing() {
    let (folder, path) = folder();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).expect("a mode");
    // The limit is for all processes of a user: one of this test's own.
    let user = 60_000 + std::process::id() % 4000;
    let program = path("forebay");
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_forebay")).arg(&program).status();
    assert!(copied.expect("cp runs").success());
    let readable = Command::new("setpriv").args([&format!("--reuid={user}"), "test", "-x"]).arg(&program).status();
    if !readable.is_ok_and(|status| status.success()) {
        assert!(std::env::var_os("CI").is_none(), "only root can run programs as another user, and CI skips nothing");
        return;
    }
    let mut served = 0;
    for most in (1..=24).step_by(2) {
        let home = path(&most.to_string());
        fs::create_dir(&home).expect("a folder");
        std::os::unix::fs::chown(&home, Some(user), Some(user)).expect("root may");
        let file = |name: &str| home.join(name).display().to_string();
        let volumes = [format!("a={},create=1MiB", file("a")), format!("o=file://{},create=1MiB", file("o"))];
        let mut command = Command::new("prlimit");
        command.arg(format!("--nproc={most}")).arg("setpriv").args([&format!("--reuid={user}"), "--clear-groups"]);
        command.arg(&program).args(["serve", "-V", &volumes[0], "-V", &volumes[1], "-c", "4MiB", "--dirty-age", "1h"]);
        command.args(["-l", &format!("unix:{}", file("socket"))]).process_group(0);
        let mut server = Running::start(&mut command);
        while !server.log_has("listening on") && !server.has_ended() {}
        // It may end for want of one more thread, or close the connection.
        let client = UnixStream::connect(home.join("socket")).ok().and_then(|stream| Client::try_shake(stream, "a"));
        let written = client.flatten().is_some_and(|mut client| client.try_write(0, &[7; 4096]) == Some(0));
        if !server.has_ended() {
            server.signal("TERM");
        }
        let code = server.end();
        assert!(code == Some(0) || server.log.contains("Resource temporarily unavailable"), "{most}: {}", server.log);
        assert!(matches!(code, Some(0 | 1)), "{most}: {}", server.log);
        if written {
            served += 1;
            assert_eq!(fs::read(home.join("a")).unwrap()[0], 7, "{most}: {}", server.log);
        }
        assert!(!server.log.contains("panicked"), "{most}: {}", server.log);
    }
    assert!(served > 0, "with enough of them it serves");
}
