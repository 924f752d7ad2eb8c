//! The clock as the paper draws it: hot pages and pages in test by when they entered the list head. Resident cold pages are a list of their own, in
//! HAND_cold's order, since one whose test is over has no place among the others (`mod.rs`).

use super::{ClockPro, State, Status};
use crate::drawing::{Drawing, Drawn, ENTRY};

pub(super) fn draw(of: &ClockPro, drawing: &mut Drawing) {
    let state = |page: u32| match of.status[page].state {
        State::Hot => Drawn::resident(page).state("hot"),
        State::Tested => Drawn::again(page).state("cold in test"),
        _ => Drawn::ghost(page).state("cold in test"),
    };
    let bit = |drawn: Drawn| {
        let Status { referenced, seen, .. } = of.status[drawn.page];
        drawn.bit("reference bit", referenced).bit("bit before a look", seen > 0)
    };
    let mut clock: Vec<u32> =
        [&of.hot, &of.tests].into_iter().flat_map(|list| list.back_to_front(&of.status)).collect();
    clock.sort_unstable_by_key(|&page| of.entered[page as usize]);
    drawing
        .circle("clock", ["list tail", "list head"], clock.into_iter().map(|page| bit(state(page))))
        .hand("HAND_hot", of.hot.back())
        .hand("HAND_test", of.tests.back());
    let cold = |page: u32| {
        let in_test = of.status[page].in_test();
        bit(Drawn::resident(page).state(if in_test { "cold in test" } else { "cold" }))
    };
    drawing
        .row("resident cold pages", ["list head", "list tail"], of.cold.front_to_back(&of.cold_links).map(cold))
        .hand("HAND_cold", of.cold.back());
    if of.recovery {
        drawing.row("witnesses", ENTRY, of.witnesses.list.front_to_back(&of.status).map(Drawn::ghost));
    }
    drawing.number("m_c", of.cold_target);
}
