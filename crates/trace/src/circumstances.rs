//! How a trace was recorded: what a replay needs to have what the front end's own cache had.

use forebay_basis::show_bytes;
use std::fmt;
use std::sync::Arc;

/// What a recording says of itself. Our Parquet tables keep it, each part under a key of its own.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Circumstances {
    /// The command that recorded it: `mount`, `serve`, `run`, `steer`, `record`.
    pub front_end: String,
    /// What was read ahead, as `compare --readahead` takes it: `linux:max=512KiB`, `none`.
    pub readahead: Option<String>,
    /// The cache's policy.
    pub policy: Option<String>,
    /// The cache's size in bytes.
    pub cache: Option<u64>,
    /// How many of them its policy decides about.
    pub policy_bytes: Option<u64>,
    /// How writes went to the device: `write-back`, `write-through`, `read-only`.
    pub mode: Option<String>,
    /// What the front end took for a request beside what its pages took, in nanoseconds, while it was recorded.
    pub request_ns: Option<u64>,
    /// The same for a page that hit.
    pub hit_ns: Option<u64>,
    /// What the device took for a page that was read, readahead's among them.
    pub read_ns: Option<u64>,
}

/// Adds to a recording's circumstances what is known when it ends.
#[derive(Clone)]
pub struct AtEnd(pub Arc<dyn Fn(&mut Circumstances) + Send + Sync>);

impl fmt::Debug for AtEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AtEnd")
    }
}

/// What a real cache reads ahead that reads at most this many bytes ahead of a stream, as [`Circumstances::readahead`] has it.
pub fn readahead_of(most: u64) -> String {
    match most {
        0 => "none".to_owned(),
        most if most % 1024 == 0 => format!("linux:max={}KiB", most / 1024),
        most => format!("linux:max={most}B"),
    }
}

const FRONT_END: &str = "forebay.front_end";
const READAHEAD: &str = "forebay.readahead";
const POLICY: &str = "forebay.policy";
const CACHE: &str = "forebay.cache";
const POLICY_BYTES: &str = "forebay.policy_bytes";
const MODE: &str = "forebay.mode";
const REQUEST: &str = "forebay.request_ns";
const HIT: &str = "forebay.hit_ns";
const READ: &str = "forebay.read_ns";

/// A foreign text for a terminal: without what would steer it, and not long.
fn plain(text: &str) -> String {
    text.chars().take(LONGEST).map(|letter| if letter.is_control() { '?' } else { letter }).collect()
}

/// The most letters that are shown of a text.
const LONGEST: usize = 100;

impl Circumstances {
    /// `by forebay mount: at first a cache of 64 MiB (62 MiB for its policy), under lru, write-back, readahead linux:max=512KiB`
    pub fn in_words(&self) -> String {
        let Self { front_end, readahead, policy, cache, policy_bytes, mode, .. } = self;
        let parts = [
            cache.map(|bytes| match policy_bytes {
                Some(policy) if *policy != bytes => {
                    format!("at first a cache of {} ({} for its policy)", show_bytes(bytes), show_bytes(*policy))
                }
                _ => format!("at first a cache of {}", show_bytes(bytes)),
            }),
            policy.as_ref().map(|policy| format!("under {}", plain(policy))),
            mode.as_deref().map(plain),
            readahead.as_ref().map(|rule| format!("readahead {}", plain(rule))),
        ];
        let parts: Vec<String> = parts.into_iter().flatten().collect();
        let with = if parts.is_empty() { String::new() } else { format!(": {}", parts.join(", ")) };
        format!("by forebay {}{with}", plain(front_end))
    }

    /// The metadata of a table, by key.
    pub(crate) fn metadata(&self) -> impl Iterator<Item = (&'static str, String)> {
        let number = |number: Option<u64>| number.map(|number| number.to_string());
        let values = [
            (FRONT_END, Some(self.front_end.clone())),
            (READAHEAD, self.readahead.clone()),
            (POLICY, self.policy.clone()),
            (CACHE, number(self.cache)),
            (POLICY_BYTES, number(self.policy_bytes)),
            (MODE, self.mode.clone()),
            (REQUEST, number(self.request_ns)),
            (HIT, number(self.hit_ns)),
            (READ, number(self.read_ns)),
        ];
        values.into_iter().filter_map(|(key, value)| Some((key, value?)))
    }

    /// What a table's metadata says, by key. An error says what is wrong.
    pub(crate) fn parse<'a>(given: impl Fn(&str) -> Option<&'a str>) -> Result<Option<Self>, String> {
        let Some(front_end) = given(FRONT_END) else { return Ok(None) };
        let text = |key| given(key).map(str::to_owned);
        let number = |key: &str| {
            let unit = if key.ends_with("_ns") { "nanoseconds" } else { "bytes" };
            let wrong = |text: &str| format!("its {key} is `{}`; it should be a number of {unit}", plain(text));
            given(key).map(|text| text.parse().map_err(|_| wrong(text))).transpose()
        };
        Ok(Some(Self {
            front_end: front_end.to_owned(),
            readahead: text(READAHEAD),
            policy: text(POLICY),
            cache: number(CACHE)?,
            policy_bytes: number(POLICY_BYTES)?,
            mode: text(MODE),
            request_ns: number(REQUEST)?,
            hit_ns: number(HIT)?,
            read_ns: number(READ)?,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn what_is_written_is_read_again_and_a_wrong_number_is_refused() {
        let front_end = "mount".to_owned();
        let least = Circumstances { front_end: front_end.clone(), ..Circumstances::default() };
        let most = Circumstances {
            front_end,
            readahead: Some("linux:max=512KiB".to_owned()),
            policy: Some("lru".to_owned()),
            cache: Some(64 << 20),
            policy_bytes: Some(62 << 20),
            mode: Some("write-back".to_owned()),
            request_ns: Some(17_000),
            hit_ns: Some(400),
            read_ns: Some(2_000_000),
        };
        assert_eq!(least.in_words(), "by forebay mount");
        let with =
            "at first a cache of 64 MiB (62 MiB for its policy), under lru, write-back, readahead linux:max=512KiB";
        assert_eq!(most.in_words(), format!("by forebay mount: {with}"));
        for circumstances in [least, most] {
            let mut metadata: HashMap<&str, String> = circumstances.metadata().collect();
            assert_eq!(Circumstances::parse(|key| metadata.get(key).map(String::as_str)), Ok(Some(circumstances)));
            metadata.insert(CACHE, "64MiB".to_owned());
            let wrong = Circumstances::parse(|key| metadata.get(key).map(String::as_str));
            assert_eq!(wrong.unwrap_err(), "its forebay.cache is `64MiB`; it should be a number of bytes");
        }
        assert_eq!(Circumstances::parse(|_| None), Ok(None));
    }

    #[test]
    fn foreign_texts_cannot_steer_a_terminal() {
        let hostile = "\x1b[31mred\nforged".to_owned() + &"x".repeat(1000);
        let circumstances =
            Circumstances { front_end: hostile.clone(), policy: Some(hostile), ..Circumstances::default() };
        let words = circumstances.in_words();
        assert!(words.starts_with("by forebay ?[31mred?forgedxxx") && words.len() < 300, "{words}");
        assert!(!words.contains(char::is_control), "{words}");
    }

    #[test]
    fn what_a_real_cache_reads_ahead_is_the_rule_linux() {
        assert_eq!([0, 1 << 19, 1000].map(readahead_of), ["none", "linux:max=512KiB", "linux:max=1000B"]);
    }
}
