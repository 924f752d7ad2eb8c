//! Files as people have them, read whole, one of each format. Their counts were taken by a few lines of Python and awk, independently of the
//! readers.

use crate::real_trace::real_trace;
use forebay_basis::Operation;
use forebay_trace::{Names, Options, Reader, Request, Unit, UpToCut, open};
use std::collections::HashSet;
use std::sync::{Arc, Mutex};

/// What a file holds, and what is warned of.
struct Whole {
    format: &'static str,
    unit: Unit,
    requests: Vec<Request>,
    names: Names,
    warnings: Vec<String>,
}

impl Whole {
    fn of(name: &str) -> Option<Self> {
        let path = real_trace(&format!("field/{name}"))?;
        let (format, reader) = open(&path, &Options::default()).expect("the trace opens");
        let warned = Arc::new(Mutex::new(Vec::new()));
        let by_reader = warned.clone();
        let warn = Arc::new(move |text: &str| by_reader.lock().expect("no panic").push(text.to_owned()));
        let mut reader = UpToCut::new(reader, warn);
        let (mut names, mut requests) = (Names::new(), Vec::new());
        while reader.fill(&mut names, 1000, &mut requests).expect("the trace is well-formed") {}
        let warnings = warned.lock().expect("no panic").clone();
        Some(Self { format: format.name, unit: reader.unit(), requests, names, warnings })
    }

    fn reads(&self) -> usize {
        self.requests.iter().filter(|request| request.operation == Operation::Read).count()
    }

    /// How many different values there are.
    fn different(&self, value: impl Fn(&Request) -> u64) -> usize {
        self.requests.iter().map(value).collect::<HashSet<_>>().len()
    }
}

#[test]
fn cachelibs_sample_of_keys() {
    let Some(whole) = Whole::of("cachelib-kv.csv") else { return };
    assert_eq!((whole.format, whole.unit), ("cachelib-kv", Unit::Pages));
    assert_eq!((whole.requests.len(), whole.different(|request| request.offset)), (688, 51));
    assert!(whole.warnings.is_empty());
}

#[test]
fn cachelibs_sample_of_storage() {
    let Some(whole) = Whole::of("cachelib-block.csv") else { return };
    assert_eq!((whole.format, whole.unit), ("cachelib-block", Unit::Bytes));
    assert_eq!((whole.requests.len(), whole.reads()), (999, 599));
    assert_eq!(whole.requests.iter().map(|request| request.length).max(), Some(8_455_047));
    assert!(whole.warnings.is_empty());
}

#[test]
fn mqsims_tpcc() {
    let Some(whole) = Whole::of("mqsim-tpcc.trace.zst") else { return };
    assert_eq!((whole.format, whole.unit), ("mqsim", Unit::Bytes));
    assert_eq!((whole.requests.len(), whole.reads()), (6999, 4381));
    assert_eq!(whole.names.objects().len() - 1, 16);
}

#[test]
fn ramulators_gcc() {
    let Some(whole) = Whole::of("ramulator-gcc.gz") else { return };
    assert_eq!((whole.format, whole.unit), ("ramulator", Unit::Bytes));
    assert_eq!((whole.requests.len(), whole.reads()), (45_675 + 4349, 45_675));
}

#[test]
fn damons_regions() {
    let Some(whole) = Whole::of("damon-perf.script.zst") else { return };
    assert_eq!((whole.format, whole.unit), ("damon", Unit::Bytes));
    assert_eq!((whole.requests.len(), whole.reads()), (1798, 1798));
}

#[test]
fn mooncakes_prompts() {
    let Some(whole) = Whole::of("mooncake-synthetic.jsonl.zst") else { return };
    assert_eq!((whole.format, whole.unit), ("mooncake", Unit::Pages));
    assert_eq!((whole.requests.len(), whole.different(|request| request.offset)), (121_877, 43_924));
}

#[test]
fn a_lackey_log_with_the_programs_own_output() {
    let Some(whole) = Whole::of("lackey-with-output.gz") else { return };
    assert_eq!((whole.format, whole.unit), ("lackey", Unit::Bytes));
    assert_eq!(whole.requests.len(), 766_387);
    let [warning] = &whole.warnings[..] else { panic!("{:?}", whole.warnings) };
    assert!(warning.ends_with("line 761185: `total 9624` is no memory access; skipped 4 such lines"), "{warning}");
}
