//! Writes the seeds: each format's example for `readers` and for `recognise`, each policy with some steps, specs and columns that are right, and what a manager may say.
//!
//! Run it in `fuzz/`: `cargo run --example seeds`.

use forebay_owning::Message;
use forebay_policy::registry::POLICIES;
use forebay_trace::FORMATS;
use std::path::Path;
use std::{fs, io};

const SPECS: [&str; 5] = [
    "zipf:pages=1k,references=10k,alpha=0.8,seed=1,scatter=no",
    "uniform:pages=1_000,references=1M,seed=2",
    "scan:references=100,length=8",
    "loop:pages=1011,references=505500,length=3",
    "mix:references=1M,seed=7+zipf:pages=10k,weight=3+loop:pages=50k+scan:+zipf:",
];
const COLUMNS: [&str; 4] = [
    "time=ts,offset=addr,length=n",
    "time_us=#1,block=#3,blocks=#4",
    "page=id,operation=cmd",
    "offset_hex=addr,blocks_hex=n,operation=-",
];

fn main() -> io::Result<()> {
    for (number, format) in FORMATS.iter().enumerate() {
        // The first byte chooses the format.
        write("readers", format.name, &[&[number as u8], format.example].concat())?;
        write("recognise", format.name, format.example)?;
    }
    for (number, spec) in SPECS.iter().enumerate() {
        write("synthetic", &number.to_string(), spec.as_bytes())?;
    }
    for policy in POLICIES {
        // Eight pages have room. Each page is referenced or read ahead, one is removed, and the cache shrinks.
        let steps = (0..24u8).flat_map(|page| [page % 6, page, 8 * (page / 23), page / 3]).chain([9, 2]);
        let seed: Vec<u8> = policy.name.bytes().chain([b'\n', 7]).chain(steps).collect();
        write("policies", policy.name, &seed)?;
    }
    // A manager registers, adds its standard input, and gives up twice.
    let messages: [(u32, u32, u64, u64); 4] = [(1, 1, 0, 4), (2, 0, 0, 0), (3, 0, 0, 40), (3, 0, 39, 1 << 16)];
    let said = messages.map(|(kind, file, first, count)| Message { kind, file, first, count }.encode()).concat();
    write("own_manager", "registered", &said)?;
    for (number, columns) in COLUMNS.iter().enumerate() {
        // The target takes the columns up to the first line end, and reads the rest as a table.
        let csv = "ts,addr,n,id,cmd\n1,2,3,4,r\n";
        let json = "{\"ts\": 1, \"addr\": \"2\", \"n\": 3, \"id\": \"a\", \"cmd\": \"r\"}\n";
        for (form, table) in [("csv", csv), ("spaces", &csv.replace(',', " ")), ("json", json)] {
            write("columns", &format!("{number}-{form}"), format!("{columns}\n{table}").as_bytes())?;
        }
    }
    Ok(())
}

fn write(target: &str, name: &str, bytes: &[u8]) -> io::Result<()> {
    let folder = Path::new("corpus").join(target);
    fs::create_dir_all(&folder)?;
    fs::write(folder.join(name), bytes)
}
