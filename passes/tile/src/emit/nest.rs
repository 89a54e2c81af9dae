//! Generics on tiles and on blocks of them.

use tir::{AffineMap, Attr, Builder, Mapping, Name, RegionId, Rets, Value};
use tir_tensor::generic::iterators;
use tir_tensor::{Combine, Generic, Yield};

/// A generic with one output but for what it reads and writes.
pub(crate) struct Nest {
    /// Maps of the inputs, then of the output.
    pub(crate) maps: Vec<AffineMap>,
    /// Kinds of the iterators.
    pub(crate) kinds: Vec<Attr>,
    /// Their ranges, where operands may not show them.
    pub(crate) sizes: Option<Vec<i64>>,
    pub(crate) combine: Option<Combine>,
    pub(crate) body: RegionId,
}

impl Nest {
    pub(crate) fn generic(self, b: &mut Builder<'_>, inputs: Vec<Value>, output: Value) -> Value {
        let results = Rets(vec![b.ty(output)]);
        let mut op = Generic {
            inputs,
            outputs: vec![output],
            indexing_maps: self.maps,
            iterator_types: self.kinds,
            combine: self.combine,
            sizes: self.sizes,
            body: self.body,
            results,
        };
        // The attribute is there only where the operands' shapes do not give the ranges.
        let sizes = op.sizes.take();
        if op.domain(b.ir).ok() != sizes && sizes.is_some() {
            op.sizes = sizes;
        }
        b.add(op)[0]
    }
}

/// A tile filled with a constant.
pub(crate) fn fill(b: &mut Builder<'_>, dest: Value, value: Attr) -> Value {
    let ty = b.ty(dest);
    let rank = ty.shape().map_or(0, <[i64]>::len);
    let body = b.body(&[], |b, _| {
        let value = tir_arith::materialize(b, value, ty.elem());
        b.add(Yield {
            values: value.into_iter().collect(),
        });
    });
    let nest = Nest {
        maps: vec![AffineMap::identity(rank)],
        kinds: iterators(rank, 0),
        sizes: None,
        combine: None,
        body,
    };
    nest.generic(b, Vec::new(), dest)
}

/// A tile filled with a constant by an engine.
pub(crate) fn fill_by(b: &mut Builder<'_>, engine: Name, dest: Value, value: Attr) -> Value {
    let filled = fill(b, dest, value);
    if let Some(op) = b.ir.owner(filled) {
        b.ir.set_attr(op, tir_accel::BY, Attr::str(engine.as_str()));
    }
    filled
}

/// A copy of a region of the same arena, detached.
pub(crate) fn copy_body(b: &mut Builder<'_>, body: RegionId) -> RegionId {
    let region = b.ir.new_region();
    b.ir.duplicate_region(body, region, &mut Mapping::default());
    region
}
