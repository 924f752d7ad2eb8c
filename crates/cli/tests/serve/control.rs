//! `forebay control`: what a running server is told to do.

use crate::command::{answer, failure};
use crate::reload::configure;
use crate::running::wait_until;
use crate::server::Server;
use crate::{MIB, folder, sparse};
use std::path::Path;

/// The answer of `forebay control` to a command.
#[track_caller]
fn control(socket: &Path, command: &str) -> String {
    let words = command.split(' ').filter(|word| !word.is_empty());
    answer(&["control", "--socket", socket.to_str().unwrap()].into_iter().chain(words).collect::<Vec<_>>())
}

/// What it refuses, or fails to do.
#[track_caller]
fn refused(socket: &Path, command: &str, code: i32) -> String {
    let words = command.split(' ').filter(|word| !word.is_empty());
    failure(&["control", "--socket", socket.to_str().unwrap()].into_iter().chain(words).collect::<Vec<_>>(), code)
}

/// More memory than any machine has.
const MUCH: &str = "1000000GiB";

#[test]
fn a_running_server_is_steered_by_its_socket() {
    let (folder, path) = folder();
    let (a, own, new) = (sparse(&path("a"), 4 * MIB), sparse(&path("own"), MIB), sparse(&path("new"), 2 * MIB));
    let socket = path("control");
    let volumes = [format!("a={a}"), format!("own={own},size=1MiB")];
    let arguments = ["-V", &volumes[0], "-V", &volumes[1], "-c", "2MiB", "--control", socket.to_str().unwrap()];
    let mut server = Server::start(folder.path(), &[&arguments[..], &["--dirty-age", "1h"]].concat());
    let json = |command: &str| -> serde_json::Value {
        serde_json::from_str(&control(&socket, &format!("--format json {command}"))).unwrap()
    };
    let capacity = |cache: usize| json("statistics")["statistics"]["caches"][cache]["capacity"].as_u64().unwrap();
    assert_eq!((capacity(0), capacity(1)), (2 * MIB, MIB));
    assert!(control(&socket, "statistics").contains("clock-pro of cache shared"));
    assert_eq!(control(&socket, "resize shared 3MiB"), "cache shared: it has 3 MiB now\n");
    assert_eq!(json("resize own 2MiB")["figures"]["bytes"], 2 * MIB);
    assert_eq!((capacity(0), capacity(1)), (3 * MIB, 2 * MIB));
    assert!(refused(&socket, "resize other 3MiB", 2).contains("there is no cache `other`; choose from shared, own"));
    assert!(refused(&socket, "resize shared 1000000", 2).contains("is no multiple of its page, 4 KiB"));
    for much in [format!("resize own {MUCH}"), format!("resize shared {MUCH}"), format!("attach b {new},size={MUCH}")] {
        assert!(refused(&socket, &much, 2).contains("need more memory than the"), "{much}");
    }

    let mut client = server.client("a");
    assert_eq!(client.write(0, &[7; 8192]), 0);
    client.read(MIB, 16384);
    let dirty = || json("statistics")["statistics"]["volumes"][0]["dirty"].as_u64().unwrap();
    assert_eq!(dirty(), 2);
    let dropped = json("drop a")["figures"]["pages"].as_u64().unwrap();
    assert!(dropped >= 4 && dirty() == 2, "{dropped} pages are dropped, and dirty ones stay");
    assert_eq!(control(&socket, "evicted a 0 8KiB --hits 3 --dirty"), "volume a: the policy knows of it\n");
    assert!(refused(&socket, "evicted a 4MiB 4KiB", 1).contains("beyond"));
    assert_eq!(control(&socket, "flush a"), "volume a: durable\n");
    assert_eq!((dirty(), &std::fs::read(&a).unwrap()[..8192]), (0, &[7; 8192][..]));
    assert_eq!(control(&socket, "flush"), "all volumes: durable\n");
    assert!(refused(&socket, "flush b", 2).contains("there is no volume `b`; choose from a, own"));

    let dirty = control(&socket, "dirty shared --limit 25% --age 1500ms");
    assert_eq!(dirty, "cache shared: at most 25 % may be dirty, and for 1s 500ms\n");
    assert_eq!(control(&socket, "dirty own"), "cache own: at most 50 % may be dirty, and for 1h\n");
    let resident = |cache: usize| json("statistics")["statistics"]["caches"][cache]["resident"].as_u64().unwrap();
    let restarted = json("restart-policy shared");
    assert_eq!(restarted["figures"]["pages"], resident(0));
    assert!(resident(0) > 0, "pages stay");
    assert_eq!(restarted["message"], format!("cache shared: clock-pro has started anew with {} pages", resident(0)));
    assert_eq!(control(&socket, "restart-policy own"), "cache own: clock-pro has started anew with 0 pages\n");
    assert!(refused(&socket, "restart-policy other", 2).contains("there is no cache `other`; choose from shared, own"));
    assert_eq!(json("statistics")["statistics"]["caches"][0]["policy_panics"], 0);
    assert_eq!(client.read(0, 8192), [7; 8192]);

    assert_eq!(client.write(0, &[8; 512]), 0);
    wait_until("it is written after its age", || std::fs::read(&a).unwrap()[0] == 8);

    assert!(control(&socket, &format!("attach new {new},readahead=0")).contains("volume new: 2 MiB are served"));
    let mut other = server.client("new");
    assert_eq!(other.write(0, b"new"), 0);
    assert!(refused(&socket, &format!("attach new {new}"), 2).contains("there is a volume `new` already"));
    assert!(refused(&socket, &format!("attach b {new}x"), 1).contains("No such file"));
    assert!(refused(&socket, &format!("attach new={new}"), 2).contains("there is a volume `new` already"));
    assert!(refused(&socket, &format!("attach {new}"), 2).contains("NAME="));
    assert!(refused(&socket, &format!("attach b {new},polcy=lru"), 2).contains("unknown field `polcy`"));
    control(&socket, "detach new");
    assert!(server.try_client("new").is_none(), "no new client sees it");
    assert_eq!(other.read(0, 3), b"new", "who has it keeps it");
    drop(other);
    server.wait_for("volume new: closed");
    assert_eq!(std::fs::read(&new).unwrap()[..3], *b"new");

    assert_eq!(control(&socket, "log warn"), "the log is at warn now\n");
    assert_eq!(control(&socket, "log info,forebay_nbd=debug"), "the log is at info,forebay_nbd=debug now\n");
    for wrong in ["loud,=", "foo", "info,", "info,forebay_nbd", "forebay_nbd=loud", "=debug"] {
        assert!(refused(&socket, &format!("log {wrong}"), 2).contains("write info"), "{wrong}");
    }
    let message = failure(&["control", "--socket", socket.to_str().unwrap(), "log", ""], 2);
    assert!(message.contains("`` is no level"), "{message}");
    server.stop();
    assert!(!socket.exists());
    assert!(refused(&socket, "statistics", 1).contains("is there a `forebay serve --control"));
}

