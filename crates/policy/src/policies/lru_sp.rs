//! LRU-SP: the allocator takes pages from owners as global LRU would, and each owner's manager says which of its pages goes.
//!
//! P. Cao, E. W. Felten and K. Li, "Application-Controlled File Caching Policies", USENIX Summer 1994, sections 3 and 4.
//!
//! The page at the back of the global LRU list is the *candidate*, A. The manager in charge of it may *overrule* and give up
//! another page in its charge, B. Then
//!
//! - *swapping* gives A the position of B in the list, so that the owner is not asked again before its time;
//! - a *place-holder* for B points to A: global LRU would have B there. If B is used before A, the overruling was a mistake, and A's
//!   frame is given to B at once: nobody else pays for it.
//!
//! ```text
//! back                          front
//!   A     x     B     y     z          the manager of A gives up B
//!         x     A     y     z          swapped; place-holder B -> A
//! ```
//!
//! A hit on A deletes the place-holder that points to it (the overruling was wise). If C -> B stands when B is given up, it becomes
//! C -> A and B gets none, since global LRU had neither. The managers are in the folder `managers`; whom `manager=` or the
//! assignment gives no other has LRU, which never overrules.
//!
//! What the paper leaves open (figures: `papers/acfc/README.md`, *What the decisions cost*):
//!
//! - A place-holder that points to A itself ends when A is the candidate, whoever goes: at that position global LRU gives up the
//!   page of the place-holder.
//! - The paper calls an overruling wise if "the alternative block is referenced before the candidate". Its examples and
//!   proofs say the reverse, which is meant here: wise if the candidate is used before the alternative, foolish if after.
//! - A file is shared while several owners use it "simultaneously". A mount says who has it open. Traces tell nothing of that: there an
//!   owner is a user until as many references after its last use as the cache has pages, times `sharing`. So one stray use by another
//!   owner costs a loop little. With `sharing=1000000`, that is until no page of the file is resident, it costs most of the loop's hits
//!   (`tests/all/sharing.rs`). If equal managers are in charge of all users, they agree.
//!
//! - A cache with readahead has frames of its own for pages that wait, and a page that is used then needs none (`readahead/waiting.rs`). If there
//!   is a place-holder for it, the page that stayed has a frame that others have lent: it goes to the list `once`, from which the next
//!   frame is taken. Without this rule such mistakes were never caught, and cost others misses.
//!
//! One departure: **uses that are said to be the only ones**. The paper gives a file on whose manager its users do not agree to LRU, so
//! a scan beside point reads of the same file pushes out what these need, although the scanning program has said that it reads nothing
//! twice. Its word takes nothing from the others, so here it needs nobody's consent. An owner whose manager is `access-once` is no user
//! of another's file: the file's manager stays, and a reference of that owner
//!
//! - that hits a page of the global list changes nothing;
//! - that misses brings its page to a list of its own, `once`, whose earliest page goes before any candidate is asked for.
//!
//! Under `no-reuse` this is so of all that an owner uses, its own files among them. The paper's access-once chooses among the owner's own pages when one of these is
//! the candidate; beside an owner that uses less, the candidate is the other's.
//!
//! The next use by somebody else makes such a page an ordinary one, used for the first time.
//!
//! What others have used hits wherever global LRU hits, unless a use of the scanning program alone had kept it there. Without readahead
//! they also hit wherever they would if the scan did not run and the cache had a frame less (`tests/all/once.rs`).
//!
//! The paper's three principles are property tests in `tests/all/lru_sp.rs`. They hold, of owners that share no page, against
//! global LRU: who never overrules hits wherever it hits; who is always foolish changes nothing for others; who is always wise has
//! no more misses. The third does not hold against what was before: a wise owner may cost another what that one owed to a third
//! owner's wisdom (the test has an example of ten references).
//!
//! A running cache may be told otherwise (`control.rs`): another manager for an owner or a file, and free-lists, from which a victim is taken
//! before the manager is asked; that counts as overruling, with swap and place-holder.
//!
//! With `revoke=N` (off by default, since the paper has it not) a manager loses its charge that was caught at N mistakes more than it had
//! decisions that proved right, a place-holder's page being used first, or the page that stayed. Place-holders keep others' *hits*
//! whole, but the fool's own misses go to the same disk: so others wait longer (`papers/acfc/README.md`). Its owner's pages are LRU's then,
//! until the owner has gone, or another rule names its manager: another manager of its own choice does not help it. Mistakes of free-lists
//! are not counted.
//!
//! Refused victims: the manager offers its further pages in its order; when all are refused, the manager of the next candidate towards
//! the front is asked that has not been. If the frame of a place-holder is refused, a victim is sought as if there were none.
//! Place-holders whose page was hit are given back at the next miss: a hit cannot `forget`.
//!
//! Reference figures: the paper's two worked examples; equal to LRU where nobody overrules, and to OPT where all pages
//! are one owner's with `rmin`. Parameters: `swapping`,
//! `place-holders` (off: to show what they are for), `manager` (of every owner), `sharing`, `revoke`.
//! Memory: 20 bytes a page (two links, the place-holder's two ends, whether resident, and its list) and 24 of its
//! manager's (rank, file, group), with LRU-K 8 more for each use but one; files and groups as in `managers/groups`, which
//! keeps arrays by the numbers of owners and objects: these are dense, as traces number them.

