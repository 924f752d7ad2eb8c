use super::*;
use forebay_trace::{Circumstances, Names, Origin, Unit};

/// The references of a trace: volume, offset, length, operation.
fn read(path: &Path) -> Vec<(String, u64, u64, Operation)> {
    let (_, mut reader) = forebay_trace::open(path, &forebay_trace::Options::default()).unwrap();
    assert_eq!(reader.unit(), Unit::Bytes);
    let (mut names, mut found) = (Names::new(), Vec::new());
    while let Some(request) = reader.next(&mut names).unwrap() {
        found.push((names.object_name(request.object).to_owned(), request.offset, request.length, request.operation));
    }
    found
}

/// How long a, b and c are at the end of a trace.
fn lengths(mut reader: Box<dyn forebay_trace::Reader>) -> [Option<u64>; 3] {
    let mut names = Names::new();
    while reader.next(&mut names).unwrap().is_some() {}
    ["a", "b", "c"].map(|name| {
        let object = names.object(name);
        names.length(object)
    })
}

#[test]
fn names_are_kept_of_what_is_recorded_alone() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::new(4096, Circumstances::default());
    let refer = |name: &str| {
        let file = || (recorder.number(name), 1 << 20);
        recorder.record_of(|| recorder.number("owner"), file, 0, 4096, Operation::Read);
    };
    (0..1000).for_each(|file| refer(&format!("before {file}")));
    recorder.start(&folder.path().join("trace.csv")).unwrap();
    refer("recorded");
    recorder.stop().unwrap();
    (0..1000).for_each(|file| refer(&format!("after {file}")));
    let names = recorder.names.lock().unwrap();
    assert_eq!(names.all.iter().map(|name| &**name).collect::<Vec<_>>(), ["owner", "recorded"]);
}

#[test]
fn what_is_recorded_is_read_back_in_order_with_snapshots_on_the_way() {
    let folder = tempfile::tempdir().unwrap();
    for extension in ["parquet", "csv"] {
        let path = |name: &str| folder.path().join(format!("{name}.{extension}"));
        let recorder = Recorder::new(16384, Circumstances::default());
        let (a, b) = (recorder.number("a"), recorder.number("b"));
        assert_eq!((recorder.number("a"), a == b), (a, false));
        recorder.record((a, 1 << 20), 7, 7, Operation::Read);
        recorder.start(&path("trace")).unwrap();
        assert_eq!(recorder.counts().map(|(_, lost)| lost), Some(0));
        recorder.record((b, 1 << 20), 4096, 8192, Operation::Write);
        recorder.record((a, 1 << 20), 0, 512, Operation::Read);
        let first = recorder.snapshot(&path("first")).unwrap();
        assert_eq!((first.written, first.lost), (2, 0));
        recorder.record((recorder.number("c"), 0), 512, 512, Operation::Readahead);
        recorder.snapshot(&path("second")).unwrap();
        recorder.snapshot(&path("third")).unwrap();
        recorder.record((a, 3 << 20), 1024, 512, Operation::Read);
        assert!(!path("trace").exists(), "it appears when it is whole");
        let whole = recorder.stop().unwrap().expect("it was recorded");
        assert_eq!((whole.written, whole.lost), (4, 0));
        recorder.record((a, 1 << 20), 7, 7, Operation::Read);
        assert_eq!((recorder.counts(), recorder.stop().unwrap()), (None, None));

        let expected = [
            ("b".to_owned(), 4096, 8192, Operation::Write),
            ("a".to_owned(), 0, 512, Operation::Read),
            ("c".to_owned(), 512, 512, Operation::Readahead),
            ("a".to_owned(), 1024, 512, Operation::Read),
        ];
        assert_eq!(read(&path("first")), expected[..2]);
        assert_eq!(read(&path("second")), expected[..3]);
        assert_eq!(read(&path("third")), expected[..3]);
        assert_eq!(read(&path("trace")), expected);
        let (_, reader) = forebay_trace::open(&path("trace"), &forebay_trace::Options::default()).unwrap();
        assert_eq!(
            lengths(reader),
            if extension == "csv" { [None; 3] } else { [Some(3 << 20), Some(1 << 20), Some(0)] }
        );
        let (_, reader) = forebay_trace::open(&path("trace"), &forebay_trace::Options::default()).unwrap();
        let own = reader.page_size().expect("a trace in bytes has one");
        assert_eq!(
            (own.bytes, own.origin == Origin::Recorded),
            if extension == "csv" { (4096, false) } else { (16384, true) }
        );
    }
    assert_eq!(folder.path().read_dir().unwrap().count(), 8, "no part is left");
}

#[test]
fn a_line_break_in_a_name_ends_no_recording() {
    let folder = tempfile::tempdir().unwrap();
    for (extension, name) in [("parquet", "a\nb"), ("csv", r"a\nb")] {
        let path = folder.path().join("trace").with_extension(extension);
        let recorder = Recorder::new(16384, Circumstances::default());
        recorder.start(&path).unwrap();
        recorder.record((recorder.number("a\nb"), 1 << 20), 0, 512, Operation::Read);
        recorder.record((recorder.number("c, d"), 1 << 20), 0, 512, Operation::Read);
        assert_eq!(recorder.stop().unwrap().map(|recorded| recorded.written), Some(2));
        let names: Vec<String> = read(&path).into_iter().map(|(name, ..)| name).collect();
        assert_eq!(names, [name, "c, d"]);
    }
}

