//! Faults by plan: errors, short reads, torn writes, stalls.

use super::pieces::{cut, cut_mut, total, within, writable};
use super::{Clock, Device, Extent, Reserved, Space, SystemClock};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use std::io::{self, IoSlice, IoSliceMut};
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

/// What storage writes whole or not at all.
pub(super) const SECTOR: u64 = 512;

/// What is asked of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `read`, and each run of `read_many`.
    Read,
    /// `write`, and each run of `write_many`.
    Write,
    /// `flush`, which concerns every byte.
    Flush,
    /// `trim`.
    Trim,
    /// `write_zeroes`.
    WriteZeroes,
}

/// Which of a rule's requests meet the fault.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum When {
    /// All of them.
    Always,
    /// The n-th alone; the first is 1.
    Nth(u64),
    /// The n-th and all after it.
    From(u64),
    /// Each n-th.
    Every(u64),
    /// Each with this probability, from 0 to 1.
    Chance(f64),
}

/// What happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing is done, and this error (an errno) is the answer.
    Error(i32),
    /// This many bytes are read, and no more: an error by the contract of [`Device`]. Meets reads alone.
    ShortRead(u64),
    /// A part is written, and EIO is the answer. Meets writes alone.
    TornWrite(Tear),
    /// The request goes on after this time.
    Stall(Duration),
}

/// What of a torn write reaches storage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tear {
    /// This many bytes from its beginning.
    Prefix(u64),
    /// Each of its 512-byte sectors, or not, by chance.
    Sectors,
}

/// A fault, and which requests meet it.
#[derive(Clone, Debug, PartialEq)]
pub struct Rule {
    /// What they ask for; none: anything.
    pub operation: Option<Operation>,
    /// They concern one of these bytes.
    pub range: Range<u64>,
    /// Which of them.
    pub when: When,
    /// How often at most; none: for ever.
    pub times: Option<u64>,
    /// What happens.
    pub fault: Fault,
}

impl Rule {
    /// A fault that all requests meet.
    pub fn new(fault: Fault) -> Self {
        Self { operation: None, range: 0..u64::MAX, when: When::Always, times: None, fault }
    }

    fn concerns(&self, operation: Operation, offset: u64, length: u64) -> bool {
        let possible = match self.fault {
            Fault::ShortRead(_) => operation == Operation::Read,
            Fault::TornWrite(_) => operation == Operation::Write,
            Fault::Error(_) | Fault::Stall(_) => true,
        };
        let touches = offset < self.range.end && self.range.start < offset.saturating_add(length);
        possible && self.operation.is_none_or(|of| of == operation) && (touches || operation == Operation::Flush)
    }
}

/// A device that fails by plan. Of several rules that a request meets the first that is no stall decides; stalls add up.
/// Without a rule it is the device itself.
pub struct Faulty<D, C = SystemClock> {
    device: D,
    plan: Mutex<Plan>,
    clock: C,
}

struct Plan {
    rules: Vec<Counted>,
    random: Xoshiro256PlusPlus,
    struck: u64,
}

struct Counted {
    rule: Rule,
    met: u64,
    struck: u64,
}

impl<D: Device> Faulty<D> {
    /// The device with a plan; chance is decided by the seed and the order of the requests.
    pub fn new(device: D, rules: Vec<Rule>, seed: u64) -> Self {
        Self::with_clock(device, rules, seed, SystemClock::new())
    }
}

