//! What a simulation gave, to be looked at: [`Report`] says what there is to see, [`Report::html`] makes one file of it that
//! opens without a network, and [`figure`] draws one of its charts for a paper.
//!
//! This crate knows nothing of caches. Who has answers fills in the model; `assets/report.js` draws it with Apache ECharts.

pub mod figure;
mod model;
mod numbers;
mod page;

pub use model::{Axis, Cell, Chart, Column, Grid, Key, Kind, Report, Section, Series, Table, Unit, View, X};
