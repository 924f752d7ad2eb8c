//! A file on a mount has those users who have it open, and no others.

use crate::managers::{ALL, looped, under};
use crate::mounted::{Mounted, wait_until};
use crate::reader::Reader;
use forebay_fuse::Advice;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Of a process that loops over a file.
const LOOPS: &str = "[[manager]]\nname = \"same-order\"\nowners = [\"loops *\"]\n";

/// A mount, and a process that has looped over a file of it.
fn with_loop() -> Option<(Mounted, Reader)> {
    let mounted = under(LOOPS, &["file"])?;
    let mut reader = Reader::new("loops");
    looped(&mounted, &mut reader, &mounted.seen("file"));
    assert!(looped(&mounted, &mut reader, &mounted.seen("file")) < ALL, "it has its manager");
    Some((mounted, reader))
}

/// The misses of three rounds, when those of one before have gone by.
fn settled(mounted: &Mounted, reader: &mut Reader) -> u64 {
    looped(mounted, reader, &mounted.seen("file"));
    looped(mounted, reader, &mounted.seen("file"))
}

fn head(path: &Path) {
    let read = Command::new("head").args(["-c", "4096"]).arg(path).stdout(Stdio::null()).status();
    assert!(read.expect("head runs").success());
}

#[test]
fn a_loop_survives_one_look_of_a_process_that_has_ended() {
    let Some((mounted, mut reader)) = with_loop() else { return };
    let before = settled(&mounted, &mut reader);
    head(&mounted.seen("file"));
    let after = settled(&mounted, &mut reader);
    assert_eq!(after, before, "it has as many hits as before");
    drop(reader);
    mounted.pool.check_invariants();
    mounted.stop();
}

#[test]
fn two_who_have_a_file_open_have_to_agree_until_one_closes_it() {
    let Some((mounted, mut reader)) = with_loop() else { return };
    let path = mounted.seen("file");
    let mut other = Reader::new("other");
    other.read(&path, 7);
    assert_eq!(settled(&mounted, &mut reader), ALL, "they do not agree, though the other has read one page");
    other.close(&path);
    assert!(settled(&mounted, &mut reader) < ALL, "the other has closed it");
    reader.close(&path);
    other.read(&path, 7);
    reader.read(&path, 7);
    drop(other);
    assert!(settled(&mounted, &mut reader) < ALL, "the other has ended");
    drop(reader);
    mounted.stop();
}

#[test]
fn a_process_that_has_ended_uses_nothing_though_another_has_its_open_file() {
    let Some((mounted, mut reader)) = with_loop() else { return };
    // One process uses the open file and ends; then another one does, for which the rule is, too.
    let script = r#"exec 3<"$1"; dd bs=4096 count=1 <&3 >/dev/null 2>&1
        exec perl -e '$0 = "loops"; sysread STDIN, my $page, 4096; syswrite STDOUT, "read\n"; sleep' <&3"#;
    let mut second = Command::new("sh");
    second.args(["-c", script, "sh"]).arg(mounted.seen("file")).stdout(Stdio::piped());
    let mut second = second.spawn().expect("a shell runs");
    let mut answers = BufReader::new(second.stdout.take().expect("it is piped")).lines();
    assert_eq!(answers.next().expect("an answer").expect("it is text"), "read");
    assert!(settled(&mounted, &mut reader) < ALL, "all that are left agree");
    second.kill().expect("it sleeps");
    second.wait().expect("it ends");
    drop(reader);
    mounted.stop();
}

#[test]
fn what_the_mount_reads_for_hints_and_attributes_is_nobodys_use() {
    let Some((mounted, mut reader)) = with_loop() else { return };
    mounted.mount.hint(Path::new("file"), Advice::WillNeed).expect("a hint");
    wait_until("the rest is read ahead", || mounted.mount.statistics().pages_read_ahead > 0);
    assert!(settled(&mounted, &mut reader) < ALL, "a hint by a command");
    rustix::fs::setxattr(mounted.seen("file"), "user.forebay.hint", b"willneed", rustix::fs::XattrFlags::empty())
        .expect("it can be set");
    assert!(settled(&mounted, &mut reader) < ALL, "an attribute");
    drop(reader);
    mounted.stop();
}

#[test]
fn a_number_that_comes_back_is_another_process() {
    let Some((mounted, reader)) = with_loop() else { return };
    let number = reader.process();
    let owner = |process| mounted.mounts.finder().owner(process).expect("it runs");
    let before = owner(number);
    drop(reader);
    mounted.mount.drop_clean();
    // The kernel is asked to give the number out next; others may be faster.
    let again = (0..1000).find_map(|_| {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (number - 1).to_string()).expect("root may set it");
        Some(Reader::new("other")).filter(|reader| reader.process() == number)
    });
    let mut other = again.expect("a process gets the number again");
    std::thread::sleep(Duration::from_millis(600));
    assert_ne!(owner(number).number(), before.number(), "it has neither the pages nor the lists of the other");
    assert_eq!(settled(&mounted, &mut other), ALL, "the rule is for the process before");
    drop(other);
    mounted.stop();
}
