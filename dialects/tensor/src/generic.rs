//! `tensor.generic`: a loop nest without an order, one scalar region, maps for its operands.

use tir::constraints::SHAPED;
use tir::{
    Access, AffineMap, Attr, Builder, Canonicalize, Decline, Effect, Effects, Failure, HasEffects,
    IntType, Ir, Name, Op, OpId, OpRef, PatternSet, RegionId, Rets, Traits, Type, Value, Verify,
    attr_enum,
};
use tir_arith::{
    AddF, AddI, MaxSI, MaxUI, MaximumF, MinSI, MinUI, MinimumF, MulF, MulI, constant_float,
    constant_int,
};

attr_enum! {
    /// How values of one output element are put together: commutative and associative.
    pub enum Combine { Add = "add", Mul = "mul", Max = "max", Min = "min" }
}

impl Combine {
    /// The scalar op that combines two values of an element type.
    pub fn op(self, elem: Type) -> Name {
        let (int, float) = match self {
            Self::Add => (AddI::name(), AddF::name()),
            Self::Mul => (MulI::name(), MulF::name()),
            Self::Max => (MaxSI::name(), MaximumF::name()),
            Self::Min => (MinSI::name(), MinimumF::name()),
        };
        match (self, is_unsigned(elem)) {
            (Self::Max, true) => MaxUI::name(),
            (Self::Min, true) => MinUI::name(),
            _ if elem.is_float() => float,
            _ => int,
        }
    }

    /// Builds that op.
    pub fn build(self, b: &mut Builder<'_>, lhs: Value, rhs: Value) -> Value {
        let elem = b.ty(lhs).elem();
        let (float, unsigned) = (elem.is_float(), is_unsigned(elem));
        match (self, float) {
            (Self::Add, true) => b.add(AddF {
                lhs,
                rhs,
                fastmath: None,
            }),
            (Self::Mul, true) => b.add(MulF {
                lhs,
                rhs,
                fastmath: None,
            }),
            (Self::Max, true) => b.add(MaximumF {
                lhs,
                rhs,
                fastmath: None,
            }),
            (Self::Min, true) => b.add(MinimumF {
                lhs,
                rhs,
                fastmath: None,
            }),
            (Self::Add, false) => b.add(AddI {
                lhs,
                rhs,
                overflow: None,
            }),
            (Self::Mul, false) => b.add(MulI {
                lhs,
                rhs,
                overflow: None,
            }),
            (Self::Max, false) if unsigned => b.add(MaxUI { lhs, rhs }),
            (Self::Min, false) if unsigned => b.add(MinUI { lhs, rhs }),
            (Self::Max, false) => b.add(MaxSI { lhs, rhs }),
            (Self::Min, false) => b.add(MinSI { lhs, rhs }),
        }
    }
}

/// Whether elements are integers whose type says that they have no sign: `ui8`.
pub(crate) fn is_unsigned(elem: Type) -> bool {
    elem.get::<IntType>().is_some_and(IntType::is_unsigned)
}

/// Computes every element of its outputs from elements of its inputs.
///
/// For each point of the iteration domain the region gets one element of each input, at the
/// position that the input's map gives, and yields one value for each output. With `combine` the
/// values for one output element are put together with what the output holds before, in the
/// order of the iterators; without, the output only gives the shape, and every element is
/// written once. A range of an iterator is that of a dimension it indexes alone, or is given by
/// `sizes`.
///
/// Syntax: `%r = tensor.generic {indexing_maps = […], iterator_types = […]} ins(%a, %b : t, u)
/// outs(%c : v) combine add { ^bb0(%x: f32, %y: f32): … tensor.yield %z : f32 } -> v`.
#[derive(Op)]
#[op(
    "tensor.generic",
    SingleBlock,
    terminator(Yield),
    asm,
    effects,
    keeps_constants,
    canonicalize,
    verify,
    lower_to_eval,
    cost
)]
pub struct Generic {
    /// What is read.
    pub inputs: Vec<Value>,
    /// What the results start from, and their shape.
    #[is(SHAPED)]
    pub outputs: Vec<Value>,
    /// A map from iterators to positions for each input and output.
    pub indexing_maps: Vec<AffineMap>,
    /// `"parallel"` or `"reduction"` for each iterator.
    pub iterator_types: Vec<Attr>,
    /// How a reduction combines.
    pub combine: Option<Combine>,
    /// Ranges of the iterators, where no operand shows them.
    pub sizes: Option<Vec<i64>>,
    /// The scalar computation.
    pub body: RegionId,
    /// The results: types of the outputs.
    pub results: Rets,
}

