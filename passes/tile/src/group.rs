//! What runs as one loop nest: a generic with a reduction, the elementwise generic behind it, and
//! the transfers that feed them, as one iteration space with operands in far memory.

use tir::{AffineExpr, AffineMap, Attr, DYNAMIC, Ir, OpId, RegionId, Type, Value};
use tir_tensor::{Combine, Generic, TransferRead, Yield};

/// An operand of a group: a far tensor, read at a linear position.
#[derive(Clone, Debug)]
pub struct Operand {
    /// The far tensor.
    pub source: Value,
    /// Position in it for each point of the group's iteration space.
    pub map: AffineMap,
    /// What is read outside of it; zero bits if absent.
    pub padding: Option<Value>,
}

/// A step of a group: what one generic of it computes.
#[derive(Clone, Debug)]
pub struct Step {
    /// The scalar computation.
    pub body: RegionId,
    /// For each argument of the region, where it comes from.
    pub inputs: Vec<Input>,
    /// Maps from the group's iteration space for each input.
    pub maps: Vec<AffineMap>,
}

/// Where an argument of a step comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Input {
    /// An operand of the group.
    Operand(usize),
    /// What the reduction before gave.
    Reduced,
}

/// A group.
#[derive(Clone, Debug)]
pub struct Group {
    /// Ranges of the iterators.
    pub domain: Vec<i64>,
    /// Which iterators are reductions.
    pub reductions: Vec<bool>,
    /// The reduction: its step, how it combines, the constant it starts from.
    pub reduce: Option<(Step, Combine, Attr)>,
    /// The elementwise step behind it, or alone.
    pub map: Option<Step>,
    /// Operands.
    pub operands: Vec<Operand>,
    /// Shapes of the operands' far tensors.
    pub shapes: Vec<Vec<i64>>,
    /// Types of their elements.
    pub elems: Vec<Type>,
    /// Position of the result for each point.
    pub out: AffineMap,
    /// Type of an element of what the reduction gives, if there is one.
    pub sum: Type,
    /// Type of the result.
    pub result: Type,
}

/// Composes a position with a transfer: where in the transfer's source an element is.
fn through(ir: &Ir, operand: Operand) -> Operand {
    let Some(read) = ir.def::<TransferRead>(operand.source) else {
        return operand;
    };
    if read.static_offsets.contains(&DYNAMIC) || read.space.is_some() {
        return operand;
    }
    let moved = read.access.compose(&operand.map);
    let exprs = moved.exprs.into_iter().zip(&read.static_offsets);
    let exprs = exprs
        .map(|(e, offset)| e + AffineExpr::Const(*offset))
        .collect();
    Operand {
        source: read.source,
        map: AffineMap::new(operand.map.dims, exprs),
        padding: read.padding,
    }
}

/// The constant that a generic without inputs fills its result with.
fn filled(ir: &Ir, value: Value) -> Option<Attr> {
    let fill: Generic = ir.def(value)?;
    if !fill.inputs.is_empty() || fill.combine.is_some() || fill.outputs.len() != 1 {
        return None;
    }
    let end: Yield = ir.get(ir.last(ir.entry(fill.body)?)?)?;
    ir.constant(*end.values.first()?)
}

impl Group {
    /// The group that ends in a generic; `None` if its structure is not that of one loop nest.
    /// `inner` says which values may be computed inside the group: those nobody else needs.
    pub fn ending_in(ir: &Ir, last: OpId, inner: &dyn Fn(Value) -> bool) -> Option<Self> {
        let mut group = Self::find(ir, last, inner)?;
        let shape = |o: &Operand| ir.ty(o.source).shape().unwrap_or(&[]).to_vec();
        group.shapes = group.operands.iter().map(shape).collect();
        let elem = |o: &Operand| ir.ty(o.source).elem();
        group.elems = group.operands.iter().map(elem).collect();
        Some(group)
    }

