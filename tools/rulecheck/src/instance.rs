//! Builds an instance, applies the rule with the ordinary rewriter, and compares both sides.

use std::sync::Arc;

use tir::interp::to_attr;
use tir::rewrite::{Class, Functions, Kind, Rule, apply_rule};
use tir::{
    At, Attr, BlockId, Data, Interpreter, Ir, Name, OpState, PrintOptions, Rewriter, Type, Value,
    verify_local,
};

use crate::compare::{Compared, compare};
use crate::plan::{Operand, Origin, Plan, measure, occurrences};
use crate::sample::state;

/// What is wrong with a rule.
#[derive(Clone, PartialEq, Debug)]
pub enum Fault {
    /// The right side cannot be built, does not verify, or has another type.
    Types(String),
    /// Both sides have different values.
    Values(String),
    /// The right side does not run where the left one does.
    Stops(String),
    /// The rule is of kind `reduce`, and its measure does not fall.
    Measure(String),
}

/// What an instance shows.
pub(crate) enum Outcome {
    /// It is none: does not match, or a guard does not hold, or the class says nothing of it.
    None,
    /// It is none since the left side does not run.
    Unrun(String),
    /// Both sides are equal; so many numbers were compared.
    Equal(usize),
    /// The rule is wrong.
    Wrong(Fault),
}

/// An instance that was built: a function without its end, and the values of the roots.
struct Built {
    ir: Ir,
    block: BlockId,
    roots: Vec<Value>,
    /// All that is computed.
    inner: Vec<Value>,
}

/// A rule and the functions it names.
pub(crate) struct Subject<'a> {
    pub rule: &'a Arc<Rule>,
    pub functions: &'a Arc<Functions>,
    /// Whether the right side is to be there on all instances.
    pub builds: bool,
}