impl<D: Device, C: Clock> Faulty<D, C> {
    /// The device with a plan, whose stalls last by a clock.
    pub fn with_clock(device: D, rules: Vec<Rule>, seed: u64, clock: C) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let faulty = Self { device, plan: Mutex::new(Plan { rules: Vec::new(), random, struck: 0 }), clock };
        faulty.set(rules);
        faulty
    }

    /// Another plan from now on; its rules count from nothing.
    pub fn set(&self, rules: Vec<Rule>) {
        self.plan().rules = rules.into_iter().map(|rule| Counted { rule, met: 0, struck: 0 }).collect();
    }

    /// How many faults there have been, under all plans.
    pub fn struck(&self) -> u64 {
        self.plan().struck
    }

    /// The device itself, without its faults.
    pub fn device(&self) -> &D {
        &self.device
    }

    fn plan(&self) -> MutexGuard<'_, Plan> {
        self.plan.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Stalls as planned; what else is planned for the request.
    fn strike(&self, operation: Operation, offset: u64, length: u64) -> Option<Fault> {
        let (stall, fault) = self.plan().strike(operation, offset, length);
        if stall > Duration::ZERO {
            self.clock.sleep_until(self.clock.now() + stall);
        }
        fault
    }

    /// As [`strike`](Self::strike) for what can only be refused.
    fn refuse(&self, operation: Operation, offset: u64, length: u64) -> io::Result<()> {
        match self.strike(operation, offset, length) {
            Some(Fault::Error(number)) => Err(io::Error::from_raw_os_error(number)),
            _ => Ok(()),
        }
    }

    /// Writes some of the sectors.
    fn write_sectors(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        let (mut at, end) = (offset, offset + total(buffers));
        let mut lengths = Vec::new();
        while at < end {
            let next = (at / SECTOR + 1).saturating_mul(SECTOR).min(end);
            lengths.push(next - at);
            at = next;
        }
        at = offset;
        for (sector, length) in cut(buffers, lengths.iter().copied()).iter().zip(&lengths) {
            if self.plan().random.next_u64() & 1 == 1 {
                self.device.write(at, sector)?;
            }
            at += length;
        }
        Ok(())
    }
}

impl Plan {
    fn strike(&mut self, operation: Operation, offset: u64, length: u64) -> (Duration, Option<Fault>) {
        let (mut stall, mut fault) = (Duration::ZERO, None);
        for counted in self.rules.iter_mut().filter(|counted| counted.rule.concerns(operation, offset, length)) {
            counted.met += 1;
            let strikes = match counted.rule.when {
                When::Always => true,
                When::Nth(number) => counted.met == number,
                When::From(number) => counted.met >= number,
                When::Every(number) => number > 0 && counted.met.is_multiple_of(number),
                // 53 random bits are as many as a double has.
                When::Chance(chance) => ((self.random.next_u64() >> 11) as f64) < chance * (1_u64 << 53) as f64,
            };
            let idle = fault.is_some() && !matches!(counted.rule.fault, Fault::Stall(_));
            if !strikes || idle || counted.rule.times.is_some_and(|times| counted.struck >= times) {
                continue;
            }
            counted.struck += 1;
            self.struck += 1;
            match counted.rule.fault {
                Fault::Stall(time) => stall += time,
                other => fault = Some(other),
            }
        }
        (stall, fault)
    }
}

impl<D: Device, C: Clock> Device for Faulty<D, C> {
    forward!(self => self.device; len measure read_only describe set_len extents spaces reserve);

    fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        let length = total(buffers);
        within(self, offset, length)?;
        match self.strike(Operation::Read, offset, length) {
            Some(Fault::Error(number)) => Err(io::Error::from_raw_os_error(number)),
            Some(Fault::ShortRead(most)) if most < length => {
                self.device.read(offset, &mut cut_mut(buffers, [most])[0])?;
                let message = format!("{}: {most} of {length} bytes at {offset}", self.describe());
                Err(io::Error::new(io::ErrorKind::UnexpectedEof, message))
            }
            _ => self.device.read(offset, buffers),
        }
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        let length = total(buffers);
        writable(self, offset, length)?;
        match self.strike(Operation::Write, offset, length) {
            Some(Fault::Error(number)) => return Err(io::Error::from_raw_os_error(number)),
            Some(Fault::TornWrite(Tear::Prefix(most))) => {
                self.device.write(offset, &cut(buffers, [most.min(length)])[0])?;
            }
            Some(Fault::TornWrite(Tear::Sectors)) => self.write_sectors(offset, buffers)?,
            _ => return self.device.write(offset, buffers),
        }
        Err(io::Error::from_raw_os_error(libc::EIO))
    }

    fn flush(&self) -> io::Result<()> {
        self.refuse(Operation::Flush, 0, self.len())?;
        self.device.flush()
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        self.refuse(Operation::Trim, offset, length)?;
        self.device.trim(offset, length)
    }

    fn write_zeroes(&self, offset: u64, length: u64, allocate: bool) -> io::Result<()> {
        self.refuse(Operation::WriteZeroes, offset, length)?;
        self.device.write_zeroes(offset, length, allocate)
    }
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::super::MemoryDevice;
    use super::super::clock::StillClock;
    use super::*;

    fn faulty(rules: Vec<Rule>) -> Faulty<MemoryDevice, StillClock> {
        Faulty::with_clock(MemoryDevice::new(1 << 20), rules, 7, StillClock::default())
    }

    fn write(device: &impl Device, offset: u64, byte: u8, length: usize) -> io::Result<()> {
        device.write(offset, &[IoSlice::new(&vec![byte; length])])
    }

    fn read(device: &impl Device, offset: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        device.read(offset, &mut [IoSliceMut::new(&mut bytes)]).expect("no fault is planned for reads");
        bytes
    }

    #[test]
    fn a_rule_strikes_the_operation_range_and_number_it_names() {
        let rule = Rule::new(Fault::Error(libc::ENOSPC));
        let device = faulty(vec![Rule {
            operation: Some(Operation::Write),
            range: 4096..8192,
            when: When::Every(2),
            times: Some(2),
            ..rule
        }]);
        let answers: Vec<bool> = (0..8).map(|_| write(&device, 4000, 1, 200).is_ok()).collect();
        assert_eq!(answers, [true, false, true, false, true, true, true, true], "each second, and twice at most");
        assert_eq!(device.struck(), 2);
        let rule = Rule::new(Fault::Error(libc::ENOSPC));
        device.set(vec![Rule { operation: Some(Operation::Flush), when: When::From(2), ..rule }]);
        assert!(write(&device, 0, 1, 8192).is_ok());
        let answers: Vec<bool> = (0..3).map(|_| device.flush().is_ok()).collect();
        assert_eq!(answers, [true, false, false]);
    }

    #[test]
    fn chance_strikes_as_often_as_it_says_and_again_the_same_from_one_seed() {
        let rule = Rule { when: When::Chance(0.25), ..Rule::new(Fault::Error(libc::EIO)) };
        let answers = |device: &dyn Device| (0..10_000).map(|_| device.flush().is_err()).collect::<Vec<_>>();
        let (first, second) = (answers(&faulty(vec![rule.clone()])), answers(&faulty(vec![rule])));
        let struck = first.iter().filter(|struck| **struck).count();
        // Six standard deviations of the binomial distribution.
        assert!(struck.abs_diff(2_500) < 260, "{struck}");
        assert_eq!(first, second);
    }

    #[test]
    fn a_short_read_is_an_error() {
        let device = faulty(vec![Rule::new(Fault::ShortRead(100))]);
        let mut room = [0; 200];
        let error = device.read(0, &mut [IoSliceMut::new(&mut room)]).expect_err("it is short");
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn of_a_torn_write_whole_sectors_or_a_prefix_remain() {
        let device = faulty(vec![Rule::new(Fault::TornWrite(Tear::Prefix(700)))]);
        assert!(write(&device, 0, 1, 4096).is_err());
        let prefix = [vec![1; 700], vec![0; 3396]].concat();
        assert_eq!(read(&device, 0, 4096), prefix);
        device.set(vec![Rule::new(Fault::TornWrite(Tear::Sectors))]);
        assert!(write(&device, 100, 2, 65_536).is_err());
        let bytes = read(&device, 0, 66_048);
        assert_eq!(bytes[..100], prefix[..100]);
        let sectors: Vec<&[u8]> = bytes[512..65_536].chunks(512).collect();
        let (new, old) = (sectors.iter().filter(|sector| ***sector == [2; 512]).count(), sectors.len() - 7);
        let whole = |sector: &[u8]| sector == [2; 512] || !sector.contains(&2);
        assert!(sectors.iter().all(|sector| whole(sector)));
        assert!(new > 0 && new < old, "{new}");
    }

    #[test]
    fn stalls_add_up_and_the_request_goes_on() {
        let stall = Rule::new(Fault::Stall(Duration::from_secs(3)));
        let device = faulty(vec![stall.clone(), stall]);
        write(&device, 0, 5, 10).expect("a stall is no error");
        assert_eq!(device.clock.now(), Duration::from_secs(6));
        assert_eq!(read(device.device(), 0, 10), [5; 10]);
    }
}
