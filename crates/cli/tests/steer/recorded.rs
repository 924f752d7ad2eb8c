//! `forebay record --page-cache` and `--memory --epochs`: uses as a trace, and nothing else.

use crate::program::groups;
use crate::{ALL, FILE, Folder, can_steer, compiled, forebay, running::Running, stop, text, undisturbed};
use std::path::Path;
use std::process::Command;

/// Begins to record the files of a folder.
#[track_caller]
fn record(folder: &Folder, arguments: &[&str]) -> Running {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    let out = folder.text("uses.parquet");
    command.args(["record", "--page-cache", &folder.text("files"), "-o", &out]).args(arguments);
    let mut running = Running::start(&mut command);
    running.wait_for("recording the page cache of ");
    running
}

/// What `forebay info` and the rows of a trace say of it.
#[track_caller]
fn held(trace: &Path) -> (String, Vec<String>) {
    let [trace, csv] = [trace.to_path_buf(), trace.with_extension("csv")].map(|path| path.display().to_string());
    let info = forebay(&["info", &trace]);
    assert!(info.status.success(), "{}", text(&info.stderr));
    let converted = forebay(&["convert", "--force", &trace, &csv]);
    assert!(converted.status.success(), "{}", text(&converted.stderr));
    let rows = std::fs::read_to_string(csv).expect("it is there");
    (text(&info.stdout), rows.lines().skip(1).map(str::to_owned).collect())
}

#[test]
fn all_uses_are_recorded_hits_too_until_a_signal_and_nothing_leaves() {
    undisturbed(|| {
        let Some(folder) = Folder::new() else { return };
        let running = record(&folder, &[]);
        folder.read();
        folder.read();
        assert_eq!(folder.resident(), ALL);
        let log = stop(running);
        let pages = ALL >> 12;
        let grouped = |number: u64| format!("{},{:03}", number / 1000, number % 1000);
        assert!(log.contains(&format!("({} requests, ", grouped(2 * pages))), "{log}");
        let said = format!(
            "{} references to {} pages of 4 KiB: 12 MiB of 6 files, by 1 owner, in ",
            grouped(2 * pages),
            grouped(pages)
        );
        assert!(log.contains(&said), "{log}");
        let next = format!(
            "forebay: next: forebay compare {}\nforebay: then, with a size and the policy that it names: forebay steer {} --cache SIZE --policy NAME\n",
            folder.text("uses.parquet"),
            folder.text("files")
        );
        assert!(log.ends_with(&next), "{log}");
    });
}

#[test]
fn what_another_steers_is_recorded_meanwhile() {
    let Some(folder) = Folder::new() else { return };
    let steering = folder.steer(&["--cache", "1GiB"]);
    let mut recorded = record(&folder, &["--limit", "100"]);
    folder.read();
    assert_eq!(recorded.end(), Some(0), "{}", recorded.log);
    assert!(recorded.log.contains("(100 requests, "), "{}", recorded.log);
    stop(steering);
}

#[test]
fn a_recording_ends_at_its_limit_and_replaces_a_file_only_by_force() {
    let Some(folder) = Folder::new() else { return };
    let out = folder.path("uses.parquet");
    std::fs::write(&out, "another's").expect("it is written");
    let files = folder.text("files");
    let refused = forebay(&["record", "--page-cache", &files, "-o", &folder.text("uses.parquet")]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(text(&refused.stderr).contains("exists already; --force replaces it"), "{}", text(&refused.stderr));
    assert_eq!(std::fs::read(&out).expect("it is there"), b"another's");
    let mut running = record(&folder, &["--force", "--limit", "5"]);
    let read = Command::new("cat").arg(folder.path("files/3")).output().expect("cat runs");
    assert!(read.status.success());
    assert_eq!(running.end(), Some(0), "{}", running.log);
    let (info, rows) = held(&out);
    assert!(info.contains("pages of 4 KiB"), "{info}");
    assert!(rows.len() == 5 && rows.iter().all(|row| row.contains(",cat ") && row.contains(",3,")), "{rows:?}");
    let others = folder.0.path().read_dir().expect("the folder").flatten().map(|entry| entry.file_name());
    let others: Vec<_> = others.filter(|name| name.to_string_lossy().contains("uses-")).collect();
    assert!(others.is_empty(), "{others:?}");
}

#[test]
fn a_program_is_recorded_until_it_ends_or_is_ended() {
    let (Some(folder), Some(_)) = (Folder::new(), groups()) else { return };
    let out = folder.text("uses.parquet");
    let run = |more: &[&str], script: &str| {
        let ran = forebay(&[&["record", "--page-cache", "-o", &out], more, &["--", "sh", "-c", script]].concat());
        (ran.status.code(), text(&ran.stdout), text(&ran.stderr))
    };
    let one = folder.text("files/1");
    let (code, printed, said) = run(&[], &format!("echo said; cat {one} {one} > /dev/null; exit 7"));
    assert_eq!((code, printed.as_str()), (Some(7), "said\n"), "{said}");
    let (_, rows) = held(&folder.path("uses.parquet"));
    let of_file = rows.iter().filter(|row| row.contains(&format!(",{one},")));
    assert_eq!(of_file.map(|row| length(row)).sum::<u64>(), 2 * FILE, "{rows:?}");
    let (code, _, said) = run(&["--force", "--duration", "200ms"], "cat /bin/sh > /dev/null; exec sleep 600");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("forebay: wrote "), "{said}");
    let missing = forebay(&["record", "--page-cache", "--force", "-o", &out, "--", "/no/such/program"]);
    assert_eq!(missing.status.code(), Some(127), "{}", text(&missing.stderr));
}

