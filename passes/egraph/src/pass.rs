//! The pass.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tir::data::Random;
use tir::rule_file::rules;
use tir::{BlockId, Diagnostic, Ir, Pass, PassCx, PassResult, Patterns, pass};
use tir_accel::AttachedMachine;
use tir_extraction::{Choice, EGraph, dot};
use tir_graph::Layout;

use crate::blocks::{blocks, symbol};
use crate::build::is_inside;
use crate::cost_model::CostModel;
use crate::dump;
use crate::files::{Files, key};
use crate::groups::{Grouped, Price, Terms, outline};
use crate::layout;
use crate::matching::Compiled;
use crate::optimize::{Optimizer, Saturated};
use crate::proof::explain::explain;
use crate::proof::text;
use crate::rebuild::rebuild;
use crate::report;
use crate::saturate::{Limits, Outcome, Stop};

pass! {
    /// Optimizes the side-effect-free ops of each block by equality saturation with the rules of
    /// the loaded dialects, and extracts the cheapest program for the attached machine.
    /// The result never costs more than the input, nor than the result of greedy rewriting, in any
    /// layout; at equal cost the input is kept.
    pub struct Egraph = "egraph" {
        /// Run for every machine, not only for those where layouts matter (DMA granule above 4
        /// bytes).
        pub always: bool = true,
        /// Rule files to load in addition to the rules of the dialects and `--rules`.
        pub rules: Vec<String> = Vec::new(),
        /// Rules to disable, in addition to `--disable-rule`.
        pub disable: Vec<String> = Vec::new(),
        /// Maximum number of saturation iterations.
        pub iterations: usize = 12,
        /// Maximum number of e-nodes per block.
        pub nodes: usize = 20000,
        /// Match limit of a rule per iteration; a rule that exceeds it is banned for some
        /// iterations.
        pub matches: usize = 1000,
        /// Maximum number of e-nodes that are tried for the terms of a rule per iteration; a rule that tries more is banned as
        /// well.
        pub tries: u64 = 1000000,
        /// Number of iterations in which multi-pattern rules (several roots) are applied.
        pub multi_pattern_iterations: usize = 4,
        /// Maximum number of matches of a multi-pattern rule per e-class and iteration.
        pub multi_pattern_matches: usize = 2,
        /// Maximum number of elements of a constant folded in the e-graph; larger ones are left to
        /// `constant-fold`.
        pub fold_elements: usize = 1024,
        /// Layouts to consider, such as `NHWC` or `NCHW16c`; empty: those that the machine's
        /// intrinsics ask for; `NCHW`: no other layout.
        pub layouts: Vec<String> = Vec::new(),
        /// Price each op by itself, as if none were fused with another: what Tensat extracts by.
        pub additive: bool = false,
        /// Maximum number of search steps of the extraction.
        pub steps: u64 = 20000000,
        /// Extract a random program, drawn by this seed and the name of the function, instead of the cheapest: to test
        /// what holds of all equal programs.
        pub random: Option<u64> = None,
        /// Print the number of e-classes and e-nodes, the rules applied, those that the chosen program rests on, and
        /// the cost of each root before and after.
        pub print: bool = false,
        /// With `print`: for each rule that the chosen program rests on what it brings, in cycles and in bytes that are
        /// moved: what the cheapest program that is found without this rule takes, less what the chosen one takes.
        /// 0 where other rules show the same. Each is a search of its own, with the limits of the first.
        pub without: bool = false,
        /// With `without`: rules to search without, at most; those of most steps.
        pub without_rules: usize = 16,
        /// With `print`: the seconds that saturation, extraction and the proof take. They differ from run to run.
        pub seconds: bool = false,
        /// File for the explanation: the rule applications that turn the input into the result, as
        /// `replay` reads them; `-`: print it.
        pub explain: Option<String> = None,
        /// File for the e-graph in DOT, with the extracted e-nodes marked.
        pub dot: Option<String> = None,
        /// File for the e-graph in the JSON format of extraction-gym and `tir-egraph --extract`.
        pub json: Option<String> = None,
    }
}

impl Pass for Egraph {
    fn prepare(&self, parent: &Ir, cx: &mut PassCx<'_>) -> PassResult {
        cx.analysis::<AttachedMachine>(parent);
        Ok(())
    }

    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        self.priced(ir, cx, None)
    }
}

