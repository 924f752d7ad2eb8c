//! Storage devices as time: what requests cost on them, in time, waits and money.
//!
//! A [`Model`] says what the device is, as a few named parameters; `docs/devices.md` explains them. [`presets`] finds one by its name or its TOML
//! file. A [`SimulatedDevice`] is one at work: it takes each miss. Adjacent misses of one user's request become one request; the requests of one user's request
//! are made at once, and its references wait for them. Time passes with waits, and when the program is said to think.

mod disk;
mod model;
mod parallel;
pub mod presets;
mod queue;
mod request;
mod seek;
mod units;
mod waits;

pub use disk::{Cache, Disk, Rotation, Zones};
pub use model::{Kind, Model, WrongModel};
pub use parallel::{Flash, Network, Object};
pub use queue::Scheduler;
pub use seek::{Curve, Points, Rated, Seek};
pub use units::{Amount, Count, Positive};

use disk::Drive;
use forebay_basis::{DeviceCost, Place};
use parallel::{Lanes, Parallel};
use queue::Queue;
use request::{Address, Request};
use serde::Deserialize;
use std::time::Duration;
use waits::Waits;

/// What misses cost.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq)]
pub struct Cost {
    /// The time in which the device was at work for the requests, in milliseconds; where requests overlap it counts for each.
    pub device_ms: f64,
    /// What a reference waits, on average over hits and misses, in milliseconds.
    pub wait_mean_ms: f64,
    /// What 99 of 100 references do not exceed.
    pub wait_p99_ms: f64,
    /// How many requests were made.
    pub requests: u64,
    /// How many of them read.
    #[serde(default)]
    pub read_requests: u64,
    /// How many pages a request has on average.
    pub mean_request_pages: f64,
    /// How many bytes were transferred.
    #[serde(rename = "device_bytes")]
    pub bytes: u64,
    /// What the requests cost in money, where requests do.
    pub price: Option<f64>,
}

/// A device at work.
#[derive(Clone, Debug)]
pub struct SimulatedDevice {
    server: Server,
    page_size: u64,
    /// What time it is, in milliseconds.
    now: f64,
    /// The request to which the next miss may belong.
    open: Option<Request>,
    /// The requests of this user's request.
    waited_for: Vec<UnderWay>,
    /// Those that nobody waits for, as long as they are not known to be done.
    ahead: Vec<UnderWay>,
    /// Requests made so far.
    made: u64,
    device_ms: f64,
    wait_ms: f64,
    waits: Waits,
    requests: u64,
    reads: u64,
    bytes: u64,
    price: f64,
}

/// A request that has been made.
#[derive(Clone, Copy, Debug)]
struct UnderWay {
    number: u64,
    /// When it is done; not known while it waits in a queue.
    done: Option<f64>,
}

#[derive(Clone, Debug)]
enum Server {
    Queue(Queue),
    Parallel(Parallel),
}

impl Model {
    /// What reads of pages of this many bytes cost, in milliseconds: the mean over reads here and there, each waited for.
    pub fn reads(&self, page_size: u64) -> DeviceCost {
        const READS: u64 = 512;
        const LONG: u64 = 32;
        let mean = |pages: u64, together: bool| {
            let mut device = SimulatedDevice::new(self, page_size);
            // All over the first 64 GiB, in an order without one.
            let places = (64 << 30) / page_size / READS;
            for read in 0..READS {
                let block = read * 197 % READS * places + read * 7_919 % places.max(1);
                for page in 0..pages {
                    device.miss(Place { object: 0, block: block + page }, page == 0 || !together, false);
                }
            }
            device.finish();
            device.device_ms / READS as f64
        };
        let (one, long, apart) = (mean(1, true), mean(LONG, true), mean(LONG, false));
        let page = ((long - one) / (LONG - 1) as f64).max(0.0);
        let behind = ((apart - long) / (LONG - 1) as f64).max(0.0);
        DeviceCost { request: (one - page).max(0.0), behind, page }
    }
}

