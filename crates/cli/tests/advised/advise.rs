//! `forebay advise`: how programs are run, and what of their advice reaches the cache.

use crate::mounted::Mounted;
use crate::running::wait_until;
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The library, where cargo puts what a test depends on.
fn library() -> PathBuf {
    Path::new(env!("CARGO_BIN_EXE_forebay")).parent().expect("a folder").join("deps/libforebay_advise.so")
}

fn advise(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.env("FOREBAY_LIB", library()).arg("advise").args(arguments);
    command
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn done(mut command: Command) -> String {
    let Output { status, stdout, stderr } = command.output().expect("it runs");
    assert!(status.success(), "{command:?}: {}", text(&stderr));
    text(&stdout)
}

/// A C program, built into a folder.
#[track_caller]
fn build(folder: &Path, options: &[&str]) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/advised/advice.c");
    let program = folder.join(format!("advice{}", options.concat()));
    let mut command = Command::new("cc");
    command.args(["-O2", "-Wall", "-Werror"]).args(options).arg("-o").arg(&program).arg(source);
    done(command);
    program
}

#[test]
fn a_program_runs_as_it_would_without() {
    let said = done(advise(&["--", "sh", "-c", "echo $0 $1 $LD_PRELOAD", "name", "--flag"]));
    assert_eq!(said, format!("name --flag {}\n", library().canonicalize().expect("it is built").display()));
    let mut kept = advise(&["sh", "-c", "echo $LD_PRELOAD"]);
    kept.env("LD_PRELOAD", "libc.so.6");
    assert!(done(kept).ends_with("libforebay_advise.so:libc.so.6\n"));
    let mut ended = advise(&["sh", "-c", "exit 77"]);
    assert_eq!(ended.status().expect("it runs").code(), Some(77));
}

#[test]
fn what_cannot_be_run_so_is_refused_with_its_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).display().to_string();
    let write = |name: &str, bytes: &[u8], mode: u32| {
        fs::write(path(name), bytes).expect("a file");
        fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).expect("its mode");
        path(name)
    };
    let program = fs::read("/bin/true").expect("a program");
    let fixed = build(folder.path(), &["-static"]).display().to_string();
    let script = write("script", format!("#! {fixed} -x\n").as_bytes(), 0o755);
    let (plain, torn) = (write("plain", b"nothing", 0o644), write("torn", &program[..100], 0o755));
    let round = write("round", format!("#!{}\n", path("round")).as_bytes(), 0o755);
    let mut cases = vec![
        ("no-such-program".to_owned(), 127, "there is no such program"),
        (path("missing"), 127, "there is no such program"),
        (plain, 126, "it is not executable"),
        (path(""), 126, "it is not executable"),
        (fixed, 126, "statically linked"),
        (script, 126, "statically linked"),
        (torn, 126, "failed to fill"),
        (write("text", b"words", 0o755), 126, "no program of 64 bits"),
        (write("empty", b"", 0o755), 126, "no program of 64 bits"),
        (round, 126, "nothing runs this script"),
    ];
    let other = write("other", &program, 0o755);
    // Only root can make a program of another user's.
    if chown(&other, Some(65534), None).is_ok() {
        fs::set_permissions(&other, fs::Permissions::from_mode(0o4755)).expect("its mode");
        cases.push((other, 126, "it has more rights than you"));
    }
    for (program, code, message) in cases {
        let refused = advise(&["--", &program]).output().expect("it runs");
        let said = text(&refused.stderr);
        assert!(refused.status.code() == Some(code) && said.contains(message), "{program}: {said}");
    }
    let mut without = advise(&["true"]);
    let refused = without.env("FOREBAY_LIB", path("missing")).output().expect("it runs");
    assert!(refused.status.code() == Some(1) && text(&refused.stderr).contains("set FOREBAY_LIB"));
    let spaced = folder.path().join("a b");
    fs::create_dir(&spaced).and_then(|()| fs::copy(library(), spaced.join("lib.so"))).expect("a copy");
    let refused = without.env("FOREBAY_LIB", spaced.join("lib.so")).output().expect("it runs");
    assert!(refused.status.code() == Some(1) && text(&refused.stderr).contains("a space or a colon"));
}

#[test]
fn functions_answer_what_they_answer_without() {
    let folder = tempfile::tempdir().expect("a folder");
    let (program, file) = (build(folder.path(), &[]).display().to_string(), folder.path().join("file"));
    File::create(&file).and_then(|file| file.set_len(100_000)).expect("a file");
    let file = file.display().to_string();
    for function in ["posix_fadvise", "posix_fadvise64", "readahead", "madvise", "posix_madvise"] {
        for path in [&*file, "/dev/null", "/dev/stdin", "/missing"] {
            for advice in ["0", "3", "4", "20", "99"] {
                let arguments = [&program, function, path, advice];
                let mut plain = Command::new(&program);
                plain.args(&arguments[1..]);
                let [plain, advised] = [plain, advise(&arguments)].map(|mut command| {
                    let output = command.output().expect("it runs");
                    (output.status.code(), text(&output.stdout))
                });
                assert_eq!(plain, advised, "{arguments:?}");
            }
        }
    }
}

#[test]
fn advice_reaches_the_cache_of_a_mount() {
    const BLOCKS: u64 = 100;
    let Some(mounted) = Mounted::start(BLOCKS as usize, &["--policy", "lru-sp"]) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let program = build(folder.path(), &[]).display().to_string();
    let data = mounted.path("seen/data").display().to_string();
    let python = |call: &str| {
        let script = format!("import os; f = os.open('{data}', os.O_RDONLY); {call}");
        vec!["python3".to_owned(), "-c".to_owned(), script]
    };
    let own = |words: &[&str]| {
        [&program, words[0], &data, words.get(1).unwrap_or(&"0")].map(|word| (*word).to_owned()).to_vec()
    };
    let brings_in = [
        own(&["posix_fadvise", "3"]),
        own(&["posix_fadvise64", "3"]),
        own(&["readahead"]),
        own(&["madvise", "3"]),
        own(&["posix_madvise", "3"]),
        python("os.posix_fadvise(f, 0, 0, os.POSIX_FADV_WILLNEED)"),
    ];
    let drops = [
        own(&["posix_fadvise", "4"]),
        own(&["madvise", "20"]),
        own(&["madvise", "21"]),
        vec![
            "dd".to_owned(),
            format!("if={data}"),
            "iflag=nocache".to_owned(),
            "of=/dev/null".to_owned(),
            "count=0".to_owned(),
        ],
        python("os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED)"),
    ];
    let run = |words: &[String]| {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        done(advise(&words));
    };
    for words in brings_in.iter().chain(&brings_in).zip(drops.iter().cycle()) {
        run(words.0);
        wait_until(&format!("all of the file is resident after {:?}", words.0), || {
            mounted.of_cache("resident") == BLOCKS
        });
        // Pages that are still being read are passed by.
        wait_until(&format!("nothing of the file is resident after {:?}", words.1), || {
            run(words.1);
            mounted.of_cache("resident") == 0
        });
    }
    run(&own(&["posix_fadvise", "3"]));
    wait_until("all of the file is resident again", || mounted.of_cache("resident") == BLOCKS);
    run(&own(&["madvise", "4"]));
    assert_eq!(mounted.of_cache("resident"), BLOCKS, "a process that drops its map says nothing of the file");
    mounted.stop();
}
