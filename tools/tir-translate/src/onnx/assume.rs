//! What is assumed of operands that are given when a program runs, and checked then.
//!
//! Shapes are known before a program runs. An operand that says one and is no constant is taken to be what gives the shape that the
//! file states for the result: each possible content is a [`Case`]. Where several cases fit, all are computed and
//! the program chooses. It stops, and says at which node, if the operand is none of them; so a wrong statement in a
//! file gives no wrong numbers.

use tir_core::{Diagnostic, Value};
use tir_data::{Array, DataError};
use tir_onnx::Node;

use super::import::{Cx, Meaning, Outcome, at};
use super::make::Make;
use super::operands::fail;

/// The most cases that are computed side by side.
const MOST: usize = 8;

/// The most cases that are tried.
pub(super) const TRIED: usize = 256;

/// One possible content of operands.
pub(super) struct Case {
    /// Which operands, and what they are.
    pub known: Vec<(usize, Array)>,
    /// A single truth value: whether the operands have this content, or one that means the same.
    pub holds: Value,
    /// What the operands say: `axes`.
    pub what: String,
    /// The content: `[1]`.
    pub said: String,
}

/// What a node became by a case.
struct Made {
    case: Case,
    results: Vec<Option<Meaning>>,
}

/// Makes the ops of a node.
pub(super) type Import<'a, 'm> = &'a mut dyn FnMut(&mut Cx<'m>) -> Outcome<()>;

impl Cx<'_> {
    /// Stops the program unless a truth value holds.
    pub(super) fn check(&mut self, node: &Node, holds: Value, why: &str) -> Outcome<()> {
        let holds = Make::new(self, node).reshape(holds, &[])?;
        if let Some(array) = self.constant_of(holds) {
            return match array.get_int(0) {
                Some(n) if n != 0 => Ok(()),
                _ => fail(node, why),
            };
        }
        let indices = Vec::new();
        let arg = self.add(
            node,
            tir_tensor::Extract {
                tensor: holds,
                indices,
            },
        )?;
        let msg = format!("{}: {why}", self.label(node));
        self.add_all(node, tir_func::cf::Assert { arg, msg })?;
        Ok(())
    }

    /// The node with those in whose bodies it is.
    fn label(&self, node: &Node) -> String {
        let mut parts = self.within.clone();
        parts.push(node.label());
        parts.join(": ")
    }

    /// Notes what the import took for granted.
    pub(super) fn remark(&mut self, node: &Node, what: &str) {
        let said = DataError::at_part(self.label(node), what.to_string());
        let path = self.path.as_deref();
        self.remarks
            .push(Diagnostic::remark(at(path, said).message).category("assumed"));
    }

    /// The shape that the file states for result `k`.
    pub(super) fn stated(&self, node: &Node, k: usize) -> Option<Vec<i64>> {
        self.scope.stated.get(node.output(k)?).cloned()
    }

    /// The shape that the file states of a node's first result; an error without one.
    pub(super) fn whole(&self, node: &Node) -> Outcome<Vec<i64>> {
        let stated = self.stated(node, 0);
        stated.ok_or_else(|| Some(node.error("has no stated shape")))
    }

    /// Whether operand `k` is computed or given when the program runs.
    pub(super) fn is_open(&self, node: &Node, k: usize) -> bool {
        let meaning = node.input(k).and_then(|name| self.scope.names.get(name));
        matches!(meaning, Some(Meaning::Value(_)))
    }
}

/// Imports a node by cases of its operands.
pub(super) fn by_cases<'m>(
    cx: &mut Cx<'m>,
    node: &Node,
    cases: Vec<Case>,
    import: Import<'_, 'm>,
) -> Outcome<()> {
    let (mut fit, mut why): (Vec<Made>, _) = (Vec::new(), None);
    for case in cases {
        let last = cx.ir().last(cx.block);
        match tried(cx, node, &case, import) {
            Ok(Some(results)) => fit.push(Made { case, results }),
            Ok(None) => cx.drop_unused(last),
            Err(error) => {
                why = why.or(error);
                cx.drop_unused(last);
            }
        }
    }
    let Some(first) = fit.first() else {
        return match why {
            Some(error) => Err(Some(error)),
            None => fail(
                node,
                "has operands that are not constant, and none gives the shape that the file states for the result",
            ),
        };
    };
    // What the node became by each case, equal ones once.
    let mut ways: Vec<usize> = Vec::new();
    for (i, made) in fit.iter().enumerate() {
        let equal = |k: &usize| alike(cx, &fit[*k].results, &made.results);
        if !ways.iter().any(equal) {
            ways.push(i);
        }
    }
    let kind = first.case.what.as_str();
    if ways.len() > MOST {
        return fail(
            node,
            format!(
                "has {kind} that are not constant, and the stated shapes leave {} ways open",
                ways.len()
            ),
        );
    }
    let mut results = Vec::new();
    for k in 0..node.outputs.len() {
        results.push(chosen(cx, node, &fit, &ways, k)?);
    }
    let mut m = Make::new(cx, node);
    let mut any = None;
    for made in &fit {
        any = Some(match any {
            None => made.case.holds,
            Some(any) => m.or(any, made.case.holds)?,
        });
    }
    let mut lists: Vec<&str> = fit.iter().map(|made| made.case.said.as_str()).collect();
    if ways.len() == 1 {
        lists.truncate(1);
    }
    let not = match lists[..] {
        [list] => format!("not {list}"),
        _ => format!("none of {}", lists.join(", ")),
    };
    let lists = lists.join(" or ");
    if let Some(any) = any {
        let why = format!("{kind} are {not}, as the stated shapes say");
        cx.check(node, any, &why)?;
    }
    let open = first.case.known.iter().any(|(k, _)| cx.is_open(node, *k));
    let state = node.outputs.iter().flatten().filter_map(|name| {
        let shape = cx.scope.stated.get(name)?;
        Some(format!("'{name}' is {}", sizes(shape)))
    });
    let state: Vec<String> = state.collect();
    let (from, stop) = (state.join(", "), "the program stops if they are not");
    if open {
        cx.remark(
            node,
            &format!("{kind} are taken to be {lists}, as {from}: {stop}"),
        );
    }
    for (name, result) in node.outputs.iter().zip(results) {
        if let (Some(name), Some(result)) = (name, result) {
            if let Meaning::Value(value) = &result {
                cx.hint(*value, name);
            }
            cx.name(name, result);
        }
    }
    Ok(())
}

