//! Files of rules: `.tir` text whose top-level ops are rules.
//!
//! Which ops are rules is an interface, [`IsRule`]; `rule.reduce` and `rule.equal` of the dialect
//! rule have it. Whoever uses rules gets them by [`rules`]: those of the loaded dialects, then
//! those of `--rules=FILE`, then those of a pass's own option.

use tir_core::{Diagnostic, Failure, Hook, Ir, Loc, Name, Op, OpRef, closest};
use tir_pass::PassCx;
use tir_rewrite::interfaces::Typed;
use tir_rewrite::{
    Class, Definition, Functions, PatternSet, Rule, RuleError, RulePart, RuleText, canonicalization,
};
use tir_text::ParseOptions;

/// An op that is a rule.
pub trait IsRule: Op {
    /// The text of the rule.
    fn rule_text(&self, op: OpRef<'_>) -> RuleText;
}

/// [`IsRule`] as an interface.
pub trait RuleOp: Send + Sync {
    /// The text of the rule; `None` if the op has not its structure.
    fn rule_text(&self, op: OpRef<'_>) -> Option<RuleText>;
}
impl<T: IsRule> RuleOp for Typed<T> {
    fn rule_text(&self, op: OpRef<'_>) -> Option<RuleText> {
        Some(T::read(op.ir, op.id)?.rule_text(op))
    }
}

/// An op that defines a guard or a function.
pub trait IsDefinition: Op {
    /// Its text: parameters as the left side, the body as the guard.
    fn definition_text(&self, op: OpRef<'_>) -> RuleText;
}

/// [`IsDefinition`] as an interface.
pub trait DefinitionOp: Send + Sync {
    /// The text of the definition; `None` if the op has not its structure.
    fn definition_text(&self, op: OpRef<'_>) -> Option<RuleText>;
}
impl<T: IsDefinition> DefinitionOp for Typed<T> {
    fn definition_text(&self, op: OpRef<'_>) -> Option<RuleText> {
        Some(T::read(op.ir, op.id)?.definition_text(op))
    }
}

/// `is_definition`: the hook that hands over [`IsDefinition`].
pub fn is_definition<T: IsDefinition>() -> Hook {
    Hook::interface::<dyn DefinitionOp>(Typed::<T>::NEW)
}

/// `is_rule`: the hook that hands over [`IsRule`].
pub fn is_rule<T: IsRule>() -> Hook {
    Hook::interface::<dyn RuleOp>(Typed::<T>::NEW)
}

/// The rules and patterns of the loaded dialects, of the files that the settings of this run name,
/// and of these files; rules only of the classes that the settings name.
pub fn rules(cx: &PassCx<'_>, files: &[String]) -> Result<PatternSet, Vec<Diagnostic>> {
    let files = cx.settings().rule_files.iter().chain(files);
    let mut set = rules_of(files)?;
    restrict(&mut set, &cx.settings().rule_classes)?;
    Ok(set)
}

/// Leaves out the rules of all classes but those of these words; none for all of them.
pub fn restrict(set: &mut PatternSet, classes: &[String]) -> Result<(), Diagnostic> {
    if classes.is_empty() {
        return Ok(());
    }
    let class = |word: &String| {
        Class::from_keyword(word).ok_or_else(|| {
            let all = Class::ALL.map(Class::keyword);
            let error = Diagnostic::error(format!("there is no class of rules '{word}'"));
            match closest(word, all) {
                Some(near) => error.note(format!("did you mean '{near}'?")),
                None => error.note(format!("known are {}", all.join(", "))),
            }
        })
    };
    let classes: Vec<Class> = classes.iter().map(class).collect::<Result<_, _>>()?;
    set.only_classes(&classes);
    Ok(())
}

/// The rules and patterns of the loaded dialects and of files.
pub fn rules_of<'a>(
    files: impl IntoIterator<Item = &'a String>,
) -> Result<PatternSet, Vec<Diagnostic>> {
    let mut set = canonicalization();
    let mut done: Vec<&String> = Vec::new();
    for file in files {
        // A file that is named twice is read once.
        if !done.contains(&file) {
            for rule in read_rules(file, set.functions())? {
                set.add_rule(rule);
            }
            done.push(file);
        }
    }
    Ok(set)
}

/// Reads a file of rules and checks them against the ops that are loaded and these functions.
pub fn read_rules(file: &str, functions: &Functions) -> Result<Vec<Rule>, Vec<Diagnostic>> {
    let text = std::fs::read_to_string(file)
        .map_err(|e| Diagnostic::error(format!("cannot read rules from '{file}': {e}")))?;
    parse_rules(&text, file, functions)
}

/// The rules of a text; `file` is what it is called in errors.
pub fn parse_rules(
    text: &str,
    file: &str,
    functions: &Functions,
) -> Result<Vec<Rule>, Vec<Diagnostic>> {
    let ir = tir_text::parse(text, Name::new(file), &ParseOptions::default())?;
    tir_core::verify(&ir)?;
    let mut rules = Vec::new();
    let mut errors = Vec::new();
    // Definitions hold for what stands behind them in their file.
    let mut functions = functions.clone();
    let block = ir.body_block(ir.root(), 0);
    for op in block.into_iter().flat_map(|block| ir.ops_in(block)) {
        let info = ir.op(op).info();
        let defines = info.and_then(|info| info.interface::<dyn DefinitionOp>());
        if let Some(parts) = defines.and_then(|defines| defines.definition_text(ir.op(op))) {
            errors.extend(
                define(parts, ir.op(op), text, &mut functions)
                    .err()
                    .map(|e| *e),
            );
            continue;
        }
        match rule(ir.op(op), &ir, text, &functions) {
            Ok(rule) => rules.push(rule),
            Err(error) => errors.push(*error),
        }
    }
    if errors.is_empty() {
        Ok(rules)
    } else {
        Err(errors)
    }
}

fn rule(op: OpRef<'_>, ir: &Ir, text: &str, functions: &Functions) -> Result<Rule, Failure> {
    let interface = op.info().and_then(|info| info.interface::<dyn RuleOp>());
    let parts = interface.and_then(|interface| interface.rule_text(op));
    let Some(mut parts) = parts else {
        let what = format!("'{}' is no rule", op.name());
        return Err(Box::new(Diagnostic::error(what).at(op.loc())));
    };
    if let Some((file, line, column)) = ir.loc(op.id).place() {
        parts.place = (file.as_str(), line, column);
    }
    let name = parts.name;
    let mut rule = Rule::read(&parts).map_err(|error| {
        let error = RuleError {
            message: format!("rule '{name}': {}", error.message),
            ..error
        };
        unread(error, op, text, parts)
    })?;
    let checked = rule.check_words(functions);
    checked.map_err(|(word, error)| at_word(&word, *error, op, text, parts))?;
    rule.expand(functions);
    Ok(rule)
}

/// Adds a definition to the functions.
fn define(
    parts: RuleText,
    op: OpRef<'_>,
    text: &str,
    functions: &mut Functions,
) -> Result<(), Failure> {
    let name = parts.name;
    let definition = Definition::read(&parts).map_err(|error| {
        let error = RuleError {
            message: format!("definition '{name}': {}", error.message),
            ..error
        };
        unread(error, op, text, parts)
    })?;
    functions.define(definition).map_err(|(word, error)| {
        let error = error.context(format!("definition '{name}': "));
        at_word(&word, error.at(op.loc()), op, text, parts)
    })
}

/// An error of reading, where it is in the text of a file.
fn unread(error: RuleError, op: OpRef<'_>, text: &str, parts: RuleText) -> Failure {
    let place = |(part, at)| inside(text, op.loc(), parts.part(part), at);
    let at = error.at.map_or(op.loc(), place);
    Box::new(Diagnostic::error(error.message).at(at))
}

/// An error at the first place of a word in the text of a file.
fn at_word(
    word: &str,
    mut error: Diagnostic,
    op: OpRef<'_>,
    text: &str,
    parts: RuleText,
) -> Failure {
    let all = [RulePart::Left, RulePart::Right, RulePart::Guard].into_iter();
    let mut found = all.filter_map(|part| Some((part, word_in(parts.part(part), word)?)));
    if let Some((part, at)) = found.next() {
        error.loc = inside(text, op.loc(), parts.part(part), at);
        error.len = word.chars().count() as u32;
    }
    Box::new(error)
}

/// Where a whole word stands in a part of a rule.
fn word_in(text: &str, word: &str) -> Option<usize> {
    let operators = "+*/%<>=!";
    let is_operator = word.starts_with(|c| operators.contains(c));
    let part = |c: char| match is_operator {
        true => operators.contains(c),
        false => c.is_ascii_alphanumeric() || "_-.$".contains(c),
    };
    let whole = |at: &usize| {
        let before = text[..*at].chars().next_back();
        let after = text[at + word.len()..].chars().next();
        !before.is_some_and(part) && !after.is_some_and(part)
    };
    text.match_indices(word).map(|(at, _)| at).find(whole)
}

/// The place of a byte of a string literal that stands behind the beginning of an op.
fn inside(text: &str, op: Loc, literal: &str, at: usize) -> Loc {
    let Some((file, line, column)) = op.place() else {
        return op;
    };
    let (mut line, mut column) = (line, column);
    let before: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1) as usize)
        .map(str::len)
        .sum();
    let rest = &text[before.min(text.len())..];
    let mut chars = rest.chars().skip(column.saturating_sub(1) as usize);
    let mut step = |line: &mut u32, column: &mut u32| {
        let c = chars.next()?;
        if c == '\n' {
            (*line, *column) = (*line + 1, 1);
        } else {
            *column += 1;
        }
        Some(c)
    };
    let start = op;
    loop {
        match step(&mut line, &mut column) {
            Some('"') => {}
            Some(_) => continue,
            None => return start,
        }
        // A literal: what it says, and the place of each of its bytes.
        let mut said = String::new();
        let mut places = Vec::new();
        loop {
            let here = (line, column);
            let meant = match step(&mut line, &mut column) {
                Some('"') => break,
                Some('\\') => match step(&mut line, &mut column) {
                    Some('n') => '\n',
                    Some('t') => '\t',
                    Some(c) => c,
                    None => return start,
                },
                Some(c) => c,
                None => return start,
            };
            places.resize(places.len() + meant.len_utf8(), here);
            said.push(meant);
        }
        places.push((line, column.saturating_sub(1)));
        if said == literal {
            let (line, column) = places[at.min(places.len() - 1)];
            return Loc::file(file, line, column);
        }
    }
}
