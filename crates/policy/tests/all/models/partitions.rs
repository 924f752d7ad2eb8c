//! UBM.

use crate::models::{Model, Reference, take};
use forebay_basis::Place;
use std::collections::BTreeMap;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Sequential,
    Looping,
    Other,
}

/// Consecutive blocks that a pass has referenced at an even pace.
#[derive(Clone)]
struct Run {
    /// Of what is behind a block taken out: the pass that adds to it goes on doing so.
    number: usize,
    object: u32,
    start: u64,
    end: u64,
    first: u64,
    last: u64,
    kind: Kind,
    period: f32,
    head: bool,
    /// The least and the most references for a block that a line may have.
    paces: (f32, f32),
}

impl Run {
    fn time_of(&self, block: u64) -> u64 {
        if self.start == self.end {
            return self.first;
        }
        self.first + (self.last - self.first) * (block - self.start) / (self.end - self.start)
    }
}

struct Pass {
    number: usize,
    begun: u64,
    /// The blocks that it has referenced, as long as it is no run.
    early: Vec<u64>,
    last: Place,
    kind: Kind,
    length: usize,
    period: f32,
    /// The number of the run that it adds to.
    adds: Option<usize>,
}

/// What is known of a block.
struct Before {
    gap: u64,
    kind: Kind,
    period: f32,
    head: bool,
}

/// What is found of a reference.
struct Found {
    kind: Kind,
    period: f32,
    repeated: bool,
    before: Option<Before>,
    pass: usize,
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
    hull: bool,
    ages: bool,
    stays: bool,
    sequential_first: bool,
    passes: Vec<Pass>,
    begun: usize,
    runs: Vec<Run>,
    made: usize,
    /// The oldest first, in each of these. Page, kind, bucket, and the pass that is there.
    in_use: Vec<(u32, Kind, usize, usize)>,
    /// Pages whose last reference was sequential, as long as they are known.
    once: Vec<u32>,
    sequential: Vec<u32>,
    loops: Vec<(u32, usize)>,
    others: Vec<Other>,
    stack: Vec<u32>,
    used: Vec<(u32, usize)>,
    hand: usize,
    /// By octaves of periods: rounds missed, and kept.
    rounds: BTreeMap<usize, [u32; 2]>,
    hits: Vec<f64>,
    other_references: f64,
    all_references: f64,
    counted: usize,
    /// c, k and the slope of the hull at each preset size, and the share of other references, all as they were every 64 references.
    fitted: Vec<(f64, f64, f64)>,
    share: f64,
    once_read: f64,
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
    /// By the paper's rules where ours are others.
    pub(crate) fn literal(capacity: usize) -> Self {
        let ours = Self::new(capacity, "lru", 8, 1);
        Self { hull: false, ages: false, stays: false, sequential_first: true, ..ours }
    }

    pub(crate) fn new(capacity: usize, rule: &'static str, least: usize, gap: u64) -> Self {
        let sizes = (0..7).filter(|halvings| capacity >> halvings > 0).count();
        Self {
            capacity,
            rule,
            least,
            gap,
            hull: true,
            ages: true,
            stays: true,
            sequential_first: false,
            passes: Vec::new(),
            begun: 0,
            runs: Vec::new(),
            made: 0,
            in_use: Vec::new(),
            once: Vec::new(),
            sequential: Vec::new(),
            loops: Vec::new(),
            others: Vec::new(),
            stack: Vec::new(),
            used: Vec::new(),
            hand: 0,
            rounds: BTreeMap::new(),
            hits: vec![0.0; sizes],
            other_references: 0.0,
            all_references: 0.0,
            counted: 0,
            fitted: vec![(0.0, 0.0, 0.0); sizes],
            share: 0.0,
            once_read: 0.0,
            soon: 0.0,
            gaps: 0.0,
            residence: 0.0,
        }
    }

