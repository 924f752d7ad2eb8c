//! The space–time graph, as in UBM's figures 1 and 7: references by time and position, with their classes.
//!
//! A trace has more references than a picture has dots, so a cell counts those of many times and positions. A position is the rank of
//! a page by object, in the order of the objects' first use, and by block within it: pages that are neighbours are drawn so.

use crate::input::trace::Trace;
use crate::walk::walk;
use forebay_basis::Place;
use forebay_policy::prefetch::prefetch;
use forebay_policy::ubm::{Class, Classifier};
use serde::Serialize;

/// References by time and position, and within a cell by class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SpaceTime {
    /// How many times there are, from the first reference to the last.
    pub columns: u32,
    /// How many positions there are, from the first object's first block on.
    pub rows: u32,
    /// Sequential references in each cell, row after row.
    pub sequential: Vec<u32>,
    /// Looping references in each cell, row after row.
    pub looping: Vec<u32>,
    /// Other references in each cell, row after row.
    pub other: Vec<u32>,
    #[serde(skip)]
    references: u64,
}

impl SpaceTime {
    /// An empty graph, of no more columns than there are references and no more rows than there are pages.
    pub(super) fn new(trace: &Trace, (columns, rows): (u32, u32)) -> Self {
        let references = trace.len() as u64;
        let columns = u64::from(columns).clamp(1, references.max(1)) as u32;
        let rows = rows.clamp(1, trace.pages.max(1));
        let empty = || vec![0; columns as usize * rows as usize];
        Self { columns, rows, sequential: empty(), looping: empty(), other: empty(), references }
    }

    /// Adds all references, classified without the table of runs that [`Classes::of`](super::Classes) has: it adds them too, and takes
    /// several times as long.
    pub(super) fn fill(&mut self, trace: &Trace, progress: &(dyn Fn(u64) + Sync)) {
        let rows = self.rows_of(trace);
        let mut classifier = Classifier::new(trace.pages, trace.page_size);
        let progress = |more| {
            progress(more);
            true
        };
        walk(&trace.references, 0..trace.len(), &progress, |time, page, soon| {
            if let Some(soon) = soon {
                trace.places.prefetch(soon);
                prefetch(&rows, soon as usize);
            }
            let class = classifier.refer(trace.places.of(page)).class;
            self.add(time, rows[page as usize], class);
        });
    }

    /// The row of each page.
    pub(super) fn rows_of(&self, trace: &Trace) -> Vec<u32> {
        let mut order_of_objects = vec![u32::MAX; trace.names.objects().len()];
        let mut objects = 0;
        // Pages are numbered by their first use, and so their objects come in the order of theirs.
        let mut key = |Place { object, block }: Place| {
            let order = &mut order_of_objects[object as usize];
            if *order == u32::MAX {
                (*order, objects) = (objects, objects + 1);
            }
            (*order, block)
        };
        let mut pages: Vec<((u32, u64), u32)> = trace.places.iter().map(&mut key).zip(0..).collect();
        pages.sort_unstable();
        let mut rows = vec![0; pages.len()];
        for (rank, (_, page)) in pages.into_iter().enumerate() {
            rows[page as usize] = (rank as u64 * u64::from(self.rows) / u64::from(trace.pages)) as u32;
        }
        rows
    }

    /// The graph with no more columns and rows than these: neighbouring cells, as many everywhere, are added up.
    pub fn at_most(&self, columns: u32, rows: u32) -> Self {
        let (wide, high) = (self.columns.div_ceil(columns.max(1)), self.rows.div_ceil(rows.max(1)));
        let (columns, rows) = (self.columns.div_ceil(wide), self.rows.div_ceil(high));
        let folded = |counts: &[u32]| {
            let mut sums = vec![0; columns as usize * rows as usize];
            for (row, counts) in counts.chunks(self.columns as usize).enumerate() {
                let sums = &mut sums[row / high as usize * columns as usize..][..columns as usize];
                for (sum, counts) in sums.iter_mut().zip(counts.chunks(wide as usize)) {
                    *sum += counts.iter().sum::<u32>();
                }
            }
            sums
        };
        let (sequential, looping, other) = (folded(&self.sequential), folded(&self.looping), folded(&self.other));
        Self { columns, rows, sequential, looping, other, references: self.references }
    }

