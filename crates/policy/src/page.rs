//! The page of the policies, docs/policies.md, from the registry.

use crate::policies::POLICIES;
use crate::policy::Info;

const HEAD: &str = "\
# Policies

This page is made from the registry, `crates/policy/src/policies/mod.rs`, by `forebay policies --format markdown`.

*Bytes* are the most that the policy keeps for each page number that may occur, stated in its file and held by a test. *Ghosts* are the
most pages that it remembers without having them, in multiples of its capacity at the largest setting. *Sees* is what it looks at besides
the page: its place (file or volume, block), or who uses it and how. What the file says of deviations and reference figures is in
its header.

| name | policy | sees | ghosts | bytes | source |
| --- | --- | --- | ---: | ---: | --- |
";

const PARAMETERS: &str = "
## Parameters

Set by name, as in `--policies gclock:initial=0:max=3`; the default is in brackets.

| policy | parameter | what it does |
| --- | --- | --- |
";

/// The page in Markdown.
pub fn page() -> String {
    let policy = |info: &&Info| {
        let all = [(info.uses.place, "place"), (info.uses.request, "owner, operation"), (info.off_line, "the future")];
        let sees: Vec<&str> = all.into_iter().filter_map(|(sees, what)| sees.then_some(what)).collect();
        let Info { name, title, ghosts, bytes_per_page, paper, .. } = info;
        format!("| `{name}` | {title} | {} | {ghosts} | {bytes_per_page} | {paper} |\n", sees.join(", "))
    };
    let parameters = |info: &&'static Info| {
        let name = info.name;
        let parameter = move |parameter: &crate::Parameter| {
            format!("| `{name}` | `{}` | {} |\n", parameter.usage().replace('|', "\\|"), parameter.help)
        };
        info.parameters.iter().map(parameter)
    };
    let policies = POLICIES.iter().map(policy).collect::<String>();
    HEAD.to_owned() + &policies + PARAMETERS + &POLICIES.iter().flat_map(parameters).collect::<String>()
}
