//! The pool as a library beside caches that others made: lookups a second. `bench/against_caches.py` builds, runs and sums up;
//! alone this prints the raw figures as JSON.

mod backing;
mod caches;

use backing::Backing;
use caches::Cache;
use clap::Parser;
use forebay_trace::{Names, Options as ReaderOptions};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Barrier};
use std::thread::Builder;
use std::time::Instant;

/// Lookups a second in caches of 4 KiB pages, with misses (keys of all pages) and hits alone (keys that all fit).
#[derive(Parser)]
struct Options {
    /// Caches: quick_cache, moka, mutex-lru, and pool:POLICY
    #[arg(long, value_delimiter = ',', default_values_t = caches::NAMES.map(str::to_owned))]
    caches: Vec<String>,
    /// Whether keys may miss
    #[arg(long, value_delimiter = ',', default_value = "misses,hits", value_parser = ["misses", "hits"])]
    settings: Vec<String>,
    /// How many threads look up at a time
    #[arg(long, value_delimiter = ',', default_value = "1,2")]
    threads: Vec<usize>,
    /// How often each is measured, in turns
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Pages there are
    #[arg(long, default_value_t = 1_000_000)]
    pages: u32,
    /// Pages that fit; of hits alone, nine tenths of them are asked for
    #[arg(long, default_value_t = 100_000)]
    room: u32,
    /// Lookups of each thread with misses; of hits alone it is four times as many
    #[arg(long, default_value_t = 2_000_000)]
    lookups: usize,
    /// Zipf's exponent
    #[arg(long, default_value_t = 0.99)]
    alpha: f64,
    /// Said by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

/// One run.
#[derive(Serialize)]
struct Run<'a> {
    setting: &'a str,
    threads: usize,
    cache: &'a str,
    round: u32,
    lookups: u64,
    misses: u64,
    seconds: f64,
    processor_seconds: f64,
    /// Of the bytes read: equal in all caches.
    sum: u64,
}

/// Keys of a Zipf distribution, hot ones spread over all pages.
fn keys(pages: u32, alpha: f64, count: usize) -> Vec<u32> {
    let spec = format!("zipf:pages={pages},references={count},alpha={alpha}");
    let (_, mut reader) = forebay_trace::open(Path::new(&spec), &ReaderOptions::default()).expect("it is a spec");
    let (mut names, mut keys) = (Names::new(), Vec::with_capacity(count));
    while let Some(request) = reader.next(&mut names).expect("it is read without errors") {
        keys.push(request.offset as u32);
    }
    keys
}

/// What the threads of a run have taken.
struct Taken {
    /// From the first to begin to the last to end.
    seconds: f64,
    /// Of the processor, all threads together: a busy machine disturbs it less.
    processor_seconds: f64,
    sum: u64,
}

fn processor_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// Runs a thread for each part of the keys, on a core of its own.
fn measure(cache: &dyn Cache, parts: &[&[u32]], cores: &[usize]) -> Taken {
    let barrier = Barrier::new(parts.len());
    let run = |part: &[u32], core: usize| {
        let mut cpu = CpuSet::new();
        cpu.set(core);
        sched_setaffinity(None, &cpu).expect("this core may be used");
        barrier.wait();
        let (begin, spent) = (Instant::now(), processor_time());
        let sum = cache.look_up(part);
        (begin, Instant::now(), processor_time() - spent, sum)
    };
    let done: Vec<_> = std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for (&part, &core) in parts.iter().zip(cores) {
            // Under a name, by which a profiler tells them from the making of keys.
            let (run, named) = (&run, Builder::new().name("lookups".to_owned()));
            threads.push(named.spawn_scoped(scope, move || run(part, core)).expect("a thread can be made"));
        }
        threads.into_iter().map(|thread| thread.join().expect("a lookup does not panic")).collect()
    });
    let begin = done.iter().map(|&(begin, ..)| begin).min().expect("a thread has run");
    let end = done.iter().map(|&(_, end, ..)| end).max().expect("a thread has run");
    Taken {
        seconds: (end - begin).as_secs_f64(),
        processor_seconds: done.iter().map(|&(.., spent, _)| spent).sum(),
        sum: done.iter().map(|&(.., sum)| sum).sum(),
    }
}

fn run(options: &Options) -> Result<(), String> {
    let allowed = sched_getaffinity(None).map_err(|error| format!("which cores there are: {error}"))?;
    let cores: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&core| allowed.is_set(core)).collect();
    let most = options.threads.iter().copied().max().filter(|&most| (1..=cores.len()).contains(&most));
    let most = most.ok_or_else(|| format!("--threads: from 1 to {}, the cores there are", cores.len()))?;
    let backing = Arc::new(Backing::new(options.pages));
    let mut runs = Vec::new();
    for setting in &options.settings {
        let hits = setting == "hits";
        let resident = options.room / 10 * 9;
        let (pages, lookups) = if hits { (resident, options.lookups * 4) } else { (options.pages, options.lookups) };
        // One sequence for all threads, in which the same keys are hot, and one more part to warm up with.
        let keys = keys(pages, options.alpha, lookups * (most + 1));
        let (warming, keys) = keys.split_at(lookups);
        let parts: Vec<&[u32]> = keys.chunks_exact(lookups).collect();
        let all: Vec<u32> = (0..resident).collect();
        let named = |name: &String| -> Result<Box<dyn Cache>, String> {
            let cache = caches::named(name, options.room, &backing)?;
            cache.look_up(if hits { &all } else { warming });
            Ok(cache)
        };
        let caches = options.caches.iter().map(named).collect::<Result<Vec<_>, _>>()?;
        for round in 0..options.rounds {
            for &threads in &options.threads {
                for (name, cache) in options.caches.iter().zip(&caches) {
                    let parts = &parts[..threads];
                    let before = cache.misses();
                    let Taken { seconds, processor_seconds, sum } = measure(cache.as_ref(), parts, &cores);
                    if sum != parts.iter().map(|keys| backing::sum(keys)).sum::<u64>() {
                        return Err(format!("{name} gave other pages than were asked for"));
                    }
                    let (lookups, misses) = ((lookups * threads) as u64, cache.misses() - before);
                    eprintln!(
                        "{setting}, round {round}, {threads} threads, {name}: {:.2} M/s",
                        lookups as f64 / seconds / 1e6
                    );
                    runs.push(Run {
                        setting,
                        threads,
                        cache: name,
                        round,
                        lookups,
                        misses,
                        seconds,
                        processor_seconds,
                        sum,
                    });
                }
            }
        }
    }
    println!("{}", serde_json::to_string(&runs).expect("figures are written as JSON"));
    Ok(())
}

fn main() -> ExitCode {
    match run(&Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("against_caches: {error}");
            ExitCode::FAILURE
        }
    }
}
