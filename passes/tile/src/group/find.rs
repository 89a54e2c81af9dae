//! Finding the group that ends in a generic, by structure.
//!
//! *Members* are chosen first: the *core*, which is a reduction and the elementwise steps behind it,
//! and *inner* generics, whose values only members need. Then the group's iteration space is put
//! together: the iterators of the core, and behind them the reductions of inner values, which are
//! never divided. What an operand is read at is followed through views to the tensor that is loaded.
//! A member that does not fit is left out, with what only it needed, and the search begins again.
//!
//! Invariants: a result of a group is read by no member but at the element that is computed there;
//! all results run over the parallel iterators of the core, each in an order of its own; the ops of a
//! group are those that it computes, no others.

use std::collections::{BTreeSet, HashMap, HashSet};

use tir::{AffineMap, Ir, LinearExpr, LinearMap, OpId, Value};
use tir_tensor::Generic;

use super::view::View;
use super::{Group, Inner, Input, Operand, Out, Scope, Step, StepRef, filled};

/// What a group may take in.
#[derive(Clone, Copy, Debug)]
pub struct Freedom {
    /// Values may be computed in near memory for it.
    pub inner: bool,
    /// A value may be read where it lay before it was reshaped.
    pub reshapes: bool,
    /// A value may be read where it lay before a nest of its own brought it into another order.
    pub moves: bool,
}

/// What is to be in a group.
struct Members {
    /// The reduction before the elementwise steps.
    reduce: Option<(OpId, Generic)>,
    /// The elementwise steps, in order.
    maps: Vec<(OpId, Generic)>,
    /// Others, whose values only members need.
    inner: HashSet<OpId>,
}

impl Members {
    fn has(&self, op: OpId) -> bool {
        let mut core = self.reduce.iter().chain(&self.maps);
        core.any(|(member, _)| *member == op) || self.inner.contains(&op)
    }

    fn all(&self) -> HashSet<OpId> {
        let core = self.reduce.iter().chain(&self.maps).map(|(op, _)| *op);
        core.chain(self.inner.iter().copied()).collect()
    }
}

impl Group {
    /// The group that ends in a generic; `None` if its structure is not that of one loop nest.
    pub fn ending_in(ir: &Ir, last: OpId, scope: &Scope, freedom: Freedom) -> Option<Self> {
        // What turns out not to fit is left out, and with it what only it needs.
        let mut left_out = HashSet::new();
        loop {
            let members = members(ir, last, scope, freedom.inner, &left_out)?;
            match Finder::new(ir, scope, &members, freedom)?.group(&members) {
                Ok(group) => return Some(group),
                Err(Some(op)) if op != last && left_out.insert(op) => {}
                Err(_) => return None,
            }
        }
    }
}

fn is_elementwise(generic: &Generic) -> bool {
    generic.combine.is_none() && generic.outputs.len() == 1 && !generic.reductions().contains(&true)
}

/// Where an input of a generic that is this value is read; `None` if in more than one way.
fn read_at(generic: &Generic, value: Value) -> Option<&AffineMap> {
    let pairs = generic.inputs.iter().zip(&generic.indexing_maps);
    let mut maps = pairs.filter(|(v, _)| **v == value).map(|(_, map)| map);
    let first = maps.next()?;
    maps.all(|map| map == first).then_some(first)
}

