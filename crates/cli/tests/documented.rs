//! Every command that the pages show: its options are those that there are, and it runs where it needs nothing but the program.

mod command;

use command::{answer, failure, forebay};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Words of a shell that end a command.
const ENDS: [&str; 7] = ["&&", "||", "|", "&", ";", ">", "2>"];

/// What takes the place of traces that pages name.
const STAND_IN: &str = "zipf:pages=2k,references=20k";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The pages: those at the root and in docs/, bench/ and papers/.
fn pages() -> Vec<PathBuf> {
    let patterns = ["*.md", "docs/*.md", "bench/*.md", "papers/**/*.md"].map(|pattern| root().join(pattern));
    let found = patterns.iter().flat_map(|pattern| glob::glob(pattern.to_str().expect("text")).expect("a pattern"));
    found.map(|page| page.expect("it can be read")).collect()
}

/// The commands of all pages: the page, the words after `forebay`, and whether they are a line of their own. Those within a sentence may
/// be unfinished.
fn shown() -> Vec<(PathBuf, Vec<String>, bool)> {
    let mut found = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a page is text");
        // A line that ends with a backslash goes on.
        for line in text.replace("\\\n", " ").lines() {
            let (commands, whole): (Vec<_>, _) = match line.strip_prefix("    ") {
                Some(line) => (parts(line), true),
                None => {
                    let quoted = line.split('`').skip(1).step_by(2);
                    (quoted.filter(|text| text.starts_with("forebay ")).flat_map(parts).collect(), false)
                }
            };
            found.extend(commands.into_iter().map(|words| (page.clone(), words, whole)));
        }
    }
    found.retain(|(_, words, _)| !words.iter().any(|word| word.contains('…')));
    found
}

/// The runs of `forebay` within a line of a shell.
fn parts(line: &str) -> Vec<Vec<String>> {
    let words = shlex::split(line.trim_start_matches("$ ")).unwrap_or_default();
    let lines = words.split(|word| ENDS.contains(&word.as_str()));
    // Behind `sudo`, or a program that hands on a socket.
    let runs = lines.filter_map(|words| {
        let at = words.iter().position(|word| word == "forebay")?;
        let shown = at == 0 || words[0] == "sudo" || words[0] == "systemd-socket-activate";
        shown.then(|| words[at + 1..].to_vec())
    });
    runs.collect()
}

fn refused(page: &Path, words: &[String], output: &Output) -> String {
    format!("{}: forebay {}: {}", page.display(), words.join(" "), String::from_utf8_lossy(&output.stderr))
}

/// Whether a command that is part of a sentence, or has a place to be filled in, is right as far as it goes.
fn right_so_far(said: &str, whole: bool) -> bool {
    let value = said.split_once("invalid value '").and_then(|(_, rest)| rest.split_once('\''));
    let filled_in =
        value.is_some_and(|(value, _)| value.split(|c: char| !c.is_ascii_uppercase()).any(|word| word.len() >= 4));
    filled_in || said.contains("No such file or directory") || !whole && said.contains("a value is required for")
}

#[test]
fn every_command_that_a_page_shows_is_one_that_the_program_understands() {
    let (mut seen, mut wrong) = (0, Vec::new());
    failure(&["compare", "--policy", "lru", "--help"], 2);
    for (page, words, whole) in shown() {
        // Asked for help, it reads all options before, and does nothing. What follows `--` is another program's.
        let own = words.iter().position(|word| word == "--").unwrap_or(words.len());
        let asked: Vec<&str> = words[..own].iter().map(String::as_str).chain(["--help"]).collect();
        let output = forebay(&asked);
        if !output.status.success() && !right_so_far(&String::from_utf8_lossy(&output.stderr), whole) {
            wrong.push(refused(&page, &words, &output));
        }
        seen += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen > 100, "{seen} commands are found");
}