use crate::control::{Control, Uncontrolled};
use crate::drawing::{Drawing, Drawn, ENTRY, RECENCY};
use crate::managers::groups::Groups;
use crate::managers::{Manager, PLAIN};
use crate::parameters::{Kind, Parameter, Settings};
use crate::parts::list::{List, Nodes};
use crate::policy::{AllRefused, Caller, Info, Policy, Reference, Setup, Uses};

const NONE: u32 = u32::MAX;
const SWITCH: Kind = Kind::Choice(&["on", "off"]);

/// In which list a resident page is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Of {
    #[default]
    Global,
    Once,
}

#[derive(Clone, Copy, Debug)]
struct Page {
    resident: bool,
    /// Of a resident page.
    list: Of,
    /// Of a resident page with a place-holder: a manager has kept it, and not an owner's free-list.
    chosen: bool,
    /// Of a ghost: the resident page that its place-holder points to.
    points_to: u32,
    /// Of a resident page: the ghost whose place-holder points to it.
    held_for: u32,
}

impl Default for Page {
    fn default() -> Self {
        Self { resident: false, list: Of::Global, chosen: false, points_to: NONE, held_for: NONE }
    }
}

/// LRU-SP.
#[derive(Debug)]
pub struct LruSp {
    /// SP1. The global list: the resident pages but those of SP4, each at the position that its frame has under global LRU.
    global: List,
    /// SP4. Resident pages that go first: nobody has used them but owners who use them once, or they stayed by a mistake. The earliest is at
    /// the back. No place-holder points to them, and nobody manages them.
    once: List,
    /// SP2. `pages[b].points_to == a` if and only if `pages[a].held_for == b`; then `a` is resident and `b` is not.
    pages: Nodes<Page>,
    place_holders: u32,
    /// SP3. Ghosts without a place-holder, to be forgotten at the next chance: with the place-holders no more than the capacity.
    settled: List,
    managers: Groups,
    capacity: u32,
    swapping: bool,
    placing: bool,
    /// How long an owner is a file's user, in multiples of the capacity.
    sharing: u64,
    /// Candidates that stayed, frames that a place-holder took back, positions swapped.
    overrulings: u64,
    mistakes: u64,
    swaps: u64,
}

