//! Managers under LRU-SP: by rules, for real processes.

use crate::mounted::{Mounted, PATIENCE};
use crate::reader::Reader;
use forebay_policy::Spec;
use forebay_policy::managers::{Rule, Rules};
use forebay_pool::Config;
use forebay_sim::{Keep, Sweep, Trace};
use forebay_trace::Options;
use rand_xoshiro::Xoshiro256StarStar;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rustix::fs::XattrFlags;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

const PAGE: u64 = 4096;
const FRAMES: u32 = 20;

/// The rules of this text.
pub(crate) fn rules(text: &str) -> Vec<Rule> {
    Rules::parse("test.toml", text.to_owned()).and_then(Rules::for_running).expect("the rules are right")
}

/// A mount under LRU-SP of 20 frames, without readahead, with files of 64 pages.
#[track_caller]
pub(crate) fn under(text: &str, files: &[&str]) -> Option<Mounted> {
    let mounted = over(tempfile::tempdir().expect("a folder"), text)?;
    for file in files {
        let path = mounted.below(file);
        std::fs::create_dir_all(path.parent().expect("it is in a folder")).expect("a folder below");
        std::fs::write(path, vec![7; 64 * PAGE as usize]).expect("a file below");
    }
    Some(mounted)
}

/// The same over what another mount has left.
#[track_caller]
pub(crate) fn over(folder: tempfile::TempDir, text: &str) -> Option<Mounted> {
    over_by(folder, "lru-sp", text)
}

#[track_caller]
fn over_by(folder: tempfile::TempDir, policy: &str, text: &str) -> Option<Mounted> {
    let mounted = Mounted::over(folder, |options, config| {
        options.readahead = 0;
        let spec = Spec::parse(policy).expect("a policy");
        *config = Config::new(u64::from(FRAMES + 1) * PAGE, spec);
        config.laundry = 1;
    });
    mounted.inspect(|mounted| mounted.mounts.set_rules(rules(text)))
}

/// Misses of what is done.
pub(crate) fn misses(mounted: &Mounted, work: impl FnOnce()) -> u64 {
    let before = mounted.pool.statistics().misses;
    work();
    mounted.pool.statistics().misses - before
}

/// Misses of three rounds over more pages than there are frames: all under LRU, where what is needed next has just gone.
pub(crate) fn looped(mounted: &Mounted, reader: &mut Reader, path: &Path) -> u64 {
    misses(mounted, || (0..3).for_each(|_| (0..30).for_each(|page| reader.read(path, page))))
}

/// All of three rounds; fewer with a manager.
pub(crate) const ALL: u64 = 90;

/// References of processes to pages of files, by their names.
type References<'a> = Vec<(usize, &'a str, u64)>;

/// The misses of the simulator, for the same rules.
fn simulated(owners: &[String], references: &References<'_>, text: &str) -> u64 {
    let mut rows = "time_ns,owner,object,offset,length,operation\n".to_owned();
    for (time, &(owner, file, page)) in references.iter().enumerate() {
        rows += &format!("{time},{},{file},{},{PAGE},read\n", owners[owner], page * PAGE);
    }
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("trace.csv");
    std::fs::write(&path, rows).expect("a trace");
    let (_, mut reader) = forebay_trace::open(&path, &Options::default()).expect("the trace opens");
    let keep = Keep { places: true, requests: true };
    let trace = Trace::load("trace", reader.as_mut(), Some(PAGE), keep, &mut |_| {}).expect("it is well-formed");
    let rules = Rules::parse("test.toml", text.to_owned()).expect("the rules are right");
    let assignment = rules.assign("trace", trace.names.owners(), trace.names.objects(), &|_| {});
    // On the mount a process has a file open until it ends.
    let mut spec = Spec::parse("lru-sp:sharing=1000").expect("a policy");
    spec.managers = Some(Arc::new(assignment.expect("the rules are right")));
    let sweep = Sweep { specs: vec![spec], sizes: vec![FRAMES], warmup: 0, threads: 1 };
    trace.len() as u64 - sweep.run(&trace, &|_| true)[0].total.hits
}

/// Scans of one file and skewed uses of others, by one process or by two, who share a file.
fn references(processes: usize, seed: u64) -> References<'static> {
    let mut random = Xoshiro256StarStar::seed_from_u64(seed);
    let mut next = move |below: u64| random.next_u64() % below;
    let scan = (0..600).map(|at| (0, "scanned.out", at % 26));
    scan.flat_map(|one| {
        let other = match next(4) {
            0 => (processes - 1, "shared.db", next(12)),
            1 => (0, "shared.db", next(12)),
            2 => (processes - 1, "own.h", next(3) * next(8)),
            _ => (processes - 1, "second.out", next(16)),
        };
        [one, other]
    })
    .collect()
}

