//! The policy whose spec is the first line, along any steps, held to the contract of all policies.
#![no_main]

#[path = "../../crates/policy/tests/all/contract/run.rs"]
mod run;

use forebay_policy::{Spec, registry};
use run::{PAGES, Run, Step};

/// The most pages that a cache has room for.
const CAPACITY: u32 = 12;
/// This many steps are taken at most.
const MOST: usize = 4096;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some(end) = bytes.iter().position(|&byte| byte == b'\n') else { return };
    let Some(spec) = std::str::from_utf8(&bytes[..end]).ok().and_then(|text| Spec::parse(text).ok()) else { return };
    let [capacity, steps @ ..] = &bytes[end + 1..] else { return };
    let (capacity, steps) = (1 + u32::from(*capacity) % CAPACITY, steps.chunks_exact(2).take(MOST));
    let steps: Vec<Step> = steps.map(|step| decode(step[0], u32::from(step[1]))).collect();
    registry::visit(spec.info.name, Run { spec: &spec, capacity, steps: &steps }).expect("it is in the registry");
});

/// A step, by its kind and what it is about.
fn decode(kind: u8, about: u32) -> Step {
    let page = about % PAGES;
    match kind % 12 {
        0..5 => Step::Reference(page),
        5 => Step::ReadAhead(page),
        6 => Step::Pin(page),
        7 => [Step::PinAll, Step::UnpinAll][about as usize % 2].clone(),
        8 => Step::Remove(page),
        9 => Step::Resize(1 + about % CAPACITY),
        10 => Step::Evict,
        _ => Step::Hint(page, about / PAGES),
    }
}
