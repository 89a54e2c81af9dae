//! Tokens as variables, put into the text.

use std::collections::{BTreeMap, HashMap};

use tir::{At, Ir, Name, OpId, Sym, Value};
use tir_accel::{DmaStart, DmaWait, Mark, Ready};
use tir_loop::{For, If};

use super::{Wanted, after_group, drop_unused};
use crate::edit;
use crate::stream::Stream;

/// A token as a variable: set after each run of one of the points.
type Variable = (Vec<usize>, usize);

/// Puts variables into the text.
pub(super) struct TokenValues<'a> {
    ir: &'a mut Ir,
    stream: &'a Stream,
    /// Variables with the length of their history.
    depth: BTreeMap<Variable, usize>,
    uses: HashMap<OpId, Vec<(Variable, usize)>>,
    sets: HashMap<OpId, Vec<Variable>>,
    ready: Option<Value>,
}
type State = BTreeMap<Variable, Vec<Value>>;

impl<'a> TokenValues<'a> {
    pub(super) fn new(ir: &'a mut Ir, stream: &'a Stream, wanted: Vec<Wanted>) -> Self {
        let mut depth: BTreeMap<Variable, usize> = BTreeMap::new();
        let mut uses: HashMap<OpId, Vec<(Variable, usize)>> = HashMap::new();
        let mut sets: HashMap<OpId, Vec<Variable>> = HashMap::new();
        for w in wanted {
            let variable = (w.points, w.edge.queue);
            let long = depth.entry(variable.clone()).or_default();
            *long = (*long).max(w.back + 1);
            uses.entry(stream.sites[w.edge.site])
                .or_default()
                .push((variable, w.back));
        }
        for variable in depth.keys() {
            for point in &variable.0 {
                sets.entry(stream.points[*point])
                    .or_default()
                    .push(variable.clone());
            }
        }
        Self {
            ir,
            stream,
            depth,
            uses,
            sets,
            ready: None,
        }
    }

    pub(super) fn run(mut self) {
        let Some(body) = self.ir.body_block(self.ir.root(), 0) else {
            return;
        };
        if self.depth.is_empty() {
            return;
        }
        let ready = self.ir.add(At::Start(body), Ready {});
        self.ir.set_hint(ready, Some(Name::new("ready")));
        self.ready = Some(ready);
        let mut state: State = self
            .depth
            .iter()
            .map(|(v, n)| (v.clone(), vec![ready; *n]))
            .collect();
        let ops: Vec<OpId> = self.ir.ops_in(body).collect();
        self.ops(ops, &mut state);
        edit::drop_dead_carried(self.ir, tir_accel::token());
        drop_unused(self.ir);
    }

    fn ops(&mut self, ops: Vec<OpId>, state: &mut State) {
        for op in ops {
            if let Some(uses) = self.uses.remove(&op) {
                self.order(op, &uses, state);
            }
            if self.ir.is::<For>(op) {
                self.looped(op, state);
            } else if self.ir.is::<If>(op) {
                self.branch(op, state);
            } else {
                self.other(op, state);
            }
            let mut marks: HashMap<usize, Value> = HashMap::new();
            for variable in self.sets.remove(&op).unwrap_or_default() {
                let queue = variable.1;
                let token = match marks.get(&queue) {
                    Some(token) => *token,
                    None => self.token(op, queue),
                };
                marks.insert(queue, token);
                if let Some(history) = state.get_mut(&variable) {
                    history.rotate_right(1);
                    history[0] = token;
                }
            }
        }
    }

    /// A token for what has been started on a queue when `op` has run.
    fn token(&mut self, op: OpId, queue: usize) -> Value {
        let name = self.stream.queues[queue];
        if let Some(start) = self.ir.get::<DmaStart>(op)
            && start.engine.0 == name
        {
            let token = self.ir.result(op, 0);
            return self.named(token, queue);
        }
        let token = self.ir.add(At::After(op), Mark { queue: Sym(name) });
        self.named(token, queue)
    }