    #[inline]
    pub(super) fn add(&mut self, time: usize, row: u32, class: Class) {
        let column = time as u64 * u64::from(self.columns) / self.references;
        let cells = match class {
            Class::Sequential => &mut self.sequential,
            Class::Looping => &mut self.looping,
            Class::Other => &mut self.other,
        };
        cells[row as usize * self.columns as usize + column as usize] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::Classes;
    use crate::analysis::tests::trace;

    #[test]
    fn a_scan_is_a_diagonal_and_a_loop_is_one_again() {
        // Blocks 40 to 79, then 0 to 39, then these again.
        let text: String = (40..80).chain(0..40).chain(0..40).map(|block| format!("{block}\n")).collect();
        let trace = trace(&text);
        let mut grid = SpaceTime::new(&trace, (6, 4));
        Classes::of(&trace, Some(&mut grid), &|_| {});
        assert_eq!((grid.columns, grid.rows), (6, 4));
        // Rows are blocks 0 to 19, 20 to 39, and so on; columns 20 references each.
        assert_eq!(
            grid.sequential,
            [0, 0, 13, 0, 0, 0, /**/ 0, 0, 0, 20, 0, 0, /**/ 13, 0, 0, 0, 0, 0, /**/ 0, 20, 0, 0, 0, 0]
        );
        assert_eq!(
            grid.looping,
            [0, 0, 0, 0, 20, 0, /**/ 0, 0, 0, 0, 0, 20, /**/ 0, 0, 0, 0, 0, 0, /**/ 0, 0, 0, 0, 0, 0]
        );
        assert_eq!(grid.other.iter().sum::<u32>(), 14);
    }

    #[test]
    fn the_graph_is_the_same_with_the_classes_and_without() {
        let loops = (0..4000u64).map(|step| if step % 3 == 0 { 1000 + step * step % 777 } else { step % 90 });
        let trace = trace(&loops.map(|block| format!("{block}\n")).collect::<String>());
        let [mut with, mut without] = [(); 2].map(|()| SpaceTime::new(&trace, (16, 8)));
        Classes::of(&trace, Some(&mut with), &|_| {});
        without.fill(&trace, &|_| {});
        assert_eq!(with, without);
        let all = |counts: &[u32]| counts.iter().sum::<u32>();
        assert!([&with.sequential, &with.looping, &with.other].into_iter().all(|counts| all(counts) > 0), "{with:?}");
    }

    #[test]
    fn cells_that_are_put_together_keep_their_counts() {
        let trace = trace(&(0..10).map(|block| format!("{block}\n")).collect::<String>());
        let mut grid = SpaceTime::new(&trace, (10, 5));
        Classes::of(&trace, Some(&mut grid), &|_| {});
        assert_eq!(grid.at_most(10, 5), grid);
        let small = grid.at_most(4, 3);
        // Three columns and two rows in one, the last ones of what is left.
        assert_eq!((small.columns, small.rows), (4, 3));
        let all: Vec<u32> =
            (0..12).map(|cell| small.sequential[cell] + small.looping[cell] + small.other[cell]).collect();
        assert_eq!(all, [3, 1, 0, 0, /**/ 0, 2, 2, 0, /**/ 0, 0, 1, 1]);
    }

    #[test]
    fn a_small_trace_has_a_cell_for_each_reference_and_page() {
        let trace = trace("5\n9\n5\n");
        let mut grid = SpaceTime::new(&trace, (512, 256));
        Classes::of(&trace, Some(&mut grid), &|_| {});
        assert_eq!((grid.columns, grid.rows, grid.other), (3, 2, vec![1, 0, 1, /**/ 0, 1, 0]));
    }
}
