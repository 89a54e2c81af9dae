//! A module in parts that are compiled apart: each function with the declarations of what it calls.
//!
//! Nothing of a part says which other parts there are, so what was made of it once does for every module that has it.
//!
//! Text as tir exports it is cut where its functions begin and end, which takes no time beside that of parsing it twice; what
//! is written otherwise is parsed and printed.

use std::collections::{HashMap, HashSet};

use melior::ir::operation::{OperationLike, OperationPrintingFlags};
use melior::ir::{BlockLike, Module, RegionLike};

use crate::llvm::Symbols;

/// A module of a part of the functions.
pub struct Part {
    /// MLIR.
    pub text: String,
    /// The public functions that have a body here.
    pub public: Vec<String>,
    /// The private functions of the whole that are named here.
    pub private: Vec<String>,
}

impl Part {
    /// What is seen of it.
    pub fn symbols(&self, whole: bool) -> Symbols<'_> {
        Symbols {
            public: &self.public,
            private: &self.private,
            whole,
        }
    }
}

/// A function of a module.
struct Function {
    name: String,
    text: String,
    public: bool,
    /// Without a body, if it has one.
    declaration: String,
    has_body: bool,
}

/// Parts of at least so many bytes of text each but for the last, in the order of the functions. None if the text is not as
/// tir exports it.
pub fn parts_of_text(text: &str, least: usize) -> Option<Vec<Part>> {
    Some(grouped(&functions_of_text(text)?, least))
}

/// The same of a module. None if it has more than functions.
pub fn parts(module: &Module<'_>, least: usize) -> Option<Vec<Part>> {
    Some(grouped(&functions(module)?, least))
}

fn grouped(functions: &[Function], least: usize) -> Vec<Part> {
    let places: HashMap<&str, usize> = functions
        .iter()
        .enumerate()
        .map(|(k, function)| (&function.name[..], k))
        .collect();
    let (mut parts, mut group, mut bytes) = (Vec::new(), Vec::new(), 0);
    for (k, function) in functions.iter().enumerate() {
        if function.has_body {
            group.push(k);
            bytes += function.text.len();
        }
        let last = k + 1 == functions.len();
        if bytes >= least.max(1) || last && !group.is_empty() {
            parts.push(part(functions, &places, &group));
            group.clear();
            bytes = 0;
        }
    }
    parts
}

/// The functions of a text in which nothing but they stands at their depth.
fn functions_of_text(text: &str) -> Option<Vec<Function>> {
    const BEGIN: &str = "  \"func.func\"() <{";
    // Attributes may stand behind it.
    const END: [&str; 2] = ["  })", ": () -> ()"];
    let mut lines = text.split_inclusive('\n');
    let mut first = lines.by_ref().map(str::trim_end);
    let first = first.find(|line| !line.is_empty() && !line.starts_with("//"));
    if first != Some("\"builtin.module\"() ({") {
        return None;
    }
    let mut all = Vec::new();
    while let Some(head) = lines.next() {
        let Some(about) = head.strip_prefix(BEGIN) else {
            // Nothing follows the module.
            let last = head.trim_end() == "}) : () -> ()";
            return (last && lines.all(|line| line.trim().is_empty())).then_some(all);
        };
        let about = about.trim_end().strip_suffix("}> ({")?;
        let (_, about) = about.split_once("function_type = ")?;
        let (ty, about) = about.split_once(", sym_name = \"")?;
        let (name, about) = about.split_once('"')?;
        let public = match about {
            "" => true,
            ", sym_visibility = \"private\"" => false,
            _ => return None,
        };
        let (mut own, mut has_body) = (head.to_string(), false);
        loop {
            let line = lines.next()?;
            own += line;
            if line.starts_with(END[0]) && line.trim_end().ends_with(END[1]) {
                break;
            }
            // What is deeper is a part of it, and blocks begin at its own depth.
            if !line.starts_with("   ") && !line.starts_with("  ^") {
                return None;
            }
            has_body = true;
        }
        all.push(Function {
            declaration: declaration(ty, name),
            name: name.to_string(),
            text: own,
            public,
            has_body,
        });
    }
    None
}

/// A function without its body.
fn declaration(ty: &str, name: &str) -> String {
    format!(
        "\"func.func\"() <{{function_type = {ty}, sym_name = \"{name}\", sym_visibility = \"private\"}}> ({{\n}}) : () -> ()\n"
    )
}

/// The functions of a module.
fn functions(module: &Module<'_>) -> Option<Vec<Function>> {
    let mut all = Vec::new();
    let mut next = module.body().first_operation();
    while let Some(op) = next {
        next = op.next_in_block();
        let named = op.name();
        if named.as_string_ref().as_str() != Ok("func.func") {
            return None;
        }
        let text = |name: &str| Some(op.attribute(name).ok()?.to_string());
        let name = text("sym_name")?.trim_matches('"').to_string();
        let ty = text("function_type")?;
        let public = text("sym_visibility").is_none_or(|v| v == "\"public\"");
        let flags = OperationPrintingFlags::new().print_generic_operation_form();
        all.push(Function {
            text: op.to_string_with_flags(flags).ok()?,
            public,
            declaration: declaration(&ty, &name),
            has_body: op.region(0).ok()?.first_block().is_some(),
            name,
        });
    }
    Some(all)
}

fn part(functions: &[Function], places: &HashMap<&str, usize>, group: &[usize]) -> Part {
    let (mut text, mut seen) = (String::new(), HashSet::new());
    seen.extend(group.iter().copied());
    for k in group {
        text += &functions[*k].text;
        text += "\n";
    }
    let mut named: Vec<usize> = group.to_vec();
    for k in group {
        for name in symbols(&functions[*k].text) {
            if let Some(at) = places.get(name)
                && seen.insert(*at)
            {
                text += &functions[*at].declaration;
                named.push(*at);
            }
        }
    }
    let names = |wanted: &dyn Fn(&Function) -> bool, of: &[usize]| -> Vec<String> {
        let all = of.iter().map(|k| &functions[*k]);
        all.filter(|f| wanted(f)).map(|f| f.name.clone()).collect()
    };
    Part {
        text,
        public: names(&|f| f.public, group),
        private: names(&|f| !f.public && f.has_body, &named),
    }
}

/// What follows an `@` in a text.
fn symbols(text: &str) -> impl Iterator<Item = &str> {
    let plain = |c: char| c.is_alphanumeric() || "_$.-".contains(c);
    text.split('@').skip(1).map(move |rest| {
        let end = rest.find(|c| !plain(c)).unwrap_or(rest.len());
        &rest[..end]
    })
}
