//! A trace cut by the hash of its pages, a file of it after the other, for curves that many machines make together.

use crate::answer::Table;
use crate::arguments::{bytes, parse, usage};
use crate::columns::Collected;
use crate::trace::Source;
use crate::waiting::{Failure, wait};
use forebay_sim::curve::Spacing;
use forebay_sim::study::Monitor;
use forebay_sim::{Sample, Slices};
use forebay_trace::{Names, Paging, Request, Unit};
use pyo3::prelude::*;

/// The sizes of a curve of which none are asked.
const POINTS: u32 = 40;
/// The requests between two reports of progress.
const STRIDE: usize = 1 << 16;

/// Sizes in pages, rising, each once; without any, 40 up to the footprint.
#[pyfunction]
#[expect(clippy::needless_pass_by_value, reason = "Python's lists come as such")]
pub(crate) fn in_pages(sizes: Vec<Bound<'_, PyAny>>, page_size: u64, pages: u32) -> PyResult<Vec<u32>> {
    let mut found = if sizes.is_empty() {
        Spacing::Log.sizes(POINTS, pages)
    } else {
        let sizes = crate::arguments::sizes(&sizes)?;
        sizes.into_iter().map(|size| size.pages(page_size, pages).map_err(usage)).collect::<PyResult<_>>()?
    };
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// Reads a part of a trace once. Returns its references, the bytes of a page, and each slice's references as a table.
#[pyfunction]
#[pyo3(signature = (source, *, sample, count, page_size=None, progress=None))]
pub(crate) fn slices(
    py: Python<'_>,
    source: &Source,
    sample: &str,
    count: u32,
    page_size: Option<&Bound<'_, PyAny>>,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<(u64, u64, Vec<Table>)> {
    if count == 0 {
        return Err(usage("slices=0: take one at least"));
    }
    let slices = Slices { rate: parse::<Sample>(sample)?.rate, count };
    let page_size = page_size.map(bytes).transpose()?.or(source.page_size());
    let source = source.clone();
    wait(py, progress, move |waiting| {
        let (_, mut reader) = source.open(&waiting.warn())?;
        let damaged = |message: String| Failure::Trace(forebay_trace::Error::new(source.name(), message));
        let paging = Paging::of(reader.as_ref(), page_size).map_err(damaged)?;
        let reading = waiting.begin(format!("reading {}", source.name()), None, true);
        let (mut names, mut batch, mut more) = (Names::new(), Vec::new(), true);
        let (mut objects, mut whole) = (Vec::new(), 0);
        let mut collected: Vec<Collected> = (0..count).map(|_| Collected::default()).collect();
        while more {
            batch.clear();
            more = reader.fill(&mut names, STRIDE, &mut batch)?;
            objects.extend(names.objects()[objects.len()..].iter().map(|name| Slices::object(name)));
            for request in &batch {
                let blocks = paging.checked_pages(request).map_err(damaged)?;
                whole += blocks.end - blocks.start;
                for block in blocks {
                    if let Some(slice) = slices.of(block, objects[request.object as usize]) {
                        let page = Request { offset: block, length: 1, ..*request };
                        collected[slice as usize].add(&[page]);
                    }
                }
            }
            reading.set(whole, reader.share());
        }
        let page_size = paging.page_size();
        let table = |collected: Collected| {
            let (schema, batch) = collected.table(&names, Unit::Blocks(page_size as u32), Some(page_size));
            Table::new(schema, vec![batch])
        };
        Ok((whole, page_size, collected.into_iter().map(table).collect()))
    })
}