/// Whether an operand of a generic is an input, not what a result starts from; `None` of other ops. Reads no attribute where the op has
/// results, as many as outputs.
pub fn is_input(ir: &Ir, op: OpId, operand: usize) -> Option<bool> {
    if !ir.is::<Generic>(op) {
        return None;
    }
    match ir.results(op).len() {
        0 => Some(operand < ir.get::<Generic>(op)?.inputs.len()),
        outputs => Some(operand + outputs < ir.operands(op).len()),
    }
}

/// Ends the region of `tensor.generic`.
#[derive(Op)]
#[op("tensor.yield", Terminator, Pure, ReturnLike, parent(Generic))]
#[asm("attr-dict ($values^ `:` type($values))?")]
pub struct Yield {
    /// One value for each output.
    pub values: Vec<Value>,
}

/// The iterator kinds of so many parallel and then so many reduction iterators.
pub fn iterators(parallel: usize, reduction: usize) -> Vec<Attr> {
    let parallel = std::iter::repeat_n(Attr::str("parallel"), parallel);
    parallel
        .chain(std::iter::repeat_n(Attr::str("reduction"), reduction))
        .collect()
}

/// The number of the argument that the body of a generic gives as it is, if that is all it gives.
pub fn yields_argument(ir: &Ir, body: RegionId) -> Option<usize> {
    let block = ir.entry(body)?;
    let end: Yield = ir.get(ir.last(block)?)?;
    let [value] = end.values[..] else {
        return None;
    };
    ir.args(block).position(|argument| argument == value)
}

impl Generic {
    /// Which iterators are reductions.
    pub fn reductions(&self) -> Vec<bool> {
        let kinds = self.iterator_types.iter();
        kinds
            .map(|kind| kind.as_str() == Some("reduction"))
            .collect()
    }

    /// The constant that all elements of its only output become, if it reads nothing and computes that.
    pub fn constant(&self, ir: &Ir) -> Option<Attr> {
        let fills = self.inputs.is_empty() && self.combine.is_none() && self.outputs.len() == 1;
        let end: Yield = ir.get(ir.last(ir.entry(self.body)?)?)?;
        ir.constant(*end.values.first()?).filter(|_| fills)
    }

    /// Whether elements of its only input are what it gives, one at each point, or what it combines.
    pub fn takes_elements(&self, ir: &Ir) -> bool {
        let one = self.inputs.len() == 1 && self.outputs.len() == 1;
        one && yields_argument(ir, self.body) == Some(0)
    }

    /// Whether it only moves elements of its only input.
    pub fn moves(&self, ir: &Ir) -> bool {
        self.combine.is_none() && self.takes_elements(ir)
    }

    /// The operands: inputs, then outputs.
    pub fn operands(&self) -> impl Iterator<Item = Value> + '_ {
        self.inputs.iter().chain(&self.outputs).copied()
    }

    /// What a thread does at one point of the domain: loads, operations on data, stores.
    pub fn point_work(&self, ir: &Ir) -> u64 {
        let outputs = self.outputs.len();
        ir.entry(self.body).map_or(0, |body| {
            tir::interp::point_work(ir, body, outputs, self.combine.is_some())
        })
    }

    /// The range of each iterator.
    pub fn domain(&self, ir: &Ir) -> Result<Vec<i64>, Failure> {
        let rank = self.iterator_types.len();
        let mut domain = vec![None; rank];
        if let Some(sizes) = &self.sizes {
            if sizes.len() != rank {
                let found = sizes.len();
                return Err(format!("has {found} sizes for {rank} iterators").into());
            }
            domain = sizes.iter().copied().map(Some).collect();
        }
        for (value, map) in self.operands().zip(&self.indexing_maps) {
            let shape = ir.ty(value).shape().unwrap_or(&[]);
            for (expr, size) in map.exprs.iter().zip(shape) {
                if let tir::AffineExpr::Dim(d) = expr {
                    match domain.get_mut(*d) {
                        Some(Some(known)) if self.sizes.is_none() && known != size => {
                            return Err(format!(
                                "has iterator d{d} with ranges {known} and {size}"
                            )
                            .into());
                        }
                        Some(slot @ None) => *slot = Some(*size),
                        _ => {}
                    }
                }
            }
        }
        let missing = domain.iter().position(Option::is_none);
        match missing {
            Some(d) => Err(format!("says no range for iterator d{d}: it indexes no dimension alone, and there are no 'sizes'").into()),
            None => Ok(domain.into_iter().flatten().collect()),
        }
    }
}

