//! Numbering pages: the simulator's own table beside hashbrown's, in turns. Prints a table, and the raw figures as JSON to the file of `--out`.

use clap::Parser;
use foldhash::quality::RandomState;
use forebay_policy::Place;
use forebay_sim::Numbering;
use hashbrown::HashTable;
use serde::Serialize;
use std::hash::BuildHasher;
use std::path::PathBuf;
use std::time::Instant;

/// Millions of references numbered a second, by kind of key and number of pages
#[derive(Parser)]
struct Options {
    /// How often each is measured, in turns
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Pages there are
    #[arg(long, value_delimiter = ',', default_value = "10000,300000,5000000")]
    pages: Vec<u64>,
    /// References in a run; each page is referenced at least once
    #[arg(long, default_value_t = 5_000_000)]
    references: u64,
    /// The file for the raw figures
    #[arg(long)]
    out: Option<PathBuf>,
    /// Said by `cargo bench`
    #[arg(long, hide = true)]
    bench: bool,
}

#[derive(Serialize)]
struct Run {
    keys: &'static str,
    pages: u64,
    round: u32,
    ours: f64,
    hashbrown: f64,
}

fn random(n: u64) -> u64 {
    n.wrapping_mul(0x2545_f491_4f6c_dd1d).rotate_left(29).wrapping_mul(0x9e6c_63d0_876a_46b1)
}

type Keys = (&'static str, fn(u64) -> u64);

/// Blocks by their number: those of a scan, of a scan of every 24th, of a few runs that lie apart, and of no order.
const KEYS: [Keys; 4] = [
    ("dense", |n| n),
    ("strided", |n| n * 24),
    ("clustered", |n| (random(n / 40) >> 24) * 64 + n % 40),
    ("random", random),
];

/// What the simulator would do with hashbrown's table: numbers alone, compared by what stands in the column of blocks.
fn with_hashbrown(places: &[Place], numbers: &mut Vec<u32>) {
    let (mut table, mut column, seed) = (HashTable::<u32>::new(), Vec::<Place>::new(), RandomState::default());
    for place in places {
        let known = table.entry(
            seed.hash_one(place),
            |&number| column[number as usize] == *place,
            |&number| seed.hash_one(column[number as usize]),
        );
        let next = column.len() as u32;
        let number = *known.or_insert(next).get();
        if number == next {
            column.push(*place);
        }
        numbers.push(number);
    }
}

fn ours(places: &[Place], numbers: &mut Vec<u32>) {
    Numbering::default().number(places, numbers).expect("there are numbers enough");
}

/// Million references a second.
fn speed(number: fn(&[Place], &mut Vec<u32>), places: &[Place], numbers: &mut Vec<u32>) -> f64 {
    numbers.clear();
    let start = Instant::now();
    number(places, numbers);
    places.len() as f64 / start.elapsed().as_secs_f64() / 1e6
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let options = Options::parse();
    let mut runs = Vec::new();
    println!("{:<10} {:>10} {:>10} {:>10} {:>22}", "keys", "pages", "ours, M/s", "hashbrown", "ratio (least, most)");
    for &pages in &options.pages {
        for (keys, block) in KEYS {
            // All pages once in their order, then any of them: a scan, then references spread over what it has read.
            let nth = |n: u64| if n < pages { n } else { random(n) % pages };
            let places: Vec<Place> =
                (0..options.references.max(pages)).map(|n| Place { object: 0, block: block(nth(n)) }).collect();
            let (mut mine, mut theirs) = (Vec::with_capacity(places.len()), Vec::with_capacity(places.len()));
            let of_keys = runs.len();
            for round in 0..options.rounds {
                let run = Run {
                    keys,
                    pages,
                    round,
                    ours: speed(ours, &places, &mut mine),
                    hashbrown: speed(with_hashbrown, &places, &mut theirs),
                };
                assert_eq!(mine, theirs, "both number in the order of first use");
                runs.push(run);
            }
            let of = |figure: fn(&Run) -> f64| runs[of_keys..].iter().map(figure).collect::<Vec<f64>>();
            let ratios = of(|run| run.ours / run.hashbrown);
            let (least, most) =
                (ratios.iter().copied().fold(f64::MAX, f64::min), ratios.iter().copied().fold(0.0, f64::max));
            println!(
                "{keys:<10} {pages:>10} {:>10.1} {:>10.1} {:>8.2} ({least:.2}, {most:.2})",
                median(of(|run| run.ours)),
                median(of(|run| run.hashbrown)),
                median(ratios)
            );
        }
    }
    if let Some(file) = options.out {
        let json = serde_json::to_string_pretty(&runs).expect("figures are JSON");
        std::fs::write(&file, json + "\n").unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    }
}
