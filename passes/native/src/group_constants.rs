//! `group-constants`: packed bytes lie as products of bytes take them, some steps of a sum beside each other.
//!
//! A processor that adds four products of bytes to each sum takes the four bytes of a lane from one place. A packed tile has
//! rows of lanes, one for each step: four rows had to be interleaved before each product. Here the tile is stored so,
//! `[k / 4][n][4]`, and the nests that read it go through steps in fours.
//!
//! *Invariants.* All that reads the constant reads it so, or nothing changes. Each nest sums up the same products in the same
//! order.

use std::collections::BTreeMap;

use tir::data::Array;
use tir::interp::{attr_named, elements};
use tir::{
    AffineExpr, AffineMap, At, Attr, AttrValue, Ir, MemRefType, Name, OpId, Pass, PassCx,
    PassResult, Type, Value, pass,
};
use tir_memref::{GetGlobal, Global, SubView, View};
use tir_tensor::Generic;
use tir_vector::Dot;

use crate::pack_constants::TILE;

pass! {
    /// Stores packed tiles of bytes that sums of products read with four steps of the sum beside each other.
    pub struct GroupConstants = "group-constants" on "builtin.module" {}
}

/// Steps beside each other.
const GROUP: i64 = Dot::GROUP;

impl Pass for GroupConstants {
    fn run(&self, module: &mut Ir, cx: &mut PassCx<'_>) -> PassResult {
        let mut readers: BTreeMap<Name, Vec<(OpId, OpId)>> = BTreeMap::new();
        for (slot, child) in module.children_mut() {
            for op in child.walk_ids() {
                if let Some(get) = child.get::<GetGlobal>(op) {
                    readers.entry(get.name.0).or_default().push((slot, op));
                }
            }
        }
        let globals: Vec<(OpId, Global)> = module
            .walk_ids()
            .into_iter()
            .filter_map(|op| Some((op, module.get::<Global>(op)?)))
            .collect();
        let mut grouped = 0;
        for (op, global) in globals {
            let Some(readers) = readers.get(&global.sym_name) else {
                continue;
            };
            let mut all = Vec::new();
            for (slot, get) in readers {
                let Some(function) = module.child(*slot) else {
                    break;
                };
                match Readers::of(function, *get) {
                    Some(found) => all.push((*slot, found)),
                    None => break,
                }
            }
            let Some((_, first)) = all.first() else {
                continue;
            };
            let form = first.form.clone();
            if all.len() < readers.len() || all.iter().any(|(_, found)| found.form != form) {
                continue;
            }
            let value = global.initial_value.filter(|_| global.constant.is_some());
            let Some(content) = value.and_then(|value| elements(value).ok()) else {
                continue;
            };
            let Some(content) = form.regroup(&content) else {
                continue;
            };
            let key = global.sym_name.as_str();
            let initial_value = Some(attr_named(&content, key));
            module.add(
                At::Before(op),
                Global {
                    initial_value,
                    ..global
                },
            );
            module.erase(op);
            for (slot, found) in all {
                if let Some(function) = module.child_mut(slot) {
                    grouped += found.generics.len();
                    found.rewrite(function);
                }
            }
        }
        cx.count("nests that read groups", grouped);
        if grouped == 0 {
            cx.unchanged();
        }
        Ok(())
    }
}

/// How tiles of a constant lie.
#[derive(Clone, PartialEq, Eq)]
struct Form {
    shape: Vec<i64>,
    elem: Type,
    /// Bytes from one tile to the next; none for one tile.
    stride: Option<i64>,
}

impl Form {
    fn of(ir: &Ir, view: OpId) -> Option<Self> {
        let result = ir.get::<View>(view)?.result.0;
        let memref: &MemRefType = result.get()?;
        let [.., steps, _] = memref.shape[..] else {
            return None;
        };
        let plain = memref.layout == tir::Layout::Identity && memref.elem.bits() == Some(8);
        (plain && steps % GROUP == 0).then(|| Self {
            shape: memref.shape.clone(),
            elem: memref.elem,
            stride: ir.attr(view, TILE).and_then(Attr::as_int),
        })
    }

