//! Managers of a mount as its administrator meets them: rules in a file, read again while it runs, and commands.

use crate::running::wait_until;
use crate::{Folder, Running, forebay, text};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;

const PAGE: u64 = 4096;

/// 40 pages, where the cache has 32.
const PAGES: u64 = 40;

struct Managed<'f> {
    folder: &'f Folder,
    running: Running<'f>,
    socket: String,
}

impl Folder {
    /// A mount under lru-sp with a file, and what the arguments say.
    #[track_caller]
    fn managed(&self, arguments: &[&str]) -> Managed<'_> {
        fs::write(self.path("source/scanned.out"), vec![7; (PAGES * PAGE) as usize]).expect("a file below");
        let socket = self.text("socket");
        let cache = ["--cache", "132KiB", "--policy", "lru-sp", "--readahead", "0", "--control", &socket];
        let mut running = self.mount(&[&cache[..], arguments].concat());
        running.wait_for("commands are taken at");
        Managed { folder: self, running, socket }
    }
}

impl Managed<'_> {
    #[track_caller]
    fn control(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let done = forebay(&[&["control", "--socket", &self.socket][..], arguments].concat());
        (done.status.code(), text(&done.stdout) + &text(&done.stderr))
    }

    #[track_caller]
    fn done(&self, arguments: &[&str]) -> String {
        let (code, said) = self.control(arguments);
        assert_eq!(code, Some(0), "{arguments:?}: {said}");
        said
    }

    fn misses(&self) -> u64 {
        let figures: serde_json::Value =
            serde_json::from_str(&self.done(&["--format", "json", "statistics"])).expect("JSON");
        figures["statistics"]["caches"][0]["misses"].as_u64().expect("a number")
    }

    /// Whether something better than LRU manages a file larger than the cache that is read again and again.
    fn is_managed(&self) -> bool {
        let file = File::open(self.folder.path("seen/scanned.out")).expect("it opens");
        let rounds = || {
            for page in (0..3).flat_map(|_| 0..PAGES) {
                file.read_exact_at(&mut [0; PAGE as usize], page * PAGE).expect("a read");
            }
        };
        rounds();
        let before = self.misses();
        rounds();
        self.misses() - before < 3 * PAGES
    }

    fn end(self) {
        self.running.signal("TERM");
        assert_eq!(self.running.end(), Some(0));
    }
}

fn rule(name: &str) -> String {
    format!("[[manager]]\nname = \"{name}\"\nowners = [\"* {}\"]\nfiles = [\"*.out\"]\n", std::process::id())
}

#[test]
fn rules_are_read_again_and_wrong_ones_change_nothing() {
    let Some(folder) = Folder::new() else { return };
    let file = folder.text("managers.toml");
    fs::write(&file, rule("mru")).expect("rules");
    let mut managed = folder.managed(&["--managers", &file]);
    assert!(managed.is_managed());
    fs::write(&file, rule("lru")).expect("rules");
    managed.running.signal("HUP");
    wait_until("the rules are read again", || managed.done(&["managers"]).contains("rule       lru owners"));
    assert!(!managed.is_managed());
    fs::write(&file, rule("mru")).expect("rules");
    managed.done(&["reload"]);
    assert!(managed.is_managed());
    for (wrong, message) in [
        (rule("mru").replace("[[", "\n[[").replace("mru", "mruu"), "line 3: there is no manager `mruu`"),
        (rule("foolish"), "line 2: that manager needs to know the references to come"),
    ] {
        fs::write(&file, wrong).expect("rules");
        let (code, said) = managed.control(&["reload"]);
        assert!(code == Some(2) && said.contains(message), "{said}");
        managed.running.wait_for(message);
        assert!(managed.is_managed(), "the rules before hold");
    }
    managed.end();
}

