//! UBM.

use crate::models::{Model, Reference, take};
use forebay_policy::Place;
use std::collections::HashMap;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Sequential,
    Looping,
    Other,
}

/// What is known of a page's last reference.
#[derive(Clone, Copy)]
struct Known {
    now: u32,
    kind: Kind,
    period: f32,
    head: bool,
}

struct Pass {
    number: usize,
    early: Vec<u32>,
    page: u32,
    last: Place,
    kind: Kind,
    length: usize,
    period: f32,
}

/// A page of the other partition.
struct Other {
    page: u32,
    count: u64,
    used: usize,
    before: Option<usize>,
    weight: f64,
}

/// UBM on `Vec`s.
pub(crate) struct Partitions {
    capacity: usize,
    rule: &'static str,
    least: usize,
    gap: u64,
    open: usize,
    passes: Vec<Pass>,
    begun: usize,
    known: HashMap<u32, Known>,
    /// The oldest first, in each of these.
    in_use: Vec<(u32, Kind, usize)>,
    sequential: Vec<u32>,
    loops: Vec<(u32, usize)>,
    others: Vec<Other>,
    stack: Vec<u32>,
    used: Vec<(u32, usize)>,
    hand: usize,
    hits: Vec<f64>,
    other_references: f64,
    all_references: f64,
    counted: usize,
    /// c, k and the slope of the hull at each preset size, and the share of other references, all as they were every 64 references.
    fitted: Vec<(f64, f64, f64)>,
    share: f64,
    once: f64,
    soon: f64,
    gaps: f64,
    residence: f64,
}

fn near(a: f32, b: f32, factor: f32) -> bool {
    (a.is_infinite() && b.is_infinite()) || (a <= b * factor && b <= a * factor && a.is_finite() && b.is_finite())
}

fn quarter_octave(period: f32) -> usize {
    (4.0 * period.max(1.0).log2()) as usize
}

impl Partitions {
    pub(crate) fn new(capacity: usize, rule: &'static str, least: usize, gap: u64, open: usize) -> Self {
        let sizes = (0..7).filter(|halvings| capacity >> halvings > 0).count();
        Self {
            capacity,
            rule,
            least,
            gap,
            open,
            passes: Vec::new(),
            begun: 0,
            known: HashMap::new(),
            in_use: Vec::new(),
            sequential: Vec::new(),
            loops: Vec::new(),
            others: Vec::new(),
            stack: Vec::new(),
            used: Vec::new(),
            hand: 0,
            hits: vec![0.0; sizes],
            other_references: 0.0,
            all_references: 0.0,
            counted: 0,
            fitted: vec![(0.0, 0.0, 0.0); sizes],
            share: 0.0,
            once: 0.0,
            soon: 0.0,
            gaps: 0.0,
            residence: 0.0,
        }
    }

    /// Kind, period, whether the block is repeated, the gap if it was sequential, and the page that the pass leaves.
    fn detect(&mut self, page: u32, place: Place, now: u32) -> (Kind, f32, bool, Option<u32>, Option<u32>) {
        let least = self.least;
        // The farthest pass that is behind the block, or else the one that is at it.
        let at_or_behind = |pass: &&Pass| pass.last.object == place.object && pass.last.block <= place.block;
        let last = |pass: &&Pass| if pass.last.block == place.block { 0 } else { 1 + pass.last.block };
        let reached = self.passes.iter().filter(at_or_behind).filter(|pass| place.block - pass.last.block <= self.gap);
        let number = reached.max_by_key(last).map(|pass| pass.number);
        let found = self.passes.iter().position(|pass| Some(pass.number) == number);
        if let Some(index) = found
            && self.passes[index].last == place
        {
            let pass = self.passes.remove(index);
            let result = (pass.kind, pass.period, true, None, None);
            self.passes.push(pass);
            return result;
        }
        let before = self.known.get(&page).map(|known| (now - known.now, known.period, known.kind, known.head));
        let mut pass = if let Some(index) = found {
            self.passes.remove(index)
        } else {
            if self.passes.len() == self.open {
                let short = self.passes.iter().filter(|pass| pass.length < least).count();
                let oldest_short = self.passes.iter().position(|pass| pass.length < least);
                self.passes.remove(if short * 2 > self.open { oldest_short.unwrap() } else { 0 });
            }
            self.begun += 1;
            let again = matches!(before, Some((_, period, kind, true)) if kind != Kind::Other || period.is_finite());
            let length = if again { least - 1 } else { 0 };
            let (number, last) = (self.begun, place);
            Pass { number, early: Vec::new(), page, last, kind: Kind::Other, length, period: f32::INFINITY }
        };
        // Where it comes to, no other pass stays.
        self.passes.retain(|other| other.last != place);
        pass.length += 1;
        let period = match before {
            None => f32::INFINITY,
            Some((gap, old, ..)) if old.is_infinite() => gap as f32,
            Some((gap, old, ..)) => (old + gap as f32) / 2.0,
        };
        if !near(pass.period, period, 1.25) {
            pass.period = period;
        }
        let irregular = before.is_some_and(|(gap, old, ..)| old.is_finite() && !near(gap as f32, old, 4.5));
        pass.kind = if pass.length < least || (irregular && pass.period.is_finite()) {
            Kind::Other
        } else if pass.period.is_finite() {
            Kind::Looping
        } else {
            Kind::Sequential
        };
        let of_run = if pass.length < least { f32::INFINITY } else { pass.period };
        if pass.length < least {
            pass.early.push(page);
        }
        if pass.length == least {
            for early in pass.early.drain(..) {
                let known = self.known.get_mut(&early).unwrap();
                (known.kind, known.period) = (pass.kind, of_run);
            }
        }
        let period = (of_run + period) / 2.0;
        self.known.insert(page, Known { now, kind: pass.kind, period, head: found.is_none() });
        let left = found.map(|_| std::mem::replace(&mut pass.page, page));
        pass.last = place;
        let gap = before.filter(|before| before.2 == Kind::Sequential).map(|before| before.0);
        let result = (pass.kind, period, false, gap, left);
        self.passes.push(pass);
        result
    }

