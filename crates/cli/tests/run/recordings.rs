//! What a recording has, and what a comparison of it says.

use crate::{build, can_page, done, figures_in, number, run, text};
use std::process::{Command, Output};

#[test]
fn a_recording_has_what_the_policy_saw() {
    if !can_page() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = build(folder.path());
    let out = folder.path().join("fill.parquet").display().to_string();
    let (_, said) = done(&["-m", "1MiB", "--record", &out], &[&program, "fill", "8"]);
    assert!(said.contains("now: forebay compare"), "{said}");
    let compared = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["compare", &out, "--policies", "lru,opt", "--sizes", "1MiB"])
        .output()
        .expect("it runs");
    assert!(compared.status.success(), "{}", text(&compared.stderr));
    // 8 MiB are 2,048 pages.
    assert!(text(&compared.stdout).contains("to 2,0"), "{}", text(&compared.stdout));
}

#[test]
fn a_recording_is_whole_where_a_signal_ends_the_program() {
    if !can_page() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = build(folder.path());
    let out = folder.path().join("end.parquet").display().to_string();
    let Output { status, stderr, .. } =
        run(&["-m", "1MiB", "--record", &out], &[&program, "end", "2"]).output().expect("it runs");
    let said = text(&stderr);
    assert_eq!(status.code(), Some(128 + 15), "{said}");
    // 512 pages, each of which is used three times.
    let references = number(&said, "references);");
    assert!((1024..4096).contains(&references), "{said}");
}

#[test]
fn the_hit_ratio_is_that_of_a_comparison_of_the_recording() {
    if !can_page() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let lines: Vec<String> =
        (0..60_000_u64).map(|line| format!("{:020}\n", line.wrapping_mul(0x9E37_79B9_7F4A_7C15))).collect();
    std::fs::write(file("lines"), lines.concat()).expect("there is room");
    let policies = ["clock-pro", "clock", "lru"];
    let mut misses = [const { Vec::new() }; 3];
    for policy in policies {
        let [trace, figures, lines] = [file(&format!("{policy}.parquet")), file("figures.json"), file("lines")];
        let options = ["-m", "2MiB", "-p", policy, "--readahead", "0", "--record", &trace, "--figures", &figures];
        let (_, said) = done(&options, &["sort", "-S", "50M", "--parallel=1", "-o", "/dev/null", &lines]);
        let figures = figures_in(&figures);
        let ratio = |name: &str| figures[0][name].as_f64().expect("there are references");
        let size = format!("{}B", figures[0]["policy_capacity"]);
        assert!(said.contains(&format!("now: forebay compare {trace} --sizes {size}")), "{said}");
        let compared = Command::new(env!("CARGO_BIN_EXE_forebay"))
            .args(["compare", &trace, "-p", &policies.join(","), "--sizes", &size, "--page-size", "4096", "-f", "json"])
            .output()
            .expect("it runs");
        assert!(compared.status.success(), "{}", text(&compared.stderr));
        let answer: serde_json::Value = serde_json::from_slice(&compared.stdout).expect("JSON");
        let recorded = &answer[0]["recorded"];
        assert_eq!((&recorded["front_end"], &recorded["policy"]), (&"run".into(), &policy.into()));
        assert_eq!(
            (&recorded["policy_bytes"], &recorded["cache"]),
            (&figures[0]["policy_capacity"], &(2 << 20).into())
        );
        for (place, of) in policies.into_iter().enumerate() {
            let total = &answer[0]["runs"][place]["total"];
            let [hits, references] = ["hits", "references"].map(|name| total[name].as_f64().expect("a count"));
            misses[place].push(references - hits);
            let difference = 100.0 * (ratio("hit_ratio") - hits / references);
            assert!(of != policy || difference.abs() < 3.0, "{policy}: {difference:+.1} points off: {said}\n{answer}");
        }
        assert!(ratio("readahead_ratio") < 0.001, "nothing is read ahead: {said}");
        let own = &answer[0]["runs"][policies.iter().position(|other| *other == policy).expect("it is one")];
        let replayed = number(&said, "pages of");
        assert_eq!(Some(replayed), own["total"]["misses"].as_u64(), "{said}");
    }
    // Each policy misses as often, whichever policy ran when the trace was recorded.
    for (policy, misses) in policies.iter().zip(&misses) {
        let [least, most] = [f64::min, f64::max].map(|of| misses.iter().copied().reduce(of).expect("there are three"));
        println!("{policy}: {misses:?}");
        assert!(most < 1.1 * least, "{policy} by recordings of {policies:?}: {misses:?}");
    }
}

#[test]
fn a_loop_over_more_than_fits_does_not_pass_for_hits_as_it_is_read_ahead() {
    if !can_page() {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = build(folder.path());
    let figures = folder.path().join("figures.json").display().to_string();
    let (_, said) = done(&["-m", "4MiB", "-p", "lru", "--figures", &figures], &[&program, "fill", "16"]);
    let figures = figures_in(&figures);
    let ratio = |name: &str| figures[0][name].as_f64().expect("there are references");
    // LRU keeps nothing of a loop, so all that is found there has been read ahead.
    assert!(ratio("hit_ratio") < 0.1 && ratio("readahead_ratio") > 0.4, "{said}");
    assert!(said.contains(", hit ratio ") && said.contains(", read ahead "), "{said}");
}
