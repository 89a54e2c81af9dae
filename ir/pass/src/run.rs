//! The run of a pipeline: order, parallel nests, verification, failures, instrumentation.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use tir_core::{At, Diagnostic, Ir, Loc, Name, OpId, verify, verify_local};

use crate::analysis::{Analyses, Outer};
use crate::clock::{Account, measure};
use crate::context::{PassCx, PassResult, Surroundings};
use crate::pass::AnyPass;
use crate::pipeline::{Element, Pipeline};
use crate::print::{Watch, described};
use crate::report::{FailedPass, Report, Timing};
use crate::shared::Shared;
use crate::symbols::SymbolScope;

/// What the passes on one isolated op leave.
#[derive(Default)]
struct Out {
    report: Report,
    /// New isolated ops, each with the position of the next member to run on it.
    siblings: Vec<(usize, Ir)>,
}

impl Out {
    fn merge(&mut self, other: Report) {
        self.report.errors.extend(other.errors);
        self.report.remarks.extend(other.remarks);
        self.report.prints.extend(other.prints);
        for (pass, counts) in other.statistics {
            let all = self.report.statistics.entry(pass).or_default();
            for (what, n) in counts {
                *all.entry(what).or_default() += n;
            }
        }
        self.report.timing.merge(other.timing);
    }
}

/// A member of a list, aliases expanded, with its path in the pipeline.
type Member<'a> = (Vec<usize>, &'a Element);

fn members<'a>(pipeline: &'a Pipeline, path: &[usize], out: &mut Vec<Member<'a>>) {
    for (i, element) in pipeline.elements.iter().enumerate() {
        let mut path = path.to_vec();
        path.push(i);
        match element {
            Element::Alias(_, _, inner) => members(inner, &path, out),
            element => out.push((path, element)),
        }
    }
}

/// Called after each pass, on the thread that ran it.
pub(crate) type AfterPass<'a> = Box<dyn Fn(&'static str, &Ir) + Send + Sync + 'a>;
/// Called after each member of a flat pipeline: the name of the pass, and the IR.
pub(crate) type AfterStep<'a> = dyn FnMut(&'static str, &Ir) -> PassResult + 'a;

pub(crate) struct Runner<'a> {
    pipeline: &'a Pipeline,
    shared: Shared<'a>,
    after_pass: Option<&'a AfterPass<'a>>,
}

impl<'a> Runner<'a> {
    pub(crate) fn new(
        pipeline: &'a Pipeline,
        shared: Shared<'a>,
        after_pass: Option<&'a AfterPass<'a>>,
    ) -> Self {
        Self {
            pipeline,
            shared,
            after_pass,
        }
    }

    pub(crate) fn run(&self, ir: &mut Ir) -> Report {
        let mut list = Vec::new();
        members(self.pipeline, &[], &mut list);
        let mut out = self.initialize(ir, &list);
        if out.report.is_ok() {
            out.merge(self.top(ir, &list));
        }
        out.report
    }

