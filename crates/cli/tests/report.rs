//! `--report` and `--plot`: what is written, and what is refused before any work.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn forebay(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay")).args(arguments).output().expect("forebay runs")
}

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// What a run writes to a file, and its standard output.
#[track_caller]
fn written(file: &Path, arguments: &[&str]) -> (Vec<u8>, String) {
    let _ = std::fs::remove_file(file);
    let output = forebay(arguments);
    let message = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {message}");
    assert!(message.contains(file.to_str().unwrap()), "{message}");
    (std::fs::read(file).expect("the file is written"), String::from_utf8(output.stdout).unwrap())
}

#[track_caller]
fn message(arguments: &[&str], code: i32) -> String {
    let output = forebay(arguments);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {message}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    message
}

const ZIPF: &str = "zipf:pages=500,references=5000";

/// The data that stands in a report.
fn data(page: &[u8]) -> serde_json::Value {
    let page = std::str::from_utf8(page).unwrap();
    let (_, rest) = page.split_once(r#"id="report">"#).expect("there is data");
    serde_json::from_str(rest.split_once("</script>").unwrap().0).expect("it is JSON")
}

fn chart<'a>(data: &'a serde_json::Value, id: &str) -> &'a serde_json::Value {
    let charts = data["sections"][0]["charts"].as_array().unwrap();
    charts.iter().find(|chart| chart["id"] == id).unwrap_or_else(|| panic!("there is no chart {id}"))
}

#[test]
fn a_report_holds_what_the_table_says_and_the_table_stays_as_it_is() {
    let file = path("compare.html");
    let asked = ["compare", ZIPF, "--policies", "lru,clock-pro,opt", "--sizes", "50,100,200", "--device", "nvme"];
    let (page, table) = written(&file, &[&asked[..], &["--report", file.to_str().unwrap()]].concat());
    assert_eq!(table, String::from_utf8(forebay(&asked).stdout).unwrap());
    let data = data(&page);
    let section = &data["sections"][0];
    assert!(table.contains(section["advice"].as_str().unwrap()), "{table}");
    let hit_ratio = &chart(&data, "hit-ratio")["views"][0];
    assert_eq!(hit_ratio["x"], serde_json::json!([50, 100, 200]));
    let lru = &hit_ratio["series"][0];
    assert_eq!(lru["name"], "lru");
    let figure = format!("{:.1}", 100.0 * lru["y"][1].as_f64().unwrap());
    let row = table.lines().find(|line| line.trim_start().starts_with("lru")).unwrap();
    assert_eq!(row.split_whitespace().nth(2).unwrap().trim_end_matches('*'), figure, "{row}");
    let time = chart(&data, "device-time")["views"][0]["series"][2]["y"][0].as_f64().unwrap();
    assert!(time > 0.0);
    assert_eq!(section["tables"][0]["rows"].as_array().unwrap().len(), 9);
    assert_eq!(data["keys"][2], serde_json::json!({ "name": "opt", "bound": true, "shown": true }));
}

#[test]
fn a_report_takes_states_and_distances_by_itself() {
    let file = path("states.html");
    let asked = ["compare", ZIPF, "--policies", "clock-pro", "--sizes", "100", "--report", file.to_str().unwrap()];
    let states = |page: &[u8]| {
        let data = data(page);
        let views = chart(&data, "states")["views"].as_array().unwrap();
        assert_eq!((&views[0]["group"], &views[0]["label"]), (&"clock-pro".into(), &"100 pages".into()));
        views[0]["x"].as_array().unwrap().len()
    };
    let (page, _) = written(&file, &asked);
    assert_eq!(states(&page), 200);
    let data = data(&page);
    let counts = &chart(&data, "distances")["views"][0]["series"];
    let sum: f64 = counts.as_array().unwrap().iter().map(|count| count["y"][0].as_f64().unwrap()).sum();
    let first_uses = data["sections"][0]["tables"][0]["rows"][0][7].as_f64().unwrap();
    assert_eq!(sum, 5000.0 - first_uses, "first uses have no distance");
    let (page, _) = written(&file, &[&asked[..], &["--states", "10"]].concat());
    assert_eq!(states(&page), 10);
}

