use super::*;
use forebay_policy::Spec;
use forebay_policy::registry::POLICIES;
use forebay_sim::study::explain::Asked;

fn page(policy: &str, size: u32, references: &str) -> String {
    let asked = Asked::new(Spec::parse(policy).unwrap(), Some(references.parse().unwrap()), Some(size));
    html(&asked.of())
}

#[test]
fn every_policy_has_a_page_with_all_of_its_steps_and_nothing_from_outside() {
    for info in POLICIES {
        let of = Asked::new(Spec::new(info), None, None).of();
        let page = html(&of);
        assert_eq!(page.matches("<section class=\"step\"").count(), of.steps.len(), "{}", info.name);
        assert_eq!(page.matches("<a class=").count(), of.steps.len(), "{}", info.name);
        for step in &of.steps {
            assert!(page.contains(&format!("<p class=\"words\">{}</p>", escaped(&step.words))), "{}", info.name);
        }
        for outside in ["http:", "https:", "src=", "@import", "url("] {
            assert!(!page.contains(outside), "{}: {outside}", info.name);
        }
        for tag in ["section", "figure", "ol", "li", "svg", "g", "nav", "main", "p", "small", "b"] {
            let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{}: {tag}", info.name);
        }
    }
}

#[test]
fn ghosts_bits_and_the_page_that_is_referenced_are_told_apart() {
    let arc = page("arc", 2, "abacd");
    assert!(arc.contains("class=\"page p2 ghost") && arc.contains("<figcaption>B1</figcaption>"), "{arc}");
    let clock = page("clock", 2, "aab");
    assert!(clock.contains("aria-label=\"frames: a (reference bit); hand at a\""), "{clock}");
    assert!(clock.contains("class=\"page p0 bit now changed\""), "{clock}");
    let sieve = page("sieve", 2, "aab");
    assert!(sieve.contains("<i>▲ hand</i>"), "{sieve}");
}

/// The places of a circle's pages in each step, by their first coordinates.
fn places(page: &str, name: &str) -> Vec<String> {
    let of_page = |circle: &str| {
        let (before, _) = circle.split_once(&format!("\">{name}</text>"))?;
        let (_, at) = before.rsplit_once("<text class=\"name\" ")?;
        Some(at.to_owned())
    };
    page.split("<figure class=\"circle\">").skip(1).filter_map(of_page).collect()
}

#[test]
fn a_page_stands_still_in_a_circle_while_a_hand_passes_others() {
    let places = places(&page("clock-pro:recovery=off", 5, "abcdefg"), "b");
    assert!(places.len() == 6 && places.windows(2).all(|pair| pair[0] == pair[1]), "{places:?}");
}