impl SimulatedDevice {
    /// A device for pages of this many bytes.
    pub fn new(model: &Model, page_size: u64) -> Self {
        let server = match &model.kind {
            Kind::Disk(disk) => Server::Queue(Queue::new(Drive::new(disk.clone()), model.scheduler, model.deadline_ms)),
            Kind::Flash(flash) => {
                Server::Parallel(Parallel::Flash { flash: *flash, lanes: Lanes::new(flash.channels), bus: 0.0 })
            }
            Kind::Network(network) => Server::Parallel(Parallel::Network { network: *network, next: 0.0, bus: 0.0 }),
            Kind::Object(object) => {
                Server::Parallel(Parallel::Object { object: *object, lanes: Lanes::new(object.connections) })
            }
        };
        Self {
            server,
            page_size,
            now: 0.0,
            open: None,
            waited_for: Vec::new(),
            ahead: Vec::new(),
            made: 0,
            device_ms: 0.0,
            wait_ms: 0.0,
            waits: Waits::default(),
            requests: 0,
            reads: 0,
            bytes: 0,
            price: 0.0,
        }
    }

    /// Serves a request of `length` bytes at `offset` that begins at `begin`, and no other meanwhile: how long that takes.
    pub fn serve_alone(&mut self, begin: Duration, offset: u64, length: u64, write: bool) -> Duration {
        let begin_ms = begin.as_secs_f64() * 1e3;
        self.think((begin_ms - self.now_ms()).max(0.0));
        let mut first = true;
        for block in offset / self.page_size..(offset + length).div_ceil(self.page_size) {
            self.miss(Place { object: 0, block }, first, write);
            first = false;
        }
        self.finish();
        Duration::from_secs_f64((self.now_ms() - begin_ms).max(0.0) / 1e3)
    }

    /// A page misses. `first` says that it is the first miss of a user's request; `write`, that the request writes.
    pub fn miss(&mut self, place: Place, first: bool, write: bool) {
        let start = self.address(place);
        if first {
            self.finish();
        }
        match &mut self.open {
            Some(open) if open.end() == start => open.bytes += self.page_size,
            _ => {
                self.make();
                self.open = Some(Request { start, bytes: self.page_size, write, at: self.now });
            }
        }
    }

    /// The user's request has no more misses: its references wait for what is under way.
    pub fn finish(&mut self) {
        if self.waited_for.is_empty()
            && let Server::Queue(queue) = &mut self.server
            && queue.is_empty()
            && let Some(request) = self.open.take()
        {
            // Most requests are alone, and need not go through lists.
            let served = queue.serve_lone(&request, self.made);
            self.made += 1;
            self.count(&request);
            self.device_ms += served.took;
            self.wait(served.at);
            return;
        }
        self.make();
        for index in 0..self.waited_for.len() {
            let done = loop {
                match self.waited_for[index].done {
                    Some(done) => break done,
                    None => self.serve(f64::INFINITY),
                };
            };
            self.wait(done);
        }
        self.waited_for.clear();
    }

    /// The user's request is done with, and so much time passes before the next one.
    pub fn think(&mut self, ms: f64) {
        self.finish();
        self.now += ms;
    }

    /// Ends the request that the present misses form: misses right behind them are another one.
    pub fn end_run(&mut self) {
        self.make();
    }

    /// Reads `pages` pages from a place on; the answer is the request's number. Right behind the present misses they come with these, in
    /// one request; else nobody waits for them.
    pub fn read_ahead(&mut self, place: Place, pages: u64) -> u64 {
        let start = self.address(place);
        if let Some(open) = &mut self.open
            && open.end() == start
            && !open.write
        {
            open.bytes += pages * self.page_size;
            return self.made;
        }
        self.make();
        let now = self.now;
        self.ahead.retain(|request| request.done.is_none_or(|done| done > now));
        let bytes = pages * self.page_size;
        let request = self.submit(Request { start, bytes, write: false, at: now });
        self.ahead.push(request);
        request.number
    }