    /// A token is called like the queue it comes from.
    fn named(&mut self, token: Value, queue: usize) -> Value {
        if self.ir.hint(token).is_none() {
            self.ir.set_hint(token, Some(self.stream.queues[queue]));
        }
        token
    }

    fn order(&mut self, op: OpId, uses: &[(Variable, usize)], state: &State) {
        let mut tokens = Vec::new();
        for (variable, back) in uses {
            if let Some(token) = state.get(variable).and_then(|h| h.get(*back)) {
                tokens.push(*token);
            }
        }
        match after_group(self.ir, op) {
            Some(group) => edit::set_group(self.ir, op, group, &tokens),
            None => {
                let started = tokens.first().and_then(|token| self.ir.owner(*token));
                let started = started.map(|start| self.ir.loc(start));
                let mut b = self.ir.at(At::Before(op));
                // What ends a function may be from nowhere: its wait is from where something is that it waits for.
                if let Some(started) = started.filter(|_| b.loc.is_unknown()) {
                    b.loc = started;
                }
                b.add(DmaWait { tokens });
            }
        }
    }

    /// The variables that are set below an op.
    fn set_below(&self, op: OpId) -> Vec<Variable> {
        let below = self.ir.walk_below(op);
        let mut all: Vec<Variable> = below
            .iter()
            .filter_map(|op| self.sets.get(op))
            .flatten()
            .cloned()
            .collect();
        all.sort();
        all.dedup();
        all
    }

    fn looped(&mut self, op: OpId, state: &mut State) {
        let variables = self.set_below(op);
        let Some(block) = self.ir.body_block(op, 0) else {
            return;
        };
        let ops: Vec<OpId> = self.ir.ops_in(block).collect();
        let mut inner = state.clone();
        for variable in &variables {
            for k in 0..self.depth[variable] {
                let carried = edit::carry(self.ir, op, state[variable][k]);
                if let (Some((arg, result)), Some(inside), Some(outside)) =
                    (carried, inner.get_mut(variable), state.get_mut(variable))
                {
                    inside[k] = arg;
                    outside[k] = result;
                    self.named(arg, variable.1);
                    self.named(result, variable.1);
                }
            }
        }
        self.ops(ops, &mut inner);
        if let Some(end) = self.ir.last(block) {
            let values: Vec<Value> = variables.iter().flat_map(|v| inner[v].clone()).collect();
            edit::yield_also(self.ir, end, &values);
        }
    }

    /// What is in another op with regions starts no work, so all tokens are as before it.
    fn other(&mut self, op: OpId, state: &State) {
        let blocks: Vec<_> = self
            .ir
            .regions(op)
            .flat_map(|r| self.ir.blocks(r))
            .collect();
        for block in blocks {
            let ops: Vec<OpId> = self.ir.ops_in(block).collect();
            self.ops(ops, &mut state.clone());
        }
    }

    fn branch(&mut self, op: OpId, state: &mut State) {
        let variables = self.set_below(op);
        for region in 0..2 {
            let mut inner = state.clone();
            let block = self.ir.body_block(op, region);
            let ops: Vec<OpId> = block.map_or_else(Vec::new, |b| self.ir.ops_in(b).collect());
            self.ops(ops, &mut inner);
            let values: Vec<Value> = variables.iter().flat_map(|v| inner[v].clone()).collect();
            if !values.is_empty()
                && let Some(end) = edit::yield_of(self.ir, op, region)
            {
                edit::yield_also(self.ir, end, &values);
            }
        }
        for variable in &variables {
            for k in 0..self.depth[variable] {
                let result = self.ir.add_result(op, tir_accel::token());
                self.named(result, variable.1);
                if let Some(history) = state.get_mut(variable) {
                    history[k] = result;
                }
            }
        }
    }
}