fn members(
    ir: &Ir,
    last: OpId,
    scope: &Scope,
    inner: bool,
    left_out: &HashSet<OpId>,
) -> Option<Members> {
    let generic: Generic = ir.get(last)?;
    if generic.outputs.len() != 1 {
        return None;
    }
    let mut members = Members {
        reduce: None,
        maps: Vec::new(),
        inner: HashSet::new(),
    };
    if generic.combine.is_some() {
        members.reduce = Some((last, generic));
    } else {
        members.maps.push((last, generic));
    }
    let grouped = scope.group.contains_key(&last);
    for op in scope.before(ir, last) {
        // Outside of groups a member is read by others at first hand.
        let mut uses = ir.results(op).flat_map(|value| ir.uses(value));
        if !grouped && !uses.any(|u| members.has(u.op)) {
            continue;
        }
        let Some(generic) = ir.get::<Generic>(op).filter(|_| !left_out.contains(&op)) else {
            continue;
        };
        if generic.outputs.len() != 1 || generic.inputs.is_empty() {
            continue;
        }
        let value = ir.result(op, 0);
        let mut readers = scope.readers(ir, value);
        if let Some(number) = scope.group.get(&last) {
            // What reads it elsewhere comes later: it is a result then.
            readers = readers.only(|op| scope.group.get(&op) == Some(number));
        }
        let all = members.all();
        let known = readers.generics.iter().all(|op| all.contains(op));
        if !known && !grouped {
            continue;
        }
        if takes_map(ir, &members, &generic, value, &readers.generics)
            && grouped
            && readers.directly()
        {
            members.maps.insert(0, (op, generic));
        } else if (grouped || !readers.others)
            && readers.directly()
            && takes_reduce(&members, &generic, value, &readers.generics)
        {
            members.reduce = Some((op, generic));
        } else if inner && grouped && known && !readers.others && !readers.generics.is_empty() {
            members.inner.insert(op);
        }
    }
    Some(members)
}

/// Whether a generic is one more elementwise step: on the domain of the others, read by them at
/// the element that it computes, and else needed outside.
fn takes_map(
    ir: &Ir,
    members: &Members,
    generic: &Generic,
    value: Value,
    readers: &[OpId],
) -> bool {
    let Some((_, first)) = members.maps.first() else {
        return false;
    };
    let is_plain = |g: &Generic| {
        let out = g.indexing_maps.last();
        is_elementwise(g) && out.is_some_and(AffineMap::is_identity)
    };
    let reads = |op: &OpId| {
        let step = members.maps.iter().find(|(map, _)| map == op);
        step.is_some_and(|(_, g)| read_at(g, value).is_some_and(AffineMap::is_identity))
    };
    members.reduce.is_none()
        && is_plain(generic)
        && members.maps.iter().all(|(_, g)| is_plain(g))
        && generic.domain(ir).ok() == first.domain(ir).ok()
        && readers.iter().all(reads)
}

/// Whether a generic is the reduction before the elementwise steps: they read it at one element.
fn takes_reduce(members: &Members, generic: &Generic, value: Value, readers: &[OpId]) -> bool {
    let several = members.maps.len() > 1;
    let reads = |op: &OpId| {
        let step = members.maps.iter().find(|(map, _)| map == op);
        let map = step.and_then(|(_, g)| read_at(g, value));
        map.is_some_and(|map| map.is_permutation() && (!several || map.is_identity()))
    };
    let out = generic
        .indexing_maps
        .last()
        .and_then(AffineMap::as_projection);
    let straight = out.is_some_and(|out| !several || out.iter().copied().eq(0..out.len()));
    members.reduce.is_none()
        && generic.combine.is_some()
        && straight
        && !readers.is_empty()
        && readers.iter().all(reads)
}

/// Puts a group together.
struct Finder<'a> {
    ir: &'a Ir,
    scope: &'a Scope,
    all: HashSet<OpId>,
    domain: Vec<i64>,
    core: usize,
    reductions: Vec<bool>,
    whole: BTreeSet<usize>,
    operands: Vec<Operand>,
    /// Positions of the operands over the group's iterators.
    rows: Vec<LinearMap>,
    /// For each iterator the one that it is by now.
    alias: Vec<usize>,
    /// Whether reshaped values are read where they were made.
    reshapes: bool,
    moves: bool,
    /// Members whose tiles are computed in near memory.
    computed: HashSet<OpId>,
}

/// What does not fit, if it may be left out.
type Misfit = Option<OpId>;

