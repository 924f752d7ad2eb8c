//! What cannot be steered, and what is said of it.

use crate::{Folder, Running, forebay, stop, text};
use std::fs;
use std::process::Command;

#[track_caller]
fn refused(arguments: &[&str], code: i32) -> String {
    let output = forebay(&[&["steer"], arguments].concat());
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(!said.contains("panicked"), "{said}");
    said
}

#[test]
fn options_that_make_no_sense_are_refused_with_what_to_do() {
    for (arguments, why) in [
        (&[][..], "there is nothing to steer; name a DIRECTORY, a control group by --cgroup, or a program behind `--`"),
        (&["/usr"], "--cache SIZE is missing"),
        (&["/usr", "-c", "252KiB"], "is too small: take 64 pages or more, 256 KiB"),
        (&["/usr", "-c", "1MiB", "-p", "opt"], "opt needs to know"),
        (&["/usr", "/usr/bin", "-c", "1MiB"], "/usr/bin: it lies in /usr, which is steered as a whole"),
        (&["/dev/shm", "-c", "1MiB"], "tmpfs"),
        (&["/no/such/place", "-c", "1MiB"], "/no/such/place: No such file or directory"),
        (&["--cgroup", "/proc", "-c", "1MiB"], "it is no control group"),
        (&["--once", "--observe", "/usr"], "cannot be used with"),
        (&["--once", "/usr", "-c", "1MiB", "--share", "/usr,max=64KiB"], "cannot be used with share"),
        (&["/usr", "-c", "1MiB", "--folio-limit", "6KiB"], "take a multiple of 4 KiB"),
        (&["/usr", "--observe", "--folio-limit", "64KiB"], "--observe changes nothing: drop one"),
        (&["/usr", "-c", "1MiB", "--share", "/var,max=64KiB"], "--share /var: it is not steered, so it has no share"),
        (&["/usr", "-c", "1MiB", "--share", "/usr,min=1MiB,max=64KiB"], "max=64 KiB is below min=1 MiB"),
        (&["/usr", "-c", "900TiB"], "this machine has"),
        (
            &["/usr", "-c", "1MiB", "--share", "/usr,min=1MiB"],
            "the mins of all shares, and a page of 4 KiB for the rest, need",
        ),
        (&["/usr", "-c", "1MiB", "--share", "/usr"], "it says nothing: add `,min=SIZE`"),
        (&["/usr", "-c", "1MiB", "--config", "/no/such.toml"], "/no/such.toml: No such file"),
        (&["/usr", "-c", "1MiB", "-p", "lru-sp", "--managers", "/no/such.toml"], "/no/such.toml: No such file"),
        (&["/usr", "-c", "1MiB", "--dirty-limit", "50%"], "unexpected argument '--dirty-limit'"),
    ] {
        let said = refused(arguments, 2);
        assert!(said.contains(why), "{arguments:?}: {said}");
    }
}

#[test]
fn a_directory_is_steered_by_one_process() {
    let Some(folder) = Folder::new() else { return };
    let running = folder.steer(&["--cache", "1MiB"]);
    let files = folder.text("files");
    assert!(
        refused(&[&files, "-c", "1MiB"], 1)
            .contains("is steered by another forebay steer already: stop that one first")
    );
    assert!(
        refused(&["--once", &folder.text(""), "-c", "1MiB"], 1).contains("or a directory in it, is steered by another")
    );
    let mut looks = Running::start(Command::new(env!("CARGO_BIN_EXE_forebay")).args(["steer", &files, "--observe"]));
    looks.wait_for(" are there");
    stop(looks);
    stop(running);
    assert!(forebay(&["steer", "--once", &files, "-c", "1MiB"]).status.success());
}

#[test]
fn one_that_is_killed_is_in_nobody_s_way_nor_are_locks_of_others() {
    let Some(folder) = Folder::new() else { return };
    let files = folder.text("files");
    let mut running = folder.steer(&["--cache", "1MiB"]);
    running.signal("KILL");
    running.end();
    let locked = fs::File::open(&files).expect("it is there");
    rustix::fs::fcntl_lock(&locked, rustix::fs::FlockOperation::LockShared).expect("anybody may");
    assert!(forebay(&["steer", "--once", &files, "-c", "1MiB"]).status.success());
}

#[test]
fn a_place_that_is_no_control_group_is_named_as_such_while_others_are_steered() {
    let Some(folder) = Folder::new() else { return };
    let running = folder.steer(&["--cache", "1MiB"]);
    assert!(refused(&["--cgroup", &folder.text(""), "-c", "1MiB"], 2).contains("it is no control group"));
    stop(running);
}

#[test]
fn what_a_file_says_beside_once_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("steer.toml").display().to_string();
    for (said, other) in
        [("observe = true", "observe"), ("control = \"/run/a\"", "control"), ("cgroup = [\"/a\"]", "cgroup")]
    {
        fs::write(&config, format!("once = true\ncache = \"1MiB\"\ndirectories = [\"/usr\"]\n{said}\n"))
            .expect("it is written");
        let said = refused(&["--config", &config], 2);
        assert!(said.contains(&format!("it cannot be used with {other}; leave one of them out")), "{said}");
    }
    fs::write(&config, "log = \"loud\"\n").expect("it is written");
    assert!(refused(&["--config", &config, "/usr"], 2).contains("`loud` is no level"));
}

#[test]
fn a_recording_that_no_word_is_about_is_refused_with_the_words_for_it() {
    let output = forebay(&["control", "-s", "/no/socket", "record", "uses.parquet"]);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("`forebay control record start uses.parquet`") && !said.contains("compare"), "{said}");
}