impl Egraph {
    /// Runs the pass; with a price, what is extracted are groups, each of which becomes a `graph.fused`, so that the sum of
    /// their prices is small. What the program costs as a whole is for the caller to compare; of all that is printed, that
    /// is the number of groups, their cycles and a bound, and there is no proof.
    ///
    /// # Errors
    /// Those of the pass.
    pub fn priced(
        &self,
        ir: &mut Ir,
        cx: &mut PassCx<'_>,
        price: Option<&Asked<'_>>,
    ) -> PassResult {
        let attached = match cx.outer::<AttachedMachine>() {
            Some(attached) => attached,
            None => cx.analysis::<AttachedMachine>(ir),
        };
        let machine = attached.0.as_ref().map(|(info, _)| info);
        let mut model = machine.map_or_else(CostModel::default, CostModel::of);
        model.fuses = !self.additive;
        let mut disabled = cx.settings().disabled_rules.clone();
        disabled.extend(self.disable.iter().cloned());
        let set = rules(cx, &self.rules)?;
        set.check_names(&self.disable)?;
        let patterns = set.finish(&disabled)?;
        let layouts = self.layouts(&model)?;
        if layouts.is_empty() && !self.always {
            cx.unchanged();
            return Ok(());
        }
        let functions = Arc::new(patterns.functions().clone());
        let rules = patterns.rules().iter();
        let run = BlockContext {
            pass: self,
            model: &model,
            patterns: &patterns,
            rules: rules
                .flat_map(|rule| Compiled::new(rule.clone(), functions.clone()))
                .collect(),
            layouts: &layouts,
            price,
            proofs: cx.shared(Files::default),
            dumps: cx.shared(Files::default),
        };
        cx.each(ir, &|ir, cx| run.arena(ir, cx))
    }

    /// When saturation gives up.
    pub fn limits(&self) -> Limits {
        Limits {
            iterations: self.iterations,
            nodes: self.nodes,
            matches: self.matches,
            tries: self.tries,
            multi_pattern_iterations: self.multi_pattern_iterations,
            multi_pattern_matches: self.multi_pattern_matches,
            fold_elements: self.fold_elements,
        }
    }

    /// What a remark says of the limit that saturation reached, if it did.
    fn stopped(&self, outcome: &Outcome) -> Option<String> {
        let (option, limit) = match outcome.stop {
            Stop::Saturated => return None,
            Stop::Iterations => ("iterations", self.iterations),
            Stop::Nodes => ("nodes", self.nodes),
        };
        Some(format!(
            "the e-graph reached its limit '{option}={limit}' before it was saturated: a \
             cheaper program may exist"
        ))
    }

    fn layouts(&self, model: &CostModel) -> Result<Vec<Layout>, Vec<Diagnostic>> {
        if self.layouts.is_empty() {
            return Ok(layout::wanted(model));
        }
        let named = self.layouts.iter().map(|name| Layout::new(name));
        let named: Result<Vec<Layout>, String> = named.collect();
        let named = named.map_err(|what| vec![Diagnostic::error(what)])?;
        Ok(named.into_iter().filter(|l| !l.is_plain()).collect())
    }
}

/// Groups are asked for.
pub struct Asked<'a> {
    /// What each takes.
    pub price: &'a dyn Price,
    /// How far the search goes.
    pub terms: Terms,
    /// Where equal programs go that the sum of prices finds to cost slightly more, for who compares whole programs.
    pub others: &'a Mutex<Vec<Ir>>,
}

/// What a program of a block is drawn by.
fn seed_of(seed: u64, ir: &Ir, number: usize) -> u64 {
    Random::named(seed, &format!("{}.{number}", symbol(ir))).next_u64()
}

/// What the blocks of a run share.
struct BlockContext<'a> {
    pass: &'a Egraph,
    model: &'a CostModel,
    patterns: &'a Patterns,
    rules: Vec<Compiled>,
    layouts: &'a [Layout],
    price: Option<&'a Asked<'a>>,
    proofs: Arc<Files<String>>,
    dumps: Arc<Files<(EGraph, Choice)>>,
}

