//! Who chooses which pages leave: the policy, or the kernel by its own lists.
//!
//! A policy that suits a program lets it compute longer from one wait for swap space to the next. One that does not is worse than the kernel, which has cost nothing.
//! No count of hits tells which it is: what a policy makes the kernel do besides counts as well. So both have their turns, what programs have computed for each wait is
//! measured, and the better goes on.
//!
//! ```text
//!   the kernel    the policy's trial    the kernel     the better                  the other's trial    the better
//!   4 turns       4 turns               4 turns        8 turns                     4 turns              4 turns    then 16 more, 32, and 64 from then on
//!    [measured]    [measured]            [measured]    [ … measured]                [measured]           [measured]
//!                                                 ^ compared                                                     ^ compared
//! ```
//!
//! Who tries is compared with the other before and after, as a program may go faster with time whoever chooses. The first turn after a change is not measured:
//! lists and policy get to know the program in it.
//!
//! The kernel only samples the time that a process computes, some 250 times a second. So a turn goes on until enough was sampled, and programs that compute little between
//! waits have long turns. At the latest a turn ends after a number of waits, so a bad choice costs no more than these. Where nothing waits, no turn ends.

use std::fmt;
use std::time::{Duration, Instant};

/// In a turn programs wait once for each page of a part in this many of the size, and this often at least. It takes this long at least.
const PART: u64 = 32;
const FEWEST: u64 = 256;
const SHORTEST: Duration = Duration::from_millis(500);
/// Programs compute this long in a turn. The kernel takes 45 samples in three such turns, so what is measured is wrong by a seventh.
const LEAST: Duration = Duration::from_millis(60);
/// Where they compute less, the turn is over after this many times as many waits.
const VAIN: u64 = 32;
/// Turns of a trial and before the comparison, and those of the last of them that are measured.
const TRIAL: u32 = 4;
const MEASURED: u32 = 3;
/// Turns of the better until the next trial: twice as many each time that it is so again, up to a limit.
const FIRST: u32 = 8;
const MOST: u32 = 64;
/// Who tries is better where programs have computed this much more for each wait.
const BETTER: f64 = 1.2;
/// A turn without enough waits is over when programs have computed as much as takes the other this many turns.
const CLEARLY: f64 = 2.0;

/// Who chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chooser {
    /// Its own lists.
    Kernel,
    /// The policy.
    Policy,
}

impl Chooser {
    fn other(self) -> Self {
        match self {
            Self::Kernel => Self::Policy,
            Self::Policy => Self::Kernel,
        }
    }
}

impl fmt::Display for Chooser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Kernel => "the kernel",
            Self::Policy => "the policy",
        })
    }
}

/// What programs have done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Work {
    /// The processor time of their own.
    pub(crate) computed: Duration,
    /// Faults that had to wait for storage.
    pub(crate) waits: u64,
}

/// What turns are for.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The better chooses.
    Goes,
    /// The other does; what was measured of the better.
    Tries(Measured),
    /// The better does again; what was measured of it, and what of the other.
    Compares(Measured, Measured),
}

/// What programs did.
#[derive(Clone, Copy, Debug, Default)]
struct Measured {
    seconds: f64,
    waits: u64,
}

impl Measured {
    fn and(self, more: Self) -> Self {
        Self { seconds: self.seconds + more.seconds, waits: self.waits + more.waits }
    }

    /// Seconds for each wait.
    fn worth(self) -> f64 {
        self.seconds / self.waits.max(1) as f64
    }
}

/// Both in turns.
#[derive(Debug)]
pub(super) struct Duel {
    chooser: Chooser,
    stage: Stage,
    /// When this turn began, and what had been done by then.
    began: (Instant, Work),
    /// Turns of this stage to come, with this one.
    left: u32,
    /// Turns of the better after the last comparison.
    span: u32,
    /// What was measured in this stage.
    measured: Measured,
}