    /// The bytes of all tiles, those of each in groups.
    fn regroup(&self, content: &Array) -> Option<Array> {
        let [.., steps, lanes] = self.shape[..] else {
            return None;
        };
        let bytes = content.bytes();
        let tile = usize::try_from(self.shape.iter().product::<i64>()).ok()?;
        let stride = match self.stride {
            Some(stride) => usize::try_from(stride).ok()?,
            None => bytes.len(),
        };
        let (steps, lanes) = (usize::try_from(steps).ok()?, usize::try_from(lanes).ok()?);
        if tile == 0 || tile > stride || !bytes.len().is_multiple_of(stride) {
            return None;
        }
        let mut out = bytes.to_vec();
        let group = GROUP as usize;
        for (to, from) in out.chunks_mut(stride).zip(bytes.chunks(stride)) {
            let both = to[..tile].chunks_mut(steps * lanes);
            for (to, from) in both.zip(from.chunks(steps * lanes)) {
                for (k, row) in from.chunks(lanes).enumerate() {
                    for (n, byte) in row.iter().enumerate() {
                        to[(k / group * lanes + n) * group + k % group] = *byte;
                    }
                }
            }
        }
        Array::new(content.dtype(), content.shape(), out.into()).ok()
    }
}

/// A row of shape with steps in groups.
fn in_groups(shape: &[i64]) -> Vec<i64> {
    let mut shape = shape.to_vec();
    if let Some(at) = shape.len().checked_sub(2) {
        shape[at] /= GROUP;
        shape.push(GROUP);
    }
    shape
}

/// What reads a constant in a function.
struct Readers {
    form: Form,
    views: Vec<OpId>,
    parts: Vec<OpId>,
    /// A nest, and the number of the input.
    generics: Vec<(OpId, usize)>,
}

impl Readers {
    /// All that reads it, if all are sums of products of bytes.
    fn of(ir: &Ir, get: OpId) -> Option<Self> {
        let users = |value: Value| -> Vec<OpId> { ir.uses(value).map(|used| used.op).collect() };
        let (mut views, mut parts, mut generics) = (Vec::new(), Vec::new(), Vec::new());
        let mut form: Option<Form> = None;
        for view in users(ir.result(get, 0)) {
            let own = Form::of(ir, view)?;
            if form.as_ref().is_some_and(|form| *form != own) {
                return None;
            }
            let &[.., steps, lanes] = &own.shape[..] else {
                return None;
            };
            let tile = ir.result(view, 0);
            for user in users(tile) {
                let Some(part) = ir.get::<SubView>(user) else {
                    generics.push(sum(ir, user, tile)?);
                    continue;
                };
                let rank = own.shape.len();
                let whole = part.static_sizes.get(rank - 2..) == Some(&[steps, lanes][..])
                    && part.static_offsets.get(rank - 2..) == Some(&[0, 0][..])
                    && part.static_strides.iter().all(|stride| *stride == 1)
                    && part.static_sizes[..rank - 2].iter().all(|size| *size == 1)
                    && part.sizes.is_empty()
                    && part.strides.is_empty()
                    && grouped_type(part.result.0).is_some();
                if !whole || part.source != tile {
                    return None;
                }
                let tile = ir.result(user, 0);
                for user in users(tile) {
                    generics.push(sum(ir, user, tile)?);
                }
                parts.push(user);
            }
            views.push(view);
            form = Some(own);
        }
        Some(Self {
            form: form?,
            views,
            parts,
            generics,
        })
    }