#[test]
fn commands_that_need_no_more_than_traces_run() {
    let root = root().canonicalize().expect("it is there");
    let folder = tempfile::tempdir().expect("a folder");
    let stand_in = folder.path().join("stand-in.parquet");
    answer(&["convert", STAND_IN, stand_in.to_str().expect("text")]);
    let (mut ran, mut wrong) = (0, Vec::new());
    for (index, (page, words, _)) in
        shown().into_iter().enumerate().filter(|(_, (_, words, whole))| *whole && runs(words))
    {
        let own = folder.path().join(index.to_string());
        std::fs::create_dir(&own).expect("a folder");
        std::os::unix::fs::symlink(root.join("papers"), own.join("papers")).expect("a link");
        for input in inputs(&words) {
            let path = own.join(input);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
            std::fs::copy(&stand_in, path).expect("there is room");
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
        let output =
            command.args(words.iter().map(|word| shortened(word))).current_dir(&own).output().expect("forebay runs");
        if !output.status.success() {
            wrong.push(refused(&page, &words, &output));
        }
        ran += 1;
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(ran > 40, "{ran} commands are run");
}

/// The TOML files of a page, each with the line where it begins: blocks that say so, and indented ones of keys and tables.
fn toml_files(page: &str) -> Vec<(usize, String)> {
    let (mut blocks, mut fence) = (Vec::<(usize, String)>::new(), None);
    let mut indented = false;
    for (number, line) in page.lines().enumerate() {
        if let Some(word) = line.strip_prefix("```") {
            fence = if fence.is_some() { None } else { Some(word == "toml") };
            if fence == Some(true) {
                blocks.push((number + 1, String::new()));
            }
            indented = false;
            continue;
        }
        let own = match (fence, line.strip_prefix("    ")) {
            (Some(true), _) => Some(line),
            (None, Some(own)) => Some(own),
            // Blocks that are indented may have empty lines.
            (None, None) if indented && line.is_empty() => Some(""),
            _ => None,
        };
        let Some(own) = own else {
            indented = false;
            continue;
        };
        if fence.is_none() && !indented {
            blocks.push((number + 1, String::new()));
            indented = true;
        }
        let (_, text) = blocks.last_mut().expect("a block has begun");
        *text += &format!("{own}\n");
    }
    let is_file = |text: &str| {
        let first = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#')).unwrap_or_default();
        let key = first
            .split_once(" = ")
            .is_some_and(|(key, _)| key.chars().all(|c| c.is_alphanumeric() || "-_".contains(c)));
        // Python assigns, too.
        !text.contains("= forebay.") && key || first.starts_with("[[") || first.starts_with('[') && first.ends_with(']')
    };
    blocks.retain(|(_, text)| is_file(text));
    blocks
}

#[test]
fn every_toml_file_that_a_page_shows_is_one() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a page is text");
        for (line, file) in toml_files(&text) {
            if let Err(error) = file.parse::<toml::Table>() {
                wrong.push(format!("{}, from line {line} on: {error}", page.display()));
            }
            seen += 1;
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen >= 5, "{seen} files are found");
}

#[test]
fn the_experiment_that_its_page_shows_can_be_run() {
    let page = std::fs::read_to_string(root().join("docs/experiments.md")).expect("a page is text");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("shown.toml");
    let (_, file) = toml_files(&page).into_iter().next().expect("it shows one");
    std::fs::write(&path, file).expect("there is room");
    let commands = answer(&["experiment", "--dry-run", path.to_str().expect("text")]);
    assert_eq!(commands.lines().count(), 6, "two tables, three seeds: {commands}");
}

/// The cells of a table's row.
fn cells(row: &str) -> Vec<&str> {
    row.trim_matches('|').split('|').map(str::trim).collect()
}

#[test]
fn pages_show_of_the_sample_what_the_program_answers() {
    let page = |name: &str| std::fs::read_to_string(root().join("docs").join(name)).expect("a page is text");
    let (managers, readahead) = (page("managers.md"), page("readahead.md"));
    let shown = managers.split_once("$ cat managers.toml\n").and_then(|(_, rest)| Some(rest.split_once("```")?.0));
    assert_eq!(shown, Some(answer(&["managers", "sample"]).as_str()));

    let mut rows = readahead.lines().filter(|line| line.starts_with('|') && cells(line).len() == 8);
    for rule in ["none", "fixed", "linux", "regular"] {
        let policies = ["--policies", "lru,dulo:correlation=75%", "--sizes", "10%", "--device", "nearline"];
        let csv = answer(&[&["compare", "sample"][..], &policies, &["--readahead", rule, "--format", "csv"]].concat());
        let mut csv = csv.lines().map(|row| row.split(',').collect::<Vec<_>>());
        let heads = csv.next().expect("a CSV has a head");
        for row in csv {
            let shown = rows
                .by_ref()
                .map(cells)
                .find(|cells| cells[1] == row[heads.iter().position(|&head| head == "policy").expect("there is one")]);
            let shown: Vec<String> =
                shown.expect("a row of the page")[2..].iter().map(|cell| cell.replace(',', "")).collect();
            let figure = |name: &str| -> f64 {
                let place = heads.iter().position(|&head| head == name).expect("there is one of that name");
                row[place].parse().unwrap_or(f64::NAN)
            };
            let known = [
                format!("{:.1}", 100.0 * figure("hit_ratio")),
                format!("{:.1}", figure("device_ms") / 1000.0),
                format!("{:.2}", figure("wait_mean_ms")),
            ];
            assert_eq!(shown[..3], known, "{rule}");
        }
    }
}

#[test]
fn bold_is_the_best_of_a_row_in_the_papers_tables_of_policies() {
    let (mut seen, mut wrong) = (0, Vec::new());
    for page in pages().into_iter().filter(|page| page.components().any(|part| part.as_os_str() == "papers")) {
        let text = std::fs::read_to_string(&page).expect("a page is text");
        let mut policies: Vec<usize> = Vec::new();
        for line in text.lines() {
            if !line.starts_with('|') {
                policies.clear();
            } else if policies.is_empty() && cells(line).contains(&"OPT") {
                // Policies' names have no small letter but in CLOCK-Pro.
                let is_policy = |name: &str| name.starts_with("CLOCK") || !name.chars().any(char::is_lowercase);
                let is_column = |(_, name): &(usize, &str)| !name.is_empty() && *name != "OPT" && is_policy(name);
                policies = cells(line).into_iter().enumerate().filter(is_column).map(|(column, _)| column).collect();
            } else if line.contains("**") && !policies.is_empty() {
                let cells = cells(line);
                let figure = |&column: &usize| cells[column].trim_matches('*').parse::<f64>().expect("a figure");
                let best = policies.iter().map(figure).fold(0.0, f64::max);
                let right = policies.iter().all(|column| cells[*column].starts_with("**") == (figure(column) == best));
                wrong.extend((!right).then(|| format!("{}: {line}", page.display())));
                seen += 1;
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(seen >= 70, "{seen} rows are found");
}

#[test]
fn every_link_between_pages_leads_to_a_file() {
    let mut wrong = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(&page).expect("a page is text");
        let links = text.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
        let files = links.filter(|link| !link.starts_with("http")).map(|link| link.split('#').next().unwrap_or(link));
        let missing = files.filter(|file| !file.is_empty() && !page.with_file_name("").join(file).exists());
        wrong.extend(missing.map(|file| format!("{}: {file}", page.display())));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether a command reads traces alone, starts no other program, and is one to be run as it is.
fn runs(words: &[String]) -> bool {
    let reads = [
        "compare",
        "curve",
        "levels",
        "analyze",
        "info",
        "convert",
        "mix",
        "managers",
        "policies",
        "explain",
        "formats",
        "devices",
        "manual",
        "completions",
    ];
    let to_fill_in = words.iter().any(|word| {
        ["RULE", "MODE", "FIRST", ":SIZE", "FILE.toml", "mine.toml"].iter().any(|place| word.contains(place))
    });
    words.first().is_none_or(|command| reads.contains(&command.as_str()))
        && !to_fill_in
        && !words.iter().any(|word| word == "--" || word == "--dask")
}

/// The words that name traces to read.
fn inputs(words: &[String]) -> Vec<&str> {
    let options = ["-o", "--report", "--plot"];
    let names = [".strace", ".parquet", ".zst", ".gz", ".csv", ".blkparse", ".spc"];
    let written = |index: usize| {
        options.contains(&words[index - 1].as_str()) || words[0] == "convert" && index + 1 == words.len()
    };
    let read = (1..words.len()).filter(|&index| !written(index));
    let read = read.map(|index| words[index].as_str());
    read.filter(|word| matches!(*word, "TRACE" | "FILE") || names.iter().any(|name| word.ends_with(name))).collect()
}

/// A word whose synthetic trace is shortened.
fn shortened(word: &str) -> String {
    let short = |part: &str| {
        part.split_once("references=").map_or(part.to_owned(), |(before, _)| format!("{before}references=100k"))
    };
    word.split(',').map(short).collect::<Vec<_>>().join(",")
}