impl Policy for LruSp {
    const INFO: Info = Info {
        name: "lru-sp",
        title: "LRU-SP: global LRU allocates, owners' managers replace",
        paper: "P. Cao, E. W. Felten and K. Li, Application-Controlled File Caching Policies, USENIX Summer 1994",
        parameters: &[
            Parameter {
                name: "swapping",
                help: "the candidate that stays takes the victim's position",
                kind: SWITCH,
                default: "on",
            },
            Parameter {
                name: "place-holders",
                help: "a victim used before the candidate that stayed gets its frame back",
                kind: SWITCH,
                default: "on",
            },
            Parameter {
                name: "manager",
                help: "the manager of every owner without one of its own; lru-k is LRU-2",
                kind: Kind::Choice(&PLAIN),
                default: "lru",
            },
            Parameter {
                name: "sharing",
                help: "how long an owner is a file's user: references after its last use, in multiples of the cache; where it is not said who has files open",
                kind: Kind::Integer { least: 0, most: 1_000_000 },
                default: "1",
            },
            Parameter {
                name: "revoke",
                help: "a manager's charge ends after this many mistakes caught beyond its decisions that proved right; 0: never",
                kind: Kind::Integer { least: 0, most: 1_000_000 },
                default: "0",
            },
        ],
        uses: Uses { place: true, request: true, ..Uses::PAGE },
        ghosts: 1,
        bytes_per_page: 20 + Groups::BYTES_PER_PAGE + Groups::BYTES_PER_FILE,
        ..Info::PLAIN
    };

    fn needs_future(settings: &Settings) -> bool {
        default_manager(settings).needs_future()
    }

    fn new(setup: &Setup) -> Self {
        let on = |name| setup.settings.choice(name) == "on";
        let (sharing, revoke) = (setup.settings.integer("sharing"), setup.settings.integer("revoke") as u32);
        Self {
            global: List::new(),
            once: List::new(),
            pages: Nodes::new(setup.pages),
            place_holders: 0,
            settled: List::new(),
            managers: Groups::new(setup, default_manager(&setup.settings), window(sharing, setup.capacity), revoke),
            capacity: setup.capacity,
            sharing,
            swapping: on("swapping"),
            placing: on("place-holders"),
            overrulings: 0,
            mistakes: 0,
            swaps: 0,
        }
    }

    fn capacity(&self) -> u32 {
        self.capacity
    }

    fn len(&self) -> u32 {
        self.global.len() + self.once.len()
    }

    fn ghosts(&self) -> u32 {
        self.place_holders + self.settled.len()
    }

    fn contains(&self, page: u32) -> bool {
        self.pages[page].resident
    }

    #[inline]
    fn prefetch(&self, page: u32) {
        self.pages.prefetch_value(page);
        self.pages.prefetch_links(page);
        self.managers.prefetch(page);
    }

    fn hit(&mut self, reference: &Reference) {
        let page = reference.page;
        if self.managers.is_only_use(reference) {
            return self.managers.passed();
        }
        if self.pages[page].list == Of::Global {
            self.global.move_to_front(&mut self.pages, page);
        } else {
            self.unlink(page);
            self.link(page, Of::Global);
        }
        if let Some(ghost) = self.take_holder_to(page) {
            self.settled.push_front(&mut self.pages, ghost);
            self.judge(page, true);
        }
        self.managers.used(reference, false);
    }

    fn miss<C: Caller>(&mut self, reference: &Reference, caller: &mut C) -> Result<(), AllRefused> {
        let page = reference.page;
        self.forget_settled(caller);
        let once = self.managers.is_only_use(reference);
        if self.len() < self.capacity {
            self.repay(page, once);
        } else if (once || !self.confiscate(page, caller))
            && let Err(refused) = self.replace(caller)
        {
            self.managers.passed();
            return Err(refused);
        }
        self.take_holder_of(page);
        self.pages[page].resident = true;
        if once {
            self.link(page, Of::Once);
            self.managers.admitted_once(reference);
        } else {
            self.link(page, Of::Global);
            self.managers.used(reference, true);
        }
        Ok(())
    }