impl HasEffects for Generic {
    fn effects(&self, op: OpRef<'_>) -> Effects {
        let buffers = |values: &[Value]| -> Vec<Value> {
            values
                .iter()
                .copied()
                .filter(|v| op.ir.ty(*v).is::<tir::MemRefType>())
                .collect()
        };
        let effect = |access: Access| {
            move |value| Effect {
                access,
                on: Some(value),
            }
        };
        let mut effects = Effects::new();
        effects.extend(buffers(&self.inputs).into_iter().map(effect(Access::Read)));
        for value in buffers(&self.outputs) {
            if self.combine.is_some() {
                effects.push(effect(Access::Read)(value));
            }
            effects.push(effect(Access::Write)(value));
        }
        effects
    }
}
/// Sets all elements of a buffer to a scalar, or to zero.
pub fn fill(b: &mut Builder<'_>, buffer: Value, value: Option<Value>) {
    let ty = b.ty(buffer);
    let rank = ty.shape().map_or(0, <[i64]>::len);
    let body = b.body(&[], |b, _| {
        let elem = ty.elem();
        let value = value.unwrap_or_else(|| match elem.is_float() {
            true => constant_float(b, 0.0, elem),
            false => constant_int(b, 0, elem),
        });
        b.add(Yield {
            values: vec![value],
        });
    });
    b.add(Generic {
        inputs: vec![],
        outputs: vec![buffer],
        indexing_maps: vec![AffineMap::identity(rank)],
        iterator_types: iterators(rank, 0),
        combine: None,
        sizes: None,
        body,
        results: Rets(vec![]),
    });
}

impl Generic {
    /// What the results are if there is no point that is combined with what they start from: that. No values for
    /// buffers; `None` if there may be a point.
    pub fn if_empty(&self, ir: &Ir, op: OpId) -> Option<Vec<Value>> {
        let empty = self.domain(ir).is_ok_and(|domain| domain.contains(&0));
        empty.then(|| self.outputs[..ir.results(op).len()].to_vec())
    }
}

impl Canonicalize for Generic {
    fn patterns(set: &mut PatternSet) {
        set.on("drop-empty-nest", |nest: Self, op, rw| {
            let values = nest.if_empty(rw.ir(), op);
            let values =
                values.ok_or_else(|| Decline::because(|| "it may have a point".to_string()))?;
            rw.replace(op, &values);
            Ok(())
        });
    }
}

impl Verify for Generic {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let ir = op.ir;
        let operands: Vec<Value> = self.operands().collect();
        let rank = self.iterator_types.len();
        let maps = &self.indexing_maps;
        if maps.len() != operands.len() {
            let (found, wanted) = (maps.len(), operands.len());
            return Err(format!("has {found} indexing maps for {wanted} operands").into());
        }
        for kind in &self.iterator_types {
            if !matches!(kind.as_str(), Some("parallel" | "reduction")) {
                return Err(format!(
                    "has iterator type {kind}, expected \"parallel\" or \"reduction\""
                )
                .into());
            }
        }
        for (i, (value, map)) in operands.iter().zip(maps).enumerate() {
            let ty = ir.ty(*value);
            let operand_rank = ty.shape().map_or(0, <[i64]>::len);
            if map.dims != rank || map.syms != 0 {
                return Err(format!(
                    "has map {i} with {} dimensions and {} symbols, expected {rank} and 0",
                    map.dims, map.syms
                )
                .into());
            }
            if map.exprs.len() != operand_rank {
                return Err(
                    format!("has map {i} with {} results for a {ty}", map.exprs.len()).into(),
                );
            }
        }
        let domain = self.domain(ir)?;
        if let Some((d, size)) = domain.iter().enumerate().find(|(_, size)| **size < 0) {
            return Err(format!("has iterator d{d} with range {size}").into());
        }
        self.check_bounds(ir, &operands, &domain)?;
        self.check_outputs(ir)?;
        self.check_region(op)
    }
}

