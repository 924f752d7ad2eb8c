//! The page of the policies, docs/policies.md, from the registry.

use crate::policies::POLICIES;
use crate::policy::Info;

const HEAD: &str = "\
# Policies

This page is made from the registry, `crates/policy/src/policies/mod.rs`, by `forebay policies --format markdown`.

| column | |
| --- | --- |
| sees | what the policy looks at besides the page: its place (file or volume, and block), or who uses it and how |
| ghosts | the most pages that it remembers without holding them, in multiples of its capacity, at the largest setting |
| bytes | the most metadata for each page number, `bytes_per_page` in [JSON](schemas.md#lists-policies-formats-devices). The simulator numbers all pages of a trace, a running cache its pages and ghosts. A test checks it |

The header of each policy's file names its paper, its deviations from it, and its reference figures.

| name | policy | sees | ghosts | bytes | source |
| --- | --- | --- | ---: | ---: | --- |
";

const PARAMETERS: &str = "
## Parameters

A parameter is set by its name: `--policies gclock:initial=0:max=3`. The default is in brackets.

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
