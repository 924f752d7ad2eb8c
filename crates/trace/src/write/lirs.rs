//! Writing the LIRS traces' text: a page a line, numbered densely by first use, as its authors' traces are.

use super::Writer;
use super::numbered::Numbered;
use super::sink::Sink;
use crate::error::Result;
use crate::names::Names;
use crate::request::Request;
use std::io::Write;

pub(super) struct Lirs {
    sink: Sink,
    pages: Numbered,
}

impl Lirs {
    pub(super) fn new(sink: Sink, pages: Numbered) -> Self {
        Self { sink, pages }
    }
}

impl Writer for Lirs {
    fn write(&mut self, request: &Request, _: &Names) -> Result<()> {
        let sink = &mut self.sink;
        self.pages.each(request, |page| {
            let written = writeln!(sink, "{page}");
            sink.check(written)
        })
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.sink.finish()
    }
}