/// The bytes of a row of CSV.
fn length(row: &str) -> u64 {
    row.split(',').nth(4).and_then(|length| length.parse().ok()).unwrap_or_else(|| panic!("{row}"))
}

#[test]
fn other_kinds_of_recording_and_what_names_nothing_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().join("uses.parquet").display().to_string();
    for (arguments, why) in [
        (&["--page-cache"][..], "there is nothing to record; name directories behind --page-cache"),
        (&["--page-cache", "/usr", "--memory"], "cannot be used with"),
        (&["--page-cache", "/usr", "--pid", "1"], "cannot be used with"),
        (&["--page-cache", "/usr", "--blocks", "/dev/null"], "cannot be used with"),
        (&["--page-cache", "/usr", "--mapped"], "cannot be used with"),
        (&["--page-cache", "/usr", "--page-size", "8192"], "cannot be used with"),
        (&["--cgroup", "/sys/fs/cgroup", "--pid", "1"], "cannot be used with"),
        (&["--cgroup", "/sys/fs/cgroup", "--", "true"], "--page-cache"),
        (&["--page-cache", "/no/such/place"], "/no/such/place: No such file or directory"),
        (&["--page-cache", "--cgroup", "/proc"], "it is no control group"),
        (&["--page-cache", "/dev/shm"], "tmpfs"),
        (&["--epochs", "--", "true"], "--memory"),
        (&["--memory", "--epochs", "--page-size", "8192", "--", "true"], "cannot be used with"),
        (&["--memory", "--cgroup", "/sys/fs/cgroup"], "--cgroup is for --page-cache, and for --memory with --epochs"),
        (&["--memory", "--epochs", "--cgroup", "/proc"], "it is no control group"),
    ] {
        let output = forebay(&[&["record", "-o", &out], arguments].concat());
        let said = text(&output.stderr);
        assert!(output.status.code() == Some(2) && said.contains(why), "{arguments:?}: {said}");
    }
    let numbers = folder.path().join("uses.lirs").display().to_string();
    let output = forebay(&["record", "--page-cache", "/usr", "-o", &numbers]);
    assert!(text(&output.stderr).contains("let its name end in .parquet or .csv"), "{}", text(&output.stderr));
    assert!(folder.path().read_dir().expect("the folder").next().is_none(), "nothing is left");
}

#[test]
fn the_memory_of_a_program_is_recorded_by_epochs_and_the_trace_ends_with_it() {
    let (true, Some(_)) = (can_steer(), groups()) else { return };
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a folder");
    let out = folder.path().join("memory.parquet").display().to_string();
    let pages = compiled("pages.c").display().to_string();
    let ran =
        forebay(&["record", "--memory", "--epochs", "-o", &out, "--", "sh", "-c", &format!("{pages} 24 4; exit 3")]);
    let said = text(&ran.stderr);
    assert_eq!(ran.status.code(), Some(3), "{said}");
    assert!(said.contains("--memory SIZE --policy NAME -- sh -c "), "{said}");
    let figures = said.lines().find(|line| line.contains(" references to ")).unwrap_or_else(|| panic!("{said}"));
    let numbers: Vec<u64> = figures.replace(',', "").split(' ').filter_map(|word| word.parse().ok()).take(2).collect();
    let [references, touched] = numbers[..] else { panic!("{figures}") };
    assert!(touched >= 24 << 8, "{figures}");
    assert!(references >= 3 * (24 << 8), "the program goes through its memory all the time: {figures}");
    assert!(figures.contains(" processes, in ") || figures.contains(" process, in "), "{figures}");
    let answer = forebay(&["compare", &out, "--policies", "lru,mru", "--sizes", "16MiB", "--format", "csv"]);
    assert!(answer.status.success(), "{}", text(&answer.stderr));
}
