//! `forebay curve` as a user runs it.

mod command;

use command::{answer, failure, forebay};

/// The message of a command line that is wrong.
#[track_caller]
fn usage(arguments: &[&str]) -> String {
    failure(arguments, 2)
}

fn json(arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&answer(&[arguments, &["-f", "json"]].concat())).expect("the answer is JSON")
}

#[test]
fn exact_curves_give_the_hits_that_compare_gives() {
    let sizes = "20,89,500,1000,1787,3000,4000,5000,6000,7000,7500,8000,8100,8200,8300,8400,9000";
    let curve = answer(&["curve", "-p", "lru,opt,arc", "--sizes", sizes, "-f", "csv"]);
    let mut rows = csv::Reader::from_reader(curve.as_bytes());
    assert_eq!(
        rows.headers().unwrap().iter().collect::<Vec<_>>(),
        [
            "trace",
            "policy",
            "size_bytes",
            "pages",
            "page_size",
            "references",
            "hits",
            "misses",
            "hit_ratio",
            "miss_ratio"
        ]
    );
    let rows: Vec<_> = rows.records().map(|row| row.unwrap()).collect();
    // Distances make `compare` replay each size.
    let compared = answer(&["compare", "-p", "lru,opt,arc", "-s", sizes, "--by-distance", "-f", "csv"]);
    let compared: Vec<_> =
        csv::Reader::from_reader(compared.as_bytes()).into_records().map(|row| row.unwrap()).collect();
    assert_eq!(rows.len(), 3 * 17);
    assert_eq!(rows.len(), compared.len());
    for (row, compared) in rows.iter().zip(&compared) {
        assert!((0..8).all(|column| row[column] == compared[column]), "{row:?} {compared:?}");
    }
}

#[test]
fn a_sampled_curve_tells_its_error_and_is_near_the_exact_one() {
    let trace = "zipf:pages=50000,references=1M,alpha=0.8";
    let curves = json(&[
        "curve",
        trace,
        "-p",
        "lru,clock",
        "--sample",
        "20%",
        "--errors",
        "--points",
        "10",
        "--spacing",
        "even",
    ]);
    assert_eq!((&curves[0]["estimate"], &curves[0]["sample"]["rate"]), (&true.into(), &0.2.into()));
    for curve in curves[0]["curves"].as_array().unwrap() {
        let error = curve["mean_absolute_error"].as_f64().unwrap();
        assert!(error > 0.0 && error < 0.02, "{curve}");
        assert_eq!(curve["points"].as_array().unwrap().len(), 10);
    }
    assert!(curves[0]["curves"][0]["spread"].as_f64().unwrap() > 0.0);
    let table = answer(&["curve", trace, "--sample", "20%", "-p", "lru", "--points", "5"]);
    assert!(table.contains("estimated from") && table.contains("standard error"), "{table}");
}

#[test]
fn a_sample_of_a_fixed_size_is_as_large_as_asked() {
    let trace = "zipf:pages=50000,references=1M,alpha=0.8";
    let curves = json(&[
        "curve",
        trace,
        "-p",
        "lru",
        "--sample-pages",
        "8000",
        "--errors",
        "--points",
        "10",
        "--spacing",
        "even",
    ]);
    assert_eq!(curves[0]["sample"]["pages"], 8000);
    assert!(curves[0]["curves"][0]["mean_absolute_error"].as_f64().unwrap() < 0.02, "{curves}");
}

#[test]
fn a_sample_of_few_pages_comes_with_a_warning_and_its_advice_is_an_estimate() {
    for (arguments, option) in [
        (&["curve", "-p", "lru", "--sample", "1%"][..], "--sample"),
        (&["curve", "-p", "lru", "--sample-pages", "90"], "--sample-pages"),
        (&["compare", "-p", "lru", "-s", "20%", "--sample", "1%"], "--sample"),
    ] {
        let output = forebay(arguments);
        let (said, warned) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        let take = format!(" pages only, and estimates may be far off: take a larger {option}\n");
        assert!(warned.starts_with("forebay: sample: the sample has ") && warned.ends_with(&take), "{warned}");
        assert!(said.contains(" % of the references by estimate"), "{said}");
    }
    for enough in [&["curve", "-p", "lru", "--sample", "50%"][..], &["curve", "-p", "lru", "--sample-pages", "9000"]] {
        assert!(forebay(enough).stderr.is_empty(), "{enough:?}");
    }
}

