//! Hits and misses by owner: who gains from a cache that several share, and who loses.

use super::replays::Replay;
use crate::input::trace::Trace;
use crate::replay::Cursor;
use serde::Serialize;
use std::collections::HashMap;

/// Hits and misses by owner, and by source.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Owners {
    /// By owner, in falling order of their references.
    pub owners: Vec<OwnerHits>,
    /// By source, which is what an owner's name says before the first `/`: of a mixed trace, the trace that it came from. Empty
    /// where each owner would be a source of its own.
    pub sources: Vec<OwnerHits>,
    /// By program, which is what an owner's name says before a space and the number of a process. Empty where each owner would be a
    /// program of its own.
    pub programs: Vec<OwnerHits>,
}

/// Hits and misses of an owner, or of a source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OwnerHits {
    /// Its name; empty for the unnamed one.
    pub owner: String,
    /// How many references it makes.
    pub references: u64,
    /// What became of them with each policy at each size.
    pub runs: Vec<OwnerRun>,
}

/// What became of an owner's references.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OwnerRun {
    /// The policy, as the user named it.
    pub policy: String,
    /// The size of the cache that all owners share.
    pub pages: u32,
    /// This owner's hits.
    pub hits: u64,
    /// This owner's misses.
    pub misses: u64,
    /// Misses by references.
    pub miss_ratio: f64,
}

impl Owners {
    pub(super) fn of(trace: &Trace, replays: &[Replay]) -> Self {
        let names = trace.names.owners();
        let mut references = vec![0u64; names.len()];
        let mut owner = owners_of(trace);
        (0..trace.len()).for_each(|time| references[owner(time)] += 1);
        let misses = |replay: &Replay| {
            let mut misses = vec![0u64; names.len()];
            let mut owner = owners_of(trace);
            replay.missed.iter().for_each(|&time| misses[owner(time as usize)] += 1);
            misses
        };
        let misses: Vec<Vec<u64>> = replays.iter().map(misses).collect();
        // Each group is a name and the owners in it.
        let hits = |groups: Vec<(&str, Vec<usize>)>| {
            let group = |(name, owners): (&str, Vec<usize>)| {
                let sum = |counts: &[u64]| owners.iter().map(|&owner| counts[owner]).sum::<u64>();
                let references = sum(&references);
                let run = |(replay, misses): (&Replay, &Vec<u64>)| {
                    let misses = sum(misses);
                    let (policy, miss_ratio) = (replay.policy.clone(), misses as f64 / references as f64);
                    OwnerRun { policy, pages: replay.pages, hits: references - misses, misses, miss_ratio }
                };
                let runs = replays.iter().zip(&misses).map(run).collect();
                OwnerHits { owner: name.to_owned(), references, runs }
            };
            let mut all: Vec<OwnerHits> = groups.into_iter().map(group).collect();
            all.sort_by(|one, other| other.references.cmp(&one.references).then_with(|| one.owner.cmp(&other.owner)));
            all
        };
        let known: Vec<usize> = (0..names.len()).filter(|&owner| references[owner] > 0).collect();
        // Groups, unless each has one owner.
        let grouped = |group: fn(&str) -> &str| {
            let mut groups: HashMap<&str, Vec<usize>> = HashMap::new();
            for &owner in &known {
                groups.entry(group(&names[owner])).or_default().push(owner);
            }
            if groups.len() < known.len() { hits(groups.into_iter().collect()) } else { Vec::new() }
        };
        let owners = known.iter().map(|&owner| (names[owner].as_str(), vec![owner])).collect();
        Self { owners: hits(owners), sources: grouped(source), programs: grouped(program) }
    }
}

/// `db` of `db/sqlite3 18691`.
fn source(owner: &str) -> &str {
    owner.split('/').next().unwrap_or_default()
}

/// `sqlite3` of `sqlite3 18691`.
fn program(owner: &str) -> &str {
    let process = |number: &str| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    owner.rsplit_once(' ').filter(|(_, number)| process(number)).map_or(owner, |(program, _)| program)
}

/// The owner of the reference at each time asked; times rise.
fn owners_of(trace: &Trace) -> impl FnMut(usize) -> usize {
    let mut cursor = Cursor::default();
    move |time| {
        cursor.advance(&trace.requests, time);
        cursor.request(&trace.requests).0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::tests::trace;
    use forebay_policy::Spec;

    fn owners(text: &str) -> Owners {
        let trace = trace(text);
        Owners::of(&trace, &[Replay::run(&trace, &Spec::parse("lru").unwrap(), 2, None, &|_| {})])
    }

    fn figures(all: &[OwnerHits]) -> Vec<(&str, u64, u64)> {
        all.iter().map(|hits| (hits.owner.as_str(), hits.references, hits.runs[0].misses)).collect()
    }

    #[test]
    fn each_owner_has_its_own_hits_and_sources_add_them_up() {
        let Owners { owners, sources, programs } = owners(
            "time,owner,object,page\n0,db/a,f,1\n1,db/b,f,2\n2,db/a,f,1\n3,scan,f,7\n4,scan,f,8\n5,db/b,f,2\n6,db/a,f,1\n",
        );
        assert_eq!(figures(&owners), [("db/a", 3, 2), ("db/b", 2, 2), ("scan", 2, 2)]);
        assert_eq!(figures(&sources), [("db", 5, 4), ("scan", 2, 2)]);
        assert!(programs.is_empty());
        assert_eq!((owners[0].runs[0].hits, owners[0].runs[0].miss_ratio), (1, 2.0 / 3.0));
    }

    #[test]
    fn without_common_sources_there_are_owners_alone() {
        let Owners { owners, sources, programs } = owners("1\n2\n1\n");
        assert_eq!(figures(&owners), [("", 3, 2)]);
        assert!(sources.is_empty() && programs.is_empty());
    }

    #[test]
    fn programs_add_up_their_processes() {
        let of = owners("time,owner,object,page\n0,cc1 12,f,1\n1,cc1 13,f,2\n2,make all,f,3\n3,cc1 12,f,2\n4,7,f,2\n");
        assert_eq!(figures(&of.programs), [("cc1", 3, 2), ("7", 1, 0), ("make all", 1, 1)]);
        assert_eq!((of.owners.len(), of.sources.len()), (4, 0));
    }
}