impl<'a> Finder<'a> {
    fn new(ir: &'a Ir, scope: &'a Scope, members: &Members, freedom: Freedom) -> Option<Self> {
        let (_, main) = members.reduce.as_ref().or(members.maps.first())?;
        let domain = main.domain(ir).ok()?;
        Some(Self {
            ir,
            scope,
            all: members.all(),
            core: domain.len(),
            alias: (0..domain.len()).collect(),
            domain,
            reductions: main.reductions(),
            whole: BTreeSet::new(),
            operands: Vec::new(),
            rows: Vec::new(),
            reshapes: freedom.reshapes,
            moves: freedom.moves,
            computed: HashSet::new(),
        })
    }

    fn group(mut self, members: &Members) -> Result<Group, Misfit> {
        let ir = self.ir;
        let identity = LinearMap::identity(self.core);
        let mut outs = Vec::new();
        let mut known: HashMap<Value, Input> = HashMap::new();
        let mut reduce = None;
        let mut out = None;
        if let Some((op, generic)) = &members.reduce {
            let start = filled(ir, generic.outputs[0]).ok_or(None)?;
            let step = self.step(generic, &identity, &known)?;
            let combine = generic.combine.ok_or(None)?;
            reduce = Some((step, combine, start));
            let map = generic.indexing_maps.last().ok_or(None)?.clone();
            out = Some(map.clone());
            let (step, value) = (StepRef::Reduced, ir.result(*op, 0));
            known.insert(value, Input::Reduced);
            outs.push(Out {
                step,
                value,
                map,
                flat: None,
            });
        }
        let mut maps = Vec::new();
        for (op, generic) in &members.maps {
            let iterators = self
                .iterators(members, generic, &identity)
                .ok_or(Some(*op))?;
            let step = self.step(generic, &iterators, &known)?;
            let written = generic.indexing_maps.last().ok_or(None)?;
            let written = written.linear().ok_or(None)?;
            let written = written.compose(&iterators).ok_or(None)?;
            let map = written.affine(self.core);
            out = Some(map.clone());
            let (at, value) = (StepRef::Mapped(maps.len()), ir.result(*op, 0));
            known.insert(value, Input::Mapped(maps.len()));
            outs.push(Out {
                step: at,
                value,
                map,
                flat: None,
            });
            maps.push(step);
        }
        // Only what is computed here is done: a member that is read in a way that cannot be taken
        // into the nest is a far tensor, and the end of another group.
        let mut ops: Vec<OpId> = members.maps.iter().rev().map(|(op, _)| *op).collect();
        ops.extend(members.reduce.iter().map(|(op, _)| *op));
        let others = self.scope.generics.iter().rev();
        ops.extend(others.filter(|op| self.computed.contains(op)));
        outs.retain(|out| {
            let readers = self.scope.readers(ir, out.value);
            readers.others || readers.generics.iter().any(|op| !ops.contains(op))
        });
        let dims = self.domain.len();
        for (operand, rows) in self.operands.iter_mut().zip(&self.rows) {
            operand.map = rows.affine(dims);
        }
        let main = reduce.as_ref().and(ops.iter().find(|op| {
            let nest = self.ir.get::<Generic>(**op);
            nest.is_some_and(|nest| nest.combine.is_some())
        }));
        let named = *main.or(ops.first()).ok_or(None)?;
        Ok(Group {
            domain: self.domain,
            core: self.core,
            reductions: self.reductions,
            whole: self.whole,
            reduce,
            maps,
            operands: self.operands,
            out: out.ok_or(None)?,
            outs,
            ops,
            outer: 0,
            into: None,
            named,
        })
    }

    /// Iterators of an elementwise step as iterators of the group.
    fn iterators(
        &self,
        members: &Members,
        generic: &Generic,
        identity: &LinearMap,
    ) -> Option<LinearMap> {
        let Some((op, reduce)) = &members.reduce else {
            return Some(identity.clone());
        };
        let writes = reduce.indexing_maps.last()?.as_projection()?;
        let reads = match read_at(generic, self.ir.result(*op, 0)) {
            Some(map) => map.as_projection()?,
            // It reads what another step read at the same element.
            None => (0..writes.len()).collect(),
        };
        let mut rename = vec![None; generic.iterator_types.len()];
        for (e, d) in reads.iter().zip(&writes) {
            *rename.get_mut(*e)? = Some(LinearExpr::dim(*d));
        }
        rename.into_iter().collect()
    }