#[test]
fn a_comparison_of_a_sample_is_near_that_of_the_whole_trace() {
    let trace = "zipf:pages=50000,references=1M,alpha=0.8";
    let asked = ["compare", trace, "-p", "lru,arc,opt", "-s", "2500,5000,10000,20000"];
    let whole = &json(&asked)[0];
    let estimate = &json(&[&asked[..], &["--sample", "20%"]].concat())[0];
    assert_eq!((&estimate["estimate"], &estimate["sample"]["rate"]), (&true.into(), &0.2.into()));
    assert_eq!((&whole["estimate"], &whole["sample"]), (&false.into(), &serde_json::Value::Null));
    assert_eq!(estimate["references"], whole["references"]);
    let pages = |answer: &serde_json::Value| answer["footprint_pages"].as_f64().unwrap();
    assert!((pages(estimate) / pages(whole) - 1.0).abs() < 0.03);
    let runs = |answer: &serde_json::Value| answer["runs"].as_array().unwrap().clone();
    assert_eq!(runs(estimate).len(), 12);
    let mut errors = 0.0;
    for (estimate, whole) in runs(estimate).iter().zip(runs(whole)) {
        assert_eq!((&estimate["policy"], &estimate["pages"]), (&whole["policy"], &whole["pages"]));
        let [estimated, exact] = [estimate, &whole].map(|run| run["counted"]["hit_ratio"].as_f64().unwrap());
        errors += (estimated - exact).abs();
    }
    assert!(errors / 12.0 < 0.02, "{estimate} {whole}");
    let table = answer(&[&asked[..], &["--sample", "20%"]].concat());
    assert!(table.contains("to about ") && table.contains("estimated from"), "{table}");
}

#[test]
fn what_cannot_be_answered_is_refused_with_a_reason() {
    assert!(usage(&["curve", "--sample", "0.0001%"]).contains("takes no page of sample: take a higher one"));
    assert!(
        usage(&["curve", "--sample", "10%", "--sizes", "2"]).contains("not one page is left of a cache of 2 pages")
    );
    assert!(usage(&["compare", "--sample", "10%", "-s", "2"]).contains("not one page is left of a cache of 2 pages"));
    assert!(usage(&["compare", "--sample", "10%", "--warmup", "5"]).contains("leave out --warmup or --sample"));
    assert!(usage(&["compare", "--sample", "10%", "--device", "nvme"]).contains("cannot be used with"));
    assert!(usage(&["curve", "--errors"]).contains("add --sample RATE"));
    assert!(usage(&["curve", "-", "--errors", "--sample", "1%"]).contains("reads the trace twice"));
    assert!(usage(&["curve", "--sample-pages", "10"]).contains("say --policies lru"));
    assert!(usage(&["curve", "--sample", "150%"]).contains("no sampling rate"));
    assert!(usage(&["curve", "--sample", "1%", "--sample-pages", "10"]).contains("cannot be used with"));
    assert!(usage(&["curve", "--points", "0"]).contains("--points"));
    assert!(usage(&["curve", "--sizes", "10", "--points", "5"]).contains("cannot be used with"));
}

#[test]
fn all_policies_have_curves_each_once() {
    let curves = json(&["curve", "zipf:pages=50,references=500", "-p", "lru,all", "--points", "2"]);
    let curves = curves[0]["curves"].as_array().unwrap();
    assert!(curves.len() >= 28 && curves[0]["policy"] == "lru", "{curves:?}");
    assert_eq!(curves.iter().filter(|curve| curve["policy"] == "lru").count(), 1);
}

#[test]
fn a_cliff_between_the_points_is_found() {
    // A loop: LRU hits nothing until all of it is held, and a second one that needs twice as much.
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("cliffs.lirs");
    let blocks = (0..20_000u64).map(|time| if time < 10_000 { time % 700 } else { 10_000 + time % 2_900 });
    std::fs::write(&path, blocks.map(|block| format!("{block}\n")).collect::<String>()).unwrap();
    let curves = json(&["curve", path.to_str().unwrap(), "-p", "lru"]);
    let points = curves[0]["curves"][0]["points"].as_array().unwrap();
    let of = |point: &serde_json::Value| (point["pages"].as_f64().unwrap(), point["miss_ratio"].as_f64().unwrap());
    for pair in points.windows(2) {
        let ((small, more), (large, less)) = (of(&pair[0]), of(&pair[1]));
        assert!(more - less <= 0.03 || large - small <= (0.01 * small).max(1.0), "{pair:?}");
    }
    assert!(curves[0]["advice"].as_str().unwrap().starts_with("Take 5.5 MiB (70"), "{}", curves[0]["advice"]);
    assert_eq!(
        json(&["curve", path.to_str().unwrap(), "-p", "lru", "--points", "9"])[0]["curves"][0]["points"]
            .as_array()
            .unwrap()
            .len(),
        9
    );
}
