//! Managers of steered files, as their administrator meets them.

use crate::running::{Running, wait_until};
use crate::{ALL, CACHE, FILE, Folder, forebay, resident, stop, text, undisturbed};
use std::fs;
use std::path::Path;

impl Folder {
    /// Steers under lru-sp with a cache of two thirds of the files, and what the arguments say.
    #[track_caller]
    fn steer_managed(&self, arguments: &[&str]) -> Running {
        self.steer(&[&["--cache", &CACHE.to_string(), "--policy", "lru-sp"], arguments].concat())
    }

    /// What a command says that succeeds.
    #[track_caller]
    fn said(&self, command: &[&str]) -> String {
        let output = forebay(&[&["control", "-s", &self.text("control")], command].concat());
        assert!(output.status.success(), "{command:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    /// The pages that the policy lets go in another round over all files. `rounds`: how many there were before.
    #[track_caller]
    fn let_go_in_round(&self, rounds: u64) -> u64 {
        let before = self.figure("let_go");
        self.read();
        self.wait_for_uses((rounds + 1) * (ALL >> 12));
        self.wait_for_at_most(CACHE + CACHE / 50);
        self.figure("let_go") - before
    }
}

#[test]
fn a_loop_under_an_mru_rule_drops_what_mru_drops_until_lru_decides_again() {
    undisturbed(loop_under_rules);
}

fn loop_under_rules() {
    let Some(folder) = Folder::new() else { return };
    let (file, own) = (folder.path("managers.toml"), format!("* {}", std::process::id()));
    let rule = |name: &str| format!("[[manager]]\nname = \"{name}\"\nowners = [\"{own}\"]\nfiles = [\"[0-9]\"]\n");
    fs::write(&file, rule("mru")).expect("rules");
    let running = folder.steer_managed(&["--managers", file.to_str().expect("text")]);
    let shown = format!("rule       mru owners \"{own}\" files \"[0-9]\"");
    assert!(folder.said(&["managers"]).starts_with(&shown), "nothing was read so far");
    folder.let_go_in_round(0);
    assert_eq!(folder.said(&["managers"]), format!("{shown}\n"), "all patterns have matched");
    // In each round MRU lets go what does not fit, a third of all pages, and LRU all of them.
    let half = (ALL >> 12) / 2;
    for round in 1..=2 {
        let let_go = folder.let_go_in_round(round);
        assert!(let_go < half, "{let_go} pages: MRU keeps most");
    }
    fs::write(&file, rule("lru")).expect("rules");
    assert!(folder.said(&["reload"]).contains("the configuration was read again"));
    folder.let_go_in_round(3);
    let let_go = folder.let_go_in_round(4);
    assert!(let_go > half, "{let_go} pages: LRU has what a loop needs last");
    let said = folder.said(&["manage", "--owner", &std::process::id().to_string(), "mru"]);
    assert_eq!(said, format!("in force: mru owners \"{own}\"\n"));
    assert!(folder.said(&["managers"]).starts_with(&format!("command    mru owners \"{own}\"")));
    folder.let_go_in_round(5);
    let let_go = folder.let_go_in_round(6);
    assert!(let_go < half, "{let_go} pages: MRU keeps most");
    stop(running);
}

#[test]
fn managers_are_for_a_policy_that_has_them() {
    let Some(folder) = Folder::new() else { return };
    let file = folder.text("managers.toml");
    let files = folder.text("files");
    let refused = |arguments: &[&str]| {
        let output = forebay(&[&["steer", &files, "-c", "1MiB", "--managers", &file][..], arguments].concat());
        (output.status.code(), text(&output.stderr))
    };
    fs::write(&file, "[[manager]]\nname = \"mru\"\n").expect("rules");
    let (code, said) = refused(&[]);
    assert!(code == Some(2) && said.contains("clock-pro has no managers; add --policy lru-sp"), "{said}");
    fs::write(&file, "[[manager]]\nname = \"rmin\"\n").expect("rules");
    let (code, said) = refused(&["--policy", "lru-sp"]);
    assert!(code == Some(2) && said.contains("managers.toml line 2: that manager needs to know"), "{said}");
    let first = folder.files().next().expect("there are some").display().to_string();
    let running = folder.steer(&["--cache", "1MiB"]);
    for (command, why) in [
        (&["manage", "mru"][..], "the policy clock-pro has no managers: steer with --policy lru-sp"),
        (&["managers"], "the policy clock-pro has no managers"),
        (&["hint", "/etc/passwd", "dontneed"], "/etc/passwd: it is not steered"),
        (&["hint", &first, "often"], "`often` is no hint: write normal, random, sequential"),
        (&["hint", &first, "random"], "readahead of a steered file is the kernel's"),
        (&["hint", &files, "willneed"], "files: it is no regular file"),
        (&["hint", "/no/such/file", "willneed"], "/no/such/file: No such file"),
    ] {
        let answer = folder.control(command);
        let said = answer["message"].as_str().unwrap_or_default();
        assert!(answer["answer"] == "refused" && said.contains(why), "{command:?}: {answer}");
    }
    stop(running);
}

#[test]
fn owners_by_choice_are_named_so_in_recordings() {
    let Some(folder) = Folder::new() else { return };
    let (trace, rows) = (folder.text("uses.parquet"), folder.text("uses.csv"));
    let running = folder.steer(&["--cache", "1GiB", "--owners", "user", "--record", &trace]);
    folder.read();
    folder.wait_for_uses(ALL >> 12);
    stop(running);
    let output = forebay(&["convert", &trace, &rows]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let rows = fs::read_to_string(rows).expect("it is there");
    assert!(rows.lines().count() > 1 && rows.lines().skip(1).all(|row| row.contains("user 0")), "{rows}");
}

#[test]
fn hints_by_hand_bring_a_file_and_let_it_leave() {
    undisturbed(hint_by_hand);
}

fn hint_by_hand() {
    let Some(folder) = Folder::new() else { return };
    let running = folder.steer(&["--cache", &CACHE.to_string()]);
    let first = folder.files().next().expect("there are some").display().to_string();
    assert_eq!(folder.said(&["hint", &first, "willneed"]), format!("{first}: willneed\n"));
    let mut reclaimed = 0;
    wait_until("it comes", || {
        // What the kernel has taken again comes by another hint alone.
        if std::mem::replace(&mut reclaimed, folder.figure("reclaimed")) != reclaimed {
            folder.said(&["hint", &first, "willneed"]);
        }
        folder.resident() == FILE && folder.figure("there") == FILE >> 12
    });
    assert_eq!((folder.figure("kernel_misses"), folder.figure("kernel_hits")), (0, 0), "that is no use of it");
    // Pages that were used leave, too, and so does what a program has just written.
    folder.read();
    folder.wait_for_uses(ALL >> 12);
    let written = vec![7; FILE as usize];
    fs::write(&first, &written).expect("it is written");
    // Events of the write may still be on their way.
    wait_until("the write is counted", || folder.figure("there") << 12 == folder.resident());
    let others = folder.figure("there");
    folder.said(&["hint", &first, "dontneed"]);
    wait_until("it leaves", || resident([Path::new(&first)]) == 0);
    assert_eq!(fs::read(&first).expect("it is there"), written, "nothing is lost");
    assert!(folder.figure("there") <= others);
    stop(running);
}

#[test]
fn an_attribute_names_the_manager_of_a_file_or_of_all_below_a_directory() {
    undisturbed(|| {
        let Some(folder) = Folder::new() else { return };
        let attribute = |name: &str, value: &str| {
            rustix::fs::setxattr(folder.path("files"), name, value.as_bytes(), rustix::fs::XattrFlags::empty())
                .expect("the file system has attributes");
        };
        attribute("user.forebay.manager", "mru");
        let mut running = folder.steer_managed(&[]);
        // In each round MRU lets go what does not fit, a third of all pages, and LRU all of them.
        let half = (ALL >> 12) / 2;
        folder.let_go_in_round(0);
        let let_go = folder.let_go_in_round(1);
        assert!(let_go < half, "{let_go} pages: MRU keeps most");
        let said = folder.said(&["managers"]);
        let files = (0..6).map(|file| format!("attribute  mru  of {file}\n")).collect::<String>();
        assert_eq!(said, files);
        // What is set meanwhile holds after a reload, and a wrong value is named.
        attribute("user.forebay.manager", "none");
        assert!(folder.said(&["reload"]).contains("the configuration was read again"));
        folder.let_go_in_round(2);
        let let_go = folder.let_go_in_round(3);
        assert!(let_go > half, "{let_go} pages: LRU has what a loop needs last");
        attribute("user.forebay.manager", "mruu");
        folder.said(&["reload"]);
        running.wait_for_once("files: user.forebay.manager: there is no manager `mruu`");
        assert_eq!(folder.said(&["managers"]), "nobody manages: LRU decides\n");
        let first = folder.files().next().expect("there are some").display().to_string();
        folder.said(&["hint", &first, "noreuse"]);
        assert_eq!(folder.said(&["managers"]), "attribute  access-once  of 0\n");
        folder.said(&["hint", &first, "normal"]);
        assert_eq!(folder.said(&["managers"]), "nobody manages: LRU decides\n");
        stop(running);
    });
}