#[test]
fn commands_put_managers_in_charge_show_them_and_take_hints() {
    let Some(folder) = Folder::new() else { return };
    let managed = folder.managed(&[]);
    assert_eq!(managed.done(&["managers"]), "nobody manages: LRU decides\n");
    let own = std::process::id().to_string();
    let said = managed.done(&["manage", "--owner", &own, "--file", "*.out", "mru"]);
    assert_eq!(said, format!("in force: mru owners \"* {own}\" files \"*.out\"\n"));
    assert!(managed.is_managed());
    let restarted = managed.done(&["restart-policy", "shared"]);
    assert!(restarted.starts_with("cache shared: lru-sp has started anew with "), "{restarted}");
    assert!(managed.is_managed(), "the policy learns again who manages");
    managed.done(&["abdicate", "--owner", &own, "--file", "*.out"]);
    assert!(!managed.is_managed());
    managed.done(&["manage", "lru-k:k=3"]);
    let file = folder.text("seen/scanned.out");
    assert_eq!(managed.done(&["hint", &file, "noreuse"]), format!("{file}: noreuse\n"));
    assert!(managed.is_managed(), "access-once");
    let expected = format!(
        "command    lru-k:k=3\ncommand    lru owners \"* {own}\" files \"*.out\"\nattribute  access-once  of scanned.out\n"
    );
    assert_eq!(managed.done(&["managers"]), expected);
    let json: serde_json::Value = serde_json::from_str(&managed.done(&["--format", "json", "managers"])).expect("JSON");
    assert_eq!(json["answer"], "managers");
    assert_eq!(json["managers"][2]["file"], "scanned.out");
    // A path with links or `..` in it is looked up first.
    std::os::unix::fs::symlink(folder.text("source"), folder.text("link")).expect("a link");
    managed.done(&["hint", &folder.text("link/../source/scanned.out"), "normal"]);
    managed.done(&["reload"]);
    assert_eq!(managed.done(&["managers"]), "nobody manages: LRU decides\n");
    for (arguments, code, message) in [
        (&["manage", "mruu"][..], 2, "there is no manager `mruu`; there are lru, mru"),
        (&["manage", "rmin"], 2, "it can be simulated, not run"),
        (&["manage", "--owner", "[", "mru"], 2, "`[` is no pattern"),
        (&["hint", &file, "often"], 2, "`often` is no hint: write normal, random"),
        (&["hint", "/etc/passwd", "normal"], 2, "it is no file of this mount"),
        (&["hint", &folder.text("seen/none"), "willneed"], 1, "No such file"),
    ] {
        let (was, said) = managed.control(arguments);
        assert!(was == Some(code) && said.contains(message), "{arguments:?}: {said}");
    }
    managed.end();
}

#[test]
fn managers_marks_patterns_that_no_use_has_matched_so_far() {
    let Some(folder) = Folder::new() else { return };
    let (file, own) = (folder.text("managers.toml"), std::process::id());
    let misspelt = rule("mru").replace("\"*.out\"", "\"*.out\", \"/scanned.out\", \"*.outt\"");
    fs::write(&file, &misspelt).expect("rules");
    let managed = folder.managed(&["--managers", &file]);
    let patterns = format!("rule       mru owners \"* {own}\" files \"*.out\" \"/scanned.out\" \"*.outt\"");
    let line = format!(
        "{patterns}  (so far no owner like \"* {own}\")  (so far no file like \"*.out\" or \"/scanned.out\" or \"*.outt\")\n"
    );
    assert_eq!(managed.done(&["managers"]), line);
    managed.is_managed();
    managed.done(&["reload"]);
    let line = format!("{patterns}  (so far no file like \"/scanned.out\" or \"*.outt\")\n");
    assert_eq!(managed.done(&["managers"]), line);
    let json: serde_json::Value = serde_json::from_str(&managed.done(&["--format", "json", "managers"])).expect("JSON");
    assert_eq!(json["managers"][0]["unmatched"], serde_json::json!({"files": ["/scanned.out", "*.outt"]}));
    managed.end();
}

#[test]
fn managers_are_for_a_policy_that_has_them() {
    let Some(folder) = Folder::new() else { return };
    let file = folder.text("managers.toml");
    let mount = |arguments: &[&str]| {
        let [source, seen] = ["source", "seen"].map(|name| folder.text(name));
        let refused = forebay(&[&["mount", &source, &seen, "--managers", &file][..], arguments].concat());
        assert!(!folder.is_mounted());
        (refused.status.code(), text(&refused.stderr))
    };
    fs::write(&file, rule("mru")).expect("rules");
    let (code, said) = mount(&[]);
    assert!(code == Some(2) && said.contains("clock-pro has no managers; add --policy lru-sp"), "{said}");
    fs::write(&file, rule("rmin")).expect("rules");
    let (code, said) = mount(&["--policy", "lru-sp"]);
    assert!(code == Some(2) && said.contains("managers.toml line 2: that manager needs to know"), "{said}");
    fs::remove_file(&file).expect("it is there");
    let (code, said) = mount(&["--policy", "lru-sp"]);
    assert!(code == Some(2) && said.contains("managers.toml: No such file"), "{said}");
    let socket = folder.text("socket");
    let mut running = folder.mount(&["--policy", "lru", "--control", &socket]);
    running.wait_for("commands are taken at");
    let refused = forebay(&["control", "--socket", &socket, "manage", "mru"]);
    assert!(refused.status.code() == Some(2) && text(&refused.stderr).contains("the policy lru has no managers"));
    let asked = forebay(&["control", "--socket", &socket, "managers"]);
    assert!(asked.status.code() == Some(2) && text(&asked.stderr).contains("the policy lru has no managers"));
    running.signal("TERM");
    assert_eq!(running.end(), Some(0));
}

#[test]
fn owners_by_choice_are_named_so_in_traces() {
    let Some(folder) = Folder::new() else { return };
    let trace = folder.text("trace.csv");
    let managed = folder.managed(&["--owners", "user", "--record", &trace]);
    managed.done(&["manage", "--owner", "user *", "mru"]);
    assert!(managed.is_managed());
    managed.end();
    let recorded = fs::read_to_string(&trace).expect("a trace");
    assert!(recorded.lines().skip(1).all(|line| line.contains("user 0")), "{}", &recorded[..200]);
}
