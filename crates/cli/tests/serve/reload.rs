//! What changes when the configuration is read again, and what a server that stops makes of volumes that were removed.

use crate::server::{Server, get};
use crate::{MIB, folder, sparse};
use std::io::Write;
use std::path::Path;
use std::process::Command;

/// A configuration file of these volumes, each a name and what follows it in its table.
pub(crate) fn configure(config: &Path, volumes: &[(&str, &str, &str)]) {
    let table =
        |(name, path, more): &(&str, &str, &str)| format!("[[volume]]\nname = \"{name}\"\npath = \"{path}\"\n{more}\n");
    let text: String = volumes.iter().map(table).collect();
    std::fs::write(config, format!("dirty-age = \"1h\"\n{text}")).unwrap();
}

#[test]
fn what_is_acknowledged_on_a_removed_volume_is_in_its_file_after_sigterm() {
    let (folder, path) = folder();
    let (config, kept, removed) = (path("serve.toml"), sparse(&path("kept"), MIB), sparse(&path("removed"), 4 * MIB));
    configure(&config, &[("kept", &kept, ""), ("removed", &removed, "size = \"8MiB\"")]);
    let mut server = Server::start(folder.path(), &["--config", config.to_str().unwrap()]);
    let mut stays = server.client("removed");
    configure(&config, &[("kept", &kept, "")]);
    server.signal("HUP");
    server.wait_for("was read again");
    assert_eq!(stays.write(0, &vec![7; 4 << 20]), 0);
    server.stop();
    assert!(std::fs::read(&removed).unwrap().iter().all(|&byte| byte == 7));
}

#[test]
fn a_removed_volume_that_cannot_be_written_is_named_with_exit_code_1() {
    let (folder, path) = folder();
    let (config, kept, removed) = (path("serve.toml"), sparse(&path("kept"), MIB), sparse(&path("removed"), MIB));
    configure(&config, &[("kept", &kept, ""), ("removed", &removed, "size = \"2MiB\"")]);
    let mut limited = Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 128; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_forebay")]);
    let mut server = Server::start_by(limited, folder.path(), &["--config", config.to_str().unwrap()]);
    let mut stays = server.client("removed");
    configure(&config, &[("kept", &kept, "")]);
    server.signal("HUP");
    server.wait_for("was read again");
    assert_eq!(stays.write(MIB / 2, &[1; 4096]), 0, "it is in the cache");
    server.signal("TERM");
    let (code, log) = server.end();
    assert_eq!(code, Some(1), "{log}");
    assert!(log.contains("forebay: volume removed: writeback of 4096 bytes at byte 524288 failed"), "{log}");
}

#[test]
fn a_volume_that_is_removed_and_added_again_is_served_at_once() {
    let (folder, path) = folder();
    let (config, a, b) = (path("serve.toml"), sparse(&path("a"), MIB), sparse(&path("b"), MIB));
    configure(&config, &[("a", &a, ""), ("b", &b, "")]);
    let mut server = Server::start(folder.path(), &["--config", config.to_str().unwrap()]);
    let mut stays = server.client("b");
    assert_eq!(stays.write(0, b"before"), 0);
    configure(&config, &[("a", &a, "")]);
    server.signal("HUP");
    server.wait_for("was read again");
    configure(&config, &[("a", &a, ""), ("b", &b, "")]);
    server.signal("HUP");
    let line = server.wait_for("was read again");
    assert!(!line.contains("not all"), "{line}");
    let mut new = server.client("b");
    assert_eq!(new.read(0, 6), b"before", "it is the volume that it was");
    assert_eq!(stays.write(0, b"behind"), 0);
    assert_eq!(new.read(0, 6), b"behind", "who stayed and who came have one cache");

    configure(&config, &[("a", &a, "")]);
    server.signal("HUP");
    server.wait_for("was read again");
    configure(&config, &[("a", &a, ""), ("other", &b, "read-only = true")]);
    server.signal("HUP");
    drop((stays, new));
    let line = server.wait_for("was read again");
    assert!(!line.contains("not all"), "it waits until the one before is closed: {line}");
    assert_eq!(server.client("other").read(0, 6), b"behind");
    server.stop();
}

