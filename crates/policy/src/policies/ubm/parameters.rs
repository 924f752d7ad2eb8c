//! What can be set.

use crate::parameters::{Kind, Parameter};

pub(super) const PARAMETERS: &[Parameter] = &[
    Parameter {
        name: "other",
        help: "the replacement of other references",
        kind: Kind::Choice(&["lru", "lfu", "lru-2", "lrfu"]),
        default: "lru",
    },
    Parameter { name: "run", help: "how much of consecutive pages makes a run", kind: Kind::Length, default: "8" },
    Parameter {
        name: "gap",
        help: "how many blocks further on the next one of a run may be",
        kind: Kind::Integer { least: 1, most: 1_000_000 },
        default: "8",
    },
    Parameter {
        name: "sequential",
        help: "blocks read for the first time: first lets them leave first, as in the paper; measured keeps them where that has earned more",
        kind: Kind::Choice(&["measured", "first"]),
        default: "measured",
    },
    Parameter {
        name: "gain",
        help: "what partitions are weighed by: hits, as in the paper, or the time that they save on the device of `compare --device`; without one, hits",
        kind: Kind::Choice(&["hits", "time"]),
        default: "hits",
    },
    Parameter {
        name: "curve",
        help: "the gain of other references: fitted, as in the paper, or not below the hull of all hits counted",
        kind: Kind::Choice(&["hull", "fitted"]),
        default: "hull",
    },
    Parameter {
        name: "ended",
        help: "blocks of a loop that has missed its round: ages makes their period longer; keeps is the paper's",
        kind: Kind::Choice(&["ages", "keeps"]),
        default: "ages",
    },
    Parameter {
        name: "in-use",
        help: "a block at which a pass is: stays as long as the partitions have others; leaves as any other, as in the paper",
        kind: Kind::Choice(&["stays", "leaves"]),
        default: "stays",
    },
];
