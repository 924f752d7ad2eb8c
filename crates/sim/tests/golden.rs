//! Policies against outside figures, on the real traces that these were taken from. `golden/README.md` names their sources.

#[path = "../../trace/tests/real_trace/mod.rs"]
mod real_trace;

use forebay_policy::Spec;
use forebay_sim::{Keep, Outcome, Sweep, Trace};
use real_trace::real_trace;
use std::collections::BTreeMap;

const EXACT_HITS: &str = include_str!("golden/exact-hits.csv");
const PAPER_TABLES: &str = include_str!("golden/paper-tables.csv");

fn load(file: &str) -> Option<Trace> {
    let path = real_trace(file)?;
    let (_, mut reader) = forebay_trace::open(&path, &forebay_trace::Options::default()).expect("the trace opens");
    Some(Trace::load(file, reader.as_mut(), None, Keep::default(), &mut |_| {}).expect("the trace is well-formed"))
}

fn run(trace: &Trace, policies: &[&str], sizes: &[u32]) -> Vec<Outcome> {
    let specs = policies.iter().map(|policy| Spec::parse(policy).expect("a policy")).collect();
    Sweep { specs, sizes: sizes.to_vec(), warmup: 0, threads: 0 }.run(trace, &|_| true)
}

/// The rows of a table whose cell in `column` is `value`.
fn rows(table: &'static str, column: &str, value: &str) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_reader(table.as_bytes());
    let all = reader.deserialize().map(|row| row.expect("the table is well-formed"));
    all.filter(|row: &BTreeMap<String, String>| row[column] == value).collect()
}

fn check_exact_hits(name: &str) {
    let Some(trace) = load(&format!("lirs/{name}.trace.gz")) else { return };
    let rows = rows(EXACT_HITS, "trace", name);
    assert!(rows.len() >= 5, "{name} has figures at several sizes");
    for row in rows {
        assert_eq!(row["references"], trace.len().to_string());
        assert_eq!(row["distinct"], trace.pages.to_string());
        let size = row["blocks"].parse().unwrap();
        for outcome in run(&trace, &["lru", "fifo", "clock", "mru", "opt", "lirs", "gclock:initial=0:max=1"], &[size]) {
            let column =
                if outcome.policy.starts_with("gclock") { "CLOCK".to_owned() } else { outcome.policy.to_uppercase() };
            assert_eq!(outcome.counted.hits.to_string(), row[&column], "{} on {name} at {size}", outcome.policy);
        }
    }
}

macro_rules! exact_hits {
    ($($test:ident: $trace:literal),+ $(,)?) => { $(
        #[test]
        fn $test() {
            check_exact_hits($trace);
        }
    )+ };
}

exact_hits! {
    hits_on_cpp_are_exact: "cpp",
    hits_on_cs_are_exact: "cs",
    hits_on_sprite_are_exact: "sprite",
    hits_on_multi1_are_exact: "multi1",
    hits_on_multi2_are_exact: "multi2",
    hits_on_two_pools_are_exact: "2_pools",
    hits_on_loop_are_exact: "loop",
}

#[test]
fn lru_and_opt_give_the_oltp_table_of_the_arc_paper() {
    let Some(trace) = load("arc/OLTP.lis.zst") else { return };
    assert_eq!((trace.len(), trace.pages), (914_145, 186_880));
    let mut compared = 0;
    for row in rows(PAPER_TABLES, "paper", "arc") {
        let policy = row["policy"].to_lowercase();
        if ["lru", "opt"].contains(&policy.as_str()) {
            let outcome = &run(&trace, &[&policy], &[row["blocks"].parse().unwrap()])[0];
            let percent = format!("{:.2}", 100.0 * outcome.counted.hit_ratio());
            assert_eq!(percent, row["hit_percent"], "{policy} at {}", row["blocks"]);
            compared += 1;
        }
    }
    assert_eq!(compared, 10);
}

/// CLOCK-Pro lies in the band that its paper's tables and its authors' later program leave, from 50 blocks on.
fn check_clock_pro(name: &str) {
    let Some(trace) = load(&format!("lirs/{name}.trace.gz")) else { return };
    let mut compared = 0;
    for row in rows(PAPER_TABLES, "paper", "clock-pro") {
        let size = row["blocks"].parse().unwrap();
        if row["trace"] != name || row["policy"] != "CLOCK-Pro" || size < 50 {
            continue;
        }
        let table: f64 = row["hit_percent"].parse().unwrap();
        let outcomes = run(&trace, &["clock-pro", "clock"], &[size]);
        let [clock_pro, clock] = [&outcomes[0], &outcomes[1]].map(|outcome| 100.0 * outcome.counted.hit_ratio());
        assert!(
            (table - 2.5..=table + 4.0).contains(&clock_pro),
            "{name} at {size}: {clock_pro:.2}, the table {table}"
        );
        if name == "sprite" {
            assert!(clock_pro >= clock - 1.0, "{name} at {size}: {clock_pro:.2}, CLOCK {clock:.2}");
        }
        compared += 1;
    }
    assert!(compared >= 6);
}

#[test]
fn clock_pro_on_cpp_is_within_the_band_of_its_paper_and_program() {
    check_clock_pro("cpp");
}

#[test]
fn clock_pro_on_sprite_is_within_the_band_of_its_paper_and_program_and_near_clock() {
    check_clock_pro("sprite");
}

#[test]
fn page_counts_of_the_large_traces_are_those_of_their_papers() {
    for (file, references, pages) in
        [("arc/P6.lis.zst", 12_672_123, 773_770), ("arc/P12.lis.zst", 13_208_930, 3_153_310)]
    {
        let Some(trace) = load(file) else { return };
        assert_eq!((trace.len(), trace.pages), (references, pages), "{file}");
    }
}