impl Subject<'_> {
    /// The dialect that makes the constants of an instance: that of its first root.
    fn dialect(plan: &Plan) -> &'static str {
        match plan.roots.first() {
            Some(Operand::Node(at, _)) => plan.nodes[*at].name.dialect(),
            _ => "",
        }
    }

    /// The left side as a function: leaves are arguments, or constants where the rule (or
    /// `constants`) says so.
    fn left(&self, plan: &Plan, values: &[Data], constants: &[bool], name: &str) -> Option<Built> {
        let (mut ir, block) = tir_func::function(name, Type::function([], []));
        let mut leaves = Vec::new();
        for ((leaf, value), constant) in plan.leaves.iter().zip(values).zip(constants) {
            let attr = match &leaf.origin {
                Origin::Literal(literal) => Some(literal.constant(leaf.ty)?),
                Origin::Constant => Some(constant_attr(value, leaf.ty)?),
                Origin::Var if *constant => Some(constant_attr(value, leaf.ty)?),
                Origin::Var => None,
            };
            let made = match attr {
                None => ir.add_arg(block, leaf.ty),
                Some(attr) => {
                    let make = tir::Dialect::named(Self::dialect(plan))?.constant?;
                    make(&mut ir.at(block), attr, leaf.ty)?
                }
            };
            ir.set_hint(made, Some(leaf.name));
            leaves.push(made);
        }
        let mut ops = Vec::new();
        let value = |ir: &Ir, ops: &[tir::OpId], operand: &Operand| match *operand {
            Operand::Leaf(i) => Some(leaves[i]),
            Operand::Node(i, result) => ir.results(ops[i]).nth(result),
        };
        for node in &plan.nodes {
            let operands = node.operands.iter().map(|o| value(&ir, &ops, o));
            let operands = operands.collect::<Option<Vec<Value>>>()?;
            let attrs = node
                .attrs
                .iter()
                .map(|(name, slot)| (*name, plan.attrs[*slot]));
            let op = ir
                .create(state(node.name, operands, attrs, node.said.clone()))
                .ok()?;
            ir.insert(op, block);
            ops.push(op);
        }
        let roots = plan.roots.iter().map(|o| value(&ir, &ops, o));
        let roots = roots.collect::<Option<Vec<Value>>>()?;
        let inner = ops.iter().flat_map(|op| ir.results(*op)).collect();
        Some(Built {
            ir,
            block,
            roots,
            inner,
        })
    }

    /// What an instance with these values shows.
    pub(crate) fn outcome(&self, plan: &Plan, values: &[Data], constants: &[bool]) -> Outcome {
        self.shows(plan, values, constants, true)
    }

    /// What it shows without a run: types, and whether the measure falls.
    pub(crate) fn outcome_unrun(
        &self,
        plan: &Plan,
        values: &[Data],
        constants: &[bool],
    ) -> Outcome {
        self.shows(plan, values, constants, false)
    }

    fn shows(&self, plan: &Plan, values: &[Data], constants: &[bool], runs: bool) -> Outcome {
        let Some(mut built) = self.left(plan, values, constants, "both") else {
            return Outcome::None;
        };
        if verify(&mut built, None).is_err() {
            return Outcome::None;
        }
        let root = built.ir.root();
        let mut rw = Rewriter::new(&mut built.ir, root);
        rw.set_at(At::End(built.block));
        let right = match apply_rule(self.rule, self.functions, &mut rw, &built.roots) {
            Ok(Some(right)) => right,
            Ok(None) => return Outcome::None,
            Err(why) => {
                return self.if_left_runs(plan, values, constants, Fault::Types(why.to_string()));
            }
        };
        if let Err(why) = verify(&mut built, Some(&right)) {
            return self.if_left_runs(plan, values, constants, Fault::Types(why));
        }
        if let Err(why) = self.falls(&built, &right) {
            return Outcome::Wrong(Fault::Measure(why));
        }
        if !runs {
            return Outcome::Equal(0);
        }
        let roots = built.roots.clone();
        let mut results: Vec<Value> = roots.iter().chain(&right).copied().collect();
        let class = self.rule.class;
        if class != Class::Exact {
            results.extend(&built.inner);
        }
        match run(built, &results, plan, values, constants) {
            Ok(found) => {
                let (left, right) = found.split_at(roots.len());
                let (right, inner) = right.split_at(roots.len());
                let inner = [values, inner].concat();
                match compare(class, left, right, &inner) {
                    Ok(Compared::Equal(count)) => Outcome::Equal(count),
                    Ok(Compared::Outside) => Outcome::None,
                    Err(why) => Outcome::Wrong(Fault::Values(why)),
                }
            }
            Err(why) => self.if_left_runs(plan, values, constants, Fault::Stops(why)),
        }
    }

    /// A fault that only counts where the left side runs.
    fn if_left_runs(
        &self,
        plan: &Plan,
        values: &[Data],
        constants: &[bool],
        fault: Fault,
    ) -> Outcome {
        if !self.builds && matches!(fault, Fault::Types(_)) {
            return Outcome::None;
        }
        let Some(built) = self.left(plan, values, constants, "both") else {
            return Outcome::None;
        };
        let roots = built.roots.clone();
        match run(built, &roots, plan, values, constants) {
            Ok(_) => Outcome::Wrong(fault),
            Err(why) => Outcome::Unrun(why),
        }
    }

    /// Whether the measure of a rule of kind `reduce` falls.
    fn falls(&self, built: &Built, right: &[Value]) -> Result<(), String> {
        if self.rule.kind != Kind::Reduce {
            return Ok(());
        }
        let before = occurrences(self.rule, &self.rule.left);
        let after = occurrences(self.rule, &self.rule.right);
        if let Some(v) = (0..before.len()).find(|v| after[*v] > before[*v]) {
            let (name, was, is) = (self.rule.vars[v].0, before[v], after[v]);
            return Err(format!(
                "'{name}' occurs {was} times on the left and {is} times on the right"
            ));
        }
        let sum = |values: &[Value]| {
            let parts = values.iter().map(|v| measure(&built.ir, *v));
            parts.fold((0, 0, 0), |a, b| (a.0 + b.0, a.1 + b.1, a.2 + b.2))
        };
        let (left, right) = (sum(&built.roots), sum(right));
        match right < left {
            true => Ok(()),
            false => Err(format!(
                "ops that depend on more than constants, their elements, and all ops are {left:?} \
                 on the left and {right:?} on the right"
            )),
        }
    }

    /// Both sides as a program, with the values as constants.
    pub(crate) fn program(&self, plan: &Plan, values: &[Data]) -> Option<String> {
        let all = vec![true; plan.leaves.len()];
        let none = vec![false; plan.leaves.len()];
        let (mut module, body) = tir_builtin::module();
        let mut constants = &all;
        if self.left(plan, values, constants, "left").is_none() {
            constants = &none;
        }
        let left = self.left(plan, values, constants, "left")?;
        let roots = left.roots.clone();
        module.adopt(At::End(body), finish(left, &roots));
        let mut right = self.left(plan, values, constants, "right")?;
        let root = right.ir.root();
        let mut rw = Rewriter::new(&mut right.ir, root);
        rw.set_at(At::End(right.block));
        if let Ok(Some(made)) = apply_rule(self.rule, self.functions, &mut rw, &right.roots) {
            let mut ir = finish(right, &made);
            for op in ir.walk_ids().into_iter().rev() {
                if op != ir.root()
                    && ir.results(op).len() > 0
                    && ir.results(op).all(|v| ir.is_unused(v))
                {
                    ir.erase(op);
                }
            }
            module.adopt(At::End(body), ir);
        }
        Some(tir::text::print(&module, &PrintOptions::default()))
    }
}

