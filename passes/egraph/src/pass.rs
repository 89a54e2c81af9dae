//! The pass.

use std::sync::Arc;

use tir::rule_file::rules;
use tir::{BlockId, Diagnostic, Ir, Pass, PassCx, PassResult, Patterns, RegionId, Traits, pass};
use tir_accel::AttachedMachine;
use tir_graph::Layout;

use crate::build::{build, is_inside};
use crate::cost_model::CostModel;
use crate::extract::extract;
use crate::graph::Graph;
use crate::layout;
use crate::matching::Compiled;
use crate::rebuild::rebuild;
use crate::report;
use crate::saturate::{Limits, saturate};
use crate::scratch::Scratch;

pass! {
    /// Rewrites the ops without effects of each block to the cheapest equal program that the rules
    /// of the loaded dialects reach, by the cost of the attached machine.
    ///
    /// The result is never dearer than the input; at equal cost the input stays as it is.
    pub struct Egraph = "egraph" {
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
        pub joint_iterations: usize = 2,
        /// Elements of a constant that is computed in the e-graph; larger ones are left to
        /// `constant-fold`.
        pub fold_elements: usize = 1024,
        /// Layouts to compute in, `NHWC` or `NCHW16c`; none for those that the machine asks for. A
        /// plain one, `NCHW`, for no other.
        pub layouts: Vec<String> = Vec::new(),
        /// Steps of search of the extraction.
        pub steps: u64 = 2000000,
        /// Tell classes, nodes, rules that fired, and costs of each root before and after.
        pub print: bool = false,
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
        cx.each(ir, &|ir, cx| {
            self.arena(ir, cx, &model, &patterns, &layouts)
        })
    }
}

impl Egraph {
    fn limits(&self) -> Limits {
        Limits {
            iterations: self.iterations,
            nodes: self.nodes,
            matches: self.matches,
            joint_iterations: self.joint_iterations,
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

    /// All blocks of an arena, inner ones first.
    fn arena(
        &self,
        ir: &mut Ir,
        cx: &mut PassCx<'_>,
        model: &CostModel,
        patterns: &Patterns,
        layouts: &[Layout],
    ) -> PassResult {
        let functions = Arc::new(patterns.functions().clone());
        let rules = patterns.rules().iter();
        let rules: Vec<Compiled> = rules
            .map(|rule| Compiled::new(rule.clone(), functions.clone()))
            .collect();
        let mut holders = vec![ir.root()];
        holders.extend(ir.walk_ids());
        let mut changed = false;
        for op in holders.into_iter().rev() {
            if !ir.contains(op) || ir.has(op, Traits::GraphRegion) {
                continue;
            }
            let regions: Vec<RegionId> = ir.regions(op).collect();
            let blocks = regions.iter().flat_map(|region| ir.blocks(*region));
            let blocks: Vec<BlockId> = blocks.collect();
            for block in blocks {
                changed |= self.block(ir, block, cx, model, &rules, layouts)?;
            }
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
        cx: &mut PassCx<'_>,
        model: &CostModel,
        rules: &[Compiled],
        layouts: &[Layout],
    ) -> Result<bool, Vec<Diagnostic>> {
        if rules.is_empty() && layouts.is_empty() || !ir.ops_in(block).any(|op| is_inside(ir, op)) {
            return Ok(false);
        }
        let mut graph = Graph::default();
        let mut scratch = Scratch::default();
        let program = build(ir, block, &mut graph);
        let outcome = saturate(&mut graph, &mut scratch, rules, &self.limits(), false)?;
        let stored = layout::add(&mut graph, &mut scratch, layouts);
        cx.count("ops in layouts", stored);
        let extracted = extract(&graph, &mut scratch, model, &program, self.steps);
        let extracted = extracted.map_err(|what| {
            let error = Diagnostic::error(format!("extraction failed: {what}"));
            vec![error.at(ir.loc(ir.root()))]
        })?;
        cx.count("e-classes", graph.number_of_classes());
        cx.count("e-nodes", graph.total_number_of_nodes());
        for (rule, fired) in rules.iter().zip(&outcome.fired) {
            cx.count(&format!("applied {}", rule.rule.name), fired.matches);
        }
        if self.print {
            let text = report::text(ir, &graph, &program, rules, &outcome, &extracted);
            let place = ir.loc(ir.root());
            cx.remark(Diagnostic::remark(text.trim_end()).at(place));
        }
        let cheaper = extracted.after < extracted.before;
        if cheaper {
            let made = rebuild(ir, &graph, &program, &extracted.choice);
            cx.count("made", made);
        }
        Ok(cheaper)
    }
}
