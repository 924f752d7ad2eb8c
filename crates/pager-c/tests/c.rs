//! Programs in C that use the library as users do: by its header, compiled and linked.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Where the library is built, beside this test.
fn libraries() -> PathBuf {
    let folder = std::env::current_exe().expect("this program").parent().expect("a folder").to_path_buf();
    assert!(folder.join("libforebay_pager_c.so").exists(), "{}: the library is not built", folder.display());
    folder
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Compiles a program without a warning.
fn compile(source: &Path, compiler: &[&str], program: &Path) {
    let mut command = Command::new(compiler[0]);
    command.args(&compiler[1..]).args(["-Wall", "-Wextra", "-Werror", "-O1", "-I"]).arg(root().join("include"));
    command.arg("-o").arg(program).arg(source).arg("-L").arg(libraries()).arg("-lforebay_pager_c");
    let output = command.output().expect("a compiler: apt-get install gcc g++");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn run(program: &Path, arguments: &[&str], input: &str) -> Output {
    let mut command = Command::new("timeout");
    command.arg("60").arg(program).args(arguments).env("LD_LIBRARY_PATH", libraries());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("it starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads");
    child.wait_with_output().expect("it ends")
}

#[test]
fn the_example_counts_words_in_a_table_that_outlives_it() {
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let (program, table) = (folder.path().join("pager"), folder.path().join("table.bin"));
    compile(&root().join("examples/pager.c"), &["cc", "-std=c99", "-D_DEFAULT_SOURCE"], &program);
    let text: String = (0..20_000).map(|word| format!("{} the ", ["a", "b"].repeat(word % 12).concat())).collect();
    let table = table.to_str().expect("a name");
    for (turn, policy) in ["clock-pro", "lru"].into_iter().enumerate() {
        let output = run(&program, &[table, policy], &text);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
        let counted = format!("the most frequent {} times\n", 20_000 * (turn + 1));
        assert!(said.contains(&counted) && said.contains("of 32768 KiB resident"), "{said}");
    }
    let output = run(&program, &[table, "no-such-policy"], "");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("no-such-policy"), "{said}");
}

#[test]
fn every_function_fails_with_errno_and_a_sentence() {
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/failures.c");
    for (name, compiler) in [("c", vec!["cc", "-std=c99"]), ("c++", vec!["c++", "-x", "c++", "-std=c++11"])] {
        let program = folder.path().join(name);
        compile(&source, &compiler, &program);
        let output = run(&program, &[folder.path().to_str().expect("a name")], "");
        let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        assert!(output.status.success() && said.contains("all as it ought to be"), "{name}: {said}");
    }
}

#[test]
fn faults_in_place_live_with_long_jumps_and_threads_that_are_cancelled() {
    let folder = tempfile::tempdir_in("/var/tmp").expect("a folder");
    let (source, program) = (Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/in_place.c"), folder.path().join("c"));
    compile(&source, &["cc", "-std=c99", "-D_GNU_SOURCE", "-pthread"], &program);
    let output = run(&program, &[folder.path().join("data").to_str().expect("a name")], "");
    let said = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success() && said.contains("all as it ought to be"), "{said}");
}
