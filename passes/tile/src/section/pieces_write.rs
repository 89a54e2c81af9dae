//! Pieces of sections as ops: copies of their generics on boxes, one piece behind the other.

use std::collections::HashMap;

use tir::{AffineMap, At, Builder, Ir, LinearMap, Mapping, Name, OpId, Ret, Type, Value};
use tir_tensor::{Empty, Generic, InsertSlice, TransferRead, TransferWrite};

use super::pieces::{Boxes, Extent, domain, meets, parts, read, shifted, sizes, starts};
use super::tensors::{Read, shown};
use super::{Copied, Section};
use crate::emit::{Nest, copy_body, fill};
use crate::tile::behind;

/// What a box of a tensor is.
type Tile = (Value, Extent);

/// Writes the pieces of a section.
struct Writer<'a> {
    section: &'a Section,
    space: Name,
    /// What is loaded, for all pieces or for one.
    loaded: HashMap<Read, Tile>,
    /// The number of the piece, and what it has.
    piece: usize,
    own: HashMap<Value, Tile>,
    /// What parts are put into.
    whole: HashMap<Value, Value>,
}

/// Writes a section in pieces before its last generic, with its results in the place of what the section computed.
pub(super) fn write(func: &mut Ir, section: &Section, space: Name) -> Vec<Copied> {
    let Some(last) = section.nests.last().and_then(|ops| ops.last()).copied() else {
        return Vec::new();
    };
    let mut writer = Writer {
        section,
        space,
        loaded: HashMap::new(),
        piece: 0,
        own: HashMap::new(),
        whole: HashMap::new(),
    };
    let mut copied = Vec::new();
    let mut b = Builder::new(func, At::Before(last));
    let mut stored: Vec<(Value, Value)> = Vec::new();
    for (value, _) in section.pieces.iter().flat_map(|piece| &piece.stores) {
        if stored.iter().all(|(known, _)| known != value) {
            let ty = b.ty(*value);
            stored.push((*value, empty(&mut b, ty, None)));
        }
    }
    for (piece, boxes) in section.pieces.iter().enumerate() {
        writer.own.clear();
        writer.piece = piece;
        writer.wholes(&mut b, boxes);
        for (nest, ops) in section.nests.iter().enumerate() {
            b.loc = b.ir.loc(ops.last().copied().unwrap_or(last));
            let now = piece * section.nests.len() + nest;
            // Those of later pieces among them.
            for (read, _) in section.loads.iter().filter(|(_, at)| *at == now) {
                writer.load(&mut b, *read);
            }
            for op in ops {
                if let Some(new) = writer.generic(&mut b, boxes, *op) {
                    copied.push((new, *op, piece));
                }
                let value = b.ir.result(*op, 0);
                let store = boxes.stores.iter().find(|(of, _)| *of == value);
                let dest = stored.iter_mut().find(|(of, _)| *of == value);
                if let (Some((_, own)), Some((_, dest))) = (store, dest) {
                    *dest = writer.store(&mut b, boxes, (value, own), *dest);
                }
            }
        }
    }
    for (value, new) in stored {
        func.replace_uses_if(value, new, |_, u| !section.ops.contains(&u.op));
        behind(func, last, new);
    }
    copied
}

fn empty(b: &mut Builder<'_>, ty: Type, space: Option<Name>) -> Value {
    b.add(Empty {
        dynamic_sizes: Vec::new(),
        space: space.map(|space| space.to_string()),
        result: Ret(ty),
    })
}

/// A box of what lies in a box, at an offset.
fn view(b: &mut Builder<'_>, source: Value, offsets: Vec<i64>, shape: Vec<i64>) -> TransferRead {
    let rank = shape.len();
    let elem = b.ty(source).elem();
    TransferRead {
        source,
        offsets: Vec::new(),
        padding: None,
        into: None,
        static_offsets: offsets,
        access: AffineMap::identity(rank),
        space: None,
        result: Ret(Type::tensor(shape, elem)),
    }
}

fn lows(extent: &Extent, base: &Extent) -> Vec<i64> {
    let both = extent.iter().zip(base);
    both.map(|((low, _), (at, _))| low - at).collect()
}

