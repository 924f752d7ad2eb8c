//! What a simulation gave, to be looked at: [`study`] makes sections of its answers, [`Document`] holds them, [`Document::html`] makes
//! one file of it that opens without a network, and [`figure`] draws one of its charts for a paper.
//!
//! But for [`study`] and [`explanation`], a page of a policy's steps, this crate knows nothing of caches; `assets/report.js` draws the model with Apache
//! ECharts.

pub mod explanation;
pub mod figure;
pub mod file;
mod model;
mod numbers;
mod page;
mod pdf;
pub mod study;

pub use figure::DrawError;
pub use model::{
    Axis, Cell, Chart, Column, Document, Grid, Key, Kind, Made, Mark, Section, Series, Table, Unit, View, X,
};
pub use page::colors;