#[test]
fn a_volume_is_attached_right_after_it_was_detached_by_any_name_of_its_file() {
    for more in [&[][..], &["--device-timeout", "30s"]] {
        let (folder, path) = folder();
        let (image, socket) = (sparse(&path("image"), MIB), path("control"));
        std::os::unix::fs::symlink("image", path("link")).unwrap();
        let volume = format!("a={image}");
        let arguments = ["-V", &volume, "--dirty-age", "1h", "--control", socket.to_str().unwrap()];
        let server = Server::start(folder.path(), &[&arguments[..], more].concat());
        let winding = path(&format!("../{}/image", folder.path().file_name().unwrap().to_str().unwrap()));
        let (link, winding) = (path("link").display().to_string(), winding.display().to_string());
        for (round, (name, file)) in
            [("a", &link), ("b", &winding), ("a", &image)].into_iter().cycle().take(9).enumerate()
        {
            let before = ["a", "a", "b"][round % 3];
            let bytes = vec![round as u8 + 1; MIB as usize];
            assert_eq!(server.client(before).write(0, &bytes), 0);
            control(&socket, &format!("detach {before}"));
            control(&socket, &format!("attach {name} {file}"));
            assert!(server.client(name).read(0, MIB as u32) == bytes, "round {round}");
        }
        server.stop();
    }
}

#[test]
fn a_file_that_is_open_elsewhere_is_waited_for_and_then_refused_with_why() {
    let (folder, path) = folder();
    let (image, socket) = (sparse(&path("image"), MIB), path("control"));
    let mut server = Server::start(folder.path(), &["-V", "m=memory:1MiB", "--control", socket.to_str().unwrap()]);
    let other = std::fs::File::open(&image).unwrap();
    other.lock().unwrap();
    let message = refused(&socket, &format!("attach a {image}"), 1);
    let waited = format!("stop the other, or open both read-only; waited 5 seconds for {image} to be closed");
    assert!(message.contains("is open elsewhere already") && message.contains(&waited), "{message}");
    server.wait_for("asked to attach");
    std::thread::scope(|scope| {
        let attached = scope.spawn(|| control(&socket, &format!("attach a {image}")));
        server.wait_for("asked to attach");
        drop(other);
        assert!(attached.join().unwrap().contains("1 MiB are served"));
    });
    server.stop();
}