    /// Reads groups.
    fn rewrite(&self, ir: &mut Ir) {
        for view in &self.views {
            let ty = Type::memref(in_groups(&self.form.shape), self.form.elem, None);
            ir.set_type(ir.result(*view, 0), ty);
        }
        for op in &self.parts {
            let Some(part) = ir.get::<SubView>(*op) else {
                continue;
            };
            let more = |list: &[i64], last: i64| [list, &[last]].concat().to_attr();
            let lists = [
                ("static_offsets", more(&part.static_offsets, 0)),
                ("static_sizes", in_groups(&part.static_sizes).to_attr()),
                ("static_strides", more(&part.static_strides, 1)),
            ];
            for (name, list) in lists {
                ir.set_attr(*op, name, list);
            }
            if let Some(ty) = grouped_type(part.result.0) {
                ir.set_type(ir.result(*op, 0), ty);
            }
        }
        for (op, input) in &self.generics {
            let Some(generic) = ir.get::<Generic>(*op) else {
                continue;
            };
            let Some((steps, _)) = axes(&generic, *input) else {
                continue;
            };
            let dims = generic.iterator_types.len();
            // An iterator more, behind the others, for the steps of a group.
            let mut places: Vec<AffineExpr> = (0..dims).map(AffineExpr::Dim).collect();
            let [first, inside] = [steps, dims].map(|d| Box::new(AffineExpr::Dim(d)));
            let first = AffineExpr::Mul(first, Box::new(AffineExpr::Const(GROUP)));
            places[steps] = AffineExpr::Add(Box::new(first), inside);
            let maps = generic.indexing_maps.iter().enumerate().map(|(k, map)| {
                let exprs = match k == *input {
                    true => {
                        let own = map.exprs.iter().cloned();
                        own.chain([AffineExpr::Dim(dims)]).collect()
                    }
                    false => map.exprs.iter().map(|expr| expr.replace(&places)).collect(),
                };
                AffineMap::new(dims + 1, exprs)
            });
            let maps: Vec<AffineMap> = maps.collect();
            let mut kinds = generic.iterator_types.clone();
            kinds.push(Attr::str("reduction"));
            ir.set_attr(*op, "indexing_maps", maps.to_attr());
            ir.set_attr(*op, "iterator_types", Attr::array(kinds));
        }
    }
}

/// The type of a part with steps and lanes, with steps in groups; none if its lanes or its steps lie apart.
fn grouped_type(ty: Type) -> Option<Type> {
    let memref: &MemRefType = ty.get()?;
    let (strides, offset) = memref.strides()?;
    let &[_, lanes] = &memref.shape[..] else {
        return None;
    };
    (strides == [lanes, 1]).then(|| {
        Type::new(MemRefType {
            shape: in_groups(&memref.shape),
            layout: tir::Layout::Strided {
                strides: vec![lanes * GROUP, GROUP, 1],
                offset,
            },
            ..memref.clone()
        })
    })
}

/// The iterators of steps and lanes, if an input has these and no others.
fn axes(generic: &Generic, input: usize) -> Option<(usize, usize)> {
    let [AffineExpr::Dim(steps), AffineExpr::Dim(lanes)] = generic.indexing_maps[input].exprs[..]
    else {
        return None;
    };
    let kind = |d: usize| generic.iterator_types.get(d).and_then(|kind| kind.as_str());
    let fits = kind(steps) == Some("reduction") && kind(lanes) == Some("parallel");
    fits.then_some((steps, lanes))
}

/// The number of the input that a nest reads a buffer as, if it sums up products of bytes and goes through its lanes and
/// steps.
fn sum(ir: &Ir, op: OpId, buffer: Value) -> Option<(OpId, usize)> {
    let generic = ir.get::<Generic>(op)?;
    let &[x, y] = &generic.inputs[..] else {
        return None;
    };
    let input = [x, y].iter().position(|value| *value == buffer)?;
    let plain = generic.sizes.is_none()
        && !generic.outputs.contains(&buffer)
        && x != y
        && generic.outputs.len() == 1;
    let (steps, lanes) = axes(&generic, input).filter(|_| plain)?;
    // The other one has the steps beside each other, and the result the lanes.
    let own = &generic.indexing_maps[1 - input];
    let [others @ .., last] = &own.exprs[..] else {
        return None;
    };
    let beside = *last == AffineExpr::Dim(steps) && !others.iter().any(|expr| expr.uses(steps));
    let result = generic.indexing_maps.last()?.exprs.last()?;
    let memref: &MemRefType = ir.ty(generic.inputs[1 - input]).get()?;
    let dense = memref.strides()?.0.last() == Some(&1);
    if !beside
        || !dense
        || *result != AffineExpr::Dim(lanes)
        || own.exprs.iter().any(|e| e.uses(lanes))
    {
        return None;
    }
    generic.sums_products_of_bytes(ir).then_some((op, input))
}