/// Seconds of phases, for people.
struct Clock {
    last: Instant,
    phases: Vec<(&'static str, f64)>,
}

impl Clock {
    fn start() -> Self {
        Self {
            last: Instant::now(),
            phases: Vec::new(),
        }
    }
    fn phase(&mut self, name: &'static str) {
        let now = Instant::now();
        let seconds = now.duration_since(self.last).as_secs_f64();
        self.last = now;
        self.phases.push((name, seconds));
    }
    fn text(&self) -> String {
        let phases = self.phases.iter();
        let phases: Vec<String> = phases.map(|(name, s)| format!("{name} {s:.3} s")).collect();
        format!("time: {}\n", phases.join(", "))
    }
}

impl BlockContext<'_> {
    /// What the cheapest program of a block costs without a rule: cycles, and bytes that are moved.
    fn without(
        &self,
        rule: &str,
        ir: &Ir,
        block: BlockId,
        cx: &mut PassCx<'_>,
    ) -> Result<(f64, u64), Vec<Diagnostic>> {
        let pass = self.pass;
        let mut disabled = cx.settings().disabled_rules.clone();
        disabled.extend(pass.disable.iter().cloned());
        disabled.insert(rule.to_string());
        let patterns = rules(cx, &pass.rules)?.finish(&disabled)?;
        let functions = Arc::new(patterns.functions().clone());
        let rules = patterns.rules().iter();
        let rules: Vec<Compiled> = rules
            .flat_map(|rule| Compiled::new(rule.clone(), functions.clone()))
            .collect();
        let optimizer = Optimizer {
            model: self.model,
            patterns: &patterns,
            rules: &rules,
            layouts: self.layouts,
            limits: pass.limits(),
            steps: pass.steps,
            proofs: false,
            random: None,
        };
        let mut found = optimizer.saturate(ir, block)?;
        let extracted = optimizer.extract(&mut found);
        let bug = |what| vec![Diagnostic::error(what).at(ir.loc(ir.root()))];
        let extracted = extracted.map_err(bug)?;
        Ok((extracted.after, extracted.bytes[1]))
    }

    /// The same by reason, for those rules that are searched without.
    fn without_each(
        &self,
        reasons: &BTreeMap<String, usize>,
        ir: &Ir,
        block: BlockId,
        cx: &mut PassCx<'_>,
    ) -> Result<BTreeMap<String, (f64, u64)>, Vec<Diagnostic>> {
        if !self.pass.without {
            return Ok(BTreeMap::new());
        }
        let rules = reasons.iter();
        let rules = rules.filter_map(|(name, steps)| Some((name, steps, report::rule_of(name)?)));
        let mut rules: Vec<(&String, &usize, &str)> = rules.collect();
        rules.sort_by_key(|(_, steps, _)| std::cmp::Reverse(**steps));
        let searched = rules.into_iter().take(self.pass.without_rules);
        let cost = searched.map(|(name, _, rule)| {
            let cost = self.without(rule, ir, block, cx)?;
            Ok((name.clone(), cost))
        });
        cost.collect()
    }

    /// All blocks of an arena, inner ones first.
    fn arena(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let mut changed = false;
        for (number, block) in blocks(ir).into_iter().enumerate() {
            changed |= self.block(ir, block, number, cx)?;
        }
        if !changed {
            cx.unchanged();
        }
        Ok(())
    }