#[test]
fn storage_that_a_volume_writes_is_no_other_volumes() {
    let (folder, path) = folder();
    let (image, socket) = (sparse(&path("image"), MIB), path("control"));
    let prefix = format!("file://{}", path("objects/p").display());
    let volumes = [format!("o={prefix},create=1MiB"), format!("f={image}")];
    let arguments = ["-V", &volumes[0], "-V", &volumes[1], "--control", socket.to_str().unwrap()];
    let server = Server::start(folder.path(), &arguments);
    std::os::unix::fs::symlink(path("objects"), path("link")).unwrap();
    let linked = format!("file://{}", path("link/p").display());
    for same in [&prefix, &format!("{prefix}/"), &linked, &format!("concat:{prefix}+memory:1MiB"), &image] {
        let message = refused(&socket, &format!("attach again {same}"), 2);
        assert!(message.contains("is in use: volume "), "{same}: {message}");
    }
    let other = format!("file://{}", path("objects/q").display());
    let twice = refused(&socket, &format!("attach again stripe=64KiB:{other}+{other},create=1MiB"), 2);
    assert!(twice.contains("is in it twice"), "{twice}");
    control(&socket, &format!("attach other {other},create=1MiB"));
    control(&socket, "detach o");
    control(&socket, &format!("attach again {prefix}"));
    server.stop();
    let message = failure(&["serve", "-V", &volumes[0], "-V", &format!("again={linked}")], 2);
    assert!(message.contains("is in use: volume o has it"), "{message}");
}

#[test]
fn what_is_refused_or_fails_is_json_for_a_program() {
    let (folder, path) = folder();
    let (image, socket) = (sparse(&path("image"), MIB), path("control"));
    let server = Server::start(folder.path(), &["-V", &format!("a={image}"), "--control", socket.to_str().unwrap()]);
    for (command, answer, code, told) in [
        ("resize b 1MiB", "refused", 2, "there is no cache `b`"),
        ("record stop", "failed", 1, "nothing is being recorded"),
    ] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_forebay"))
            .args(["control", "--format", "json", "--socket", socket.to_str().unwrap()])
            .args(command.split(' '))
            .output()
            .unwrap();
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!((&json["answer"], output.status.code()), (&answer.into(), Some(code)), "{json}");
        assert!(json["message"].as_str().unwrap().contains(told), "{json}");
        assert!(output.stderr.is_empty(), "it is said once");
    }
    server.stop();
}

#[test]
fn a_rate_limits_a_volume_and_is_lifted_while_a_flush_waits_for_it() {
    let (folder, path) = folder();
    let (a, socket) = (sparse(&path("a"), 4 * MIB), path("control"));
    let volume = format!("a={a},rate=1KiB,iops=100");
    let mut server = Server::start(folder.path(), &["-V", &volume, "--control", socket.to_str().unwrap()]);
    let mut client = server.client("a");
    assert_eq!(client.write(0, &vec![1; 1 << 20]), 0);
    let flush = std::thread::spawn(move || client.flush());
    let socket = &socket;
    wait_until("the flush has begun", || {
        let json: serde_json::Value = serde_json::from_str(&control(socket, "-f json statistics")).unwrap();
        json["statistics"]["volumes"][0]["clients"]["requests"]["write"] == 1
    });
    assert!(!flush.is_finished(), "a MiB takes 1,024 seconds");
    let other = "volume a: at most 1 GiB a second, 100 requests a second\n";
    assert_eq!(control(socket, "rate a --rate 1GiB"), other, "what is not named stays");
    assert_eq!(flush.join().unwrap(), 0);
    let both = "volume a: at most 1 GiB a second, 5000 requests a second\n";
    assert_eq!(control(socket, "rate a --iops 5000"), both);
    assert_eq!(control(socket, "rate a"), both, "to ask changes nothing");
    assert_eq!(control(socket, "rate a --rate none"), "volume a: at most 5000 requests a second\n");
    assert_eq!(control(socket, "rate a --iops none"), "volume a: no limits\n");
    assert_eq!(control(socket, "connections a 3"), "volume a: at most 3 connections\n");
    assert_eq!(control(socket, "connections a 1"), "volume a: at most 1 connection\n");
    assert_eq!(control(socket, "connections a"), "volume a: at most 1 connection\n");
    assert_eq!(control(socket, "connections a none"), "volume a: no limits\n");
    assert!(refused(socket, "rate a --iops no", 2).contains("`none` is no limit"));
    assert!(refused(socket, "rate a --rate 0", 2).contains("a limit of 0 a second"));
    server.wait_for("control: asked to limit volume a to at most 0 bytes a second");
    let line = server.wait_for("volume a: ");
    assert!(
        line.contains("control: not done: volume a: a limit of 0 a second"),
        "what is refused is not in force: {line}"
    );
    server.stop();
}