#[test]
fn states_may_be_left_out_and_the_trace_is_streamed_then() {
    let file = path("streamed.html");
    let asked = ["compare", ZIPF, "--policies", "lru", "--sizes", "100", "--states", "0", "--verbose"];
    let output = forebay(&[&asked[..], &["--report", file.to_str().unwrap()]].concat());
    assert!(String::from_utf8(output.stderr).unwrap().contains("runs at once"));
    let data = data(&std::fs::read(file).unwrap());
    assert!(data["sections"][0]["charts"].as_array().unwrap().iter().all(|chart| chart["id"] != "states"));
}

#[test]
fn a_report_replaces_a_report_or_an_empty_file_and_no_other() {
    let file = path("mine.html");
    let asked = ["compare", ZIPF, "--policies", "lru", "--sizes", "10", "--report", file.to_str().unwrap()];
    std::fs::write(&file, "<!doctype html>\n<p>My thesis").unwrap();
    let refused = message(&asked, 2);
    assert!(refused.contains("mine.html: is there, and was not made by forebay: remove it first"), "{refused}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "<!doctype html>\n<p>My thesis");
    std::fs::write(&file, "").unwrap();
    for _ in 0..2 {
        assert!(forebay(&asked).status.success());
        assert!(std::fs::read_to_string(&file).unwrap().contains("id=\"report\""));
    }
}

#[test]
fn misses_by_program_and_by_file_are_a_table_of_the_report() {
    let file = path("by.html");
    for (what, first) in [("owner", "sqlite3 ("), ("file", "")] {
        let asked = ["compare", "sample", "-p", "lru,arc", "-s", "5%,20%", "--by", what, "--states", "0"];
        let (page, table) = written(&file, &[&asked[..], &["--report", file.to_str().unwrap()]].concat());
        let data = data(&page);
        let by = &data["sections"][0]["tables"][0];
        assert_eq!(by["title"], format!("Misses by {what}, 14.0 MiB (1,787 pages)"));
        let heads: Vec<&str> =
            by["columns"].as_array().unwrap().iter().map(|column| column["title"].as_str().unwrap()).collect();
        assert_eq!(heads, [what, "references", "lru", "arc"]);
        let row = by["rows"][0].as_array().unwrap();
        let name = row[0].as_str().unwrap();
        assert!(name.starts_with(first), "{name}");
        // As in the table on standard output.
        let grouped = |cell: &serde_json::Value| forebay_sim::study::grouped(cell.as_u64().unwrap());
        let line = table.lines().find(|line| line.contains(name) && line.contains(&grouped(&row[1])));
        let line = line.unwrap_or_else(|| panic!("{name}: {table}"));
        assert!(line.ends_with(&grouped(&row[3])) && line.contains(&grouped(&row[2])), "{line}");
    }
}

#[test]
fn several_traces_make_a_section_each() {
    let file = path("several.html");
    let other = "loop:pages=50,references=500";
    let (page, _) = written(
        &file,
        &["compare", ZIPF, other, "--policies", "lru,mru", "--sizes", "10", "--report", file.to_str().unwrap()],
    );
    let data = data(&page);
    assert_eq!((&data["sections"][0]["title"], &data["sections"][1]["title"]), (&ZIPF.into(), &other.into()));
}

#[test]
fn of_many_policies_lru_the_limit_and_the_best_are_shown_at_first() {
    let file = path("many.html");
    let (page, _) = written(&file, &["compare", ZIPF, "--sizes", "50,100", "--report", file.to_str().unwrap()]);
    let data = data(&page);
    let keys = data["keys"].as_array().unwrap();
    let shown: Vec<&str> =
        keys.iter().filter(|key| key["shown"] == true).map(|key| key["name"].as_str().unwrap()).collect();
    assert!(keys.len() > 20 && shown.len() == 7, "{shown:?}");
    assert!(shown.contains(&"lru") && shown.contains(&"opt") && !shown.contains(&"worst"), "{shown:?}");
}

/// The point that is marked in charts of hits and of time is one of a line that is shown, and the one that is advised.
#[track_caller]
fn marks_what_is_advised(data: &serde_json::Value, charts: &[&str]) {
    for section in data["sections"].as_array().unwrap() {
        let advice = section["advice"].as_str().unwrap();
        let advised = advice.strip_prefix("Take ").and_then(|rest| rest.split_once(' ')).expect(advice).0;
        let key = data["keys"].as_array().unwrap().iter().find(|key| key["name"] == advised).unwrap();
        assert_eq!(key["shown"], true, "{advice}");
        for id in charts {
            let chart = section["charts"].as_array().unwrap().iter().find(|chart| chart["id"] == *id).unwrap();
            let view = &chart["views"][0];
            assert_eq!(chart["mark"]["series"], advised, "{id}: {advice}");
            let place = view["x"].as_array().unwrap().iter().position(|x| *x == chart["mark"]["x"]).expect(advice);
            let line = view["series"].as_array().unwrap().iter().find(|line| line["name"] == advised).unwrap();
            assert!(line["y"][place].is_number(), "{id}: {line}");
        }
    }
}

#[test]
fn the_policy_that_is_advised_is_shown_and_its_point_marked_by_hits_and_by_time() {
    let file = path("advised.html");
    let program = concat!(env!("CARGO_MANIFEST_DIR"), "/../sim/tests/all/advice/program.parquet");
    let passes = path("passes.trace");
    // Three passes that fit no size asked: what holds them all is advised.
    let text: String = (0..3).flat_map(|_| 0..900).map(|block| format!("{block}\n")).collect();
    std::fs::write(&passes, text).unwrap();
    let passes = passes.to_str().unwrap();
    for device in [&[][..], &["--device", "nearline"], &["--device", "nvme"]] {
        for traces in [&[program][..], &["sample"], &["sample", program], &[passes, "--trace-format", "lirs"]] {
            let asked = [&["compare"], traces, device, &["--states", "0", "--report", file.to_str().unwrap()]].concat();
            let (page, _) = written(&file, &asked);
            let charts =
                if device.is_empty() { &["hit-ratio", "miss-ratio"][..] } else { &["hit-ratio", "device-time"] };
            marks_what_is_advised(&data(&page), charts);
        }
    }
}

#[test]
fn curves_make_a_report_and_a_figure() {
    let (html, svg, png) = (path("curve.html"), path("curve.svg"), path("curve.png"));
    let asked = ["curve", ZIPF, "--policies", "lru,opt", "--points", "10"];
    let [html_name, svg_name, png_name] = [&html, &svg, &png].map(|file| file.to_str().unwrap());
    let (page, _) = written(&html, &[&asked[..], &["--report", html_name, "--plot", svg_name]].concat());
    let data = data(&page);
    let curve = &chart(&data, "miss-ratio")["views"][0];
    assert_eq!(curve["series"][1]["name"], "opt");
    let ratios = |line: usize| curve["series"][line]["y"].as_array().unwrap().iter().map(|y| y.as_f64().unwrap());
    assert!(ratios(0).zip(ratios(1)).all(|(lru, opt)| opt <= lru + 1e-9));
    let figure = std::fs::read_to_string(&svg).unwrap();
    assert!(figure.starts_with("<svg") && figure.contains("miss ratio (%)") && figure.contains("opt"), "{figure}");
    let (figure, _) = written(&png, &[&asked[..], &["--plot", png_name]].concat());
    assert_eq!(&figure[..8], b"\x89PNG\r\n\x1a\n");
}

#[test]
fn an_analysis_is_drawn_section_by_section_with_the_figures_of_its_table() {
    let file = path("analyze.html");
    // A loop that fits neither size, and references without a pattern.
    let trace = path("analyze.trace");
    let mut text: String = (0..5u64).flat_map(|_| 0..300).map(|block| format!("{block}\n")).collect();
    text.extend((0..1000u64).map(|step| format!("{}\n", 1000 + step * step * 7 % 191)));
    std::fs::write(&trace, text).unwrap();
    let asked = ["analyze", trace.to_str().unwrap(), "--trace-format", "lirs", "--sizes", "50,100"];
    let (page, table) = written(&file, &[&asked[..], &["--report", file.to_str().unwrap()]].concat());
    assert_eq!(table, String::from_utf8(forebay(&asked).stdout).unwrap());
    let json: serde_json::Value =
        serde_json::from_slice(&forebay(&[&asked[..], &["--format", "json"]].concat()).stdout).unwrap();
    let analysis = &json[0];
    let data = data(&page);
    let series = |id: &str, view: usize, name: &str| -> Vec<f64> {
        let series = chart(&data, id)["views"][view]["series"].as_array().unwrap();
        let series = series.iter().find(|series| series["name"] == name).unwrap_or_else(|| panic!("{id}: no {name}"));
        series["y"].as_array().unwrap().iter().map(|y| y.as_f64().unwrap()).collect()
    };
    assert_eq!(series("footprint", 0, "footprint").last(), analysis["footprint_pages"].as_f64().as_ref());
    assert_eq!(
        series("space-time", 0, "looping").iter().sum::<f64>(),
        analysis["classes"]["looping"].as_f64().unwrap()
    );
    assert_eq!(series("temporal-distance", 0, "references").iter().sum::<f64>(), 2500.0);
    let shares = ["sequential", "looping", "other"].map(|class| series("classes", 0, class)[0]);
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-5 && shares[1] > 0.4, "{shares:?}");
    let looping = analysis["classes"]["looping"].as_f64().unwrap();
    assert_eq!(series("periods", 0, "looping references").iter().sum::<f64>(), looping);
    // Policies × sizes in the analysis, sizes × policies in the chart: UBM is the second, with its second size.
    let ubm = &analysis["hits_by_distance"][3];
    assert_eq!((&ubm["policy"], &ubm["pages"]), (&"ubm".into(), &100.into()));
    let hits = ubm["near_hits"].as_f64().unwrap() + ubm["far_hits"].as_f64().unwrap();
    assert!((series("hits-by-distance", 1, "ubm").last().unwrap() - hits / 2500.0).abs() < 1e-5);
    assert_eq!(series("distances", 1, "hits, farther")[1], ubm["far_hits"].as_f64().unwrap());
    assert_eq!(series("request-length", 1, "trace").last(), Some(&1.0));
    let lines: Vec<&str> = data["keys"].as_array().unwrap().iter().map(|key| key["name"].as_str().unwrap()).collect();
    assert_eq!(lines, ["lru", "ubm", "opt", "trace"]);
    let advice = data["sections"][0]["advice"].as_str().unwrap();
    assert!(
        advice.starts_with("As UBM tells them, ")
            && advice.contains("% looping")
            && advice.contains("loops longer than 100 references"),
        "{advice}"
    );
    let compared =
        forebay(&["compare", asked[1], "--trace-format", "lirs", "--sizes", "100", "--format", "json"]).stdout;
    let compared: serde_json::Value = serde_json::from_slice(&compared).unwrap();
    let runs = compared[0]["runs"].as_array().unwrap().iter().filter(|run| run["off_line"] == false);
    let most = runs.map(|run| run["counted"]["hits"].as_u64().unwrap()).max().unwrap();
    let best = compared[0]["runs"].as_array().unwrap().iter().find(|run| run["policy"] == analysis["best"]["policy"]);
    assert_eq!(best.unwrap()["counted"]["hits"], most, "{advice}");
    assert!(advice.contains(&format!("{} hits most there", analysis["best"]["policy"].as_str().unwrap())), "{advice}");
}

