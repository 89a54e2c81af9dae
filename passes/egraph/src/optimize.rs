//! What the pass does with a block, in two parts: all that is equal, then the cheapest of it.

use tir::{BlockId, Diagnostic, Ir, PassCx, Patterns};
use tir_graph::Layout;

use crate::build::{Program, build};
use crate::cost_model::CostModel;
use crate::extract::{Extracted, How, extract};
use crate::graph::Graph;
use crate::greedy::{self, Added, canonical};
use crate::groups::{Chosen, Price, Terms, choose};
use crate::layout;
use crate::matching::Compiled;
use crate::one_op::OpCache;
use crate::proof::journal::Journal;
use crate::saturate::{Limits, Outcome, saturate};
use crate::seed::{Seed, seeds};

/// By what programs are compared, and how long.
pub struct Optimizer<'a> {
    /// What ops cost.
    pub model: &'a CostModel,
    /// What the greedy driver uses.
    pub patterns: &'a Patterns,
    /// The rules of these patterns.
    pub rules: &'a [Compiled],
    /// The layouts to compute in.
    pub layouts: &'a [Layout],
    /// When saturation gives up.
    pub limits: Limits,
    /// Steps of search of the extraction.
    pub steps: u64,
    /// Whether to write down what a proof needs.
    pub proofs: bool,
    /// Draw a program with this seed instead of the cheapest one.
    pub random: Option<u64>,
}

/// The e-graph of a block.
pub struct Saturated {
    /// The e-graph.
    pub graph: Graph,
    /// What was asked of ops.
    pub op_cache: OpCache,
    /// What a proof needs.
    pub journal: Journal,
    /// The block.
    pub program: Program,
    /// How saturation went.
    pub outcome: Outcome,
    /// How many ops were added in layouts.
    pub stored: usize,
    form: Option<Added>,
}

impl Optimizer<'_> {
    /// Adds all that is equal.
    ///
    /// # Errors
    /// If a rule makes values of different types equal.
    pub fn saturate(&self, ir: &Ir, block: BlockId) -> Result<Saturated, Diagnostic> {
        let mut graph = Graph::default();
        let mut op_cache = OpCache::default();
        let mut journal = Journal {
            on: self.proofs,
            ..Journal::default()
        };
        let mut program = build(ir, block, &mut graph);
        let form = canonical(ir, block, self.patterns);
        let form = form.and_then(|form| greedy::add(ir, &form, &mut graph, &mut program));
        let (rules, limits) = (self.rules, &self.limits);
        let outcome = saturate(&mut graph, &mut op_cache, rules, limits, &mut journal)?;
        if let Some(form) = &form {
            form.unite(&mut graph, &mut journal);
        }
        let stored = layout::add(&mut graph, &mut op_cache, self.layouts, &mut journal);
        Ok(Saturated {
            graph,
            op_cache,
            journal,
            program,
            outcome,
            stored,
            form,
        })
    }

    /// What extraction starts from beside the input: the greedy canonical form in each layout.
    fn seeds(&self, found: &Saturated) -> Vec<Seed> {
        let form = found.form.as_ref();
        let seeds = form.map(|form| seeds(&found.graph, &form.ops, self.layouts));
        seeds.unwrap_or_default()
    }

    /// Chooses groups by what they take as nests. With a prefix of names, gives the groups, too.
    ///
    /// # Errors
    /// If the e-graph has no program for a root, which the input rules out: a bug.
    pub fn choose(
        &self,
        found: &mut Saturated,
        price: (&dyn Price, &PassCx<'_>),
        terms: Terms,
        named: Option<&str>,
    ) -> Result<Option<Chosen>, String> {
        // Merged products are cheap together alone, which no bound of a group says: the cheapest by the sum of ops is
        // one more program to start from.
        let cheapest = self.extract(found)?;
        let mut seeds = self.seeds(found);
        seeds.push(cheapest.choice);
        choose(
            (&found.graph, &mut found.op_cache),
            self.model,
            &found.program,
            &seeds,
            price,
            terms,
            named,
        )
    }

    /// Extracts the cheapest program that is found, or one that is drawn. The first seed of the answer is the
    /// greedy canonical form, if there are seeds.
    ///
    /// # Errors
    /// If the e-graph has no program for a root, which the input rules out: a bug.
    pub fn extract(&self, found: &mut Saturated) -> Result<Extracted, String> {
        let seeds = self.seeds(found);
        let how = match self.random {
            Some(seed) => How::Drawn { seed },
            None => How::Cheapest {
                max_steps: self.steps,
            },
        };
        extract(
            &found.graph,
            &mut found.op_cache,
            self.model,
            &found.program,
            &seeds,
            how,
        )
    }
}