impl Generic {
    /// Every map stays inside its operand.
    fn check_bounds(&self, ir: &Ir, operands: &[Value], domain: &[i64]) -> Result<(), Failure> {
        if domain.contains(&0) {
            return Ok(());
        }
        for (i, (value, map)) in operands.iter().zip(&self.indexing_maps).enumerate() {
            let ty = ir.ty(*value);
            for (d, (expr, size)) in map.exprs.iter().zip(ty.shape().unwrap_or(&[])).enumerate() {
                let Some(form) = expr.linear(domain.len()) else {
                    continue;
                };
                let range = form.range(domain);
                let range = range.ok_or("has a map that leaves 64 bits")?;
                if !range.is_inside(*size) {
                    let (low, high) = (range.low, range.high);
                    return Err(format!(
                        "reaches {low} to {high} in dimension {d} of operand {i}, which is a {ty}"
                    )
                    .into());
                }
            }
        }
        Ok(())
    }

    /// Output maps name each parallel iterator once; reductions combine.
    fn check_outputs(&self, ir: &Ir) -> Result<(), Failure> {
        let reductions = self.reductions();
        let parallel: Vec<usize> = (0..reductions.len()).filter(|d| !reductions[*d]).collect();
        for map in &self.indexing_maps[self.inputs.len()..] {
            let mut dims = map.as_projection().unwrap_or_default();
            dims.sort_unstable();
            if dims != parallel || map.exprs.len() != parallel.len() {
                return Err(format!(
                    "has output map {map}, which does not name each parallel iterator once"
                )
                .into());
            }
        }
        if self.combine.is_none() && reductions.contains(&true) {
            return Err("has a reduction but no combiner".into());
        }
        let outputs: Vec<Type> = self.outputs.iter().map(|v| ir.ty(*v)).collect();
        let results = &self.results.0;
        // On buffers there are no results: outputs are written in place.
        if *results != outputs
            && !(results.is_empty() && outputs.iter().all(|t| t.is::<tir::MemRefType>()))
        {
            let (found, wanted) = (
                Type::function([], results.clone()),
                Type::function([], outputs),
            );
            return Err(format!("has results {found}, expected {wanted}").into());
        }
        Ok(())
    }

    /// The region is pure and its types are those of the elements.
    fn check_region(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let ir = op.ir;
        let Some(block) = ir.entry(self.body) else {
            return Err("has an empty region".into());
        };
        let found: Vec<Type> = ir.args(block).map(|v| ir.ty(v)).collect();
        let wanted: Vec<Type> = self.inputs.iter().map(|v| ir.ty(*v).elem()).collect();
        if found != wanted {
            let (found, wanted) = (Type::function(found, []), Type::function(wanted, []));
            return Err(format!("has a region that takes {found}, expected {wanted}").into());
        }
        // Which op that is, the header of the op says.
        let end = ir
            .last(block)
            .filter(|last| ir.has(*last, Traits::Terminator));
        let end = end.ok_or("has a region without a terminator")?;
        let found: Vec<Type> = ir.operands(end).map(|v| ir.ty(v)).collect();
        let wanted: Vec<Type> = self.outputs.iter().map(|v| ir.ty(*v).elem()).collect();
        if found != wanted {
            let (found, wanted) = (Type::function([], found), Type::function([], wanted));
            return Err(format!("yields {found}, expected {wanted}").into());
        }
        let impure = |inner: &OpId| !ir.is_pure(*inner) && ir.info(*inner).is_some();
        if let Some(inner) = ir.ops_in(block).find(impure) {
            return Err(
                format!("has '{}' in its region, which is not pure", ir.name(inner)).into(),
            );
        }
        Ok(())
    }
}