fn constant_attr(value: &Data, ty: Type) -> Option<Attr> {
    to_attr(value, ty)
}

/// Checks all ops, and that the values on the right have the types of the roots.
fn verify(built: &mut Built, right: Option<&[Value]>) -> Result<(), String> {
    let returned = right.unwrap_or(&built.roots).to_vec();
    let end = end(built, &returned);
    let found = verify_local(&built.ir);
    built.ir.erase(end);
    if let Err(errors) = found {
        return Err(errors.first().map_or(String::new(), |e| e.message.clone()));
    }
    Ok(())
}

/// Adds the return of these values, and makes the type of the function fit.
fn end(built: &mut Built, values: &[Value]) -> tir::OpId {
    let ir = &mut built.ir;
    let inputs: Vec<Type> = ir.args(built.block).map(|v| ir.ty(v)).collect();
    let results: Vec<Type> = values.iter().map(|v| ir.ty(*v)).collect();
    let root = ir.root();
    ir.set_attr(
        root,
        "function_type",
        Attr::ty(Type::function(inputs, results)),
    );
    let mut state = OpState::new(<tir_func::Return as tir::Op>::name());
    state.operands = values.iter().copied().collect();
    let op = ir.create_raw(state);
    ir.insert(op, built.block);
    op
}

fn finish(mut built: Built, values: &[Value]) -> Ir {
    end(&mut built, values);
    built.ir
}

/// Runs an instance.
fn run(
    built: Built,
    results: &[Value],
    plan: &Plan,
    values: &[Data],
    constants: &[bool],
) -> Result<Vec<Data>, String> {
    let ir = finish(built, results);
    let (mut module, body) = tir_builtin::module();
    module.adopt(At::End(body), ir);
    let leaves = plan.leaves.iter().zip(values).zip(constants);
    let args = leaves
        .filter(|((leaf, _), constant)| leaf.origin == Origin::Var && !**constant)
        .map(|((_, value), _)| value.clone());
    let mut interpreter = Interpreter::new(&module);
    interpreter
        .run(Name::new("both"), args.collect())
        .map_err(|errors| errors.first().map_or(String::new(), |e| e.message.clone()))
}