    /// A page in use becomes one that may leave.
    fn release(&mut self, at: usize) {
        let (page, kind, bucket) = self.in_use.remove(at);
        match kind {
            Kind::Looping => self.loops.push((page, bucket)),
            _ => self.sequential.push(page),
        }
    }

    fn gain_of_others(&self) -> f64 {
        let n = self.others.len();
        if n == 0 {
            return 0.0;
        }
        let sizes = self.sizes();
        let (c, k, slope) = self.fitted[sizes.iter().position(|&size| size >= n).unwrap_or(sizes.len() - 1)];
        let without = if n == 1 { 1.0 } else { c * ((n - 1) as f64).powf(-k) };
        (without - c * (n as f64).powf(-k)).max(slope) * self.share
    }

    fn sizes(&self) -> Vec<usize> {
        (0..7).rev().map(|halvings| self.capacity >> halvings).filter(|&size| size > 0).collect()
    }

    fn fit(&mut self) {
        let sizes = self.sizes();
        let mut points = vec![(0.0, 0.0)];
        for (index, &size) in sizes.iter().enumerate() {
            points.push((size as f64, points[index].1 + self.hits[index] / (self.other_references + 1.0)));
        }
        self.share = self.other_references / self.all_references;
        for upper in 1..points.len() {
            let (mut c, mut k) = (1.0 - points[1].1, 0.0);
            if points.len() > 2 {
                let (p, q) = (points[upper.max(2) - 1], points[upper.max(2)]);
                k = ((1.0 - p.1) / (1.0 - q.1)).ln() / (q.0 / p.0).ln();
                c = (1.0 - p.1) * p.0.powf(k);
            }
            // The steepest from there on, where what lies before has the least slope.
            let mut hull = 0.0f64;
            for to in &points[upper..] {
                let slopes = points[..upper].iter().map(|from| (to.1 - from.1) / (to.0 - from.0));
                hull = hull.max(slopes.fold(f64::INFINITY, f64::min));
            }
            self.fitted[upper - 1] = (c, k, hull);
        }
    }

    fn count(&mut self, other: Option<u32>) {
        self.all_references += 1.0;
        if let Some(page) = other {
            self.other_references += 1.0;
            if let Some(depth) = self.stack.iter().rev().position(|&it| it == page) {
                let sizes = self.hits.len();
                let zone = (0..sizes).find(|zone| depth < self.capacity >> (sizes - 1 - zone));
                if let Some(zone) = zone {
                    self.hits[zone] += 1.0;
                }
            }
        }
        if self.all_references > 4.0 * (self.capacity as f64).max(1000.0) {
            self.hits.iter_mut().for_each(|hits| *hits /= 2.0);
            self.other_references /= 2.0;
            self.all_references /= 2.0;
        }
        self.counted += 1;
        if self.counted.is_multiple_of(64) {
            self.fit();
        }
    }

    fn used(&self, page: u32) -> usize {
        self.used.iter().rev().find(|used| used.0 == page).unwrap().1
    }

    /// The next bucket of periods after the hand gives its oldest page a longer period if that is overdue.
    fn age(&mut self, now: usize) {
        let next = self.loops.iter().map(|&(_, bucket)| bucket).filter(|&bucket| bucket > self.hand).min();
        let Some(bucket) = next.or(self.loops.iter().map(|&(_, bucket)| bucket).min()) else { return };
        self.hand = bucket;
        let at = self.loops.iter().position(|&(_, other)| other == bucket).unwrap();
        let page = self.loops[at].0;
        let waited = (now - self.used(page)) as f32;
        if quarter_octave(waited / 1.5) > bucket {
            self.loops.remove(at);
            self.loops.push((page, quarter_octave(1.5 * waited)));
        }
    }

