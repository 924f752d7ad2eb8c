//! `forebay experiment` as a user runs it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn forebay(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(arguments).env_remove("FOREBAY_TRACES").output().expect("forebay runs")
}

#[track_caller]
fn answer(arguments: &[&str]) -> String {
    let output = forebay(arguments);
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the answer is text")
}

/// The message of an experiment that is wrong.
#[track_caller]
/// What an experiment says that is wrong (2), or whose commands fail (1).
fn failure(code: i32, name: &str, content: &str) -> String {
    let path = file(name, content);
    let output = forebay(&["experiment", path.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stderr).expect("the message is text")
}

fn file(name: &str, content: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&path, content).unwrap();
    path
}

fn json(path: &Path) -> serde_json::Value {
    serde_json::from_str(&answer(&["experiment", path.to_str().unwrap(), "-f", "json"])).expect("the answer is JSON")
}

#[test]
fn figures_stand_in_the_rows_and_columns_of_their_policies_and_sizes() {
    let path = file(
        "plain.toml",
        r#"
        title = "A loop"
        finding = "LRU has nothing."
        [[table]]
        trace = "loop:pages=10,references=1000"
        policies = ["lru", "opt"]
        sizes = [5, 10]
        [table.theirs]
        lru = ["-", 98]
        "#,
    );
    let answer_json = json(&path);
    let table = &answer_json[0]["tables"][0];
    assert_eq!(table["columns"], serde_json::json!(["5", "10"]));
    assert_eq!(table["rows"][0], serde_json::json!({ "row": "lru", "theirs": [null, 98.0], "ours": [[0.0], [99.0]] }));
    assert_eq!(table["command"], "forebay compare loop:pages=10,references=1000 --policies lru,opt --sizes 5,10");
    let text = answer(&["experiment", path.to_str().unwrap()]);
    assert!(text.contains("98.0 / 99.0") && text.contains("at most +1.0 (lru at 10)"), "{text}");
    assert!(text.ends_with("LRU has nothing.\n"), "{text}");
    let markdown = answer(&["experiment", path.to_str().unwrap(), "-f", "markdown"]);
    assert!(markdown.contains("| lru | – / 0.0 | 98.0 / 99.0 |"), "{markdown}");
    let csv = answer(&["experiment", path.to_str().unwrap(), "-f", "csv"]);
    assert!(csv.contains("A loop,\"loop:pages=10,references=1000\",lru,10,98,99,99,99\n"), "{csv}");
    let commands = answer(&["experiment", path.to_str().unwrap(), "--dry-run"]);
    assert_eq!(commands, "forebay compare loop:pages=10,references=1000 --policies lru,opt --sizes 5,10\n");
}

#[test]
fn each_seed_is_a_run_and_the_mean_is_shown() {
    let path = file(
        "seeds.toml",
        r#"
        title = "Chance"
        seeds = [1, 2, 3]
        [[table]]
        trace = "zipf:pages=1000,references=5000,seed={seed}"
        policies = ["lru", "random:seed={seed}"]
        sizes = ["10%", 100]
        "#,
    );
    let table = &json(&path)[0]["tables"][0];
    // 10 % are other pages with each seed, and one column.
    assert_eq!(table["columns"], serde_json::json!(["10%", "100"]));
    assert_eq!(table["rows"].as_array().unwrap().len(), 2);
    assert_eq!(table["rows"][1]["row"], "random:seed={seed}");
    let ours: Vec<f64> =
        table["rows"][1]["ours"][0].as_array().unwrap().iter().map(|of| of.as_f64().unwrap()).collect();
    assert!(ours.len() == 3 && ours[0] != ours[1], "{ours:?}");
    assert_eq!(table["rows"][0]["ours"][1].as_array().unwrap().len(), 3);
    assert!(answer(&["experiment", path.to_str().unwrap()]).contains(" ±"));
}

