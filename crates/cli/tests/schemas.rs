//! docs/schemas.md and docs/analysis.md have a word for every key that the commands answer with.

#[allow(dead_code, reason = "nothing is refused here")]
mod command;

use command::answer;
use serde_json::Value;
use std::collections::BTreeSet;

fn manual(name: &str) -> String {
    let path = format!("{}/../../docs/{name}.md", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).expect(&path)
}

/// All keys but those of policies' states, which are as the policies name them.
fn keys(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                found.insert(key.clone());
                if key != "state" {
                    keys(value, found);
                }
            }
        }
        Value::Array(list) => list.iter().for_each(|value| keys(value, found)),
        _ => {}
    }
}

/// Whether a word is in the text between others.
fn names(text: &str, key: &str) -> bool {
    text.split(|letter: char| !letter.is_alphanumeric() && letter != '_').any(|word| word == key)
}

const ZIPF: &str = "zipf:pages=500,references=5000";

#[test]
fn every_key_of_json_is_in_the_manual() {
    let commands: [(&str, &[&str]); 11] = [
        (
            "schemas",
            &["compare", ZIPF, "-p", "arc", "-s", "5%", "-d", "nvme", "--by-distance", "-r", "fixed", "--states", "2"],
        ),
        ("schemas", &["curve", ZIPF, "--sample", "50%", "--errors"]),
        ("schemas", &["levels", ZIPF, "-l", "lru:10", "-l", "mq:20", "-d", "nvme", "--analyze"]),
        ("schemas", &["managers", "sample", "-s", "20%"]),
        ("schemas", &["managers", "sample", "-s", "20%", "-d", "nearline", "-r", "linux"]),
        ("schemas", &["info"]),
        ("schemas", &["policies"]),
        ("schemas", &["explain", "clock-pro"]),
        ("schemas", &["formats"]),
        ("schemas", &["devices"]),
        ("analysis", &["analyze", "--grid", "4x4"]),
    ];
    for (page, command) in commands {
        let json = serde_json::from_str(&answer(&[command, &["-f", "json"]].concat())).expect("the answer is JSON");
        let (mut found, text) = (BTreeSet::new(), manual(page));
        keys(&json, &mut found);
        assert!(found.len() > 2, "{command:?}: {found:?}");
        let missing: Vec<&String> = found.iter().filter(|key| !names(&text, key)).collect();
        assert!(missing.is_empty(), "{command:?}: docs/{page}.md does not name {missing:?}");
    }
}

#[test]
fn every_column_of_a_list_is_in_the_manual() {
    let text = manual("schemas");
    for command in ["info", "policies", "formats", "devices"] {
        let head = answer(&[command, "-f", "csv"]);
        let missing: Vec<&str> = head.lines().next().unwrap().split(',').filter(|name| !names(&text, name)).collect();
        assert!(missing.is_empty(), "{command}: docs/schemas.md does not name {missing:?}");
    }
}