    fn find(ir: &Ir, last: OpId, inner: &dyn Fn(Value) -> bool) -> Option<Self> {
        let generic: Generic = ir.get(last)?;
        if generic.outputs.len() != 1 {
            return None;
        }
        let out = generic.indexing_maps.last()?.clone();
        let result = ir.ty(generic.outputs[0]);
        if generic.combine.is_some() {
            return Self::reduction(ir, &generic, out, result);
        }
        // Elementwise: look for one reduction among its inputs.
        let producer = generic.inputs.iter().enumerate().find_map(|(i, value)| {
            let producer: Generic = ir.def(*value)?;
            let reduces = producer.combine.is_some() && producer.outputs.len() == 1;
            let whole = generic.indexing_maps[i].is_permutation();
            (reduces && whole && inner(*value)).then_some((i, producer))
        });
        let Some((at, producer)) = producer else {
            return Self::elementwise(ir, &generic, out, result);
        };
        let value = generic.inputs[at];
        let inner_out = producer.indexing_maps.last()?.clone();
        let mut group = Self::reduction(ir, &producer, inner_out.clone(), ir.ty(value))?;
        // Iterators of the elementwise step as iterators of the reduction.
        let reads = generic.indexing_maps[at].as_projection()?;
        let writes = inner_out.as_projection()?;
        let mut rename = vec![None; generic.iterator_types.len()];
        for (e, d) in reads.iter().zip(&writes) {
            rename[*e] = Some(AffineExpr::Dim(*d));
        }
        let rename = AffineMap::new(
            group.domain.len(),
            rename.into_iter().collect::<Option<_>>()?,
        );
        let mut inputs = Vec::new();
        let mut maps = Vec::new();
        for (i, source) in generic.inputs.iter().enumerate() {
            let map = generic.indexing_maps[i].compose(&rename);
            if *source == value {
                // Read at the element that was just computed, and nowhere else.
                if map != inner_out {
                    return None;
                }
                inputs.push(Input::Reduced);
            } else {
                inputs.push(Input::Operand(group.operands.len()));
                let padding = None;
                let operand = Operand {
                    source: *source,
                    map: map.clone(),
                    padding,
                };
                group.operands.push(through(ir, operand));
            }
            maps.push(map);
        }
        group.map = Some(Step {
            body: generic.body,
            inputs,
            maps,
        });
        group.out = out.compose(&rename);
        group.result = result;
        Some(group)
    }

    fn step(ir: &Ir, generic: &Generic) -> (Step, Vec<Operand>) {
        let count = generic.inputs.len();
        let maps = generic.indexing_maps[..count].to_vec();
        let operands = generic.inputs.iter().zip(&maps).map(|(source, map)| {
            through(
                ir,
                Operand {
                    source: *source,
                    map: map.clone(),
                    padding: None,
                },
            )
        });
        let operands = operands.collect();
        let inputs = (0..count).map(Input::Operand).collect();
        (
            Step {
                body: generic.body,
                inputs,
                maps,
            },
            operands,
        )
    }

    fn reduction(ir: &Ir, generic: &Generic, out: AffineMap, result: Type) -> Option<Self> {
        let start = filled(ir, generic.outputs[0])?;
        let (step, operands) = Self::step(ir, generic);
        Some(Self {
            domain: generic.domain(ir).ok()?,
            reductions: generic.reductions(),
            reduce: Some((step, generic.combine?, start)),
            map: None,
            shapes: Vec::new(),
            elems: Vec::new(),
            operands,
            out,
            sum: result.elem(),
            result,
        })
    }

    fn elementwise(ir: &Ir, generic: &Generic, out: AffineMap, result: Type) -> Option<Self> {
        let (step, operands) = Self::step(ir, generic);
        Some(Self {
            domain: generic.domain(ir).ok()?,
            reductions: generic.reductions(),
            reduce: None,
            map: Some(step),
            shapes: Vec::new(),
            elems: Vec::new(),
            operands,
            out,
            sum: result.elem(),
            result,
        })
    }

    /// Whether elements of one operand are only moved.
    pub fn moves(&self, ir: &Ir) -> bool {
        let (None, Some(step), [_]) = (&self.reduce, &self.map, &self.operands[..]) else {
            return false;
        };
        let Some(block) = ir.entry(step.body) else {
            return false;
        };
        let end = ir.last(block).and_then(|last| ir.get::<Yield>(last));
        end.is_some_and(|end| end.values.len() == 1 && ir.args(block).any(|a| a == end.values[0]))
    }

    /// The step that decides the tiles: the reduction if there is one.
    pub fn main(&self) -> Option<&Step> {
        self.reduce
            .as_ref()
            .map(|(step, ..)| step)
            .or(self.map.as_ref())
    }

    /// Multiply-adds, or points of the iteration space.
    pub fn points(&self) -> i64 {
        self.domain.iter().product()
    }
}
