//! The pass.

use std::sync::Arc;

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
use crate::layout;
use crate::matching::Compiled;
use crate::optimize::{Optimizer, Saturated};
use crate::proof::explain::explain;
use crate::proof::text;
use crate::rebuild::rebuild;
use crate::report;
use crate::saturate::Limits;

pass! {
    /// Rewrites the ops without effects of each block to the cheapest equal program that the rules
    /// of the loaded dialects reach, by the cost of the attached machine.
    ///
    /// The result is never dearer than the input, nor than what the greedy driver makes of it, in
    /// any layout; at equal cost the input stays as it is.
    pub struct Egraph = "egraph" {
        /// Run on any machine, not only where layouts count: where short runs of bytes are dear.
        pub always: bool = true,
        /// Files of rules to use besides those of the dialects and of `--rules`.
        pub rules: Vec<String> = Vec::new(),
        /// Names of rules to leave out, besides those of `--disable-rule`.
        pub disable: Vec<String> = Vec::new(),
        /// Rounds over all rules.
        pub iterations: usize = 12,
        /// E-nodes of a block.
        pub nodes: usize = 20000,
        /// Matches of a rule in a round; a rule that has more rests for a while.
        pub matches: usize = 1000,
        /// Rounds in which rules with several roots take part.
        pub joint_iterations: usize = 4,
        /// Places of a rule with several roots that an e-class takes part in, in a round.
        pub partners: usize = 2,
        /// Elements of a constant that is computed in the e-graph; larger ones are left to
        /// `constant-fold`.
        pub fold_elements: usize = 1024,
        /// Layouts to compute in, `NHWC` or `NCHW16c`; none for those that the machine asks for. A
        /// plain one, `NCHW`, for no other.
        pub layouts: Vec<String> = Vec::new(),
        /// Steps of search of the extraction.
        pub steps: u64 = 20000000,
        /// Tell classes, nodes, rules that fired, and costs of each root before and after.
        pub print: bool = false,
        /// A file for the proof that what is chosen equals the input, as a list of rule
        /// applications that `replay` does again; `-` to tell it.
        pub explain: Option<String> = None,
        /// A file for the e-graph as DOT: the classes that are computed, what is chosen marked.
        pub dot: Option<String> = None,
        /// A file for the e-graph as JSON, as extraction-gym and `tir-egraph --extract` read it.
        pub json: Option<String> = None,
    }
}

impl Pass for Egraph {
    fn prepare(&self, parent: &Ir, cx: &mut PassCx<'_>) -> PassResult {
        cx.analysis::<AttachedMachine>(parent);
        Ok(())
    }

    fn run(&self, ir: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let attached = match cx.outer::<AttachedMachine>() {
            Some(attached) => attached,
            None => cx.analysis::<AttachedMachine>(ir),
        };
        let machine = attached.0.as_ref().map(|(info, _)| info);
        let model = machine.map_or_else(CostModel::default, CostModel::of);
        let mut disabled = cx.settings().disabled_rules.clone();
        disabled.extend(self.disable.iter().cloned());
        let patterns = rules(cx, &self.rules)?.finish(&disabled)?;
        let layouts = self.layouts(&model)?;
        if layouts.is_empty() && !self.always {
            cx.unchanged();
            return Ok(());
        }
        let functions = Arc::new(patterns.functions().clone());
        let rules = patterns.rules().iter();
        let run = Run {
            pass: self,
            model: &model,
            patterns: &patterns,
            rules: rules
                .map(|rule| Compiled::new(rule.clone(), functions.clone()))
                .collect(),
            layouts: &layouts,
            proofs: cx.shared(Files::default),
            dumps: cx.shared(Files::default),
        };
        cx.each(ir, &|ir, cx| run.arena(ir, cx))
    }
}

impl Egraph {
    /// When saturation gives up.
    pub fn limits(&self) -> Limits {
        Limits {
            iterations: self.iterations,
            nodes: self.nodes,
            matches: self.matches,
            joint_iterations: self.joint_iterations,
            partners: self.partners,
            fold_elements: self.fold_elements,
        }
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

/// What the blocks of a run share.
struct Run<'a> {
    pass: &'a Egraph,
    model: &'a CostModel,
    patterns: &'a Patterns,
    rules: Vec<Compiled>,
    layouts: &'a [Layout],
    proofs: Arc<Files<String>>,
    dumps: Arc<Files<(EGraph, Choice)>>,
}

impl Run<'_> {
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
        let Run {
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
            proofs: pass.explain.is_some(),
        };
        let mut found = optimizer.saturate(ir, block)?;
        let extracted = optimizer.extract(&mut found);
        let Saturated {
            graph,
            program,
            journal,
            outcome,
            stored,
            ..
        } = found;
        cx.count("ops in layouts", stored);
        let bug = |what: String| vec![Diagnostic::error(what).at(ir.loc(ir.root()))];
        let extracted = extracted.map_err(|what| bug(format!("extraction failed: {what}")))?;
        cx.count("e-classes", graph.number_of_classes());
        cx.count("e-nodes", graph.total_number_of_nodes());
        for (rule, fired) in rules.iter().zip(&outcome.fired) {
            cx.count(&format!("applied {}", rule.rule.name), fired.matches);
        }
        if pass.print {
            let text = report::text(ir, &graph, &program, rules, &outcome, &extracted);
            let place = ir.loc(ir.root());
            cx.remark(Diagnostic::remark(text.trim_end()).at(place));
        }
        let cheaper = extracted.after < extracted.before;
        if let Some(file) = &pass.explain {
            let text = match cheaper {
                true => {
                    let proof = explain(&graph, &program, &journal.equations, &extracted.choice);
                    let proof = proof.map_err(bug)?;
                    cx.count("steps of proofs", proof.steps.len());
                    text::write(ir, &graph, &program, rules, &proof, (&symbol(ir), number))
                }
                false => String::new(),
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
        if cheaper {
            let made = rebuild(ir, &graph, &program, &extracted.choice);
            cx.count("made", made);
        }
        Ok(cheaper)
    }
}
