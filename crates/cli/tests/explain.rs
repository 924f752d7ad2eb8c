//! `forebay explain`: its forms, its files, and what it refuses.

mod command;

use command::{answer, failure, forebay};
use std::path::{Path, PathBuf};

fn path(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&path);
    path
}

#[test]
fn an_explanation_is_text_by_default_and_says_how_to_ask_for_it() {
    let text = answer(&["explain", "lru"]);
    let asked = text.lines().find(|line| line.starts_with("forebay explain ")).expect("it says so");
    let words: Vec<&str> = asked.split(' ').skip(1).collect();
    assert_eq!(answer(&words), text);
    assert!(text.contains("Hit: ") && text.contains("is evicted from the list and forgotten"), "{text}");
}

#[test]
fn every_policy_is_explained() {
    for info in forebay_policy::registry::POLICIES {
        let text = answer(&["explain", info.name]);
        assert!(text.starts_with(info.name) && text.contains("Miss: "), "{text}");
    }
}

#[test]
fn a_file_has_the_form_of_its_name_and_a_page_alone_is_replaced() {
    let page = path("explained.html");
    let name = page.to_str().unwrap();
    let asked = ["explain", "clock-pro", "-r", "abcabdabc", "-s", "3", "-o", name];
    assert_eq!(answer(&asked), "");
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.starts_with("<!doctype html>") && html.matches("class=\"step\"").count() == 9);
    for outside in ["http:", "https:", "src=", "@import", "url("] {
        assert!(!html.contains(outside), "{outside}");
    }
    assert_eq!(answer(&asked), "");
    std::fs::write(&page, "<html>mine</html>").unwrap();
    assert!(failure(&asked, 2).contains("was not made by forebay"));

    let json = path("explained.json");
    answer(&["explain", "arc", "-o", json.to_str().unwrap()]);
    let read: serde_json::Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    assert_eq!(read["steps"].as_array().unwrap().len(), read["references"].as_str().unwrap().len());
    assert!(failure(&["explain", "arc", "-o", json.to_str().unwrap()], 2).contains("exists: remove it first"));
    let text = path("explained.txt");
    answer(&["explain", "arc", "-o", text.to_str().unwrap()]);
    assert_eq!(std::fs::read_to_string(&text).unwrap(), answer(&["explain", "arc", "--format", "text"]));
}

#[test]
fn a_wrong_question_is_refused_with_what_is_right() {
    assert!(failure(&["explain"], 2).contains("<NAME[:PARAMETER=VALUE]…>"));
    assert!(failure(&["explain", "clok"], 2).contains("(did you mean `clock`?)"));
    assert!(failure(&["explain", "lru:k=2"], 2).contains("this policy has none"));
    assert!(failure(&["explain", "lru", "-r", "ab1"], 2).contains("letters (abcab), or numbers with commas between"));
    assert!(failure(&["explain", "lru", "-r", ""], 2).contains("letters (abcab)"));
    assert!(failure(&["explain", "lru", "-s", "0"], 2).contains("1..=64"));
    assert!(failure(&["explain", "lru", "-s", "65"], 2).contains("1..=64"));
    assert!(failure(&["explain", "lru", "-r", &"ab".repeat(501)], 2).contains("at most 1000"));
    assert!(failure(&["explain", "lru", "-o", env!("CARGO_TARGET_TMPDIR")], 2).contains("is a directory"));
    assert_eq!(forebay(&["explain", "lru", "-o", "/no/such/folder/lru.html"]).status.code(), Some(1));
}

#[test]
fn the_manual_shows_what_is_printed() {
    let manual = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/explain.md");
    let manual = std::fs::read_to_string(manual).unwrap();
    let shown = manual.split("```\n").nth(1).expect("it shows one");
    let (command, printed) = shown.split_once('\n').unwrap();
    let words: Vec<&str> = command.strip_prefix("$ forebay ").expect("a command").split(' ').collect();
    assert_eq!(answer(&words), printed);
}