    fn detect(&mut self, place: Place, now: u64) -> Found {
        let least = self.least;
        // The farthest pass that is behind the block, if it is near enough, or else the one that is at it.
        let is_behind = |pass: &&Pass| pass.last.object == place.object && pass.last.block < place.block;
        let nearest = self.passes.iter().filter(is_behind).max_by_key(|pass| pass.last.block);
        let reaching = nearest.filter(|pass| place.block - pass.last.block <= self.gap);
        let number = reaching.or(self.passes.iter().find(|pass| pass.last == place)).map(|pass| pass.number);
        let found = self.passes.iter().position(|pass| Some(pass.number) == number);
        if let Some(pass) = found.map(|index| &self.passes[index])
            && pass.last == place
        {
            return Found { kind: pass.kind, period: pass.period, repeated: true, before: None, pass: pass.number };
        }
        let held = |run: &&Run| run.object == place.object && (run.start..=run.end).contains(&place.block);
        let before = self.runs.iter().find(held).map(|run| Before {
            gap: now - run.time_of(place.block),
            kind: run.kind,
            period: run.period,
            head: run.head && run.start == place.block,
        });
        let mut pass = found.map(|index| self.passes.remove(index)).unwrap_or_else(|| {
            self.begun += 1;
            let length = if before.as_ref().is_some_and(|before| before.head) { least - 1 } else { 0 };
            let (number, kind, period) = (self.begun, Kind::Other, f32::INFINITY);
            Pass { number, begun: now, early: Vec::new(), last: place, kind, length, period, adds: None }
        });
        // Where it comes to, no other pass stays.
        self.passes.retain(|other| other.last != place);
        pass.length += 1;
        let measured = match &before {
            None => f32::INFINITY,
            Some(Before { gap, period, .. }) if period.is_infinite() => *gap as f32,
            Some(Before { gap, period, .. }) => (period + *gap as f32) / 2.0,
        };
        if !near(pass.period, measured, 1.25) {
            (pass.period, pass.adds) = (measured, None);
        }
        let irregular =
            before.as_ref().is_some_and(|known| known.period.is_finite() && !near(known.gap as f32, known.period, 4.5));
        pass.kind = if pass.length < least || (irregular && pass.period.is_finite()) {
            Kind::Other
        } else if pass.period.is_finite() {
            Kind::Looping
        } else {
            Kind::Sequential
        };
        let period = if pass.period.is_finite() { (pass.period + measured) / 2.0 } else { pass.period };
        if pass.length < least {
            pass.early.push(place.block);
        } else {
            let count = pass.early.len() as u64;
            for (index, block) in std::mem::take(&mut pass.early).into_iter().enumerate() {
                let time = pass.begun + (now - pass.begun) * index as u64 / count;
                pass.last = Place { block, ..place };
                let period = pass.period;
                self.put(&mut pass, period, index == 0, time);
            }
            pass.last = place;
            self.put(&mut pass, period, found.is_none(), now);
        }
        pass.last = place;
        let result = Found { kind: pass.kind, period, repeated: false, before, pass: pass.number };
        self.passes.push(pass);
        result
    }

    /// The block where a pass is leaves its run, and is added to that of the pass if it fits.
    fn put(&mut self, pass: &mut Pass, period: f32, head: bool, now: u64) {
        let Place { object, block } = pass.last;
        self.made += 2;
        let mut number = self.made;
        let holds = |run: &Run| run.object == object && (run.start..=run.end).contains(&block);
        if let Some(at) = self.runs.iter().position(holds) {
            let run = self.runs.remove(at);
            if run.start == run.end {
                number = run.number;
            }
            if run.start < block {
                let number = if run.end == block { run.number } else { self.made - 1 };
                self.runs.push(Run { number, end: block - 1, last: run.time_of(block - 1), ..run.clone() });
            }
            if block < run.end {
                self.runs.push(Run { start: block + 1, first: run.time_of(block + 1), head: false, ..run });
            }
        }
        let of_pass = self.runs.iter_mut().find(|run| Some(run.number) == pass.adds);
        let of_pass = of_pass.filter(|run| run.object == object && run.end + 1 == block);
        if let Some(run) = of_pass
            && run.kind == pass.kind
            && run.period.is_finite() == period.is_finite()
        {
            let (time, blocks) = ((now - run.first) as f32, (block - run.start) as f32);
            let (pace, slack) = (time / blocks, (32.0 + time / 16.0) / blocks);
            if run.paces.0 <= pace && pace <= run.paces.1 {
                run.paces = (run.paces.0.max(pace - slack), run.paces.1.min(pace + slack));
                (run.end, run.last) = (block, now);
                if period.is_finite() {
                    run.period += (period - run.period) / (block - run.start + 1) as f32;
                }
                return;
            }
        }
        pass.adds = Some(number);
        let (kind, paces) = (pass.kind, (0.0, f32::INFINITY));
        self.runs.push(Run {
            number,
            object,
            start: block,
            end: block,
            first: now,
            last: now,
            kind,
            period,
            head,
            paces,
        });
    }

    /// A page in use becomes one that may leave.
    fn release(&mut self, at: usize) {
        let (page, kind, bucket, _) = self.in_use.remove(at);
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
            for to in points[upper..].iter().filter(|_| self.hull) {
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
            self.round(bucket, false);
        }
    }