fn sizes(shape: &[i64]) -> String {
    match shape {
        [] => "a single number".to_string(),
        shape => {
            let list: Vec<String> = shape.iter().map(i64::to_string).collect();
            list.join("x")
        }
    }
}

/// What the results of a node mean if its operands are these; `None` if they have other shapes than are stated.
fn tried<'m>(
    cx: &mut Cx<'m>,
    node: &Node,
    case: &Case,
    import: Import<'_, 'm>,
) -> Outcome<Option<Vec<Option<Meaning>>>> {
    let mut hidden = Vec::new();
    for (k, array) in &case.known {
        if let Some(name) = node.input(*k) {
            let scope = &mut cx.scope;
            hidden.push((name, scope.names.remove(name), scope.made.remove(name)));
            cx.name(name, Meaning::Constant(array.clone()));
        }
    }
    let done = import(cx);
    for (name, meaning, made) in hidden.into_iter().rev() {
        cx.scope.made.remove(name);
        cx.scope
            .names
            .extend(meaning.map(|m| (name.to_string(), m)));
        cx.scope.made.extend(made.map(|v| (name.to_string(), v)));
    }
    let mut results = Vec::new();
    let mut fits = true;
    for name in &node.outputs {
        let meaning = name.as_ref().and_then(|name| cx.scope.names.remove(name));
        if let Some(name) = name {
            cx.scope.made.remove(name);
            let shape = match &meaning {
                Some(Meaning::Value(value)) => Some(cx.shape(*value).0.to_vec()),
                Some(Meaning::Constant(array)) => {
                    Some(array.shape().iter().map(|d| *d as i64).collect())
                }
                _ => None,
            };
            let stated = cx.scope.stated.get(name);
            fits &= shape.is_some() && stated.is_none_or(|stated| shape.as_ref() == Some(stated));
        }
        results.push(meaning);
    }
    done?;
    Ok(fits.then_some(results))
}

/// The result of the case that holds.
fn chosen(
    cx: &mut Cx<'_>,
    node: &Node,
    fit: &[Made],
    ways: &[usize],
    k: usize,
) -> Outcome<Option<Meaning>> {
    let [first, others @ ..] = ways else {
        return Ok(None);
    };
    let Some(first) = fit[*first].results[k].clone() else {
        return Ok(None);
    };
    if others.is_empty() {
        return Ok(Some(first));
    }
    let mut y = value(cx, &first)?;
    for way in others {
        let Some(other) = &fit[*way].results[k] else {
            return Ok(None);
        };
        let x = value(cx, other)?;
        if cx.ir().ty(x) != cx.ir().ty(y) {
            return fail(
                node,
                "has operands that are not constant and decide the shape of the result, which the file does not state",
            );
        }
        // All cases of which the node becomes the same.
        let mut holds = None;
        for made in fit {
            if alike(cx, &made.results, &fit[*way].results) {
                holds = Some(match holds {
                    None => made.case.holds,
                    Some(holds) => Make::new(cx, node).or(holds, made.case.holds)?,
                });
            }
        }
        if let Some(holds) = holds {
            y = Make::new(cx, node).choose(holds, x, y)?;
        }
    }
    Ok(Some(Meaning::Value(y)))
}

fn value(cx: &mut Cx<'_>, meaning: &Meaning) -> Outcome<Value> {
    match meaning {
        Meaning::Value(value) => Ok(*value),
        Meaning::Constant(array) => Ok(cx.constant(array, "constant")),
        Meaning::Broken => Err(None),
    }
}

/// Whether results are the same, as far as a few ops tell.
fn alike(cx: &Cx<'_>, a: &[Option<Meaning>], b: &[Option<Meaning>]) -> bool {
    a.iter().zip(b).all(|pair| match pair {
        (Some(Meaning::Value(a)), Some(Meaning::Value(b))) => same(cx, *a, *b, 8),
        (Some(Meaning::Constant(a)), Some(Meaning::Constant(b))) => {
            a.dtype() == b.dtype() && a.shape() == b.shape() && a.bytes() == b.bytes()
        }
        (None, None) => true,
        _ => false,
    })
}

fn same(cx: &Cx<'_>, a: Value, b: Value, depth: usize) -> bool {
    if a == b {
        return true;
    }
    let ir = cx.ir();
    let (Some(x), Some(y)) = (ir.owner(a), ir.owner(b)) else {
        return false;
    };
    let at = |op, v| ir.results(op).position(|r| r == v);
    depth > 0
        && ir.op(x).name() == ir.op(y).name()
        && ir.ty(a) == ir.ty(b)
        && at(x, a) == at(y, b)
        && ir.attrs(x) == ir.attrs(y)
        && ir.regions(x).next().is_none()
        && ir.regions(y).next().is_none()
        && ir.operands(x).count() == ir.operands(y).count()
        && ir
            .operands(x)
            .zip(ir.operands(y))
            .all(|(a, b)| same(cx, a, b, depth - 1))
}