#[test]
fn another_trace_can_be_recorded_after_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one.csv"), folder.path().join("two.csv"));
    let recorder = Recorder::new(16384, Circumstances::default());
    let volume = recorder.number("a");
    recorder.start(&one).unwrap();
    recorder.record((volume, 1 << 20), 0, 512, Operation::Read);
    let refused = recorder.start(&two).unwrap_err().to_string();
    assert!(refused.contains("one.csv is being recorded already"), "{refused}");
    recorder.stop().unwrap();
    recorder.start(&two).unwrap();
    recorder.record((volume, 1 << 20), 512, 512, Operation::Read);
    assert_eq!(recorder.stop().unwrap().map(|recorded| recorded.written), Some(1));
    assert_eq!((read(&one)[0].1, read(&two)[0].1), (0, 512));
}

#[test]
fn nothing_is_overwritten_and_nothing_begun_in_vain() {
    let folder = tempfile::tempdir().unwrap();
    let there = folder.path().join("there.parquet");
    std::fs::write(&there, "").unwrap();
    let recorder = Recorder::new(16384, Circumstances::default());
    let refused = |path: &Path| recorder.start(path).expect_err("it is refused").to_string();
    assert!(refused(&there).contains("exists already"));
    assert!(refused(&folder.path().join("trace.lirs")).contains("let its name end in .parquet or .csv"));
    assert!(refused(&folder.path().join("no/trace.csv")).contains("there is no folder"));
    let refused = recorder.snapshot(&folder.path().join("snapshot.csv")).unwrap_err().to_string();
    assert!(refused.contains("nothing is being recorded"), "{refused}");
}

#[test]
fn references_that_do_not_fit_are_counted_and_none_is_lost_silently() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.csv");
    let recorder = Recorder::new(16384, Circumstances::default());
    let volume = recorder.number("a");
    recorder.start(&path).unwrap();
    let sent = 3 * QUEUE as u64;
    for index in 0..sent {
        recorder.record((volume, 1 << 20), index * 512, 512, Operation::Read);
    }
    let recorded = recorder.stop().unwrap().expect("it was recorded");
    assert_eq!(recorded.written + recorded.lost, sent);
    assert_eq!(read(&path).len() as u64, recorded.written);
}

#[test]
fn a_stop_that_hangs_ends_at_its_limit_and_names_the_trace() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Arc::new(Recorder::new(16384, Circumstances::default()));
    recorder.start(&folder.path().join("trace.csv")).unwrap();
    let hangs = recorder.writer();
    let error = recorder.within(Duration::from_millis(100), Recorder::stop).unwrap_err().to_string();
    assert!(error.contains("trace.csv: it has not gone on for 100ms: its storage hangs"), "{error}");
    drop(hangs);
}

#[test]
fn parts_left_of_a_server_that_was_killed_are_kept_and_in_nobodys_way() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("r.part-1.csv"), "precious").unwrap();
    std::fs::write(path("r.part-3.csv"), "too").unwrap();
    // In a container each server may have the same number.
    std::fs::write(path(&format!("r.part-4.csv.{}.tmp", std::process::id())), "half").unwrap();
    let recorder = Recorder::new(16384, Circumstances::default());
    let volume = recorder.number("a");
    recorder.start(&path("r.csv")).unwrap();
    recorder.record((volume, 1 << 20), 0, 512, Operation::Read);
    recorder.snapshot(&path("s.csv")).unwrap();
    recorder.record((volume, 1 << 20), 512, 512, Operation::Read);
    recorder.snapshot(&path("s2.csv")).unwrap();
    assert_eq!(recorder.stop().unwrap().map(|recorded| recorded.written), Some(2));
    assert_eq!(read(&path("r.csv")).len(), 2);
    assert_eq!(std::fs::read_to_string(path("r.part-1.csv")).unwrap(), "precious");
    assert_eq!(std::fs::read_to_string(path("r.part-3.csv")).unwrap(), "too");
    assert_eq!(folder.path().read_dir().unwrap().count(), 6);
}

#[test]
fn a_snapshot_takes_no_name_of_the_recording_itself() {
    let folder = tempfile::tempdir().unwrap();
    let recorder = Recorder::new(16384, Circumstances::default());
    recorder.start(&folder.path().join("r.csv")).unwrap();
    for name in ["r.csv", "r.part-1.csv", "r.part-2.csv", "./r.part-77.csv"] {
        let refused = recorder.snapshot(&folder.path().join(name)).unwrap_err().to_string();
        assert!(refused.contains("is a name of the recording itself"), "{name}: {refused}");
    }
    for name in ["r.parquet", "r.part-x.csv", "r2.part-1.csv"] {
        recorder.snapshot(&folder.path().join(name)).unwrap();
    }
    recorder.stop().unwrap();
}

#[test]
fn a_stop_that_fails_says_where_the_references_are() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let recorder = Recorder::new(16384, Circumstances::default());
    let volume = recorder.number("a");
    recorder.start(&path("r.csv")).unwrap();
    recorder.record((volume, 1 << 20), 0, 512, Operation::Read);
    std::fs::write(path("r.csv"), "of another").unwrap();
    let error = recorder.stop().unwrap_err().to_string();
    let (trace, part) = (path("r.csv").display().to_string(), path("r.part-1.csv").display().to_string());
    let expected = "has been made by another meanwhile, and is kept; what could be recorded is in";
    assert_eq!(error, format!("{trace}: {expected} {part}"));
    assert_eq!(std::fs::read_to_string(path("r.csv")).unwrap(), "of another");
    assert_eq!(read(&path("r.part-1.csv")).len(), 1);
}