    /// A step of the core, its iterators given as iterators of the group.
    fn step(
        &mut self,
        generic: &Generic,
        iterators: &LinearMap,
        known: &HashMap<Value, Input>,
    ) -> Result<Step, Misfit> {
        let (mut inputs, mut maps) = (Vec::new(), Vec::new());
        for (value, map) in generic.inputs.iter().zip(&generic.indexing_maps) {
            let rows = map.linear().ok_or(None)?;
            let rows = rows.compose(iterators).ok_or(None)?;
            let input = match known.get(value) {
                Some(input) => *input,
                None => {
                    let ranges = self.domain.clone();
                    Input::Operand(self.operand(*value, rows.clone(), &ranges, None)?.0)
                }
            };
            inputs.push(input);
            maps.push(rows.affine(self.core));
        }
        Ok(Step {
            body: generic.body,
            inputs,
            maps,
            ty: self.ir.ty(generic.outputs[0]),
            work: generic.point_work(self.ir),
        })
    }

    /// The operand that is a value at a position over iterators of these ranges, which are the
    /// group's, or are mapped to them by `to_group`; and the position in its source.
    fn operand(
        &mut self,
        value: Value,
        rows: LinearMap,
        ranges: &[i64],
        to_group: Option<&LinearMap>,
    ) -> Result<(usize, LinearMap), Misfit> {
        let (scope, all) = (self.scope, &self.all);
        let member = all.iter().copied().find(|op| scope.group.contains_key(op));
        let moved = |op: OpId| self.moves && scope.may_move(self.ir, op, member);
        let moves = |op: OpId| all.contains(&op) || moved(op);
        let view = View::new(value, rows).through(self.ir, ranges, self.reshapes, &moves);
        let local = view.rows.clone();
        let maker = self
            .ir
            .owner(view.source)
            .filter(|op| self.all.contains(op));
        let global = match to_group {
            Some(to_group) => local.compose(to_group).ok_or(maker)?,
            None => local.clone(),
        };
        let global = self.canonical(&global).ok_or(maker)?;
        if maker.is_some() && view.leaves {
            return Err(maker);
        }
        if let Some(at) = self.known(&view, &global) {
            return Ok((at, local));
        }
        let inner = match maker {
            Some(op) => Some(self.inner(op, &global)?),
            None => None,
        };
        // What it is computed from may have made iterators one.
        let global = self.canonical(&global).ok_or(maker)?;
        if let Some(at) = self.known(&view, &global) {
            return Ok((at, local));
        }
        let shape = self.ir.ty(view.source).shape().unwrap_or(&[]).to_vec();
        self.operands.push(Operand {
            source: view.source,
            map: AffineMap::identity(0),
            padding: view.padding,
            cut: view.cut,
            leaves: view.leaves,
            made: false,
            near: false,
            joint: false,
            constant: self.ir.constant(view.source).is_some(),
            shape,
            flat: None,
            diagonal: None,
            inner,
        });
        self.rows.push(global);
        Ok((self.operands.len() - 1, local))
    }

    /// An operand that is the same tile already, perhaps after making two whole iterators one.
    fn known(&mut self, view: &View, rows: &LinearMap) -> Option<usize> {
        let same = |o: &Operand| o.source == view.source && o.padding == view.padding;
        for at in 0..self.operands.len() {
            if !same(&self.operands[at]) || self.rows[at].len() != rows.len() {
                continue;
            }
            if let Some(pairs) = self.pairs(&self.rows[at], rows) {
                for (gone, kept) in pairs {
                    self.make_one(gone, kept)?;
                }
                return Some(at);
            }
        }
        None
    }

