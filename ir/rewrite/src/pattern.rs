//! Patterns: rewrites as code, the sets they come in, and how dialects hand them over.

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::sync::Arc;

use rustc_hash::FxHashMap;
use tir_core::{Diagnostic, Dialect, Hook, Name, Op, OpId, closest};

use crate::apply::RulePattern;
use crate::decline::Decline;
use crate::interfaces::Typed;
use crate::rewriter::Rewriter;
use crate::rule::{About, AttrFn, Class, Functions, GuardFn, Kind, OpClass, Rule, RuleText};

/// A rewrite as code. Canonicalization and dialect conversion use the same trait; in a
/// conversion the op has its operands adapted to the converted types already.
pub trait Pattern: Send + Sync {
    /// Its name, for traces, statistics and `--disable-rule`: reads well after "apply".
    fn name(&self) -> &str;
    /// The name of the ops it applies to; `None` for any.
    fn root(&self) -> Option<Name>;
    /// The names of the ops that it applies to, where these are several; `None` for any.
    fn roots(&self) -> Option<Vec<Name>> {
        self.root().map(|root| vec![root])
    }
    /// Patterns of more benefit are tried first.
    fn benefit(&self) -> u32 {
        1
    }
    /// Rewrites the op, or declines and leaves everything as it was.
    fn rewrite(&self, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline>;
}

/// A pattern made of a function.
struct Function<F> {
    name: &'static str,
    root: Option<Name>,
    benefit: u32,
    rewrite: F,
}

impl<F> Pattern for Function<F>
where
    F: Fn(OpId, &mut Rewriter<'_>) -> Result<(), Decline> + Send + Sync,
{
    fn name(&self) -> &str {
        self.name
    }
    fn root(&self) -> Option<Name> {
        self.root
    }
    fn benefit(&self) -> u32 {
        self.benefit
    }
    fn rewrite(&self, op: OpId, rw: &mut Rewriter<'_>) -> Result<(), Decline> {
        (self.rewrite)(op, rw)
    }
}

/// Patterns, rules and the functions that rules name, as they are collected.
#[derive(Default)]
pub struct PatternSet {
    patterns: Vec<Arc<dyn Pattern>>,
    rules: Vec<Arc<Rule>>,
    functions: Functions,
    errors: Vec<Diagnostic>,
    /// The classes of the rules that are left out.
    without: Vec<Class>,
}

impl PatternSet {
    /// An empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a pattern.
    pub fn add(&mut self, pattern: impl Pattern + 'static) -> &mut Self {
        self.patterns.push(Arc::new(pattern));
        self
    }

    /// Adds a pattern on the ops of a record:
    /// `set.on("drop-double-neg", |Neg { x }, op, rw| …)`.
    pub fn on<T: Op>(
        &mut self,
        name: &'static str,
        rewrite: impl Fn(T, OpId, &mut Rewriter<'_>) -> Result<(), Decline> + Send + Sync + 'static,
    ) -> &mut Self {
        self.on_first(1, name, rewrite)
    }

    /// The same with a benefit: what has more is tried first.
    pub fn on_first<T: Op>(
        &mut self,
        benefit: u32,
        name: &'static str,
        rewrite: impl Fn(T, OpId, &mut Rewriter<'_>) -> Result<(), Decline> + Send + Sync + 'static,
    ) -> &mut Self {
        self.add(Function {
            name,
            root: Some(T::name()),
            benefit,
            rewrite: move |op: OpId, rw: &mut Rewriter<'_>| match T::read(rw.ir(), op) {
                Some(record) => rewrite(record, op, rw),
                None => Err(Decline::from("the op has not its declared structure")),
            },
        })
    }

    /// Adds a rule. A rule whose text is wrong is reported by [`finish`](Self::finish).
    pub fn rule(&mut self, text: RuleText) -> &mut Self {
        match Rule::parse(&text) {
            Ok(rule) => self.rules.push(Arc::new(rule)),
            Err(error) => self.errors.push(*error),
        }
        self
    }
    /// Adds rules.
    pub fn rules<T: Borrow<RuleText>>(&mut self, texts: impl IntoIterator<Item = T>) -> &mut Self {
        for text in texts {
            self.rule(*text.borrow());
        }
        self
    }
    /// Adds a rule that was read elsewhere.
    pub fn add_rule(&mut self, rule: Rule) -> &mut Self {
        self.rules.push(Arc::new(rule));
        self
    }
    /// Reports a name that is there already: all rules ask by it, those of other dialects, too.
    fn check_free(&mut self, what: &str, name: &str, known: bool) {
        if known {
            let text = format!("a {what} '{name}' is there already");
            self.errors.push(Diagnostic::error(text));
        }
    }
    /// Makes a guard known to the rules by a name. One that is there is reported by [`finish`](Self::finish), as for all below.
    pub fn guard(&mut self, name: &str, guard: GuardFn) -> &mut Self {
        self.check_free("guard or function", name, self.functions.has_function(name));
        self.functions.guards.insert(Name::new(name), guard);
        self
    }
    /// Makes a function that computes an attribute known to the rules by a name.
    pub fn attr_fn(&mut self, name: &str, function: AttrFn) -> &mut Self {
        self.check_free("guard or function", name, self.functions.has_function(name));
        self.functions.attrs.insert(Name::new(name), function);
        self
    }

    /// Says what guards, functions and classes are, for lists and the reference: name, arguments as
    /// they are written, a sentence.
    pub fn about(&mut self, texts: &[(&'static str, &'static str, &'static str)]) -> &mut Self {
        for (name, args, doc) in texts {
            let about = About { args, doc };
            self.functions.about.insert(Name::new(name), about);
        }
        self
    }
    /// Makes a class of ops known to the rules by a name.
    pub fn op_class(&mut self, name: &str, class: OpClass) -> &mut Self {
        self.check_free("class of ops", name, self.functions.has_class(name));
        self.functions.classes.insert(Name::new(name), class);
        self
    }

    /// The functions that rules may name.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }
    /// The names of all rules and patterns, in the order they were added.
    pub fn names(&self) -> Vec<String> {
        let rules = self.rules.iter().map(|rule| rule.name.to_string());
        let patterns = self.patterns.iter().map(|p| p.name().to_string());
        rules.chain(patterns).collect()
    }

    /// Checks that these are names of rules or patterns of this set; the first that is none is an
    /// error that suggests a name that is near.
    pub fn check_names<'a>(
        &self,
        names: impl IntoIterator<Item = &'a String>,
    ) -> Result<(), Diagnostic> {
        check_names(&self.names(), names)
    }

    /// Leaves out the rules of all classes but these. Patterns and folds stay: they are exact.
    pub fn only_classes(&mut self, classes: &[Class]) -> &mut Self {
        let others = Class::ALL.into_iter().filter(|c| !classes.contains(c));
        self.without = others.collect();
        self
    }

    /// Checks names and rules, leaves out what is disabled, and sorts by benefit; of equal
    /// benefit rules come first, then the order in which they were added counts.
    pub fn finish(self, disabled: &BTreeSet<String>) -> Result<Patterns, Vec<Diagnostic>> {
        let mut errors = self.errors;
        let functions = Arc::new(self.functions);
        let mut names = BTreeSet::new();
        let mut rules = Vec::new();
        let mut all: Vec<Arc<dyn Pattern>> = Vec::new();
        for rule in self.rules {
            if let Err(error) = rule.check(&functions) {
                errors.push(*error);
                continue;
            }
            if !names.insert(rule.name.as_str().to_string()) {
                let what = format!("rule '{}' is defined twice", rule.name);
                errors.push(Diagnostic::error(what).at(rule.loc));
                continue;
            }
            if disabled.contains(rule.name.as_str()) || self.without.contains(&rule.class) {
                continue;
            }
            rules.push(rule.clone());
            if rule.kind == Kind::Reduce
                && let Some(pattern) = RulePattern::new(rule, functions.clone())
            {
                all.push(Arc::new(pattern));
            }
        }
        for pattern in self.patterns {
            if !names.insert(pattern.name().to_string()) {
                let what = format!("pattern '{}' is defined twice", pattern.name());
                errors.push(Diagnostic::error(what));
            } else if !disabled.contains(pattern.name()) {
                all.push(pattern);
            }
        }
        if !errors.is_empty() {
            return Err(errors);
        }
        all.sort_by_key(|pattern| std::cmp::Reverse(pattern.benefit()));
        Ok(Patterns::new(all, rules, functions))
    }
}

/// Checks that names are among those of the rules and patterns that are known.
pub fn check_names<'a>(
    known: &[String],
    names: impl IntoIterator<Item = &'a String>,
) -> Result<(), Diagnostic> {
    for name in names {
        if !known.contains(name) {
            let error = Diagnostic::error(format!("there is no rule or pattern '{name}'"));
            return Err(match closest(name, known.iter().map(String::as_str)) {
                Some(near) => error.note(format!("did you mean '{near}'?")),
                None => error,
            });
        }
    }
    Ok(())
}

/// Patterns ready to apply, by the name of their root.
pub struct Patterns {
    by_root: FxHashMap<Name, Vec<Arc<dyn Pattern>>>,
    any: Vec<Arc<dyn Pattern>>,
    all: Vec<Arc<dyn Pattern>>,
    rules: Vec<Arc<Rule>>,
    functions: Arc<Functions>,
}

impl Patterns {
    /// No patterns.
    pub fn none() -> Self {
        Self::new(Vec::new(), Vec::new(), Arc::default())
    }

    fn new(all: Vec<Arc<dyn Pattern>>, rules: Vec<Arc<Rule>>, functions: Arc<Functions>) -> Self {
        let mut by_root: FxHashMap<Name, Vec<Arc<dyn Pattern>>> = FxHashMap::default();
        let mut any: Vec<Arc<dyn Pattern>> = Vec::new();
        for pattern in &all {
            // What applies to any op stands among those of each, in the order of all.
            match pattern.roots() {
                None => {
                    by_root
                        .values_mut()
                        .for_each(|list| list.push(pattern.clone()));
                    any.push(pattern.clone());
                }
                Some(roots) => {
                    for root in roots {
                        let list = by_root.entry(root).or_insert_with(|| any.clone());
                        list.push(pattern.clone());
                    }
                }
            }
        }
        Self {
            by_root,
            any,
            all,
            rules,
            functions,
        }
    }

    /// The patterns for an op of this name, the best first.
    pub fn of(&self, name: Name) -> &[Arc<dyn Pattern>] {
        self.by_root.get(&name).unwrap_or(&self.any)
    }
    /// All patterns (rules of kind `reduce` among them), the best first.
    pub fn all(&self) -> &[Arc<dyn Pattern>] {
        &self.all
    }
    /// All rules, of either kind: what an e-graph reads.
    pub fn rules(&self) -> &[Arc<Rule>] {
        &self.rules
    }
    /// The functions that the rules name.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }
}

/// Hands over the patterns that bring an op into its canonical form.
pub trait Canonicalize: Op {
    /// Adds them.
    fn patterns(set: &mut PatternSet);
}

/// Patterns of an op or of a dialect, as an interface.
pub trait DialectPatterns: Send + Sync {
    /// Adds them.
    fn patterns(&self, set: &mut PatternSet);
}
impl<T: Canonicalize> DialectPatterns for Typed<T> {
    fn patterns(&self, set: &mut PatternSet) {
        T::patterns(set);
    }
}
struct List(fn(&mut PatternSet));
impl DialectPatterns for List {
    fn patterns(&self, set: &mut PatternSet) {
        (self.0)(set);
    }
}

/// `canonicalize`: the hook that hands over [`Canonicalize`].
pub fn canonicalize<T: Canonicalize>() -> Hook {
    Hook::interface::<dyn DialectPatterns>(Typed::<T>::NEW)
}

/// Adds patterns and rules to a dialect, on ops of any dialect. Call it once for each list, from
/// a `load` function.
pub fn register_patterns(dialect: &'static Dialect, patterns: fn(&mut PatternSet)) {
    dialect.attach::<dyn DialectPatterns>(Box::leak(Box::new(List(patterns))));
}

/// The canonicalization patterns and the rules of all loaded dialects: dialects by name, in each
/// first those of its ops in the order they are listed, then those of the dialect.
pub fn canonicalization() -> PatternSet {
    let mut set = PatternSet::new();
    for dialect in Dialect::all() {
        for spec in dialect.ops {
            let info = Name::new(spec.name).info();
            if let Some(patterns) = info.and_then(|i| i.interface::<dyn DialectPatterns>()) {
                patterns.patterns(&mut set);
            }
        }
        for patterns in dialect.attached::<dyn DialectPatterns>() {
            patterns.patterns(&mut set);
        }
    }
    set
}