    /// Writes `pages` pages from a place on without anyone waiting.
    pub fn write_back(&mut self, place: Place, pages: u64) {
        let bytes = pages * self.page_size;
        self.submit(Request { start: self.address(place), bytes, write: true, at: self.now });
    }

    /// What time it is, in milliseconds since the beginning.
    pub fn now_ms(&self) -> f64 {
        self.now
    }

    /// A reference needs a page that was read ahead under that number: it waits for it if it is late, which is the answer.
    pub fn need(&mut self, number: u64) -> bool {
        self.finish();
        while self.serve(self.now) {}
        let done = loop {
            match self.ahead.iter().find(|request| request.number == number) {
                None => return false,
                Some(UnderWay { done: Some(done), .. }) => break *done,
                Some(_) => self.serve(f64::INFINITY),
            };
        };
        self.wait(done)
    }

    /// The costs so far are not counted; what the device knows of the past stays.
    pub fn start_counting(&mut self) {
        self.finish();
        (self.device_ms, self.wait_ms, self.price) = (0.0, 0.0, 0.0);
        (self.requests, self.reads, self.bytes) = (0, 0, 0);
        self.waits = Waits::default();
    }

    /// What the misses of this many references cost.
    pub fn cost(&mut self, references: u64) -> Cost {
        self.finish();
        while self.serve(f64::INFINITY) {}
        let priced = matches!(self.server, Server::Parallel(Parallel::Object { .. }));
        let mean = |sum: f64, count: u64| if count == 0 { 0.0 } else { sum / count as f64 };
        Cost {
            device_ms: self.device_ms,
            wait_mean_ms: mean(self.wait_ms, references),
            wait_p99_ms: self.waits.quantile(0.99, references),
            requests: self.requests,
            read_requests: self.reads,
            mean_request_pages: mean((self.bytes / self.page_size) as f64, self.requests),
            bytes: self.bytes,
            price: priced.then_some(self.price),
        }
    }

    fn address(&self, place: Place) -> Address {
        Address { object: place.object, byte: place.block.saturating_mul(self.page_size) }
    }

    /// A reference waits until `done`, for as much as those before it have not; whether it does.
    fn wait(&mut self, done: f64) -> bool {
        let wait = done - self.now;
        if wait > 0.0 {
            self.now = done;
            self.wait_ms += wait;
            self.waits.record(wait);
        }
        wait > 0.0
    }

    /// Makes the open request.
    fn make(&mut self) {
        if let Some(request) = self.open.take() {
            let request = self.submit(request);
            self.waited_for.push(request);
        }
    }

    /// A request is made.
    fn count(&mut self, request: &Request) {
        self.requests += 1;
        self.reads += u64::from(!request.write);
        self.bytes += request.bytes;
    }

    fn submit(&mut self, request: Request) -> UnderWay {
        // What the device has begun by now is not held back by what comes.
        while self.serve(request.at) {}
        self.count(&request);
        let number = self.made;
        self.made += 1;
        let done = match &mut self.server {
            Server::Queue(queue) => {
                queue.push(request, number);
                None
            }
            Server::Parallel(parallel) => {
                if let Parallel::Object { object, .. } = parallel {
                    self.price += object.price(&request);
                }
                let done = parallel.serve(&request);
                self.device_ms += done - request.at;
                Some(done)
            }
        };
        UnderWay { number, done }
    }

    /// Serves the next request of the queue if it can begin before `until`.
    fn serve(&mut self, until: f64) -> bool {
        let Server::Queue(queue) = &mut self.server else { return false };
        let Some(served) = queue.serve(until) else { return false };
        self.device_ms += served.took;
        let mut requests = self.waited_for.iter_mut().chain(&mut self.ahead);
        if let Some(request) = requests.find(|request| request.number == served.number) {
            request.done = Some(served.at);
        }
        true
    }
}