const RULES: &str = r#"
    [[manager]]
    name = "same-order"
    owners = ["scan *"]
    files = ["scanned*"]
    [[manager]]
    name = "lru-k"
    k = 3
    files = ["*.db"]
    [[manager]]
    name = "mru"
    owners = ["scan *", "edit *"]
    files = ["*.out"]
    [[manager]]
    name = "weights"
    weights = [["*.h", 4]]
"#;

#[test]
fn processes_have_the_hits_of_the_simulator_by_the_same_rules() {
    let once = "[[manager]]\nname = \"access-once\"\nowners = [\"scan *\"]\n";
    let of_both = "default = \"mru\"";
    for (processes, text, seed) in [(1, RULES, 1), (2, RULES, 2), (2, RULES, 3), (2, of_both, 4), (2, once, 5)] {
        let files = ["scanned.out", "second.out", "shared.db", "own.h"];
        let Some(mounted) = under(text, &files) else { return };
        let mut readers: Vec<Reader> = ["scan", "edit"][..processes].iter().map(|name| Reader::new(name)).collect();
        let references = references(processes, seed);
        let names = ["scan", "edit"].iter().zip(&readers).map(|(name, reader)| format!("{name} {}", reader.process()));
        let owners: Vec<String> = names.collect();
        let real = misses(&mounted, || {
            for &(reader, file, page) in &references {
                readers[reader].read(&mounted.seen(file), page);
            }
        });
        assert_eq!(real, simulated(&owners, &references, text), "{processes} processes, seed {seed}");
        assert_ne!(real, simulated(&owners, &references, ""), "the rules change something");
        mounted.pool.check_invariants();
        drop(readers);
        mounted.stop();
    }
}

#[test]
fn a_foolish_manager_costs_an_innocent_process_nothing() {
    // The loop fits, so LRU has it all; `mru` gives up what is needed next.
    let run = |text: &str| {
        let mounted = under(text, &["foolish", "innocent"])?;
        let (mut foolish, mut innocent) = (Reader::new("foolish"), Reader::new("innocent"));
        let (foolish_path, innocent_path) = (mounted.seen("foolish"), mounted.seen("innocent"));
        let mut missed = 0;
        for round in 0..200 {
            (0..4).for_each(|page| foolish.read(&foolish_path, (round * 3 + page) % 40));
            missed += misses(&mounted, || (0..10).for_each(|page| innocent.read(&innocent_path, page)));
        }
        drop((foolish, innocent));
        mounted.stop();
        Some(missed)
    };
    let Some(alone) = run("") else { return };
    let beside = run("[[manager]]\nname = \"mru\"\nowners = [\"foolish *\"]\n");
    assert_eq!(beside, Some(alone));
}

#[test]
fn a_manager_that_is_caught_at_mistakes_loses_its_charge_and_it_is_said_whose() {
    let folder = tempfile::tempdir().expect("a folder");
    let text = "[[manager]]\nname = \"mru\"\nowners = [\"foolish *\", \"wise *\"]\n";
    let Some(mounted) = over_by(folder, "lru-sp:revoke=8", text) else { return };
    ["foolish", "wise"].iter().for_each(|file| {
        std::fs::write(mounted.below(file), vec![7; 64 * PAGE as usize]).expect("a file below");
    });
    let (mut foolish, mut wise) = (Reader::new("foolish"), Reader::new("wise"));
    looped(&mounted, &mut wise, &mounted.seen("wise"));
    assert_eq!(mounted.mounts.lost_charges(), [], "a loop is what its manager is for");
    // Each page comes back soon, and not later.
    for round in 0..40 {
        (0..2).for_each(|_| (0..12).for_each(|page| foolish.read(&mounted.seen("foolish"), round + page)));
    }
    looped(&mounted, &mut wise, &mounted.seen("wise"));
    let lost = mounted.mounts.lost_charges();
    let expected = Some(format!("foolish {}", foolish.process()));
    assert!(matches!(&lost[..], [one] if one.owner == expected && one.manager.starts_with("mru owners")), "{lost:?}");
    assert_eq!(mounted.mounts.managers().last(), lost.last(), "it is listed, too");
    assert_eq!(mounted.pool.statistics().policy_state["charges ended"], 1.0);
    drop((foolish, wise));
    mounted.stop();
}