    fn block(
        &self,
        ir: &mut Ir,
        block: BlockId,
        number: usize,
        cx: &mut PassCx<'_>,
    ) -> Result<bool, Vec<Diagnostic>> {
        let BlockContext {
            pass,
            model,
            rules,
            layouts,
            ..
        } = self;
        if rules.is_empty() && layouts.is_empty() || !ir.ops_in(block).any(|op| is_inside(ir, op)) {
            return Ok(false);
        }
        let optimizer = Optimizer {
            model,
            patterns: self.patterns,
            rules,
            layouts,
            limits: pass.limits(),
            steps: pass.steps,
            // What the chosen program rests on is printed too.
            proofs: self.price.is_none() && (pass.explain.is_some() || pass.print),
            random: pass.random.map(|seed| seed_of(seed, ir, number)),
        };
        let mut clock = Clock::start();
        let mut found = optimizer.saturate(ir, block)?;
        clock.phase("saturation");
        let bug = |what: String| vec![Diagnostic::error(what).at(ir.loc(ir.root()))];
        if let Some(asked) = self.price {
            let prefix = format!("{}.{number}.", symbol(ir));
            let named = pass.json.as_ref().map(|_| prefix.as_str());
            let chosen = optimizer.choose(&mut found, (asked.price, cx), asked.terms, named);
            let chosen = chosen.map_err(|what| bug(format!("extraction failed: {what}")))?;
            let Some(chosen) = chosen else {
                if cx.settings().remarks {
                    let what = "the groups that were chosen need each other: none is taken";
                    cx.remark(Diagnostic::remark(what).at(ir.loc(ir.root())));
                }
                return Ok(false);
            };
            let [groups, planned, rounds] = chosen.counts;
            cx.count("ops in layouts", found.stored);
            cx.count("e-classes", found.graph.number_of_classes());
            cx.count("e-nodes", found.graph.total_number_of_nodes());
            cx.count("groups", groups);
            cx.count("groups planned", planned);
            cx.count("extractions", rounds);
            let stopped = pass.stopped(&found.outcome);
            if let Some(what) = stopped.filter(|_| cx.settings().remarks && !pass.print) {
                cx.remark(Diagnostic::remark(what).at(ir.loc(ir.root())));
            }
            if let Some((option, limit)) = chosen.limit.filter(|_| cx.settings().remarks) {
                let what = format!(
                    "the choice of groups reached its limit '{option}={limit}': a program of fewer cycles may exist"
                );
                cx.remark(Diagnostic::remark(what).at(ir.loc(ir.root())));
            }
            if let (Some(file), Some(part)) = (&pass.json, &chosen.named) {
                let write = |parts: Vec<&(EGraph, Choice)>| {
                    let (graph, choice) = EGraph::joined(parts);
                    graph.json(&choice)
                };
                self.dumps.put(file, key(ir, number), part.clone(), write)?;
            }
            if pass.print {
                let text = report::groups(&found, &chosen);
                cx.remark(Diagnostic::remark(text).at(ir.loc(ir.root())));
            }
            let write = |ir: &mut Ir, made: &Grouped| {
                let rebuilt = rebuild(ir, &found.graph, &found.program, &made.choice);
                outline(ir, &made.groups, &rebuilt.values);
            };
            for other in &chosen.others {
                let before = ir.clone();
                write(ir, other);
                let other = ir.clone();
                ir.restore(before);
                let mut others = asked.others.lock().unwrap_or_else(PoisonError::into_inner);
                others.push(other);
            }
            write(ir, &chosen.program);
            return Ok(true);
        }
        let extracted = optimizer.extract(&mut found);
        clock.phase("extraction");
        let Saturated {
            graph,
            program,
            journal,
            outcome,
            stored,
            ..
        } = found;
        cx.count("ops in layouts", stored);
        let extracted = extracted.map_err(|what| bug(format!("extraction failed: {what}")))?;
        cx.count("e-classes", graph.number_of_classes());
        cx.count("e-nodes", graph.total_number_of_nodes());
        for (rule, fired) in rules.iter().zip(&outcome.fired) {
            cx.count(&format!("applied {}", rule.rule.name), fired.matches);
        }
        if let Some(what) = pass.stopped(&outcome).filter(|_| !pass.print) {
            cx.remark(Diagnostic::remark(what).at(ir.loc(ir.root())));
        }
        let taken = pass.random.is_some() || extracted.after < extracted.before;
        let wanted = taken && (pass.explain.is_some() || pass.print);
        let proof =
            wanted.then(|| explain(&graph, &program, &journal.equations, &extracted.choice));
        let proof = proof.transpose().map_err(bug)?;
        clock.phase("proof");
        if pass.print {
            let mut text = report::text(ir, &graph, &program, rules, &outcome, &extracted);
            let reasons = proof.as_ref().map(|proof| report::reasons(rules, proof));
            let reasons = reasons.unwrap_or_default();
            let without = self.without_each(&reasons, ir, block, cx)?;
            let limit = pass
                .without
                .then_some(("without-rules", pass.without_rules));
            text += &report::brought(&extracted, &reasons, &without, limit);
            if pass.seconds {
                text += &clock.text();
            }
            let place = ir.loc(ir.root());
            cx.remark(Diagnostic::remark(text.trim_end()).at(place));
        }
        if let Some(file) = &pass.explain {
            let text = match &proof {
                Some(proof) => {
                    cx.count("steps of proofs", proof.steps.len());
                    let rules = (&rules[..], &journal.canonical);
                    text::write(ir, &graph, &program, rules, proof, (&symbol(ir), number))
                }
                None => String::new(),
            };
            match file.as_str() {
                "-" if text.is_empty() => {}
                "-" => cx.remark(Diagnostic::remark(text.trim_end()).at(ir.loc(ir.root()))),
                _ => {
                    let join = |parts: Vec<&String>| parts.into_iter().cloned().collect();
                    self.proofs.put(file, key(ir, number), text, join)?;
                }
            }
        }
        if pass.dot.is_some() || pass.json.is_some() {
            let prefix = format!("{}.{number}.", symbol(ir));
            let part = dump::named(ir, &graph, &program, &extracted, &prefix);
            if let Some(file) = &pass.dot {
                let write = |parts: Vec<&(EGraph, Choice)>| {
                    let (graph, choice) = EGraph::joined(parts);
                    dot(&graph, &choice)
                };
                self.dumps.put(file, key(ir, number), part.clone(), write)?;
            }
            if let Some(file) = &pass.json {
                let write = |parts: Vec<&(EGraph, Choice)>| {
                    let (graph, choice) = EGraph::joined(parts);
                    graph.json(&choice)
                };
                self.dumps.put(file, key(ir, number), part, write)?;
            }
        }
        if taken {
            let rebuilt = rebuild(ir, &graph, &program, &extracted.choice);
            cx.count("made", rebuilt.made);
        }
        Ok(taken)
    }
}
