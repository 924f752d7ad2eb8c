//! The report as one HTML file: what is to be read stands in it as text, what is to be drawn as data beside the program that draws.

use crate::model::{Document, Made, Section};

pub(crate) const STYLE: &str = include_str!("../assets/report.css");
const ECHARTS: &str = include_str!("../assets/echarts.min.js");
/// In the order in which they stand in the page: the last uses the others.
const SCRIPTS: [&str; 4] = [
    include_str!("../assets/text.js"),
    include_str!("../assets/layout.js"),
    include_str!("../assets/chart.js"),
    include_str!("../assets/report.js"),
];
/// By this a file is known as a report.
pub(crate) const GENERATOR: &str = r#"<meta name="generator" content="forebay"#;
/// Stands before everything that is seen, so that no page is light first and then dark.
pub(crate) const THEME: &str = "let kept = null; try { kept = localStorage.getItem('forebay-theme'); } catch {} \
    document.documentElement.dataset.theme = kept ?? (matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');";

/// The colours of a report in light, by their names in its style sheet: `ink`, `quiet`, `rule`, `c0` to `c7` for policies, and `s0` to `s5`
/// for what is no policy.
pub fn colors() -> impl Iterator<Item = (&'static str, &'static str)> {
    let (_, light) = STYLE.split_once('{').unwrap_or_default();
    declared(light)
}

/// The colours that a rule of the style sheet declares, which begins here.
fn declared(rule: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    let light = rule.split('}').next().unwrap_or_default();
    // A comment may stand before a name.
    let declared = light
        .split(';')
        .filter_map(|declared| declared.rsplit("*/").next()?.trim().strip_prefix("--")?.split_once(':'));
    declared.map(|(name, color)| (name, color.trim())).filter(|(_, color)| color.starts_with('#'))
}

impl Document {
    /// The page, whole: it asks for nothing from a network.
    pub fn html(&self) -> String {
        let title = escaped(&self.title);
        let sections: String = self.sections.iter().map(|part| section(part, &self.title)).collect();
        let data = serde_json::to_string(self).expect("the model is plain data");
        // `</script>` and `<!--` would end or change the element that the data stands in.
        let data = data.replace('<', "\\u003c");
        let script = SCRIPTS.concat();
        let version = env!("CARGO_PKG_VERSION");
        let Made { command, date } = &self.made;
        let (command, date) = (escaped(command), escaped(date));
        format!(
            r#"<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
{GENERATOR} {version}">
<title>{title} – Forebay</title>
<link rel="icon" href="data:,">
<script>{THEME}</script>
<style>
{STYLE}</style>
</head>
<body>
<header>
<h1>{title}</h1>
<button id="theme" type="button">Dark</button>
</header>
<p class="made"><code>{command}</code> <span>{date}, Forebay {version}</span></p>
<div id="keys" hidden></div>
<main>
<noscript><p class="advice">The charts of this report need JavaScript.</p></noscript>
{sections}</main>
<footer>Charts by <a href="https://echarts.apache.org">Apache ECharts</a> (Apache License 2.0).</footer>
<script type="application/json" id="report">{data}</script>
<script>{ECHARTS}</script>
<script>
{script}</script>
</body>
</html>
"#
        )
    }
}

/// What is to be read of a section; one that has the report's title does not repeat it.
fn section(section: &Section, title: &str) -> String {
    let mut text = "<section>\n".to_owned();
    if section.title != title {
        text += &format!("<h2>{}</h2>\n", escaped(&section.title));
    }
    text += &format!("<p class=\"subtitle\">{}</p>\n", escaped(&section.subtitle));
    if !section.advice.is_empty() {
        text += &format!("<p class=\"advice\">{}</p>\n", with_code(&section.advice));
    }
    text + "</section>\n"
}

/// What is in backquotes is code.
fn with_code(text: &str) -> String {
    let parts = escaped(text);
    let parts = parts.split('`').enumerate();
    parts.map(|(index, part)| if index % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() }).collect()
}

pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_end_the_script_or_become_markup() {
        let name = "</script><b>\"&<!--";
        let section = Section {
            title: name.to_owned(),
            subtitle: String::new(),
            advice: name.to_owned(),
            charts: Vec::new(),
            tables: Vec::new(),
        };
        let made = Made { command: format!("forebay compare {name}"), date: "today".to_owned() };
        let page = Document { title: format!("{name}!"), made, keys: Vec::new(), sections: vec![section] }.html();
        assert!(!page.contains(name));
        assert!(page.contains("<h2>&lt;/script&gt;&lt;b&gt;&quot;&amp;&lt;!--</h2>"));
        let start = page.find(r#"id="report">"#).unwrap() + r#"id="report">"#.len();
        let data = &page[start..start + page[start..].find("</script>").unwrap()];
        let data: serde_json::Value = serde_json::from_str(data).unwrap();
        assert_eq!(data["sections"][0]["title"], name);
    }

    #[test]
    fn the_colours_of_lines_and_ink_are_known() {
        let colors: Vec<_> = colors().collect();
        for name in ["ink", "quiet", "rule", "paper", "c0", "c7"] {
            assert!(colors.iter().any(|(of, color)| *of == name && color.len() == 7), "{name}: {colors:?}");
        }
    }

    /// A colour's parts in proportion to light.
    fn light(color: &str) -> [f64; 3] {
        [1, 3, 5].map(|at| {
            let part = f64::from(u8::from_str_radix(&color[at..at + 2], 16).unwrap()) / 255.0;
            if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
        })
    }

    /// The ratio of luminances, as the guidelines for accessible pages have it.
    fn contrast(one: &str, other: &str) -> f64 {
        let luminance =
            |color: &str| light(color).iter().zip([0.2126, 0.7152, 0.0722]).map(|(part, of)| part * of).sum();
        let (one, other): (f64, f64) = (luminance(one), luminance(other));
        (one.max(other) + 0.05) / (one.min(other) + 0.05)
    }

    /// How far apart two colours look, in Oklab: black and white are 1 apart.
    fn apart(one: &str, other: &str) -> f64 {
        let lab = |color: &str| {
            let of = |rows: [[f64; 3]; 3], parts: [f64; 3]| {
                rows.map(|row| (0..3).map(|at| row[at] * parts[at]).sum::<f64>())
            };
            let cones = of(
                [
                    [0.412_221_470_8, 0.536_332_536_3, 0.051_445_992_9],
                    [0.211_903_498_2, 0.680_699_545_1, 0.107_396_956_6],
                    [0.088_302_461_9, 0.281_718_837_6, 0.629_978_700_5],
                ],
                light(color),
            );
            of(
                [
                    [0.210_454_255_3, 0.793_617_785, -0.004_072_046_8],
                    [1.977_998_495_1, -2.428_592_205, 0.450_593_709_9],
                    [0.025_904_037_1, 0.782_771_766_2, -0.808_675_766],
                ],
                cones.map(f64::cbrt),
            )
        };
        lab(one).iter().zip(lab(other)).map(|(one, other)| (one - other).powi(2)).sum::<f64>().sqrt()
    }

    #[test]
    fn what_is_no_policy_has_colours_that_no_policy_has_and_all_can_be_read() {
        let (_, light) = STYLE.split_once('{').unwrap();
        let (_, dark) = STYLE.split_once(r#"[data-theme="dark"] {"#).unwrap();
        for rule in [light, dark] {
            let colors: Vec<_> = declared(rule).collect();
            let named = |letter: char| {
                let is = move |name: &str| name.starts_with(letter) && name[1..].parse::<u8>().is_ok();
                colors.iter().filter(move |(name, _)| is(name)).copied().collect::<Vec<_>>()
            };
            let (policies, others) = (named('c'), named('s'));
            assert_eq!((policies.len(), others.len()), (8, 6));
            let paper = colors.iter().find(|(name, _)| *name == "paper").unwrap().1;
            for (index, (name, color)) in others.iter().enumerate() {
                assert!(contrast(color, paper) >= 3.0, "{name} on {paper}: {:.2}", contrast(color, paper));
                for (other, of) in policies.iter().chain(&others[..index]) {
                    assert!(apart(color, of) >= 0.08, "{name} and {other}: {:.3} apart", apart(color, of));
                }
            }
        }
    }

    #[test]
    fn the_program_embedded_does_not_end_its_element() {
        assert!(
            !ECHARTS.contains("</script")
                && SCRIPTS.iter().all(|script| !script.contains("</script"))
                && !STYLE.contains("</style")
        );
    }
}