#[test]
fn a_reload_that_is_refused_changes_nothing_and_the_next_one_all() {
    let (folder, path) = folder();
    let (config, a, b, c) =
        (path("serve.toml"), sparse(&path("a"), MIB), sparse(&path("b"), MIB), sparse(&path("c"), MIB));
    configure(&config, &[("a", &a, ""), ("b", &b, "")]);
    let mut server = Server::start(folder.path(), &["--config", config.to_str().unwrap()]);
    assert_eq!(server.client("a").write(0, b"written"), 0);
    configure(&config, &[("b", &b, ""), ("c", &c, ""), (&"x".repeat(5000), &a, "")]);
    server.signal("HUP");
    let line = server.wait_for("nothing has changed");
    assert!(line.contains("has 5000 bytes: at most 4096"), "{line}");
    assert_eq!(server.client("a").read(0, 7), b"written");
    assert!(server.try_client("c").is_none());

    configure(&config, &[("b", &b, ""), ("c", &path("missing").display().to_string(), ""), ("d", &c, "")]);
    server.signal("HUP");
    let line = server.wait_for("not all of it is in force");
    assert!(line.contains("volume c: ") && line.contains("No such file"), "{line}");
    assert!(server.try_client("a").is_none() && server.try_client("c").is_none());
    assert_eq!(server.client("d").read(0, 1), [0], "what can be changed is");
    configure(&config, &[("b", &b, ""), ("d", &c, "mode = \"write-through\"\nreadahead = 0\n")]);
    server.signal("HUP");
    let line = server.wait_for("not all of it is in force");
    assert!(line.contains("volume d: mode, readahead cannot change while it is served"), "{line}");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("policy = \"mq\"\nmax-connections = 7\n{text}")).unwrap();
    server.signal("HUP");
    let line = server.wait_for("not all of it is in force");
    assert!(line.contains("policy, max-connections: only a restart changes that"), "{line}");
    configure(&config, &[("a", &a, ""), ("b", &b, "")]);
    server.signal("HUP");
    let line = server.wait_for("was read again");
    assert!(!line.contains("not all"), "{line}");
    assert_eq!(server.client("a").read(0, 7), b"written");
    assert!(server.try_client("d").is_none());
    server.stop();
}

#[test]
fn a_file_that_has_grown_is_noticed_when_the_configuration_is_read_again() {
    let (folder, path) = folder();
    let config = path("serve.toml");
    let image = path("image");
    std::fs::write(&image, [1; 10_000]).unwrap();
    configure(&config, &[("a", image.to_str().unwrap(), "")]);
    let mut server = Server::start(folder.path(), &["--config", config.to_str().unwrap()]);
    let mut early = server.client("a");
    assert_eq!(early.read(8192, 1808), [1; 1808], "the last page is in the cache, and a part of one");
    assert_eq!(early.write(9000, &[2; 1000]), 0);
    std::fs::OpenOptions::new().append(true).open(&image).and_then(|mut file| file.write_all(&[3; 10_000])).unwrap();
    server.signal("HUP");
    server.wait_for("volume a: it has grown from 10000 to 20000 bytes");
    let mut late = server.client("a");
    let expected = [vec![1; 808], vec![2; 1000], vec![3; 10_000]].concat();
    assert_eq!(late.read(8192, 11_808), expected);
    assert_eq!(late.write(19_000, &[4; 1000]), 0);
    assert_eq!(early.read(0, 9000), [1; 9000], "who was there before goes on");
    std::fs::OpenOptions::new().write(true).open(&image).and_then(|file| file.set_len(19_500)).unwrap();
    server.signal("HUP");
    let line = server.wait_for("not all of it is in force");
    assert!(line.contains("volume a: ") && line.contains("shrunk to 19500 bytes"), "{line}");
    drop((early, late));
    server.signal("TERM");
    server.end();
    let found = std::fs::read(&image).unwrap();
    assert!(found[8192..9000] == [1; 808] && found[9000..10_000] == [2; 1000] && found[10_000..19_000] == [3; 9000]);
}

#[test]
fn a_configuration_file_is_read_again_at_sighup() {
    let (folder, path) = folder();
    let config = path("serve.toml");
    let images = ["a", "b", "c"].map(|name| sparse(&path(name), MIB));
    let write = |cache: &str, volumes: &[(&str, &str)]| {
        let tables = volumes.iter().map(|(name, path)| format!("[[volume]]\nname = \"{name}\"\npath = \"{path}\"\n"));
        let text = format!("cache = \"{cache}\"\nmetrics = \"127.0.0.1:0\"\n{}", tables.collect::<String>());
        std::fs::write(&config, text).unwrap();
    };
    write("2MiB", &[("a", &images[0]), ("b", &images[1])]);
    let mut server = Server::start(folder.path(), &["--config", config.to_str().unwrap()]);
    let figures = server.figures_at();
    let capacity = || {
        let page = get(&figures, "/metrics");
        let line = page.lines().find(|line| line.starts_with("forebay_cache_capacity_bytes{")).expect("it is told");
        line.rsplit(' ').next().expect("a figure").parse::<f64>().expect("a number")
    };
    assert_eq!(capacity(), 2.0 * MIB as f64);
    let mut stays = server.client("a");
    assert_eq!(stays.write(0, b"before"), 0);

    write("3MiB", &[("b", &images[1]), ("c", &images[2])]);
    server.signal("HUP");
    server.wait_for("the configuration was read again");
    assert_eq!(capacity(), 3.0 * MIB as f64);
    assert!(server.try_client("a").is_none(), "no new client sees a volume that was removed");
    assert_eq!(server.client("c").read(0, 4), [0; 4]);
    assert_eq!(stays.write(6, b" after"), 0, "who has it keeps it");
    assert_eq!(stays.read(0, 12), b"before after");
    drop(stays);
    server.wait_for("volume a: closed");
    assert_eq!(std::fs::read(&images[0]).unwrap()[..12], *b"before after", "it is flushed as the last one leaves");

    std::fs::write(&config, "cache = \"nonsense\"").unwrap();
    server.signal("HUP");
    let line = server.wait_for("nothing has changed");
    assert!(line.contains("serve.toml: line 1"), "{line}");
    assert_eq!(server.client("c").read(0, 4), [0; 4], "a wrong file changes nothing");
    server.stop();
}