impl Writer<'_> {
    /// Loads what a piece reads of a tensor, or all of them.
    fn load(&mut self, b: &mut Builder<'_>, (value, piece): Read) -> Option<Tile> {
        let boxes = &self.section.pieces[piece.unwrap_or(0)];
        let extent = boxes.outside.get(&value)?.clone();
        let offsets = extent.iter().map(|(low, _)| *low).collect();
        let mut read = view(b, value, offsets, sizes(&extent));
        read.space = Some(self.space.to_string());
        let loaded = b.add(read);
        let hint = b.ir.hint(value);
        b.ir.set_hint(loaded, hint);
        let tile = (loaded, extent);
        self.loaded.insert((value, piece), tile.clone());
        Some(tile)
    }

    /// What there is of a value that is computed, loaded or put together.
    fn tile(&mut self, b: &mut Builder<'_>, boxes: &Boxes, value: Value) -> Option<Tile> {
        if let Some(own) = self.own.get(&value) {
            return Some(own.clone());
        }
        let reads = [(value, None), (value, Some(self.piece))];
        if let Some(tile) = reads.iter().find_map(|read| self.loaded.get(read)) {
            return Some(tile.clone());
        }
        let computed = b.ir.owner(value);
        if computed.is_some_and(|op| self.section.ops.contains(&op)) {
            return None;
        }
        let source = shown(b.ir, value);
        let tile = if let Some(extent) = boxes.inside.get(&value).cloned() {
            let made = match parts(b.ir, value) {
                Some((parts, _)) => {
                    let all = *self.whole.get(&value)?;
                    self.together(b, boxes, &parts, (all, &extent))?
                }
                None => self.get(b, boxes, value, &extent)?,
            };
            (made, extent)
        } else if source != value {
            // Another shape of all of a tensor.
            let op = b.ir.owner(value)?;
            let from = b.ir.operands(op).next()?;
            let (new, _) = self.tile(b, boxes, from)?;
            let mut map = Mapping::default();
            map.map(from, new);
            let new = b.ir.duplicate(op, b.at, &mut map);
            (b.ir.result(new, 0), super::pieces::whole(b.ir, value)?)
        } else {
            return self.load(b, (value, Some(self.piece)));
        };
        self.own.insert(value, tile.clone());
        Some(tile)
    }

    /// What parts are put into, before any of them is computed: they are computed there.
    fn wholes(&mut self, b: &mut Builder<'_>, boxes: &Boxes) {
        self.whole.clear();
        let mut work: Vec<Value> = Vec::new();
        for op in self.section.nests.iter().flatten() {
            work.extend(b.ir.results(*op));
        }
        while let Some(value) = work.pop() {
            let uses: Vec<OpId> = b.ir.uses(value).map(|u| u.op).collect();
            for op in uses {
                if !b.ir.is::<InsertSlice>(op) {
                    continue;
                }
                let value = b.ir.result(op, 0);
                work.push(value);
                let Some(extent) = boxes
                    .inside
                    .get(&value)
                    .filter(|_| !self.whole.contains_key(&value))
                else {
                    continue;
                };
                let Some((_, filled)) = parts(b.ir, value) else {
                    continue;
                };
                let ty = Type::tensor(sizes(extent), b.ty(value).elem());
                let mut all = empty(b, ty, Some(self.space));
                if let Some(value) = b.ir.def::<Generic>(filled).and_then(|of| of.constant(b.ir)) {
                    all = fill(b, all, value);
                }
                self.whole.insert(value, all);
            }
        }
    }

    /// Parts in one tensor.
    fn together(
        &mut self,
        b: &mut Builder<'_>,
        boxes: &Boxes,
        parts: &[(Value, Vec<i64>)],
        (mut all, extent): (Value, &Extent),
    ) -> Option<Value> {
        let ty = b.ty(all);
        for (part, at) in parts {
            let end = super::pieces::whole(b.ir, *part)?;
            let Some(own) = meets(extent, at, &end) else {
                continue;
            };
            let source = self.get(b, boxes, *part, &own)?;
            let offsets = own.iter().zip(at).zip(extent);
            let offsets = offsets.map(|(((low, _), at), (begin, _))| low + at - begin);
            all = b.add(InsertSlice {
                source,
                dest: all,
                offsets: Vec::new(),
                sizes: Vec::new(),
                strides: Vec::new(),
                static_offsets: offsets.collect(),
                static_sizes: sizes(&own),
                static_strides: vec![1; own.len()],
                result: Ret(ty),
            });
        }
        Some(all)
    }

    /// A box of a value.
    fn get(
        &mut self,
        b: &mut Builder<'_>,
        boxes: &Boxes,
        value: Value,
        extent: &Extent,
    ) -> Option<Value> {
        let computed = b.ir.owner(value);
        let computed = computed.is_some_and(|op| self.section.ops.contains(&op));
        if !computed && let Some(shown) = shifted(b.ir, value) {
            let (source, base) = self.tile(b, boxes, shown.source)?;
            let at = extent.iter().zip(&shown.static_offsets);
            let at: Extent = at.map(|((low, high), at)| (low + at, high + at)).collect();
            let mut read = view(b, source, lows(&at, &base), sizes(extent));
            read.padding = shown.padding;
            return Some(b.add(read));
        }
        let (source, base) = self.tile(b, boxes, value)?;
        if base == *extent {
            return Some(source);
        }
        let read = view(b, source, lows(extent, &base), sizes(extent));
        Some(b.add(read))
    }

    /// A generic on what a piece needs of its result.
    fn generic(&mut self, b: &mut Builder<'_>, boxes: &Boxes, op: OpId) -> Option<OpId> {
        let (generic, result) = (b.ir.get::<Generic>(op)?, b.ir.result(op, 0));
        let own = boxes.inside.get(&result)?.clone();
        let domain = domain(b.ir, &generic, &own)?;
        let (mut inputs, mut maps) = (Vec::new(), Vec::new());
        for (value, map) in generic.inputs.iter().zip(&generic.indexing_maps) {
            let forms = map.linear()?;
            let extent = read(&forms, &domain)?;
            inputs.push(self.get(b, boxes, *value, &extent)?);
            let forms: Option<LinearMap> = forms
                .iter()
                .zip(&extent)
                .map(|(form, (begin, _))| {
                    let first = form.terms().try_fold(form.constant, |sum, (d, c)| {
                        sum.checked_add(c.checked_mul(domain.get(d)?.0)?)
                    })?;
                    Some(form.with_constant(first - begin))
                })
                .collect();
            maps.push(forms?.affine(domain.len()));
        }
        maps.extend(generic.indexing_maps.last().cloned());
        let ty = Type::tensor(sizes(&own), b.ty(result).elem());
        let mut dest = empty(b, ty, Some(self.space));
        if let Some(value) = starts(b.ir, &generic)? {
            dest = fill(b, dest, value);
        }
        let loc = std::mem::replace(&mut b.loc, b.ir.loc(op));
        let nest = Nest {
            maps,
            kinds: generic.iterator_types.clone(),
            sizes: Some(sizes(&domain)),
            combine: generic.combine,
            body: copy_body(b, generic.body),
        };
        let new = nest.generic(b, inputs, dest);
        b.loc = loc;
        let hint = b.ir.hint(result);
        b.ir.set_hint(new, hint);
        self.own.insert(result, (new, own));
        b.ir.owner(new)
    }

    /// Stores a box of a value into a tensor.
    fn store(
        &mut self,
        b: &mut Builder<'_>,
        boxes: &Boxes,
        (value, own): (Value, &Extent),
        dest: Value,
    ) -> Value {
        let Some(source) = self.get(b, boxes, value, own) else {
            return dest;
        };
        let result = Ret(b.ty(dest));
        b.add(TransferWrite {
            source,
            dest,
            offsets: Vec::new(),
            static_offsets: own.iter().map(|(low, _)| *low).collect(),
            access: AffineMap::identity(own.len()),
            result,
        })
    }
}
