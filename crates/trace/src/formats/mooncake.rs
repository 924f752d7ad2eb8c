//! Mooncake's traces of a service of language models: a JSON object a line, one for each prompt, with the blocks of its KV cache.
//!
//! R. Qin et al., "Mooncake: Trading More Storage for Less Computation", FAST 2025; the README of its traces. The members of an object:
//!
//! - hash_ids: the blocks of the prompt, in order, each of 512 tokens; the last may be shorter. A number stands for a block and all blocks
//!   before it. Here each is a page of its own, and a read.
//! - timestamp: milliseconds.
//! - input_length, output_length: tokens. They are not used: what is generated has no block in the trace.
//!
//! All blocks of a prompt have its time.

use super::by_line::several_by_line;
use super::json_lines::Members;
use super::{Format, fields};
use crate::error::Result;
use crate::input::Lines;
use crate::request::{Request, Unit};
use forebay_basis::Operation;

pub(super) const FORMAT: Format = Format {
    name: "mooncake",
    title: "Mooncake: JSON lines with the hash_ids of a prompt's KV-cache blocks",
    source: "R. Qin et al., Mooncake, FAST 2025",
    recognise: |head| {
        head.lines_all(|line| {
            Members::of(line).is_ok_and(|members| members.get(BLOCKS).is_some_and(|ids| ids.starts_with('[')))
        })
    },
    open: |input, _| Ok(several_by_line(input.lines(), Unit::Pages, requests)),
    // Made up in the manner of Mooncake's traces, whose lines are long.
    example: b"{\"timestamp\": 0, \"input_length\": 1300, \"output_length\": 6, \"hash_ids\": [0, 1, 2]}\n\
        {\"timestamp\": 40, \"input_length\": 28, \"output_length\": 445, \"hash_ids\": [3]}\n\
        {\"timestamp\": 277, \"input_length\": 1536, \"output_length\": 92, \"hash_ids\": [0, 1, 4]}\n",
};

const BLOCKS: &str = "hash_ids";
const TIME: &str = "timestamp";
/// Nanoseconds in a unit of the time.
const TICK: u64 = 1_000_000;

fn requests(lines: &Lines, requests: &mut Vec<Request>) -> Result<()> {
    let members = Members::of(lines.line()).map_err(|message| lines.error(message))?;
    let Some(blocks) = members.get(BLOCKS) else {
        return Err(lines.error(format!("has no `{BLOCKS}`; every line must have the blocks of its prompt")));
    };
    let blocks: Vec<u64> = serde_json::from_str(blocks)
        .map_err(|_| lines.error(format!("`{BLOCKS}` is no list of whole numbers: {}", fields::shorten(blocks))))?;
    let time = match members.get(TIME) {
        Some(time) => fields::parse_decimal(time, TICK.ilog10())
            .ok_or_else(|| lines.error(format!("{TIME} `{}` is no time in milliseconds", fields::shorten(time))))?,
        None => 0,
    };
    let read = |offset| Request { time, owner: 0, object: 0, offset, length: 1, operation: Operation::Read };
    requests.extend(blocks.into_iter().map(read));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::testing::{error, recognises, requests};

    #[test]
    fn each_block_of_a_prompt_is_a_read_of_a_page_at_its_time() {
        let (_, requests) = requests(&FORMAT, FORMAT.example);
        let seen: Vec<_> = requests.iter().map(|request| (request.time / TICK, request.offset)).collect();
        assert_eq!(seen, [(0, 0), (0, 1), (0, 2), (40, 3), (277, 0), (277, 1), (277, 4)]);
        assert!(requests.iter().all(|request| request.length == 1 && request.operation == Operation::Read));
    }

    #[test]
    fn prompts_of_the_synthetic_trace() {
        // The first five short lines of Mooncake's FAST25-release/traces/synthetic_trace.jsonl.
        let trace = b"{\"timestamp\": 529, \"input_length\": 28, \"output_length\": 445, \"hash_ids\": [298]}\n\
        {\"timestamp\": 2469, \"input_length\": 24, \"output_length\": 216, \"hash_ids\": [498]}\n\
        {\"timestamp\": 2775, \"input_length\": 546, \"output_length\": 78, \"hash_ids\": [499, 500]}\n\
        {\"timestamp\": 3224, \"input_length\": 42, \"output_length\": 675, \"hash_ids\": [612]}\n\
        {\"timestamp\": 3437, \"input_length\": 2752, \"output_length\": 35, \"hash_ids\": [708, 709, 710, 711, 712, 713]}\n";
        let (_, requests) = requests(&FORMAT, trace);
        let blocks: Vec<u64> = requests.iter().map(|request| request.offset).collect();
        assert_eq!(blocks, [298, 498, 499, 500, 612, 708, 709, 710, 711, 712, 713]);
        assert_eq!(requests[10].time, 3_437_000_000);
        assert!(recognises(&FORMAT, trace));
    }

    #[test]
    fn a_prompt_may_have_no_block_and_no_time() {
        let (_, requests) = requests(&FORMAT, b"{\"hash_ids\": []}\n{\"hash_ids\": [18446744073709551615]}\n");
        assert_eq!((requests.len(), requests[0].offset, requests[0].time), (1, u64::MAX, 0));
    }

    #[test]
    fn other_objects_are_not_recognised() {
        for text in ["{\"hash_ids\": 1}\n", "{\"offset\": 1}\n", "hash_ids\n1\n"] {
            assert!(!recognises(&FORMAT, text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn errors_name_the_line_and_the_member() {
        for (line, says) in [
            ("{\"timestamp\": 1}", "has no `hash_ids`"),
            ("{\"hash_ids\": [1, -1]}", "`hash_ids` is no list of whole numbers: [1, -1]"),
            ("{\"hash_ids\": [1], \"timestamp\": \"x\"}", "timestamp `\"x\"` is no time in milliseconds"),
            ("{\"hash_ids\": [1]", "is no JSON object"),
            ("[1]", "is no JSON object"),
        ] {
            let message = error(&FORMAT, format!("{{\"hash_ids\": [1]}}\n{line}\n").as_bytes());
            assert!(message.starts_with("trace: line 2: ") && message.contains(says), "{line}: {message}");
        }
    }
}