#[test]
fn references_are_recorded_whenever_it_is_asked_for() {
    let (folder, path) = folder();
    let (a, socket) = (sparse(&path("a"), 4 * MIB), path("control"));
    let arguments = ["-V", &format!("a={a}"), "--control", socket.to_str().unwrap()];
    let server = Server::start(folder.path(), &arguments);
    let mut client = server.client("a");
    let file = |name: &str| path(name).display().to_string();
    assert!(refused(&socket, "record stop", 1).contains("nothing is being recorded"));
    client.read(0, 512);
    control(&socket, &format!("record start {}", file("one.csv")));
    assert!(refused(&socket, &format!("record start {}", file("two.csv")), 1).contains("one.csv is being recorded"));
    client.read(4096, 512);
    let snapshot = control(&socket, &format!("record snapshot {}", file("snapshot.parquet")));
    assert!(snapshot.starts_with("recorded 1 request in "), "{snapshot}");
    client.read(8192, 512);
    let whole: serde_json::Value = serde_json::from_str(&control(&socket, "-f json record stop")).unwrap();
    assert_eq!((&whole["figures"]["references"], &whole["figures"]["lost"]), (&2.into(), &0.into()));
    client.read(0, 512);
    for (name, reads) in [("one.csv", "reads       2"), ("snapshot.parquet", "reads       1")] {
        let info = answer(&["info", &file(name)]);
        assert!(info.contains(reads), "{name}: {info}");
    }
    let info = answer(&["info", &file("snapshot.parquet")]);
    let cache =
        "at first a cache of 512 MiB (496 MiB for its policy), under clock-pro, write-back, readahead linux:max=512KiB";
    assert!(info.contains(&format!("recorded    by forebay serve: {cache}")), "{info}");
    server.stop();
}

#[test]
fn a_server_that_is_started_again_records_beside_the_trace_of_before() {
    let (folder, path) = folder();
    let (a, trace) = (sparse(&path("a"), MIB), path("data.parquet").display().to_string());
    for (start, reads) in [(1, 2), (2, 3), (3, 1)] {
        let server = Server::start(folder.path(), &["-V", &format!("a={a}"), "--record", &trace]);
        let mut client = server.client("a");
        (0..reads).for_each(|page| drop(client.read(4096 * page, 512)));
        server.stop();
        let name =
            if start == 1 { trace.clone() } else { path(&format!("data-{start}.parquet")).display().to_string() };
        let info = answer(&["info", &name]);
        assert!(info.contains(&format!("reads       {reads}")), "{name}: {info}");
    }
}

#[test]
fn reading_the_configuration_again_puts_back_what_it_says() {
    let (folder, path) = folder();
    let (config, a, socket) = (path("serve.toml"), sparse(&path("a"), MIB), path("control"));
    let own = sparse(&path("own"), MIB);
    configure(&config, &[("a", &a, "rate = \"1MiB\""), ("own", &own, "size = \"3MiB\"")]);
    let arguments = ["--config", config.to_str().unwrap(), "--control", socket.to_str().unwrap(), "-c", "2MiB"];
    let server = Server::start(folder.path(), &arguments);
    control(&socket, "resize shared 1MiB");
    control(&socket, "resize own 1MiB");
    control(&socket, "rate a --iops 5");
    control(&socket, "dirty shared --age 1s");
    control(&socket, "detach a");
    control(&socket, "attach passing memory:1MiB");
    let gone = "volume passing is removed; what it holds is gone with the last of its clients";
    assert_eq!(control(&socket, "reload"), format!("the configuration was read again; {gone}\n"));
    assert_eq!(control(&socket, "connections a"), "volume a: at most 1 MiB a second\n");
    assert_eq!(control(&socket, "dirty shared"), "cache shared: at most 50 % may be dirty, and for 1h\n");
    let figures = control(&socket, "-f json statistics");
    assert!(figures.contains("\"capacity\":2097152"), "{figures}");
    assert!(figures.contains("\"capacity\":3145728"), "the volume's own cache: {figures}");
    assert_eq!(server.client("a").read(0, 1), [0]);
    std::fs::write(&config, "cache = \"nonsense\"").unwrap();
    assert!(refused(&socket, "reload", 2).contains("serve.toml: line 1"));
    server.stop();
}

#[test]
fn without_a_file_nothing_is_read_again_and_nothing_changes() {
    let (folder, path) = folder();
    let socket = path("control");
    let arguments = ["-V", "a=memory:1MiB", "--control", socket.to_str().unwrap(), "-c", "2MiB"];
    let mut server = Server::start(folder.path(), &arguments);
    control(&socket, "attach b memory:1MiB");
    control(&socket, "resize shared 1MiB");
    assert!(
        refused(&socket, "reload", 2).contains("no file to read again, and nothing has changed: --config FILE.toml")
    );
    server.signal("HUP");
    server.wait_for("no file to read again");
    assert!(control(&socket, "-f json statistics").contains("\"capacity\":1048576"));
    assert_eq!(server.client("b").read(0, 1), [0]);
    server.stop();
}
