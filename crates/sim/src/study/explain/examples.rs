//! A string of references for each policy that shows its idea, in a cache small enough to follow.

use super::references::References;
use forebay_policy::Spec;

/// What is explained where nothing else is asked.
pub(super) struct Example {
    pub(super) spec: Spec,
    pub(super) references: References,
    pub(super) size: u32,
}

/// Policy and parameters, size, references. A policy that is not here has the last row's size and references.
const EXAMPLES: &[(&str, u32, &str)] = &[
    // Two pages that are used often, and a scan that pushes them out.
    ("lru", 3, "ababcabdefab"),
    ("fifo", 3, "abcabdabeabc"),
    ("lfu", 3, "aaabbcdcdcdab"),
    ("clock", 4, "abcdaebacfbga"),
    ("gclock", 4, "abcdaaebfaagab"),
    ("lru-k", 3, "ababcdefabgb"),
    ("2q:out=1", 4, "abcaabdefabga"),
    ("fbr", 5, "abcaabdaefgabhb"),
    ("lrfu:lambda=0.1", 3, "aabacdbaefab"),
    ("arc", 4, "abacdbefcgdbaehb"),
    ("car", 4, "abacdbefcgdbaehb"),
    ("linux", 4, "abcabdefgahb"),
    ("sieve", 4, "abcdabefagbha"),
    ("s3-fifo", 5, "aaabbbcdefgcahb"),
    ("w-tinylfu:window=0.25", 4, "aabbacdefabgb"),
    ("smq:levels=3", 6, "abcdefabababcghab"),
    // Loops over more pages than there are frames.
    ("mru", 3, "abcdabcdabcd"),
    ("random", 3, "abcdabcdabcd"),
    ("eelru", 4, "abcdefabcdefabcdefabcdef"),
    ("lirs", 4, "abcdeabcdeabcde"),
    ("lru-sp:manager=mru", 3, "abcdabcdabcd"),
    ("clock-pro:least=1:recovery=off", 5, "abcdefeabgfchab"),
    // Frequencies at distances beyond the size.
    ("mq:queues=4:lifetime=6", 4, "aabbaacdefgcabhib"),
    // Files in their order, and pages that are in no order: q and x.
    ("seq:length=3:distance=1:misses=2", 4, "qxabcdefgqxhijq"),
    ("ubm:run=3:gap=1:sequential=first", 6, "qxqABCDEFxqabcdxabcdqabcdHIJKabcd"),
    ("dulo:correlation=1:bank=4", 8, "qabcdxefqghxijabcdq"),
    ("worst", 3, "aabbcdabeabcde"),
    ("opt", 3, "abcdabeabcde"),
];

pub(super) fn of(asked: &Spec) -> Example {
    let name = asked.info.name;
    let is_of = |spec: &str| spec.split(':').next() == Some(name);
    let &(spec, size, references) =
        EXAMPLES.iter().find(|(spec, ..)| is_of(spec)).or(EXAMPLES.last()).expect("there are examples");
    let bare = asked.label == name && is_of(spec);
    let spec = if bare { Spec::parse(spec).expect("an example is of a policy") } else { asked.clone() };
    Example { spec, references: references.parse().expect("an example has references"), size }
}