    fn evict(&mut self, now: usize) -> u32 {
        if let Some(page) = self.sequential.pop() {
            return page;
        }
        if self.loops.is_empty() && self.others.is_empty() {
            return self.in_use.remove(0).0;
        }
        let longest = self.loops.iter().map(|&(_, bucket)| bucket).max();
        let gain = longest.map(|bucket| 1.0 / f64::from(2f32.powf((bucket as f32 + 0.5) / 4.0)));
        if gain.is_some_and(|gain| gain <= self.gain_of_others() || self.others.is_empty()) {
            let at = self.loops.iter().rposition(|&(_, bucket)| Some(bucket) == longest).unwrap();
            return self.loops.remove(at).0;
        }
        let rule = self.rule;
        let rank = |other: &Other| match rule {
            "lru" => (0.0, other.used),
            "lfu" => (other.count as f64, other.used),
            "lru-2" => (f64::from(u8::from(other.before.is_some())), other.before.unwrap_or(other.used)),
            _ => (other.weight, 0),
        };
        let lowest = (0..self.others.len()).min_by(|&a, &b| {
            let [a, b] = [a, b].map(|index| (rank(&self.others[index]), self.others[index].page));
            a.partial_cmp(&b).unwrap()
        });
        let page = self.others.remove(lowest.unwrap()).page;
        self.residence += ((now - self.used(page)) as f64 - self.residence) / 16.0;
        self.limit_stack();
        page
    }

    fn limit_stack(&mut self) {
        while self.stack.len() > self.capacity {
            self.stack.remove(0);
        }
    }
}

impl Model for Partitions {
    fn reference(&mut self, reference: &Reference, now: usize) -> Vec<u32> {
        let (page, now) = (reference.page, now + 1);
        let (mut kind, period, repeated, gap, left) = self.detect(page, reference.place, now as u32);
        if let Some(at) = self.in_use.iter().position(|entry| Some(entry.0) == left) {
            self.release(at);
        }
        if let Some(gap) = gap.map(f64::from)
            && gap <= self.residence
        {
            self.soon += 1.0;
            self.gaps += gap;
        }
        if kind == Kind::Sequential {
            self.once += f64::from(u8::from(!repeated));
            if self.once > 1000.0 {
                (self.once, self.soon, self.gaps) = (self.once / 2.0, self.soon / 2.0, self.gaps / 2.0);
            }
            let occupied = self.gaps + (self.once - self.soon).max(0.0) * self.residence;
            // 64 KiB in pages of 4 KiB.
            let short = self.passes.last().unwrap().length < self.least.max(16);
            if short || occupied > 0.0 && self.soon / occupied > self.gain_of_others() {
                kind = Kind::Other;
            }
        }
        self.count((kind == Kind::Other || self.stack.contains(&page)).then_some(page));
        self.age(now);

        let mut evicted = Vec::new();
        let was_other = self.others.iter().position(|other| other.page == page);
        let was_loop = self.loops.iter().position(|entry| entry.0 == page);
        let was_sequential = take(&mut self.sequential, page);
        let was_in_use = self.in_use.iter().position(|entry| entry.0 == page);
        if let Some(at) = was_in_use {
            self.in_use.remove(at);
        }
        if let Some(at) = was_loop {
            self.loops.remove(at);
        }
        let known = was_other.map(|at| self.others.remove(at));
        let resident = self.in_use.len() + self.sequential.len() + self.loops.len() + self.others.len();
        let hit = was_sequential || was_in_use.is_some() || was_loop.is_some() || known.is_some();
        if !hit && resident == self.capacity {
            evicted.push(self.evict(now));
        }
        // The last use of a page is history for as long as it is in the stack, or resident as other.
        let history = known.is_some() || self.stack.contains(&page);
        let before = history.then(|| self.used(page));
        take(&mut self.stack, page);
        match kind {
            Kind::Sequential | Kind::Looping => {
                self.in_use.push((page, kind, quarter_octave(period)));
                if self.in_use.len() > self.passes.len().min(self.capacity / 64).max(1) {
                    self.release(0);
                }
            }
            Kind::Other => {
                let lambda = 0.001 * now as f64;
                let aged = known.as_ref().map_or(0.0, |known| (known.weight - lambda).exp2());
                let count = known.map_or(1, |known| known.count + 1);
                self.others.push(Other { page, count, used: now, before, weight: lambda + (1.0 + aged).log2() });
                self.stack.push(page);
            }
        }
        self.used.push((page, now));
        if !hit {
            self.limit_stack();
        }
        evicted
    }
}
