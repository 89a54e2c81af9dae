//! What a stage loads and stores: tiles of tensors in far memory.

use tir::{Attr, Builder, OpId, Ret, Type, Value};
use tir_arith::{OpFoldResult, dispatch_values};
use tir_tensor::{CollapseShape, ExpandShape, TransferRead, TransferWrite};

use super::{At, Emit, hint};
use crate::group::Input;
use crate::layout::Tile;

impl Emit<'_> {
    /// Offsets of a tile in its source.
    pub(super) fn offsets(&self, b: &mut Builder<'_>, tile: &Tile, at: &At) -> Vec<OpFoldResult> {
        let mut out = Vec::new();
        for (form, low) in tile.forms.iter().zip(&tile.low) {
            let mut sum = OpFoldResult::Number(form.constant + low);
            for (d, c) in form.terms() {
                let step = at.tile[d].times(b, c * self.plan.space.extent(d));
                sum = step.plus(b, sum);
            }
            out.push(sum);
        }
        out
    }

    /// The tile of an operand: loaded, or computed from others.
    pub(super) fn load(&self, b: &mut Builder<'_>, operand: usize, at: &At) -> Value {
        let tile = &self.plan.tiles[operand];
        let far = &self.group.operands[operand];
        let name = b.ir.hint(far.source);
        let mut split: Option<Vec<Vec<usize>>> = None;
        let loaded = match &far.inner {
            Some(inner) => self.inner(b, operand, inner, at),
            None => {
                let offsets = self.offsets(b, tile, at);
                let (offsets, static_offsets) = dispatch_values(&offsets);
                let elem = b.ty(far.source).elem();
                let source = match &far.flat {
                    Some(flat) => b.add(CollapseShape {
                        src: far.source,
                        reassociation: reassociation(flat),
                        result: Ret(Type::tensor(far.shape.clone(), elem)),
                    }),
                    None => far.source,
                };
                let spread = far.diagonal.and_then(|of| of.spread(tile));
                let (shape, access) = match spread {
                    Some(spread) => {
                        let access = spread.access.affine(spread.shape.len());
                        split = Some(spread.dims);
                        (spread.shape, access)
                    }
                    None => (tile.shape(), tile.access()),
                };
                let read = TransferRead {
                    source,
                    offsets,
                    padding: far.padding,
                    into: None,
                    static_offsets,
                    access,
                    space: Some(self.plan.spaces[operand].to_string()),
                    result: Ret(Type::tensor(shape, elem)),
                };
                // Stages that load the same tile there share it, unless one writes over it.
                let written = self.plan.in_place == Some(Input::Operand(operand));
                let known = same_read(b, &read, self.before)
                    .filter(|_| !written && self.plan.level(operand) == 0);
                known.unwrap_or_else(|| {
                    let loaded = b.add(read);
                    self.slots(b, loaded, self.plan.single[operand]);
                    loaded
                })
            }
        };
        let text = name.map_or("tile".to_string(), |n| format!("{n}_tile"));
        hint(b, loaded, &text);
        let groups = match (tile.reassociation(), split) {
            (None, None) => return loaded,
            (Some(groups), None) => groups,
            (None, Some(split)) => split,
            (Some(groups), Some(split)) => {
                let parts = groups
                    .iter()
                    .map(|group| group.iter().flat_map(|d| &split[*d]));
                parts.map(|parts| parts.copied().collect()).collect()
            }
        };
        let elem = b.ty(loaded).elem();
        b.add(CollapseShape {
            src: loaded,
            reassociation: reassociation(&groups),
            result: Ret(Type::tensor(tile.unit_shape(), elem)),
        })
    }

    /// The tile of a result with a dimension for each that moves in the result.
    fn expanded(&self, b: &mut Builder<'_>, source: Value, tile: &Tile) -> Value {
        let Some(groups) = tile.reassociation() else {
            return source;
        };
        let elem = b.ty(source).elem();
        b.add(ExpandShape {
            src: source,
            reassociation: reassociation(&groups),
            static_output_shape: None,
            result: Ret(Type::tensor(tile.shape(), elem)),
        })
    }

    /// Writes one tile of each result.
    pub(super) fn write(
        &self,
        b: &mut Builder<'_>,
        at: &At,
        sources: Vec<Value>,
        dests: Vec<Value>,
    ) -> Vec<Value> {
        let mut written = Vec::new();
        for ((source, dest), tile) in sources.into_iter().zip(dests).zip(self.plan.results.iter()) {
            let source = self.expanded(b, source, tile);
            let offsets = self.offsets(b, tile, at);
            let (offsets, static_offsets) = dispatch_values(&offsets);
            let result = Ret(b.ty(dest));
            written.push(b.add(TransferWrite {
                source,
                dest,
                offsets,
                static_offsets,
                access: tile.access(),
                result,
            }));
        }
        written
    }
}

/// The op that stands before what is written next.
pub(super) fn before(b: &Builder<'_>) -> Option<OpId> {
    match b.at {
        tir::At::End(block) => b.ir.ops_in(block).last(),
        tir::At::Before(op) => b.ir.prev(op),
        tir::At::After(op) => Some(op),
        tir::At::Start(_) => None,
    }
}

/// The tile of a transfer that stands in the same block and reads the same, behind the op that stands before the nest.
fn same_read(b: &Builder<'_>, read: &TransferRead, nest: Option<OpId>) -> Option<Value> {
    let mut last = before(b);
    while let Some(op) = last.filter(|op| nest != Some(*op)) {
        let same = |other: TransferRead| {
            other.source == read.source
                && other.offsets == read.offsets
                && other.static_offsets == read.static_offsets
                && other.padding == read.padding
                && other.access == read.access
                && other.space == read.space
                && other.result.0 == read.result.0
        };
        if b.ir.get::<TransferRead>(op).is_some_and(same) {
            return Some(b.ir.result(op, 0));
        }
        last = b.ir.prev(op);
    }
    None
}

/// Groups of dimensions as attributes.
pub(super) fn reassociation(groups: &[Vec<usize>]) -> Vec<Attr> {
    let dim = |d: &usize| i64::try_from(*d).unwrap_or(i64::MAX);
    let group = |group: &Vec<usize>| group.iter().map(dim).collect();
    tir_tensor::reassociation(&groups.iter().map(group).collect::<Vec<_>>())
}