#[test]
fn states_and_other_lists_have_a_row_for_each_element() {
    let path = file(
        "states.toml",
        r#"
        title = "States"
        [[table]]
        trace = "sample"
        policies = "arc"
        sizes = 500
        states = 4
        list = "runs.0.states"
        rows = "references"
        values = ["state.T1", "state.p"]
        scale = 1
        "#,
    );
    let table = &json(&path)[0]["tables"][0];
    assert_eq!(table["columns"], serde_json::json!(["T1", "p"]));
    let rows: Vec<_> = table["rows"].as_array().unwrap().iter().map(|row| row["row"].as_str().unwrap()).collect();
    assert_eq!(rows, ["41567", "83134", "124701", "166266"]);
    assert!(table["rows"][3]["ours"][0][0].as_f64().unwrap() > 0.0, "{table}");
}

#[test]
fn a_wrong_experiment_is_refused_with_what_is_right() {
    assert!(
        failure(2, "line.toml", "title = \"x\"\n[[table]]\ntrace = 5\n").contains("line.toml, line 3: invalid type")
    );
    assert!(failure(2, "empty.toml", "title = \"x\"").contains("has no [[table]]"));
    let table =
        |rest: &str| format!("title = \"x\"\n[[table]]\ntrace = \"sample\"\nsizes = 9\npolicies = \"lru\"\n{rest}");
    assert!(failure(2, "command.toml", &table("command = \"convert\"")).contains("there is no command `convert`"));
    assert!(failure(1, "key.toml", &table("polices = \"lru\"")).contains("failed (exit status: 2)"));
    assert!(failure(2, "format.toml", &table("format = \"csv\"")).contains("is given to `forebay experiment`"));
    assert!(failure(1, "list.toml", &table("list = \"run\"")).contains("no list `run`; there are"));
    assert!(failure(1, "value.toml", &table("values = \"hits\"")).contains("no `hits` in `runs`; there are"));
    assert!(
        failure(1, "row.toml", &table("[table.theirs]\narc = [1]")).contains("there is no such row; there are lru")
    );
    assert!(failure(1, "column.toml", &table("[table.theirs]\nlru = [1, 2]")).contains("2 figures for 1 columns"));
    assert!(failure(2, "text.toml", &table("[table.theirs]\nlru = [\"?\"]")).contains("write \"-\""));
    assert!(failure(2, "nested.toml", &table("[table.other]\nx = 1")).contains("`other` is neither text, number"));
    assert!(failure(2, "digits.toml", &table("decimals = 400")).contains("400 is too many: 15 are the most"));
    assert!(failure(2, "scale.toml", &table("scale = nan")).contains("scale = NaN is no number"));
    let elsewhere = table("").replace("\"sample\"", "\"no/trace.csv\"");
    assert!(failure(1, "where.toml", &elsewhere).contains("name the folder of the traces with --traces"));
}

#[test]
fn an_experiment_that_fails_does_not_keep_the_next_from_running() {
    let table =
        |trace: &str| format!("title = \"{trace}\"\n[[table]]\ntrace = \"{trace}\"\nsizes = 9\npolicies = \"lru\"\n");
    let (bad, good) = (file("fails.toml", &table("no/trace.csv")), file("runs.toml", &table("loop:pages=9")));
    let output = forebay(&["experiment", bad.to_str().unwrap(), good.to_str().unwrap(), "--traces", "."]);
    let (shown, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(shown.contains("--policies lru --sizes 9\n"), "{shown}");
    assert!(said.contains("the experiment's source says") && said.contains("1 of 2 experiments failed"), "{said}");
}

#[test]
fn every_experiment_of_the_papers_is_well_formed() {
    let papers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../papers");
    let files = glob::glob(papers.join("*/*.toml").to_str().unwrap()).unwrap().map(Result::unwrap);
    let experiments: Vec<String> = files.map(|file| file.display().to_string()).collect();
    assert!(experiments.len() >= 20, "{experiments:?}");
    let mut arguments = vec!["experiment", "--dry-run"];
    arguments.extend(experiments.iter().map(String::as_str));
    assert!(answer(&arguments).lines().count() >= experiments.len());
}