#[test]
fn only_what_is_asked_of_an_analysis_is_drawn() {
    let file = path("only.html");
    let (page, _) = written(&file, &["analyze", ZIPF, "--only", "frequency", "--report", file.to_str().unwrap()]);
    let data = data(&page);
    let charts = data["sections"][0]["charts"].as_array().unwrap();
    assert_eq!(charts.iter().map(|chart| chart["id"].as_str().unwrap()).collect::<Vec<_>>(), ["frequency"]);
    assert!(message(&["analyze", ZIPF, "--report", "out.txt"], 2).contains("let its name end in .html"));
}

#[test]
fn a_figure_of_one_size_is_drawn() {
    let file = path("one-size.svg");
    let (figure, _) =
        written(&file, &["compare", ZIPF, "--policies", "lru,opt", "--sizes", "50", "--plot", file.to_str().unwrap()]);
    assert!(String::from_utf8(figure).unwrap().contains("hit ratio (%)"));
}

#[test]
fn a_figure_replaces_no_file_but_a_figure() {
    for kind in ["svg", "png", "pdf"] {
        let file = path(&format!("replaced.{kind}"));
        let asked = ["compare", ZIPF, "--policies", "lru,opt", "--sizes", "5,50", "--plot", file.to_str().unwrap()];
        std::fs::write(&file, "a picture of mine").unwrap();
        let refused = message(&asked, 2);
        assert!(refused.contains("was not made by forebay: remove it first"), "{refused}");
        assert_eq!(std::fs::read(&file).unwrap(), b"a picture of mine");
        std::fs::remove_file(&file).unwrap();
        let (first, _) = written(&file, &asked);
        let (again, _) = written(&file, &asked);
        assert!(first == again, "{kind}");
    }
}