    /// A loop's page has kept a round or missed it.
    fn round(&mut self, bucket: usize, kept: bool) {
        let rounds = self.rounds.entry(bucket / 4).or_insert([0, 0]);
        rounds[usize::from(kept)] += 1;
        if rounds[0] + rounds[1] >= 256 {
            *rounds = rounds.map(|count| count / 2);
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
        let gain = longest.map(|bucket| {
            let [missed, kept] = self.rounds.get(&(bucket / 4)).copied().unwrap_or_default();
            f64::from(kept + 1) / f64::from(kept + missed + 1) / f64::from(2f32.powf((bucket as f32 + 0.5) / 4.0))
        });
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

    fn resident(&self) -> usize {
        self.in_use.len() + self.sequential.len() + self.loops.len() + self.others.len()
    }

    fn once_counted(&mut self, repeated: bool) {
        self.once_read += f64::from(u8::from(!repeated));
        if self.once_read > 1000.0 {
            (self.once_read, self.soon, self.gaps) = (self.once_read / 2.0, self.soon / 2.0, self.gaps / 2.0);
        }
    }

    fn sequential_earns(&self) -> bool {
        let occupied = self.gaps + (self.once_read - self.soon).max(0.0) * self.residence;
        occupied > 0.0 && self.soon / occupied > self.gain_of_others()
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
        let Found { mut kind, period, repeated, before, pass } = self.detect(reference.place, now as u64);
        // The page that the pass was at; in its place it may be this one.
        if let Some(at) = self.in_use.iter().position(|entry| entry.3 == pass)
            && !repeated
        {
            self.release(at);
        }
        let was_other = self.others.iter().position(|other| other.page == page);
        let was_loop = self.loops.iter().position(|entry| entry.0 == page);
        let was_sequential = self.sequential.iter().position(|&other| other == page);
        let was_in_use = self.in_use.iter().position(|entry| entry.0 == page);
        let hit = was_sequential.or(was_in_use).or(was_loop).or(was_other).is_some();
        // Room is made first: as it is now, without the reference.
        let evicted: Vec<u32> =
            if !hit && self.resident() == self.capacity { vec![self.evict(now - 1)] } else { Vec::new() };
        let known = hit || self.stack.contains(&page);
        if let Some(Before { gap, kind: Kind::Sequential, .. }) = before
            && gap as f64 <= self.residence
            && (!known || self.once.contains(&page))
        {
            self.soon += 1.0;
            self.gaps += gap as f64;
        }
        take(&mut self.once, page);
        if kind == Kind::Sequential {
            self.once.push(page);
            self.once_counted(repeated);
            // 64 KiB in pages of 4 KiB.
            let length = self.passes.iter().find(|other| other.number == pass).unwrap().length;
            if !self.sequential_first && (length < self.least.max(16) || self.sequential_earns()) {
                kind = Kind::Other;
            }
        }
        self.count((kind == Kind::Other || self.stack.contains(&page)).then_some(page));
        if self.ages {
            self.age(now);
        }
        let looped = match was_in_use {
            Some(_) => {
                self.in_use.iter().find(|entry| entry.0 == page && entry.1 == Kind::Looping).map(|entry| entry.2)
            }
            None => self.loops.iter().find(|entry| entry.0 == page).map(|entry| entry.1),
        };
        if let Some(bucket) = looped
            && !repeated
        {
            self.round(bucket, true);
        }
        let old = looped.filter(|_| kind == Kind::Looping);
        self.in_use.retain(|entry| entry.0 != page);
        self.loops.retain(|entry| entry.0 != page);
        self.sequential.retain(|&other| other != page);
        let at = self.others.iter().position(|other| other.page == page);
        let known = at.map(|at| self.others.remove(at));
        // The last use of a page is history for as long as it is in the stack, or resident as other.
        let history = known.is_some() || self.stack.contains(&page);
        let before = history.then(|| self.used(page));
        take(&mut self.stack, page);
        match kind {
            Kind::Sequential | Kind::Looping => {
                let bucket = if kind == Kind::Looping { quarter_octave(period) } else { usize::MAX };
                let bucket = old.filter(|old| old.abs_diff(bucket) <= 1).unwrap_or(bucket);
                self.in_use.push((page, kind, bucket, pass));
                let most = if self.stays { self.passes.len().min(self.capacity / 64).max(1) } else { 0 };
                if self.in_use.len() > most {
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
