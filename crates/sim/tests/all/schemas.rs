//! docs/schemas.md has every column of CSV, made from the declarations of the figures.

use forebay_sim::study::{Analysis, Answer, Column, Comparison, Curves, Levels};
use std::path::Path;

fn table(title: &str, columns: &[Column]) -> String {
    let row = |column: &Column| format!("| `{}` | {} | {} |\n", column.name, column.unit, column.meaning);
    let rows: String = columns.iter().map(row).collect();
    format!("## {title}\n\n| column | unit | |\n| --- | --- | --- |\n{rows}")
}

#[test]
fn every_column_is_in_the_manual() {
    let tables = [
        ("`forebay compare -f csv`", Comparison::columns()),
        ("`forebay curve -f csv`", Curves::columns()),
        ("`forebay levels -f csv`", Levels::columns()),
        ("`forebay analyze -f csv`", Analysis::columns()),
    ];
    let made: Vec<String> = tables.iter().map(|(title, columns)| table(title, columns)).collect();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schemas.md");
    let page = std::fs::read_to_string(&page).expect("docs/schemas.md is there");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("schemas.md");
    std::fs::write(&file, made.join("\n")).unwrap();
    for made in &made {
        assert!(page.contains(made), "docs/schemas.md is not current: take its tables from {}", file.display());
    }
}