#[test]
fn files_that_cannot_be_written_are_refused_before_any_work() {
    let absent = path("absent");
    let folder = path("folder.html");
    std::fs::create_dir_all(&folder).unwrap();
    let nowhere = absent.join("out.html");
    let compare = ["compare", ZIPF, "--policies", "lru"];
    let with = |option: &'static str, file: &str, code| {
        let message = message(&[&compare[..], &[option, file]].concat(), code);
        assert!(message.contains(file), "{message}");
        message
    };
    assert!(with("--report", "out.txt", 2).contains("let its name end in .html"));
    assert!(with("--plot", "out.eps", 2).contains(".svg, .png or .pdf"));
    assert!(with("--report", folder.to_str().unwrap(), 2).contains("is a directory"));
    assert!(with("--report", nowhere.to_str().unwrap(), 1).contains("there is no folder"));
    let message = message(&["compare", ZIPF, "sample", "--plot", "out.svg"], 2);
    assert!(message.contains("one trace"), "{message}");
}

#[test]
fn a_report_does_not_replace_its_trace() {
    let trace = path("trace.html");
    std::fs::write(&trace, "0\n1\n0\n").unwrap();
    let name = trace.to_str().unwrap();
    for command in ["compare", "curve", "analyze"] {
        let asked = [command, name, "--trace-format", "lirs", "--policies", "lru", "--report", name];
        assert!(message(&asked, 2).contains("is the trace"));
    }
    assert_eq!(std::fs::read_to_string(&trace).unwrap(), "0\n1\n0\n");
}

