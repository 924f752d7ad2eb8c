//! Two processes, and sources of which one lies in the other or is the same, also through bind mounts: the second is refused.

use crate::Folder;
use crate::fuse_device::{USER, own_mounts, with_mode};
use crate::running::{Running, can_mount};
use rustix::mount::mount_bind;
use std::fs;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;

/// What is mounted: a directory of the folder, with options, by a user.
#[derive(Clone, Copy, Debug)]
struct Of(&'static str, &'static [&'static str], u32);

const fn root(source: &'static str) -> Of {
    Of(source, &[], 0)
}

const fn user(source: &'static str) -> Of {
    Of(source, &[], USER)
}

const fn reading(source: &'static str) -> Of {
    Of(source, &["--read-only"], 0)
}

impl Folder {
    /// `a` with `b` and `c` in it, where `a` and `a/b` are seen once more (`whole`, `part`), and two places to mount something.
    fn nested() -> Option<Self> {
        let folder = Self::new()?;
        ["a", "a/b", "a/b/d", "a/c", "whole", "part", "one", "two"].into_iter().for_each(|name| {
            fs::create_dir(folder.path(name)).expect("a folder");
            std::os::unix::fs::chown(folder.path(name), Some(USER), Some(USER)).expect("root may");
        });
        folder.belongs_to(USER);
        Some(folder)
    }

    fn bind(&self) {
        [("a", "whole"), ("a/b", "part")]
            .into_iter()
            .for_each(|(from, to)| mount_bind(self.path(from), self.path(to)).expect("root mounts"));
    }

    fn start(&self, Of(source, options, user): Of, at: &str) -> Running {
        let mut command = Command::new(self.program());
        command.args(["mount", &self.text(source), &self.text(at), "--foreground", "--cache", "1MiB"]).args(options);
        Running::start(command.uid(user).gid(user))
    }
}

/// When there are bind mounts, which only programs see that are started from then on.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Bound {
    First,
    AfterOne,
}

/// Mounts one and then, in another process, another; what is said if that is refused.
fn two(one: Of, other: Of, bound: Bound) -> Option<String> {
    let folder = Folder::nested().expect("asked before");
    if bound == Bound::First {
        with_mode(0o666);
        folder.bind();
    }
    let mut first = folder.start(one, "one");
    first.wait_for("is mounted on");
    if bound == Bound::AfterOne {
        own_mounts();
        folder.bind();
    }
    let mut second = folder.start(other, "two");
    let mut mounted = false;
    while !mounted && !second.has_ended() {
        mounted = second.log_has("is mounted on");
    }
    if mounted {
        second.signal("TERM");
    }
    let code = second.end();
    assert_eq!(code, Some(i32::from(!mounted)), "{one:?}, {other:?}: {}", second.log);
    first.signal("TERM");
    assert_eq!(first.end(), Some(0), "{one:?}, {other:?}: {}", first.log);
    (!mounted).then(|| second.log.clone())
}

/// All pairs side by side, each in mounts of its own: what is refused must say this.
fn all(pairs: &[(Of, Of, Bound, Option<&str>)]) {
    if !can_mount() {
        return;
    }
    thread::scope(|scope| {
        for &(one, other, bound, wanted) in pairs {
            scope.spawn(move || {
                let said = two(one, other, bound);
                let right = match (&said, wanted) {
                    (None, None) => true,
                    (Some(said), Some(wanted)) => said.contains(wanted),
                    _ => false,
                };
                assert!(right, "{one:?}, then {other:?}, {bound:?}: {said:?} for {wanted:?}");
            });
        }
    });
}

const SHARES: Option<&str> =
    Some("which is mounted already, and the cache of one mount would not see what the other writes");
const BELOW: Option<&str> = Some("is mounted already, and the cache of one mount would not see what the other writes");
const SAME: Option<&str> = Some(": is mounted already, and the cache");

#[test]
fn one_source_in_another_is_refused_whichever_comes_first() {
    all(&[
        (root("a"), root("a/b"), Bound::First, SHARES),
        (root("a"), root("a/b/d"), Bound::First, SHARES),
        (root("a/b/d"), root("a"), Bound::First, BELOW),
        (root("a/b"), root("a/b"), Bound::First, SAME),
        (root("a/b"), root("a/c"), Bound::First, None),
    ]);
}

#[test]
fn one_source_in_another_is_refused_through_bind_mounts() {
    all(&[
        (root("a"), root("whole/b"), Bound::First, SHARES),
        (root("a"), root("part"), Bound::First, SHARES),
        (root("whole"), root("a/b"), Bound::First, SHARES),
        (root("whole"), root("part/d"), Bound::First, SHARES),
        (root("part"), root("a"), Bound::First, BELOW),
        (root("part/d"), root("whole"), Bound::First, BELOW),
        (root("a/b/d"), root("part"), Bound::First, BELOW),
        (root("part"), root("a/b"), Bound::First, SAME),
        (root("part"), root("a/c"), Bound::First, None),
    ]);
}

#[test]
fn a_bind_mount_that_the_first_mount_does_not_see_hides_nothing() {
    all(&[
        (root("a"), root("part/d"), Bound::AfterOne, SHARES),
        (root("a/b"), root("part"), Bound::AfterOne, SAME),
        (root("a/b/d"), root("whole"), Bound::AfterOne, BELOW),
        (root("a/c"), root("part"), Bound::AfterOne, None),
    ]);
}

#[test]
fn users_keep_each_other_out_as_processes_do() {
    all(&[
        (user("a"), user("a/b"), Bound::First, SHARES),
        (user("part"), user("a"), Bound::First, BELOW),
        (user("a"), root("part"), Bound::First, SHARES),
        (root("a"), user("part"), Bound::First, SHARES),
        (user("a/b"), root("whole"), Bound::First, BELOW),
        (user("a/b"), user("a/c"), Bound::First, None),
    ]);
}

#[test]
fn mounts_that_only_read_share_with_each_other_alone() {
    all(&[
        (reading("a"), reading("part"), Bound::First, None),
        (reading("a/b"), reading("a"), Bound::First, None),
        (reading("a"), root("part"), Bound::First, SHARES),
        (root("a"), reading("a/b"), Bound::First, SHARES),
        (reading("a/b"), root("a"), Bound::First, BELOW),
        (root("a/b"), reading("whole"), Bound::First, BELOW),
    ]);
}

#[test]
fn a_mount_that_was_killed_keeps_nobody_out() {
    let Some(folder) = Folder::nested() else { return };
    let mut first = folder.start(root("a/b"), "one");
    first.wait_for("is mounted on");
    first.signal("KILL");
    assert_eq!(first.end(), None);
    let mut second = folder.start(root("a"), "two");
    second.wait_for("is mounted on");
    second.signal("TERM");
    assert_eq!(second.end(), Some(0));
    assert!(folder.unmount_at("one"));
}

#[test]
fn a_bind_mount_of_a_source_in_another_source_is_seen() {
    let Some(folder) = Folder::nested() else { return };
    let mut first = folder.start(root("a/b"), "one");
    first.wait_for("is mounted on");
    own_mounts();
    fs::create_dir(folder.path("source/inner")).expect("a folder");
    mount_bind(folder.path("a"), folder.path("source/inner")).expect("root mounts");
    let mut second = folder.start(root("source"), "two");
    assert_eq!(second.end(), Some(1));
    let (source, inner) = (folder.text("source"), folder.text("source/inner"));
    let why = format!("{source}: a directory in {inner} is mounted already");
    assert!(second.log.contains(&why), "{}", second.log);
    first.signal("TERM");
    assert_eq!(first.end(), Some(0));
}