    /// Which iterators must be one for two positions to be the same.
    fn pairs(&self, a: &LinearMap, b: &LinearMap) -> Option<Vec<(usize, usize)>> {
        let mut pairs = Vec::new();
        for (x, y) in a.iter().zip(b.iter()) {
            if x == y {
                continue;
            }
            let (x, y) = (x.as_dim()?, y.as_dim()?);
            let (gone, kept) = (x.max(y), x.min(y));
            if gone < self.core || self.domain[gone] != self.domain[kept] {
                return None;
            }
            pairs.push((gone, kept));
        }
        Some(pairs)
    }

    /// Makes an operand's own reduction the same iterator as another one, which is then whole.
    fn make_one(&mut self, gone: usize, kept: usize) -> Option<()> {
        for d in &mut self.alias {
            if *d == gone {
                *d = kept;
            }
        }
        for at in 0..self.operands.len() {
            self.rows[at] = self.canonical(&self.rows[at])?;
            if let Some(inner) = &mut self.operands[at].inner {
                for d in &mut inner.reductions {
                    *d = self.alias[*d];
                }
            }
        }
        self.whole.insert(kept);
        Some(())
    }

    /// A position with each iterator as it is by now; `None` where coefficients leave 64 bits.
    fn canonical(&self, rows: &LinearMap) -> Option<LinearMap> {
        let dims: LinearMap = self.alias.iter().map(|d| LinearExpr::dim(*d)).collect();
        rows.compose(&dims)
    }

    /// How tiles of a value are computed, read at a position over the group's iterators.
    fn inner(&mut self, op: OpId, at: &LinearMap) -> Result<Inner, Misfit> {
        let no = Some(op);
        let generic: Generic = self.ir.get(op).ok_or(no)?;
        let written = generic
            .indexing_maps
            .last()
            .and_then(AffineMap::as_projection);
        let written = written.ok_or(no)?;
        // A reduction is not computed twice: no element of it is in two tiles.
        let apart = at
            .iter()
            .all(|row| row.is_number() || row.as_dim().is_some());
        if generic.combine.is_some() && !apart {
            return Err(no);
        }
        let reduce = match generic.combine {
            Some(combine) => Some((combine, filled(self.ir, generic.outputs[0]).ok_or(no)?)),
            None => None,
        };
        // Its iterators: the value's dimensions, then its reductions.
        let domain = generic.domain(self.ir).map_err(|_| no)?;
        let rank = written.len();
        let mut local = LinearMap(vec![LinearExpr::default(); domain.len()]);
        let mut ranges: Vec<i64> = written.iter().map(|d| domain[*d]).collect();
        let mut to_group: LinearMap = at.clone();
        let mut reductions = Vec::new();
        for (place, d) in written.iter().enumerate() {
            local[*d] = LinearExpr::dim(place);
        }
        for (d, range) in domain.iter().enumerate() {
            if !written.contains(&d) {
                local[d] = LinearExpr::dim(rank + reductions.len());
                ranges.push(*range);
                let own = self.domain.len();
                to_group.push(LinearExpr::dim(own));
                reductions.push(own);
                self.domain.push(*range);
                self.reductions.push(true);
                self.alias.push(own);
                self.whole.insert(own);
            }
        }
        let mut inner = Inner {
            body: generic.body,
            reduce,
            inputs: Vec::new(),
            rows: Vec::new(),
            reductions,
            work: generic.point_work(self.ir),
        };
        for (value, map) in generic.inputs.iter().zip(&generic.indexing_maps) {
            let rows = map
                .linear()
                .and_then(|rows| rows.compose(&local))
                .ok_or(no)?;
            let (input, rows) = self.operand(*value, rows, &ranges, Some(&to_group))?;
            inner.inputs.push(input);
            inner.rows.push(rows);
        }
        for own in &mut inner.reductions {
            *own = self.alias[*own];
        }
        self.computed.insert(op);
        Ok(inner)
    }
}
