//! Flags that set output options of every `egraph` of the pipeline, wherever it stands.

use std::collections::HashSet;

use clap::{Arg, ArgAction, ArgMatches, Command};
use tir::Diagnostic;
use tir_pass::{Element, PassRegistry, Pipeline};

/// The pass that is asked.
const PASS: &str = "egraph";

/// A pass that runs it, and its options of these names.
const WITHIN: (&str, &[&str]) = ("choose-graph", &["print", "json"]);

/// The flags, and the options of the pass that they set.
const FLAGS: [(&str, &str); 4] = [
    ("print-egraph", "print"),
    ("explain", "explain"),
    ("egraph-dot", "dot"),
    ("egraph-json", "json"),
];

/// Adds the flags.
pub(crate) fn flags(command: Command) -> Command {
    let file = |name, help| Arg::new(name).long(name).help(help).value_name("FILE");
    command
        .next_help_heading("Equality saturation (pass egraph)")
        .arg(
            Arg::new("print-egraph")
                .long("print-egraph")
                .help("Print the number of e-classes and e-nodes, the rules applied, and costs with a lower bound")
                .action(ArgAction::SetTrue),
        )
        .arg(
            file(
                "explain",
                "Write the explanation of the result as rule applications, for --replay=file=FILE; \
                 without FILE: print it",
            )
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("-"),
        )
        .arg(file("egraph-dot", "Write the e-graph in DOT, with the extracted e-nodes marked"))
        .arg(file(
            "egraph-json",
            "Write the e-graph in the JSON format of extraction-gym and tir-egraph --extract",
        ))
}

/// The options that the flags set.
pub(crate) fn options(matches: &ArgMatches) -> Vec<(&'static str, String)> {
    let value = |flag: &str| match flag {
        "print-egraph" => matches.get_flag(flag).then(|| "true".to_string()),
        _ => matches.get_one::<String>(flag).cloned(),
    };
    let set = FLAGS.iter();
    set.filter_map(|(flag, option)| Some((*option, value(flag)?)))
        .collect()
}

/// Sets options of every `egraph` of a pipeline.
///
/// # Errors
/// There is none in the pipeline.
pub(crate) fn set(
    pipeline: &mut Pipeline,
    passes: &PassRegistry,
    options: &[(&'static str, String)],
) -> Result<(), Vec<Diagnostic>> {
    let mut taken = Taken::default();
    each(pipeline, passes, options, &mut taken)?;
    let Some((left, _)) = options
        .iter()
        .find(|(option, _)| !taken.by.contains(option))
    else {
        return Ok(());
    };
    let flag = FLAGS.iter().find(|(_, option)| option == left);
    let flag = flag.map_or("", |(flag, _)| flag);
    let what = format!("--{flag} needs pass '{PASS}', which is not in the pipeline");
    let error = Diagnostic::error(what);
    Err(vec![match taken.within {
        true => error.note(format!(
            "'{}', which is, chooses by what groups of operators take as nests, and keeps no proof: with 'egraph=true' lowerings run '{PASS}' before",
            WITHIN.0
        )),
        false => error,
    }])
}

/// Which options a pass of the pipeline takes, and whether one runs the e-graph within.
#[derive(Default)]
struct Taken {
    by: HashSet<&'static str>,
    within: bool,
}

fn each(
    pipeline: &mut Pipeline,
    passes: &PassRegistry,
    options: &[(&'static str, String)],
    taken: &mut Taken,
) -> Result<(), Vec<Diagnostic>> {
    for element in &mut pipeline.elements {
        match element {
            Element::Pass(pass) if pass.name() == PASS || pass.name() == WITHIN.0 => {
                let name = pass.name();
                taken.within |= name == WITHIN.0;
                let has = |option: &str| name == PASS || WITHIN.1.contains(&option);
                let options = options.iter().filter(|(option, _)| has(option));
                taken.by.extend(options.clone().map(|(option, _)| *option));
                let set: Vec<(String, String)> = options
                    .map(|(name, value)| (name.to_string(), value.clone()))
                    .collect();
                if set.is_empty() {
                    continue;
                }
                let mut all = pass.options();
                all.retain(|(name, _)| set.iter().all(|(set, _)| set != name));
                all.extend(set);
                let quoted = |text: &str| text.replace('\\', "\\\\").replace('"', "\\\"");
                let all = all.iter();
                let all = all.map(|(name, value)| format!("{name}=\"{}\"", quoted(value)));
                let text = all.collect::<Vec<_>>().join(" ");
                let again = passes.flag(name, Some(&text))?;
                if let Some(one) = again.elements.into_iter().next() {
                    *element = one;
                }
            }
            Element::Pass(_) => {}
            Element::Nest(_, inner) | Element::Alias(_, _, inner) => {
                each(inner, passes, options, taken)?;
            }
        }
    }
    Ok(())
}
