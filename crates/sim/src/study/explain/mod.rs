//! A policy step by step: what it keeps after each reference of a short string, and in words what the reference has changed.
//!
//! The real policy runs. After each reference its [`Drawing`] is compared with the one before ([`change`]), and `words.rs` says what is different.
//! So a step says what happened, for every policy by the same rules; a policy adds no text but the names in its drawing.

pub mod change;
mod examples;
mod forms;
mod references;
mod words;

use change::Change;
use forebay_basis::Place;
use forebay_policy::drawing::Drawing;
use forebay_policy::{Caller, Future, Policy, Reference, Spec, Visitor, registry};
pub use references::References;
use std::sync::Arc;
pub use words::shown;

/// The most pages of a cache that is explained: a drawing shows them all.
pub const MOST_PAGES: u32 = 64;

/// What is to be explained.
#[derive(Clone, Debug)]
pub struct Asked {
    spec: Spec,
    references: References,
    size: u32,
}

impl Asked {
    /// Runs a policy along a string, in a cache of that many pages. Without a string or a size, and without parameters, those of the policy's example are taken.
    pub fn new(spec: Spec, references: Option<References>, size: Option<u32>) -> Self {
        let example = examples::of(&spec);
        Self {
            spec: example.spec,
            references: references.unwrap_or(example.references),
            size: size.unwrap_or(example.size),
        }
    }

    /// Runs the policy.
    ///
    /// # Panics
    /// If the size is 0.
    pub fn of(self) -> Explanation {
        registry::visit(self.spec.info.name, Run(&self)).expect("the policy is in the registry")
    }
}

/// A policy's steps along a string of references.
#[derive(Debug)]
pub struct Explanation {
    /// The policy, with its parameters.
    pub spec: Spec,
    /// The string.
    pub references: References,
    /// The cache's size in pages.
    pub size: u32,
    /// The empty cache.
    pub start: Drawing,
    /// One for each reference.
    pub steps: Vec<Step>,
}

/// A reference, and what it has changed.
#[derive(Debug)]
pub struct Step {
    /// The page, by its number in the drawings.
    pub page: u32,
    /// Whether it was resident.
    pub hit: bool,
    /// The pages that were evicted.
    pub evicted: Vec<u32>,
    /// What else has changed.
    pub changes: Vec<Change>,
    /// The same in sentences.
    pub words: String,
    /// What the policy keeps then.
    pub drawing: Drawing,
}

impl Explanation {
    /// How many references were hits.
    pub fn hits(&self) -> usize {
        self.steps.iter().filter(|step| step.hit).count()
    }

    /// How many missed.
    pub fn misses(&self) -> usize {
        self.steps.len() - self.hits()
    }

    /// The options that ask for this explanation: `clock --size 3 --references abac`.
    pub fn options(&self) -> String {
        format!("{} --size {} --references {}", self.spec.label, self.size, self.references)
    }

    /// What a page of a drawing is called.
    pub fn name(&self, page: u32) -> &str {
        self.references.name(page)
    }
}

/// The cache of an explanation: it takes every victim.
#[derive(Default)]
struct Frames {
    evicted: Vec<u32>,
    forgotten: Vec<u32>,
}

impl Caller for Frames {
    fn evict(&mut self, page: u32) -> bool {
        self.evicted.push(page);
        true
    }

    fn forget(&mut self, page: u32) {
        self.forgotten.push(page);
    }
}

struct Run<'a>(&'a Asked);

impl Visitor for Run<'_> {
    type Output = Explanation;

    fn visit<P: Policy>(self) -> Explanation {
        let Asked { spec, references, size } = self.0;
        let mut setup = spec.setup(*size, references.distinct());
        if spec.needs_future() {
            setup.future = Some(Arc::new(Future::new(Arc::new(references.pages().to_vec()), references.distinct())));
        }
        let mut policy = P::new(&setup);
        let start = Drawing::of(&policy);
        let mut steps: Vec<Step> = Vec::new();
        for &page in references.pages() {
            let before = steps.last().map_or(&start, |step| &step.drawing);
            let step = refer(&mut policy, page, references, before);
            steps.push(step);
        }
        Explanation { spec: spec.clone(), references: references.clone(), size: *size, start, steps }
    }
}

fn refer<P: Policy>(policy: &mut P, page: u32, references: &References, before: &Drawing) -> Step {
    let reference = Reference { page, place: references.place(page), ..Reference::default() };
    let mut frames = Frames::default();
    let hit = policy.contains(page);
    if hit {
        policy.hit(&reference);
    } else {
        policy.miss(&reference, &mut frames).expect("no victim is refused");
    }
    let drawing = Drawing::of(policy);
    let Frames { evicted, forgotten } = frames;
    let changes = change::between(before, &drawing, &change::Events { page, evicted: &evicted, forgotten: &forgotten });
    let words = words::of(page, hit, before, &changes, references);
    Step { page, hit, evicted, changes, words, drawing }
}

impl References {
    /// Pages of a file in their order; those of capital letters are of a second file.
    fn place(&self, page: u32) -> Place {
        let (object, block) = self.at(page);
        Place { object, block }
    }
}
