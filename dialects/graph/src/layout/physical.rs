//! What is stored: shapes, and the elements of constants in storage order.

use tir::data::Array;
use tir::interp::View;
use tir::{AffineExpr, AffineMap, Attr, BlobAttr, DenseElements, Failure, Type};

use super::Layout;

impl Layout {
    /// The shape of storage for a tensor of a shape that [fits](Self::fits).
    pub fn shape(&self, logical: &[i64]) -> Vec<i64> {
        let size = |axis: &super::Axis| match axis.inner {
            true => self.blocks()[axis.dim],
            false => logical
                .get(axis.dim)
                .map_or(1, |n| n / self.blocks()[axis.dim]),
        };
        self.axes().iter().map(size).collect()
    }

    /// From a position in the shape to that in storage.
    pub fn map(&self) -> AffineMap {
        let rank = self.blocks().len();
        let expr = |axis: &super::Axis| {
            let (dim, block) = (AffineExpr::Dim(axis.dim), self.blocks()[axis.dim]);
            match axis.inner {
                true => dim.modulo(block),
                false => dim.floor_div(block),
            }
        };
        AffineMap::new(rank, self.axes().iter().map(expr).collect())
    }
}

/// The type of what a tensor is stored as: without layout, in the shape of storage.
pub fn physical_type(ty: Type) -> Type {
    match (Layout::of(ty), ty.shape()) {
        (Some(layout), Some(shape)) => Type::tensor(layout.shape(shape), ty.elem()),
        _ => Layout::on(None, ty),
    }
}

/// A constant stored another way. Text and files hold elements in logical order, so only the type
/// changes.
pub fn retyped(value: Attr, ty: Type) -> Option<Attr> {
    if let Some(dense) = value.get::<DenseElements>() {
        let data = dense.data.clone();
        return Some(Attr::new(DenseElements { ty, data }));
    }
    let blob = value.get::<BlobAttr>()?.clone();
    Some(Attr::new(BlobAttr { ty, ..blob }))
}

/// The elements of a row-major array in storage order.
pub fn pack(array: &Array, layout: &Layout) -> Result<Array, Failure> {
    let logical: Vec<i64> = array.shape().iter().map(|n| *n as i64).collect();
    if !layout.fits(&logical) {
        return Err(format!("cannot store {logical:?} as {layout}").into());
    }
    let view = View::of_array(array);
    let strides = layout.axes().iter().map(|axis| match axis.inner {
        true => view.strides[axis.dim],
        false => view.strides[axis.dim] * layout.blocks()[axis.dim],
    });
    let stored = view.elsewhere(0, layout.shape(&logical), strides.collect::<Vec<_>>());
    crate::eval::gathered(array, &stored)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packing_follows_the_map() {
        for name in ["NHWC", "NCHW2c", "NHWC", "CHW2cN", "N2wCHW"] {
            let layout = Layout::new(name).unwrap();
            let shape = [2i64, 4, 3, 2];
            let values: Vec<f32> = (0..48).map(|i| i as f32).collect();
            let array = Array::from_vec(&[2, 4, 3, 2], values).unwrap();
            let packed = pack(&array, &layout).unwrap();
            let stored = layout.shape(&shape);
            let map = layout.map();
            let data = packed.as_slice::<f32>().unwrap();
            for i in 0..48i64 {
                let at = [i / 24, i / 6 % 4, i / 2 % 3, i % 2];
                let place = map.eval(&at).unwrap();
                let offset = place.iter().zip(&stored).fold(0, |o, (p, n)| o * n + p);
                assert_eq!(data[offset as usize], i as f32, "{name}");
            }
        }
    }
}
