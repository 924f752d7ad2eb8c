//! An explanation for programs.

use super::{Explanation, Step};
use forebay_policy::drawing::{Drawing, Mark, Standing};
use serde_json::{Value, json};

impl Explanation {
    /// All steps, with all that the policy keeps after each.
    pub fn json(&self) -> Value {
        let step = |(index, step): (usize, &Step)| {
            let Step { page, hit, evicted, words, drawing, .. } = step;
            let evicted: Vec<&str> = evicted.iter().map(|&page| self.name(page)).collect();
            json!({
                "step": index + 1,
                "page": self.name(*page),
                "hit": hit,
                "evicted": evicted,
                "sentence": words,
                "lists": self.lists(drawing),
                "numbers": drawing.numbers.iter().map(|(name, value)| json!({ "name": name, "value": value })).collect::<Vec<_>>(),
            })
        };
        json!({
            "policy": self.spec.label,
            "title": self.spec.info.title,
            "paper": self.spec.info.paper,
            "size": self.size,
            "references": self.references.to_string(),
            "hits": self.hits(),
            "misses": self.misses(),
            "steps": self.steps.iter().enumerate().map(step).collect::<Vec<_>>(),
        })
    }

    fn lists(&self, drawing: &Drawing) -> Vec<Value> {
        let mark = |mark: &Mark| match *mark {
            Mark::Bit(name) => json!({ "name": name, "value": true }),
            Mark::State(state) => json!({ "name": "state", "value": state }),
            Mark::Number(name, number) => json!({ "name": name, "value": number }),
            Mark::Page(name, page) => json!({ "name": name, "value": self.name(page) }),
        };
        let lists = drawing.lists.iter().map(|list| {
            let pages = list.pages.iter().map(|drawn| {
                let standing = match drawn.standing {
                    Standing::Resident => "resident",
                    Standing::Ghost => "ghost",
                    Standing::Again => "again",
                };
                let marks: Vec<Value> = drawn.marks.iter().map(mark).collect();
                json!({ "page": self.name(drawn.page), "standing": standing, "marks": marks })
            });
            let hands = list.hands.iter().map(|(hand, page)| json!({ "name": hand, "page": self.name(*page) }));
            json!({
                "name": list.name,
                "circle": list.circle,
                "ends": list.ends,
                "pages": pages.collect::<Vec<_>>(),
                "hands": hands.collect::<Vec<_>>(),
            })
        });
        lists.collect()
    }
}