    /// Calls `Pass::initialize` of all passes of members, in order.
    fn initialize(&self, ir: &Ir, list: &[Member<'_>]) -> Out {
        let mut out = Out::default();
        if self.shared.settings.timing {
            out.report.timing.name = "all".to_string();
        }
        for (path, element) in list {
            match element {
                Element::Pass(pass) => {
                    let clock = (Instant::now(), ThreadTime::now());
                    let (mut analyses, around) = (Analyses::default(), Surroundings::default());
                    let name = pass.name();
                    let mut cx = PassCx::new(name, &self.shared, &around, &mut analyses);
                    let result = catch_unwind(AssertUnwindSafe(|| pass.initialize(&mut cx)));
                    out.report.remarks.append(&mut cx.remarks);
                    match result {
                        Ok(Ok(())) => {}
                        Ok(Err(errors)) => {
                            let note = format!("in the options of pass '{name}'");
                            let errors = errors.into_iter().map(|e| match e.loc.is_unknown() {
                                true => e.at(place(ir)),
                                false => e,
                            });
                            let errors = errors.map(|e| e.note(note.clone()));
                            out.report.errors.extend(errors);
                        }
                        Err(panic) => {
                            let what = format!("pass '{name}' panicked: {}", message(&*panic));
                            let note = format!(
                                "this is a bug of the pass; it happens on any program with {}",
                                self.reproducer(path)
                            );
                            let error = Diagnostic::error(what).at(place(ir)).note(note);
                            out.report.errors.push(error);
                        }
                    }
                    if self.shared.settings.timing {
                        let (wall, cpu) = (clock.0.elapsed(), clock.1.elapsed());
                        out.report.timing.wall += wall;
                        let timing = out.report.timing.member(&[], "initialize");
                        timing.wall += wall;
                        timing.cpu += cpu;
                    }
                }
                Element::Nest(_, inner) => {
                    let mut list = Vec::new();
                    members(inner, path, &mut list);
                    let inner = self.initialize(ir, &list);
                    out.merge(inner.report);
                }
                // Aliases are expanded in lists of members.
                Element::Alias(..) => {}
            }
        }
        out
    }

    /// Runs member by member, of a flat pipeline, and calls a function after each.
    pub(crate) fn run_steps(&self, ir: &mut Ir, mut call: Option<&mut AfterStep<'_>>) -> Report {
        let settings = self.shared.settings;
        let mut list = Vec::new();
        members(self.pipeline, &[], &mut list);
        let mut out = self.initialize(ir, &list);
        if !out.report.is_ok() {
            return out.report;
        }
        for member in list {
            let pass = Pipeline::leaf(member.1);
            let prints = &mut out.report.prints;
            let watch = settings.print.module_scope.then(|| {
                let place = (pass, member.0.as_slice());
                Watch::start(settings, place, &[], ir, prints)
            });
            let watch = watch.flatten();
            let given = settings.keep_input.then(|| ir.clone());
            out.merge(self.top(ir, std::slice::from_ref(&member)));
            if !out.report.is_ok() {
                if let Some(watch) = watch {
                    watch.failed(ir, &mut out.report.prints);
                }
                out.report.failed = given.map(|input| {
                    let elements = vec![member.1.clone()];
                    let pipeline = Pipeline { elements };
                    Box::new(FailedPass { input, pipeline })
                });
                break;
            }
            if let Some(watch) = watch {
                watch.passed(ir, &mut out.report.prints);
            }
            if let Some(call) = &mut call
                && let Err(errors) = call(pass, ir)
            {
                let path = self.reproducer(&member.0);
                let errors = errors.into_iter();
                out.report.errors.extend(
                    errors.map(|e| e.note(format!("after pass '{pass}'; reproduce with {path}"))),
                );
                break;
            }
        }
        out.report
    }

    /// Runs members on the root; nests of its own name mean the root itself.
    fn top(&self, ir: &mut Ir, list: &[Member<'_>]) -> Report {
        let mut out = Out::default();
        let mut analyses = Analyses::default();
        let around = Surroundings::default();
        let name = ir.root_name();
        let start = Instant::now();
        for (path, element) in list {
            let member = (path.clone(), *element);
            match element {
                Element::Nest(anchor, inner) if *anchor == name => {
                    let mut list = Vec::new();
                    members(inner, path, &mut list);
                    let mut inner = Out::default();
                    let start = Instant::now();
                    self.list(ir, &list, 0, &around, &mut analyses, &mut inner);
                    out.siblings.append(&mut inner.siblings);
                    let timing = std::mem::take(&mut inner.report.timing);
                    out.merge(inner.report);
                    let nest = out.report.timing.member(path, anchor.as_str());
                    nest.merge(timing);
                    nest.wall += start.elapsed();
                }
                _ => self.list(ir, &[member], 0, &around, &mut analyses, &mut out),
            }
            if !out.report.is_ok() {
                break;
            }
        }
        if !out.siblings.is_empty() && out.report.is_ok() {
            let what = format!("a pass on '{name}' made an op beside it, but it is the root");
            out.report.errors.push(Diagnostic::error(what));
        }
        if self.shared.settings.timing {
            out.report.timing.name = "all".to_string();
            out.report.timing.wall = start.elapsed();
        } else {
            out.report.timing = Timing::default();
        }
        out.report
    }

    /// Runs the members from a position on, on one isolated op.
    fn list(
        &self,
        ir: &mut Ir,
        list: &[Member<'_>],
        from: usize,
        around: &Surroundings,
        analyses: &mut Analyses,
        out: &mut Out,
    ) {
        let mut at = from;
        while let Some((path, element)) = list.get(at) {
            let below = |pass: &dyn AnyPass| pass.anchor().filter(|name| *name != ir.root_name());
            match element {
                Element::Pass(pass) => match below(&**pass) {
                    None => {
                        self.pass(ir, &**pass, (path, at), around, analyses, out);
                        at += 1;
                    }
                    // Passes on an op of another name run on those below, together.
                    Some(anchor) => {
                        let same = list[at..].iter().take_while(|(_, element)| match element {
                            Element::Pass(pass) => below(&**pass) == Some(anchor),
                            _ => false,
                        });
                        let end = at + same.count();
                        self.nest(ir, anchor, &list[at..end], path, around, analyses, out);
                        at = end;
                    }
                },
                Element::Nest(anchor, inner) => {
                    let mut inner_list = Vec::new();
                    members(inner, path, &mut inner_list);
                    self.nest(ir, *anchor, &inner_list, path, around, analyses, out);
                    at += 1;
                }
                // Aliases are expanded in lists of members.
                Element::Alias(..) => at += 1,
            }
            if !out.report.is_ok() {
                return;
            }
        }
    }

    /// Runs members on each isolated op of a name directly below, in parallel.
    #[allow(clippy::too_many_arguments)]
    fn nest(
        &self,
        ir: &mut Ir,
        anchor: Name,
        list: &[Member<'_>],
        path: &[usize],
        around: &Surroundings,
        analyses: &mut Analyses,
        out: &mut Out,
    ) {
        let start = Instant::now();
        for (path, element) in list {
            let Element::Pass(pass) = element else {
                continue;
            };
            let name = pass.name();
            let mut cx = PassCx::new(name, &self.shared, around, analyses);
            let result = catch_unwind(AssertUnwindSafe(|| pass.prepare(ir, &mut cx)));
            let errors = match result {
                Ok(Ok(())) => continue,
                Ok(Err(errors)) => self.failed(ir, errors, name, path),
                Err(panic) => vec![self.panicked(ir, &*panic, name, path)],
            };
            out.report.errors.extend(errors);
            return;
        }
        let around = Surroundings {
            scope: SymbolScope::below(ir, around.scope.as_ref()),
            outer: Some(Arc::new(Outer {
                analyses: analyses.clone(),
                outer: around.outer.clone(),
            })),
            ops: around.ops.iter().cloned().chain([described(ir)]).collect(),
        };
        let fits = |ir: &Ir| anchor == "any" || ir.root_name() == anchor;
        let work = |child: &mut Ir, from: usize| -> Out {
            let mut out = Out::default();
            let mut analyses = Analyses::default();
            self.list(child, list, from, &around, &mut analyses, &mut out);
            out
        };
        let mut children = ir.children_mut();
        children.retain(|(_, child)| fits(child));
        let results: Vec<(OpId, Out)> = self
            .shared
            .map(children, |(slot, child)| (slot, work(child, 0)));
        let mut timing = Timing::default();
        let mut new = Vec::new();
        for (slot, mut one) in results {
            timing.merge(std::mem::take(&mut one.report.timing));
            let siblings = std::mem::take(&mut one.siblings);
            out.merge(one.report);
            new.push((slot, siblings));
        }
        for (slot, siblings) in new {
            // Those that come out of siblings stand behind them.
            let mut place = slot;
            let mut queue: std::collections::VecDeque<(usize, Ir)> = siblings.into();
            while let Some((from, mut sibling)) = queue.pop_front() {
                if out.report.is_ok() && fits(&sibling) {
                    let mut one = work(&mut sibling, from);
                    timing.merge(std::mem::take(&mut one.report.timing));
                    for more in one.siblings.into_iter().rev() {
                        queue.push_front(more);
                    }
                    out.merge(one.report);
                }
                place = ir.adopt(At::After(place), sibling);
            }
        }
        analyses.clear();
        let nest = out.report.timing.member(path, &anchor);
        nest.merge(timing);
        nest.wall += start.elapsed();
        // References to symbols can only be followed from the root.
        let root = around
            .outer
            .as_ref()
            .is_some_and(|outer| outer.outer.is_none());
        if self.shared.settings.verify
            && out.report.is_ok()
            && root
            && let Err(errors) = verify(ir)
        {
            let names: Vec<&str> = list.iter().map(|(_, e)| Pipeline::leaf(e)).collect();
            let path = list.last().map_or(&[][..], |(path, _)| path);
            let errors = self.broken(ir, errors, &names.join(","), path);
            out.report.errors.extend(errors);
            let settings = self.shared.settings;
            if !settings.print.module_scope {
                let last = names.last().copied().unwrap_or("");
                let watch = Watch::new(settings, (last, path), &[]);
                watch.failed(ir, &mut out.report.prints);
            }
        }
    }

    /// Runs one pass on one isolated op.
    fn pass(
        &self,
        ir: &mut Ir,
        pass: &dyn AnyPass,
        (path, at): (&[usize], usize),
        around: &Surroundings,
        analyses: &mut Analyses,
        out: &mut Out,
    ) {
        let settings = self.shared.settings;
        let name = pass.name();
        let watch = if settings.print.module_scope {
            None
        } else {
            Watch::start(
                settings,
                (name, path),
                &around.ops,
                ir,
                &mut out.report.prints,
            )
        };
        let mut cx = PassCx::new(name, &self.shared, around, analyses);
        let mut run = || catch_unwind(AssertUnwindSafe(|| pass.run(ir, &mut cx)));
        let result = if settings.timing {
            let (start, account) = (Instant::now(), Account::default());
            let result = measure(account.clone(), &mut run);
            let timing = out.report.timing.member(path, name);
            timing.wall += start.elapsed();
            timing.cpu += Duration::from_nanos(account.load(Ordering::Relaxed));
            result
        } else {
            run()
        };
        out.report.remarks.append(&mut cx.remarks);
        if !cx.counts.is_empty() {
            let counts = std::mem::take(&mut cx.counts);
            let all = out.report.statistics.entry(name).or_default();
            for (what, n) in counts {
                *all.entry(what).or_default() += n;
            }
        }
        let siblings = std::mem::take(&mut cx.siblings);
        let preserved = std::mem::take(&mut cx.preserved);
        analyses.invalidate(&preserved);
        let errors = match result {
            Err(panic) => vec![self.panicked(ir, &*panic, name, path)],
            Ok(Err(errors)) => self.failed(ir, errors, name, path),
            Ok(Ok(())) => Vec::new(),
        };
        if !errors.is_empty() {
            out.report.errors.extend(errors);
            if let Some(watch) = watch {
                watch.failed(ir, &mut out.report.prints);
            }
            return;
        }
        out.siblings
            .extend(siblings.into_iter().map(|ir| (at + 1, ir)));
        if let Some(call) = self.after_pass {
            call(name, ir);
        }
        if let Some(watch) = &watch {
            watch.passed(ir, &mut out.report.prints);
        }
        if settings.verify && !preserved.all {
            let root = around.outer.is_none() && around.scope.is_none();
            let result = if root { verify(ir) } else { verify_local(ir) };
            if let Err(errors) = result {
                out.report
                    .errors
                    .extend(self.broken(ir, errors, name, path));
                if let Some(watch) = watch {
                    watch.failed(ir, &mut out.report.prints);
                }
            }
        }
    }

    fn reproducer(&self, path: &[usize]) -> String {
        format!("--pass-pipeline='{}'", self.pipeline.up_to(path))
    }

    /// The error about a panic.
    fn panicked(
        &self,
        ir: &Ir,
        panic: &(dyn Any + Send),
        pass: &str,
        path: &[usize],
    ) -> Diagnostic {
        let what = format!("pass '{pass}' panicked: {}", message(panic));
        let reproducer = self.reproducer(path);
        Diagnostic::error(what).at(place(ir)).note(format!(
            "this is a bug of the pass; reproduce with {reproducer}"
        ))
    }

    /// The errors of a pass, the first with what failed.
    fn failed(
        &self,
        ir: &Ir,
        errors: Vec<Diagnostic>,
        pass: &str,
        path: &[usize],
    ) -> Vec<Diagnostic> {
        // What a pass says of nothing in particular is about the op it ran on.
        let placed = |error: Diagnostic| match error.loc.is_unknown() {
            true => error.at(place(ir)),
            false => error,
        };
        let mut errors: Vec<Diagnostic> = errors.into_iter().map(placed).collect();
        if errors.is_empty() {
            errors.push(Diagnostic::error(format!(
                "pass '{pass}' failed without a reason"
            )));
        }
        let note = format!("in pass '{pass}'; reproduce with {}", self.reproducer(path));
        let first = errors.remove(0).note(note);
        errors.insert(0, first);
        errors
    }

    /// The errors of the verifier after a pass.
    fn broken(
        &self,
        ir: &Ir,
        errors: Vec<Diagnostic>,
        pass: &str,
        path: &[usize],
    ) -> Vec<Diagnostic> {
        let errors = errors.into_iter();
        let errors = errors.map(|e| e.context(format!("pass '{pass}' broke the IR: ")));
        self.failed(ir, errors.collect(), pass, path)
    }
}

/// Where an isolated op stands; that of the first op in it if it has no place, as a module that was
/// not written.
pub fn place(ir: &Ir) -> Loc {
    let own = ir.loc(ir.root());
    let below = ir.walk_ids().into_iter().map(|op| ir.loc(op));
    let mut places = std::iter::once(own).chain(below);
    places.find(|loc| !loc.is_unknown()).unwrap_or(own)
}

/// What a panic says.
fn message(panic: &(dyn Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<&str>() {
        text
    } else if let Some(text) = panic.downcast_ref::<String>() {
        text
    } else {
        "no message"
    }
}