#[test]
fn rules_hold_at_once_when_they_change_and_a_command_goes_before() {
    let Some(mounted) = under("", &["file", "other"]) else { return };
    let mut reader = Reader::new("scan");
    let path = mounted.seen("file");
    assert_eq!(looped(&mounted, &mut reader, &path), ALL, "LRU");
    mounted.mounts.set_rules(rules("[[manager]]\nname = \"mru\"\nowners = [\"scan *\"]\n"));
    assert!(looped(&mounted, &mut reader, &path) < ALL, "mru");
    mounted.mounts.put_rule_first(Rule::new("lru", Some(&format!("* {}", reader.process())), None).expect("right"));
    looped(&mounted, &mut reader, &path);
    assert_eq!(looped(&mounted, &mut reader, &path), ALL, "LRU by command");
    mounted.mounts.put_rule_first(Rule::new("mru", None, Some("fi?e")).expect("right"));
    assert!(looped(&mounted, &mut reader, &path) < ALL, "the last command is looked at first");
    let all = mounted.mounts.managers().into_iter().map(|one| (one.by, one.manager)).collect::<Vec<_>>();
    let of_process = format!("lru owners \"* {}\"", reader.process());
    let expected = [("command", "mru files \"fi?e\""), ("command", &of_process), ("rule", "mru owners \"scan *\"")];
    assert!(all.iter().map(|(by, rule)| (*by, rule.as_str())).eq(expected), "{all:?}");
    mounted.mounts.set_rules(Vec::new());
    looped(&mounted, &mut reader, &path);
    assert_eq!(looped(&mounted, &mut reader, &path), ALL, "no rule is left");
    drop(reader);
    mounted.stop();
}

#[test]
fn a_rule_says_which_of_its_patterns_no_use_has_matched_so_far() {
    let text = "[[manager]]\nname = \"mru\"\nowners = [\"scan *\", \"skan *\"]\nfiles = [\"/file\", \"fi?e\"]\n";
    let Some(mounted) = under(text, &["file", "other"]) else { return };
    let unmatched = |mounted: &Mounted| {
        let all = mounted.mounts.managers().into_iter().filter(|one| one.by != "attribute");
        all.map(|one| (one.unmatched.owners.join("|"), one.unmatched.files.join("|"))).collect::<Vec<_>>()
    };
    let left = |owners: &str, files: &str| (owners.to_owned(), files.to_owned());
    assert_eq!(unmatched(&mounted), [left("scan *|skan *", "/file|fi?e")]);
    let mut reader = Reader::new("scan");
    reader.read(&mounted.seen("other"), 0);
    assert_eq!(unmatched(&mounted), [left("skan *", "/file|fi?e")]);
    // An attribute decides for this file, which the pattern has matched no less.
    rustix::fs::setxattr(mounted.seen("file"), "user.forebay.manager", b"none", XattrFlags::empty())
        .expect("it is set");
    reader.read(&mounted.seen("file"), 0);
    assert_eq!(unmatched(&mounted), [left("skan *", "/file")]);
    mounted.mounts.set_rules(rules(&format!("{text}\n[[manager]]\nname = \"lru\"\nfiles = [\"oth*\", \"nothing\"]\n")));
    let both = [left("skan *", "/file"), left("", "nothing")];
    assert_eq!(unmatched(&mounted), both, "the first rule is known, and what is open counts for the new one");
    drop(reader);
    mounted.stop();
}

#[test]
fn commands_do_not_wait_for_a_file_whose_storage_hangs_as_it_is_opened() {
    let (opening, opens) = channel();
    let (answer, answers) = channel::<()>();
    let hangs = Arc::new(AtomicBool::new(false));
    let (armed, answers) = (Arc::clone(&hangs), Mutex::new(answers));
    let mounted = Mounted::start(|options, config| {
        options.readahead = 0;
        options.wrap = Some(Box::new(move |device, _| {
            if armed.load(Ordering::SeqCst) {
                opening.send(()).expect("the test waits for it");
                answers.lock().expect("one at a time").recv().expect("the test answers");
            }
            device
        }));
        *config = Config::new(u64::from(FRAMES + 1) * PAGE, Spec::parse("lru-sp").expect("a policy"));
        config.laundry = 1;
    });
    let Some(mounted) = mounted else { return };
    mounted.mounts.set_rules(rules("[[manager]]\nname = \"mru\"\nfiles = [\"file\"]\n"));
    for file in ["file", "hung"] {
        std::fs::write(mounted.below(file), vec![7; 64 * PAGE as usize]).expect("a file below");
    }
    let named = rustix::fs::setxattr(mounted.below("hung"), "user.forebay.manager", b"mru", XattrFlags::empty());
    named.expect("the file system has attributes");
    let mut reader = Reader::new("scan");
    let (path, hung) = (mounted.seen("file"), mounted.seen("hung"));
    looped(&mounted, &mut reader, &path);
    let (done, ends) = channel();
    let in_time = std::thread::scope(|scope| {
        hangs.store(true, Ordering::SeqCst);
        scope.spawn(|| Reader::new("waits").read(&hung, 0));
        opens.recv_timeout(PATIENCE).expect("it is opened");
        hangs.store(false, Ordering::SeqCst);
        scope.spawn(|| {
            mounted.mount.drop_clean();
            mounted.pool.restart_policy().expect("it is whole");
            mounted.mounts.manage_anew();
            mounted.mounts.put_rule_first(Rule::new("lru", Some("nobody"), None).expect("right"));
            done.send((mounted.mounts.managers().len(), mounted.mount.flush(PATIENCE).is_ok()))
                .expect("it is waited for");
        });
        let in_time = ends.recv_timeout(PATIENCE);
        answer.send(()).expect("it waits for that");
        in_time
    });
    assert_eq!(in_time, Ok((2, true)), "all is done while the file is being opened");
    for path in [path, hung] {
        mounted.mount.drop_clean();
        assert!(looped(&mounted, &mut reader, &path) < ALL, "{}: the new policy knows its manager", path.display());
    }
    drop(reader);
    mounted.stop();
}

