//! Threads of which much is asked at once: handlers of signals that touch paged memory, and instructions that need several pages.

use crate::{build_named, can_page, done, run, text};
use std::process::Output;

#[test]
fn a_handler_may_touch_paged_memory_wherever_it_interrupts_malloc() {
    if !can_page() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = build_named(folder.path(), "interrupted");
    for arenas in ["1", "8"] {
        let mut command = run(&["-m", "1MiB"], &[&program]);
        let Output { status, stdout, stderr } = command.env("MALLOC_ARENA_MAX", arenas).output().expect("it runs");
        let said = text(&stderr);
        assert!(status.success(), "{arenas} arenas: {status} (124: it waited for ever): {said}");
        assert_eq!(text(&stdout), "interrupted: all is well\n", "{arenas} arenas: {said}");
    }
}

#[test]
fn threads_whose_instructions_need_four_pages_each_go_on_with_the_least_memory() {
    if !can_page() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = build_named(folder.path(), "interrupted");
    for policy in ["clock-pro", "lru"] {
        let (said, _) = done(&["-m", "256KiB", "-p", policy], &[&program, "straddle"]);
        assert_eq!(text(&said), "straddle: all is well\n", "{policy}");
    }
}
