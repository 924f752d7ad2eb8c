//! A comparison whose runs are made elsewhere, as by the workers of a cluster: the question for them, and the answer of what they give.

use super::comparison::{Asked, Comparison, Warmup, in_pages};
use crate::input::trace::Dimensions;
use crate::replay::ends::Ends;
use crate::replay::outcome::RunOutcome;
use crate::size::Size;
use forebay_trace::Origin;
use serde::Deserialize;
use serde_json::{Value, json};
use std::error::Error;

/// What is known of a trace: the JSON of a comparison, and the runs of both ends.
#[derive(Deserialize)]
struct Known {
    trace: String,
    references: u64,
    footprint_pages: u32,
    page_size: u64,
    page_size_origin: String,
    warmup: u64,
    runs: Vec<RunOutcome>,
    /// With next to no cache, and with a cache of everything.
    ends: Option<[RunOutcome; 2]>,
}

/// To the byte and the digit, as the command line takes it.
fn exact(size: Size) -> String {
    match size {
        Size::Pages(pages) => pages.to_string(),
        Size::Bytes(bytes) => format!("{bytes}B"),
        Size::Percent(percent) => format!("{percent}%"),
    }
}

impl Asked {
    /// The question, under the names of the arguments of the Python package's `sweep`.
    pub fn for_elsewhere(&self) -> Value {
        json!({
            "policies": self.specs.iter().map(|spec| &spec.label).collect::<Vec<_>>(),
            "sizes": self.sizes.iter().copied().map(exact).collect::<Vec<_>>(),
            "warmup": match self.warmup {
                Warmup::References(references) => references.to_string(),
                Warmup::Percent(percent) => format!("{percent}%"),
            },
            "device": self.device.as_ref().map(|device| &device.name),
            "think_us": self.think_ms * 1e3,
            "readahead": self.readahead.as_ref().map_or("none", |rule| &rule.label),
            "by_distance": self.by_distance,
            "behind": self.behind.as_ref().map(|first| format!("{}@{}", first.spec.label, exact(first.size))),
            "page_size": self.page_size,
        })
    }

    /// Whether its advice weighs what next to no cache and a cache of everything cost, which are runs of their own.
    pub fn weighs_ends(&self) -> bool {
        self.costs() && self.sizes.len() > 1
    }

    /// The answer of the runs that were made elsewhere over a trace. They lack policies' states.
    ///
    /// # Errors
    /// What is missing or wrong in it.
    pub fn from_elsewhere(&self, known: Value) -> Result<Comparison, Box<dyn Error>> {
        let known: Known = serde_json::from_value(known)?;
        let Known { trace, references, footprint_pages, page_size, page_size_origin, warmup, runs, ends } = known;
        let page_size_origin = Origin::by_word(&page_size_origin).ok_or("no origin of the page size")?;
        let trace = Dimensions { name: trace, references, pages: footprint_pages, page_size, page_size_origin };
        let sizes = in_pages(&self.sizes, page_size, footprint_pages).map_err(|error| error.to_string())?;
        let asked = self.specs.iter().flat_map(|spec| sizes.iter().map(|&(pages, _)| (&spec.label, pages)));
        if !asked.eq(runs.iter().map(|run| (&run.policy, run.pages))) {
            return Err(format!("other runs over {} than were asked", trace.name).into());
        }
        let ends = ends.map(|[without, with_all]| Ends { without, with_all });
        Ok(Comparison { warmup, outcomes: runs, ends, ..self.empty(trace, sizes) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::study::Answer;
    use crate::study::advice::of_comparison;
    use crate::{Opening, Readahead};
    use forebay_policy::Spec;
    use std::sync::Arc;

    struct Nobody;

    impl super::super::Monitor for Nobody {
        fn begin(&self, _: String, _: Option<u64>, _: bool) -> Box<dyn super::super::Progress + '_> {
            Box::new(Nobody)
        }

        fn warn(&self, _: &str) {}
    }

    impl super::super::Progress for Nobody {
        fn add(&self, _: u64) -> bool {
            true
        }

        fn set(&self, _: u64, _: Option<f64>) -> bool {
            true
        }
    }

    fn asked(device: Option<&str>, behind: Option<&str>) -> Asked {
        Asked {
            specs: ["lru", "arc", "opt"].map(|name| Spec::parse(name).unwrap()).to_vec(),
            sizes: ["1%", "200", "1MiB", "20%"].map(|size| size.parse().unwrap()).to_vec(),
            warmup: "10%".parse().unwrap(),
            device: device.map(|name| name.parse().unwrap()),
            think_ms: 0.5,
            readahead: Some(Readahead::default()),
            by_distance: true,
            behind: behind.map(|first| first.parse().unwrap()),
            threads: 1,
            ..Asked::default()
        }
    }

    #[test]
    fn an_answer_that_comes_from_elsewhere_is_the_one_that_was_made_there() {
        for (device, behind) in [(None, None), (Some("nearline"), None), (Some("object-storage"), Some("lru@100"))] {
            let asked = asked(device, behind);
            let warn: forebay_trace::Warn = Arc::new(|message: &str| panic!("{message}"));
            let mut reader = Opening::default().open("zipf:pages=5k,references=50k", &warn).unwrap().1;
            let made = asked.of("zipf", reader.as_mut(), &Nobody).unwrap();
            assert_eq!(made.ends.is_some(), asked.weighs_ends());
            let mut known = made.json();
            // An end is told as any run is.
            let told = |run: &RunOutcome| {
                let sizes = vec![(run.pages, Size::Pages(run.pages.into()))];
                let alone = Comparison { outcomes: vec![run.clone()], ..asked.empty(made.trace.clone(), sizes) };
                alone.json()["runs"][0].clone()
            };
            let ends = made.ends.as_ref().map(|ends| json!([told(&ends.without), told(&ends.with_all)]));
            known["ends"] = ends.unwrap_or(Value::Null);
            let came = asked.from_elsewhere(known.clone()).unwrap();
            assert_eq!(came.rows(), made.rows());
            assert_eq!(of_comparison(&came), of_comparison(&made));
            let mut expected = made.json();
            expected["runs"].as_array_mut().unwrap().iter_mut().for_each(|run| run["state"] = json!({}));
            assert_eq!(came.json(), expected);

            known["runs"].as_array_mut().unwrap().pop();
            assert!(asked.from_elsewhere(known).unwrap_err().to_string().contains("other runs over zipf"));
        }
    }

    #[test]
    fn the_question_is_exact() {
        let question = asked(Some("nvme"), Some("lru@3000000B")).for_elsewhere();
        assert_eq!(question["sizes"], json!(["1%", "200", "1048576B", "20%"]));
        assert_eq!((&question["warmup"], &question["behind"]), (&json!("10%"), &json!("lru@3000000B")));
        assert_eq!((&question["device"], &question["think_us"]), (&json!("nvme"), &json!(500.0)));
    }
}