impl Duel {
    /// The kernel begins.
    pub(super) fn new(work: Work, now: Instant) -> Self {
        let (chooser, stage, began) = (Chooser::Kernel, Stage::Goes, (now, work));
        Self { chooser, stage, began, left: TRIAL, span: FIRST / 2, measured: Measured::default() }
    }

    /// Whether this turn has taken long enough to be over.
    pub(super) fn may_end(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.began.0) >= SHORTEST
    }

    /// Who chooses from now on, where `work` has been done so far, in memory of `size` pages.
    pub(super) fn go_on(&mut self, work: Work, size: u64, now: Instant) -> Chooser {
        let before = self.began.1;
        let waits = work.waits.saturating_sub(before.waits);
        let computed = work.computed.saturating_sub(before.computed);
        let (seconds, enough) = (computed.as_secs_f64(), (size / PART).max(FEWEST));
        let is_clear = match self.stage {
            Stage::Goes => false,
            Stage::Tries(other) | Stage::Compares(_, other) => seconds > CLEARLY * other.worth() * enough as f64,
        };
        let is_enough = waits >= enough && (computed >= LEAST || waits >= enough * VAIN);
        if !(self.may_end(now) && (is_enough || is_clear && computed >= LEAST)) {
            return self.chooser;
        }
        if self.left <= MEASURED {
            self.measured = self.measured.and(Measured { seconds, waits });
        }
        (self.began, self.left) = ((now, work), self.left - 1);
        if self.left == 0 {
            let measured = std::mem::take(&mut self.measured);
            self.end(measured);
        }
        self.chooser
    }

    /// A stage is over, in which this was measured.
    fn end(&mut self, measured: Measured) {
        (self.stage, self.left) = match self.stage {
            Stage::Goes => {
                self.chooser = self.chooser.other();
                (Stage::Tries(measured), TRIAL)
            }
            Stage::Tries(before) => {
                self.chooser = self.chooser.other();
                (Stage::Compares(before, measured), TRIAL)
            }
            Stage::Compares(before, tried) => {
                let (better, own, other) = (self.chooser, before.and(measured).worth(), tried.worth());
                if other > own * BETTER {
                    (self.chooser, self.span) = (better.other(), FIRST);
                } else {
                    self.span = (self.span * 2).min(MOST);
                }
                let [own, other] = [own, other].map(|seconds| seconds * 1e6);
                let (next, turns) = (self.chooser, self.span);
                tracing::debug!(
                    "for each wait programs compute {own:.2} µs where {better} chooses, and {other:.2} in the other's trial: {next} has {turns} turns"
                );
                (Stage::Goes, self.span)
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 16_000;

    /// Plays turns in which programs compute as long for each wait as `worth` says of the chooser and the number of the turn: who chose in each.
    fn play(duel: &mut Duel, turns: u32, worth: impl Fn(Chooser, u32) -> f64) -> Vec<Chooser> {
        let (mut work, mut now) = (duel.began.1, duel.began.0);
        let turn = |number| {
            let chooser = duel.chooser;
            work.computed += Duration::from_secs_f64(worth(chooser, number) * 1000.0);
            work.waits += 1000;
            now += SHORTEST;
            duel.go_on(work, SIZE, now);
            chooser
        };
        (0..turns).map(turn).collect()
    }

    fn part_of(chooser: Chooser, turns: &[Chooser]) -> f64 {
        turns.iter().filter(|of| **of == chooser).count() as f64 / turns.len() as f64
    }

    fn new() -> Duel {
        Duel::new(Work::default(), Instant::now())
    }

    #[test]
    fn who_lets_programs_compute_more_has_nearly_all_turns() {
        for (better, worse) in [(Chooser::Policy, Chooser::Kernel), (Chooser::Kernel, Chooser::Policy)] {
            let worth = |chooser, _| if chooser == better { 0.002 } else { 0.001 };
            let mut duel = new();
            let begins = play(&mut duel, 50, worth);
            assert!(part_of(better, &begins) > 0.6, "{begins:?}");
            let goes_on = play(&mut duel, 720, worth);
            assert!(part_of(worse, &goes_on) < 0.07, "{}", part_of(worse, &goes_on));
        }
    }

    #[test]
    fn where_both_are_alike_the_kernel_chooses() {
        let mut duel = new();
        let turns = play(&mut duel, 400, |_, _| 0.001);
        assert!(part_of(Chooser::Policy, &turns) < 0.12, "{}", part_of(Chooser::Policy, &turns));
    }

    #[test]
    fn a_program_that_goes_faster_with_time_is_nobody_s_gain() {
        let mut duel = new();
        let turns = play(&mut duel, 400, |_, turn| 0.001 * f64::from(turn + 10));
        assert!(part_of(Chooser::Policy, &turns) < 0.12, "{}", part_of(Chooser::Policy, &turns));
    }

    #[test]
    fn a_program_that_changes_gets_the_other_after_a_trial() {
        let mut duel = new();
        play(&mut duel, 400, |chooser, _| if chooser == Chooser::Policy { 0.002 } else { 0.001 });
        let changed = |chooser, _| if chooser == Chooser::Policy { 0.001 } else { 0.002 };
        play(&mut duel, MOST + 3 * TRIAL, changed);
        let after = play(&mut duel, 200, changed);
        assert!(part_of(Chooser::Kernel, &after) > 0.8, "{}", part_of(Chooser::Kernel, &after));
    }

    #[test]
    fn parts_of_a_loop_that_differ_do_not_hide_who_is_better() {
        let mut duel = new();
        // What a part of the loop computes for each wait differs by more than who chooses.
        let worth = |chooser, turn| {
            [0.0005, 0.001, 0.003][turn as usize % 3] * if chooser == Chooser::Policy { 1.5 } else { 1.0 }
        };
        let turns = play(&mut duel, 400, worth);
        assert!(part_of(Chooser::Policy, &turns) > 0.8, "{}", part_of(Chooser::Policy, &turns));
    }

    #[test]
    fn a_turn_takes_its_waits_and_its_time_and_no_more_where_it_is_clear() {
        let (mut duel, begin) = (new(), Instant::now());
        let work = |seconds, waits| Work { computed: Duration::from_secs(seconds), waits };
        let mut go_on = |work, seconds| {
            duel.go_on(work, SIZE, begin + Duration::from_secs(seconds));
            duel.left
        };
        assert_eq!(go_on(work(9, 499), 9), 4, "too few waits");
        assert_eq!(go_on(work(9, 500), 0), 4, "too short");
        assert_eq!([1, 2, 3].map(|turn| go_on(work(9 + turn, 500 * turn), 10 * turn)), [3, 2, 1]);
        assert_eq!(go_on(work(13, 2000), 40), TRIAL, "the policy's turn");
        assert_eq!(go_on(work(15, 2001), 50), TRIAL, "nothing waits, and programs have computed little");
        assert_eq!(go_on(work(16, 2001), 60), TRIAL - 1, "more than twice what the kernel needs a turn for");
    }

    #[test]
    fn a_turn_goes_on_until_the_kernel_has_sampled_enough_of_what_programs_compute() {
        let (mut duel, begin) = (new(), Instant::now());
        let mut go_on = |milliseconds, waits| {
            duel.go_on(
                Work { computed: Duration::from_millis(milliseconds), waits },
                SIZE,
                begin + Duration::from_secs(waits),
            );
            duel.left
        };
        assert_eq!([go_on(50, 5000), go_on(60, 6000)], [4, 3]);
        assert_eq!([go_on(70, 6000 + 500 * 32 - 1), go_on(70, 6000 + 500 * 32)], [3, 2], "programs wait all the time");
    }
}