    fn evict<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        self.forget_settled(caller);
        self.replace(caller)
    }

    fn remove<C: Caller>(&mut self, page: u32, caller: &mut C) {
        if self.pages[page].resident {
            self.unlink(page);
            self.leave(page, caller);
        } else if self.pages.is_linked(page) {
            self.settled.remove(&mut self.pages, page);
        } else {
            self.take_holder_of(page);
        }
        self.managers.forgotten(page);
    }

    fn control(&mut self, control: &Control) -> Result<u32, Uncontrolled> {
        let Self { pages, managers, .. } = self;
        // What is used once is nobody's to give up.
        managers.control(control, |page| pages[page].resident && pages[page].list == Of::Global)
    }

    fn set_capacity<C: Caller>(&mut self, capacity: u32, caller: &mut C) {
        self.forget_settled(caller);
        self.capacity = capacity;
        self.managers.set_window(window(self.sharing, capacity));
    }

    fn reserve(&mut self, pages: u32) {
        self.pages.reserve(pages);
        self.managers.reserve(pages);
    }

    fn state(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("overrulings", self.overrulings as f64);
        show("swaps", self.swaps as f64);
        show("place-holders", f64::from(self.place_holders));
        show("mistakes caught", self.mistakes as f64);
        show("charges ended", self.managers.charges_ended() as f64);
        show("go first", f64::from(self.once.len()));
    }

    fn draw(&self, drawing: &mut Drawing) {
        let resident = |page| Drawn::resident(page);
        drawing.row("global list", RECENCY, self.global.front_to_back(&self.pages).map(resident));
        drawing.row("go first", RECENCY, self.once.front_to_back(&self.pages).map(resident));
        let holder = |page: u32| (self.pages[page].held_for, page);
        let held = self.global.front_to_back(&self.pages).map(holder).filter(|&(ghost, _)| ghost != NONE);
        let drawn = held.map(|(ghost, page)| Drawn::ghost(ghost).page("points to", page));
        drawing.row("place-holders", RECENCY, drawn);
        drawing.row("old place-holders", ENTRY, self.settled.front_to_back(&self.pages).map(Drawn::ghost));
    }

    fn bytes(&self) -> usize {
        self.pages.bytes() + self.managers.bytes()
    }

    fn check_invariants(&self) {
        assert!(self.len() <= self.capacity);
        self.global.check(&self.pages);
        self.settled.check(&self.pages);
        self.once.check(&self.pages);
        for page in self.once.front_to_back(&self.pages) {
            let Page { resident, list, points_to, held_for, .. } = self.pages[page];
            assert!(resident && list == Of::Once && points_to == NONE && held_for == NONE); // SP4
            assert!(!self.managers.manages(page)); // SP4
        }
        let mut pointed_to = 0;
        for page in self.global.front_to_back(&self.pages) {
            let Page { resident, list, points_to, held_for, .. } = self.pages[page];
            assert!(resident && list == Of::Global && points_to == NONE); // SP1
            if held_for != NONE {
                pointed_to += 1;
                assert_eq!(self.pages[held_for].points_to, page); // SP2
                assert!(!self.pages[held_for].resident && !self.pages.is_linked(held_for)); // SP2
            }
        }
        assert_eq!(pointed_to, self.place_holders); // SP2
        for ghost in self.settled.front_to_back(&self.pages) {
            let Page { resident, points_to, held_for, .. } = self.pages[ghost];
            assert!(!resident && points_to == NONE && held_for == NONE); // SP3
        }
        assert!(self.ghosts() <= self.capacity); // SP3
        let all = [&self.global, &self.once].into_iter().flat_map(|list| list.front_to_back(&self.pages));
        self.managers.check(all);
    }
}

impl LruSp {
    /// A place-holder for `page` points to a resident one: the overruling was a mistake, and the frame goes to `page`.
    fn confiscate<C: Caller>(&mut self, page: u32, caller: &mut C) -> bool {
        let holder = self.pages[page].points_to;
        if holder == NONE || !caller.evict(holder) {
            return false;
        }
        self.mistakes += 1;
        self.judge(holder, false);
        self.take_holder_of(page);
        self.global.remove(&mut self.pages, holder);
        self.leave(holder, caller);
        self.forget(holder, caller);
        true
    }

    /// A place-holder for `page`, which needs no frame, points to a resident page: the overruling was a mistake. That page goes next.
    fn repay(&mut self, page: u32, once: bool) {
        let holder = self.pages[page].points_to;
        if once || holder == NONE {
            return;
        }
        self.mistakes += 1;
        self.judge(holder, false);
        self.take_holder_of(page);
        self.unlink(holder);
        self.managers.set_apart(holder);
        self.link(holder, Of::Once);
    }