#[test]
fn users_of_a_shared_file_agree_at_once_when_rules_change() {
    let Some(mounted) = under("[[manager]]\nname = \"mru\"\nowners = [\"one *\"]\n", &["file"]) else { return };
    let (mut one, mut two) = (Reader::new("one"), Reader::new("two"));
    let path = mounted.seen("file");
    (0..10).for_each(|page| [&mut one, &mut two].into_iter().for_each(|reader| reader.read(&path, page)));
    let looped = |one: &mut Reader, two: &mut Reader| {
        misses(&mounted, || {
            for page in (0..3).flat_map(|_| 0..30) {
                [&mut *one, &mut *two][page as usize % 2].read(&path, page);
            }
        })
    };
    looped(&mut one, &mut two);
    assert_eq!(looped(&mut one, &mut two), ALL, "they disagree");
    mounted.mounts.set_rules(rules("[[manager]]\nname = \"mru\"\n"));
    assert!(looped(&mut one, &mut two) < ALL, "they agree, while pages are resident");
    drop((one, two));
    mounted.stop();
}

#[test]
fn a_child_has_its_parents_manager_unless_a_rule_names_it() {
    let parent = std::process::id();
    let text = format!(
        "[[manager]]\nname = \"lru\"\nowners = [\"named *\"]\n[[manager]]\nname = \"mru\"\nowners = [\"* {parent}\"]\n"
    );
    let Some(mounted) = under(&text, &["file"]) else { return };
    let path = mounted.seen("file");
    for (name, managed) in [("child", true), ("named", false)] {
        let mut reader = Reader::new(name);
        looped(&mounted, &mut reader, &path);
        assert_eq!(looped(&mounted, &mut reader, &path) < ALL, managed, "{name}");
        drop(reader);
        mounted.mount.drop_clean();
    }
    mounted.stop();
}

#[test]
fn owners_are_processes_users_cgroups_or_programs() {
    use forebay_owning::Owners::{Cgroup, Process, Program, User};
    for (owners, pattern) in [(Process, "scan [0-9]*"), (User, "user 0"), (Cgroup, "cgroup /*"), (Program, "scan")] {
        let mounted = Mounted::start(|options, config| {
            (options.readahead, options.owners) = (0, owners);
            *config = Config::new(u64::from(FRAMES + 1) * PAGE, Spec::parse("lru-sp").expect("a policy"));
            config.laundry = 1;
        });
        let Some(mounted) = mounted else { return };
        mounted.mounts.set_rules(rules(&format!("[[manager]]\nname = \"mru\"\nowners = [\"{pattern}\"]\n")));
        std::fs::write(mounted.below("file"), vec![7; 64 * PAGE as usize]).expect("a file below");
        let mut reader = Reader::new("scan");
        assert!(looped(&mounted, &mut reader, &mounted.seen("file")) < ALL, "{owners:?}");
        drop(reader);
        mounted.stop();
    }
}

#[test]
fn rules_go_by_the_name_that_a_file_has_now() {
    let text = "[[manager]]\nname = \"mru\"\nfiles = [\"final.out\", \"kept/*\"]\n";
    let Some(mounted) = under(text, &["first.out", "folder/a"]) else { return };
    let mut reader = Reader::new("scan");
    let path = |name: &str| mounted.seen(name);
    let rename = |from: &str, to: &str| std::fs::rename(path(from), path(to)).expect("it gets another name");
    assert_eq!(looped(&mounted, &mut reader, &path("first.out")), ALL);
    rename("first.out", "final.out");
    assert!(looped(&mounted, &mut reader, &path("final.out")) < ALL, "it has a name of the rule");
    rename("final.out", "first.out");
    mounted.mount.drop_clean();
    assert_eq!(looped(&mounted, &mut reader, &path("first.out")), ALL, "and has it no more");
    mounted.mount.drop_clean();
    assert_eq!(looped(&mounted, &mut reader, &path("folder/a")), ALL);
    rename("folder", "kept");
    assert!(looped(&mounted, &mut reader, &path("kept/a")) < ALL, "the folder has one");
    drop(reader);
    mounted.stop();
}