#[test]
fn states_without_json_or_report_are_refused() {
    let message = message(&["compare", ZIPF, "--policies", "lru", "--states", "5"], 2);
    assert!(message.contains("--format json") && message.contains("--report"), "{message}");
}

#[test]
fn what_is_recommended_is_marked_and_opened_and_the_command_is_named() {
    let file = path("marked.html");
    let asked =
        ["compare", "sample", "-p", "lru,clock-pro,opt", "-s", "5%,20%,50%", "--report", file.to_str().unwrap()];
    let (page, _) = written(&file, &asked);
    let data = data(&page);
    let ratio = chart(&data, "hit-ratio");
    assert_eq!(ratio["mark"], serde_json::json!({ "series": "clock-pro", "x": 1787 }));
    assert_eq!(ratio["x"]["ticks"], serde_json::json!([447, 1787, 4468]));
    for id in ["states", "distances"] {
        let chart = chart(&data, id);
        assert_eq!(chart["views"][chart["first"].as_u64().unwrap() as usize]["label"], "1,787 pages", "{id}");
    }
    assert!(data["made"]["command"].as_str().unwrap().starts_with("forebay compare sample -p lru,clock-pro,opt"));
    assert!(data["made"]["date"].as_str().unwrap().ends_with(" UTC"));
}