    /// Takes what is used once, the earliest first; if there is nothing, lets managers choose a victim, the one in charge of the candidate
    /// first.
    fn replace<C: Caller>(&mut self, caller: &mut C) -> Result<(), AllRefused> {
        let used_once = self.once.back_to_front(&self.pages).find(|&page| caller.evict(page));
        if let Some(page) = used_once {
            self.give_up(page, caller);
            return Ok(());
        }
        self.managers.begin_round();
        let asked = self
            .global
            .back_to_front(&self.pages)
            .find_map(|candidate| Some((candidate, self.managers.ask(candidate, caller)?)));
        let (candidate, victim) = asked.ok_or(AllRefused)?;
        if victim == candidate {
            self.give_up(victim, caller);
        } else {
            self.overrule(candidate, victim, caller);
        }
        Ok(())
    }

    /// `victim` goes instead of `candidate`.
    fn overrule<C: Caller>(&mut self, candidate: u32, victim: u32, caller: &mut C) {
        self.overrulings += 1;
        if self.swapping {
            self.swaps += 1;
            self.global.remove(&mut self.pages, candidate);
            self.global.replace(&mut self.pages, victim, candidate);
        } else {
            self.global.remove(&mut self.pages, victim);
        }
        let ghost = self.take_holder_to(victim);
        self.leave(victim, caller);
        if let Some(ended) = self.take_holder_to(candidate) {
            self.forget(ended, caller);
        }
        let under_lru = ghost.unwrap_or(victim);
        if ghost.is_some() || !self.placing {
            self.forget(victim, caller);
        }
        if self.placing {
            self.pages[under_lru].points_to = candidate;
            self.pages[candidate].held_for = under_lru;
            self.pages[candidate].chosen = self.managers.chose();
            self.place_holders += 1;
        }
    }

    /// The candidate `page` that stayed was used first, or the page that went for it was.
    fn judge(&mut self, page: u32, right: bool) {
        if self.pages[page].chosen {
            self.managers.judge(page, right);
        }
    }

    /// A page has been evicted for which nothing is to be remembered.
    fn give_up<C: Caller>(&mut self, page: u32, caller: &mut C) {
        self.unlink(page);
        self.leave(page, caller);
        self.forget(page, caller);
    }

    /// Puts a resident page at the front of a list.
    fn link(&mut self, page: u32, of: Of) {
        self.pages[page].list = of;
        let Self { pages, global, once, .. } = self;
        if of == Of::Global { global } else { once }.push_front(pages, page);
    }

    /// Takes a resident page off its list.
    fn unlink(&mut self, page: u32) {
        let Self { pages, global, once, .. } = self;
        if pages[page].list == Of::Global { global } else { once }.remove(pages, page);
    }

    /// A page that is in the global list no more is not resident, and nothing points to it.
    fn leave<C: Caller>(&mut self, page: u32, caller: &mut C) {
        self.pages[page].resident = false;
        self.managers.dropped(page);
        if let Some(ghost) = self.take_holder_to(page) {
            self.forget(ghost, caller);
        }
    }

    /// Deletes the place-holder that points to a page, if there is one.
    fn take_holder_to(&mut self, page: u32) -> Option<u32> {
        let ghost = std::mem::replace(&mut self.pages[page].held_for, NONE);
        (ghost != NONE).then(|| {
            self.pages[ghost].points_to = NONE;
            self.place_holders -= 1;
            ghost
        })
    }

    /// Deletes the place-holder for a page, if there is one.
    fn take_holder_of(&mut self, page: u32) {
        let holder = self.pages[page].points_to;
        if holder != NONE {
            self.take_holder_to(holder);
        }
    }

    fn forget_settled<C: Caller>(&mut self, caller: &mut C) {
        while let Some(ghost) = self.settled.back() {
            self.settled.remove(&mut self.pages, ghost);
            self.forget(ghost, caller);
        }
    }

    fn forget<C: Caller>(&mut self, page: u32, caller: &mut C) {
        self.managers.forgotten(page);
        caller.forget(page);
    }
}

fn default_manager(settings: &Settings) -> Manager {
    Manager::plain(settings.choice("manager")).expect("the choices are managers")
}

/// For as many references an owner is a file's user after its last use.
fn window(sharing: u64, capacity: u32) -> u64 {
    sharing * u64::from(capacity)
}