#[test]
fn a_trace_is_called_by_its_name_and_not_its_path() {
    let (trace, file) = (path("called.lirs"), path("called.html"));
    std::fs::write(&trace, "1\n2\n1\n").unwrap();
    let (page, _) =
        written(&file, &["curve", trace.to_str().unwrap(), "-p", "lru", "--report", file.to_str().unwrap()]);
    let data = data(&page);
    assert_eq!((&data["title"], &data["sections"][0]["title"]), (&"called.lirs".into(), &"called.lirs".into()));
}

#[test]
fn with_a_device_the_best_are_those_with_the_least_time() {
    let file = path("best.html");
    let asked = ["compare", "sample", "-s", "10%", "-f", "json", "-d", "nearline", "--report", file.to_str().unwrap()];
    let (page, out) = written(&file, &asked);
    let answer: serde_json::Value = serde_json::from_str(&out).unwrap();
    let mut runs: Vec<_> = answer[0]["runs"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|run| run["off_line"] == false && run["policy"] != "lru")
        .collect();
    let time = |run: &serde_json::Value| run["device"]["device_ms"].as_f64().unwrap();
    runs.sort_by(|one, other| time(one).total_cmp(&time(other)));
    let data = data(&page);
    let keys = data["keys"].as_array().unwrap();
    let is_shown = |policy: &serde_json::Value| keys.iter().any(|key| key["name"] == *policy && key["shown"] == true);
    assert!(runs[..5].iter().all(|run| is_shown(&run["policy"])), "{keys:?}");
    assert!(runs[5..].iter().all(|run| !is_shown(&run["policy"])), "{keys:?}");
}

#[test]
fn hierarchies_make_a_report_and_a_figure() {
    let (file, figure) = (path("levels.html"), path("levels.pdf"));
    let _ = std::fs::remove_file(&figure);
    let asked = ["levels", ZIPF, "-l", "lru:50", "-l", "lru:100,mq:100,mq:200", "--device", "nvme"];
    let files = ["--report", file.to_str().unwrap(), "--plot", figure.to_str().unwrap()];
    let (page, _) = written(&file, &[&asked[..], &files].concat());
    let data = data(&page);
    let reads = &chart(&data, "storage-reads")["views"][0];
    assert_eq!(reads["x"], serde_json::json!([100, 200]));
    assert_eq!(reads["series"][1]["name"], "mq", "what they have in common stands once");
    let common = "; level 1 is lru 400 KiB";
    assert!(data["sections"][0]["subtitle"].as_str().is_some_and(|text| text.contains(common)));
    let times = &chart(&data, "device-time")["views"][0]["series"][1];
    let cost = data["sections"][0]["tables"][1]["rows"].as_array().unwrap();
    let of_mq: Vec<&serde_json::Value> = cost.iter().filter(|row| row[0].as_str().unwrap().contains("mq")).collect();
    assert_eq!(times["name"], reads["series"][1]["name"]);
    assert_eq!([&times["y"][0], &times["y"][1]], [&of_mq[0][3], &of_mq[1][3]], "in seconds, as the table has it");
    let served = chart(&data, "served")["views"][0]["series"].as_array().unwrap();
    let shares: f64 = served.iter().map(|level| level["y"][0].as_f64().unwrap()).sum();
    assert!((shares - 1.0).abs() < 1e-4, "every reference is served somewhere: {shares}");
    assert!(std::fs::read(&figure).unwrap().starts_with(b"%PDF-"));
}
