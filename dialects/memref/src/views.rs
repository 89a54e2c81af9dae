//! Views: parts of a buffer, and its bytes as another type.

use tir::constraints::{INDEX, MEMREF};
use tir::{
    Attr, DYNAMIC, Failure, Fold, Folds, Infer, Layout, MemRefType, Op, OpRef, Ret, Type, Value,
    Verify,
};
use tir_tensor::{check_reshape, check_slice, groups};

/// A part of a buffer, given by offsets, sizes and strides; unit dimensions may be dropped.
#[derive(Op)]
#[op("memref.subview", Pure, IntegersMayStop, verify, lower_to_eval)]
#[asm(
    "$source `` custom<indices>($offsets, $static_offsets) custom<indices>($sizes, $static_sizes) custom<indices>($strides, $static_strides) attr-dict `:` type($source) `to` type($result)"
)]
pub struct SubView {
    /// The buffer.
    #[is(MEMREF)]
    pub source: Value,
    /// Dynamic offsets.
    #[is(INDEX)]
    pub offsets: Vec<Value>,
    /// Dynamic sizes.
    #[is(INDEX)]
    pub sizes: Vec<Value>,
    /// Dynamic strides.
    #[is(INDEX)]
    pub strides: Vec<Value>,
    /// Offsets, `DYNAMIC` where they are operands.
    pub static_offsets: Vec<i64>,
    /// Sizes, `DYNAMIC` where they are operands.
    pub static_sizes: Vec<i64>,
    /// Strides, `DYNAMIC` where they are operands.
    pub static_strides: Vec<i64>,
    /// Type of the view.
    #[is(MEMREF)]
    pub result: Ret,
}

fn times(a: i64, b: i64) -> i64 {
    if a == 0 || b == 0 {
        0
    } else if a == DYNAMIC || b == DYNAMIC {
        DYNAMIC
    } else {
        a.saturating_mul(b)
    }
}
fn plus(a: i64, b: i64) -> i64 {
    if a == DYNAMIC || b == DYNAMIC {
        DYNAMIC
    } else {
        a.saturating_add(b)
    }
}

/// The type of a part of a strided buffer whose shape is `part`: `sizes` with some unit
/// dimensions dropped. `None` if the layout is no strided one, or the shape does not fit.
pub fn sub_view_type(
    source: &MemRefType,
    offsets: &[i64],
    sizes: &[i64],
    strides: &[i64],
    part: &[i64],
) -> Option<Type> {
    let (steps, start) = source.strides()?;
    if [offsets.len(), sizes.len(), strides.len()] != [steps.len(); 3] {
        return None;
    }
    let mut offset = start;
    let mut kept = Vec::new();
    let mut rest = part.iter().peekable();
    for d in 0..steps.len() {
        offset = plus(offset, times(offsets[d], steps[d]));
        if rest.peek() == Some(&&sizes[d]) {
            rest.next();
            kept.push(times(strides[d], steps[d]));
        } else if sizes[d] != 1 {
            return None;
        }
    }
    if rest.next().is_some() {
        return None;
    }
    Some(strided_type(source, part, kept, offset))
}

/// The type of a view of a buffer that begins at an offset and has these strides, in elements.
pub fn strided_type(source: &MemRefType, shape: &[i64], strides: Vec<i64>, offset: i64) -> Type {
    let dense = offset == 0 && strides == MemRefType::dense_strides(shape);
    let layout = match dense {
        true => Layout::Identity,
        false => Layout::Strided { strides, offset },
    };
    Type::new(MemRefType {
        shape: shape.to_vec(),
        layout,
        ..source.clone()
    })
}

/// The type of a view of a strided buffer whose dimensions become groups: the larger shape is `shape`. `None` if the
/// layout is no strided one, or the groups are not those of the shape.
pub fn expanded_type(source: &MemRefType, shape: &[i64], reassociation: &[Attr]) -> Option<Type> {
    let (steps, offset) = source.strides()?;
    let mut strides = vec![1; shape.len()];
    for (group, step) in view_groups(reassociation, shape.len())?.iter().zip(steps) {
        let mut step = step;
        for d in group.iter().rev() {
            strides[*d] = step;
            step = times(step, shape[*d]);
        }
    }
    Some(strided_type(source, shape, strides, offset))
}

/// The type of a view of a strided buffer whose dimensions in each group become one: the smaller shape is `shape`. `None`
/// where they do not lie one behind the other or it is not known, if the layout is no strided one, or if the groups are
/// not those of the shape. As in MLIR, the stride of a group is that of its last dimension of more than one element, of
/// the last one if it has none.
pub fn collapsed_type(source: &MemRefType, shape: &[i64], reassociation: &[Attr]) -> Option<Type> {
    let (steps, offset) = source.strides()?;
    let extents = &source.shape;
    let one = |group: &Vec<usize>| {
        let mut long = group.iter().rev().filter(|d| extents[**d] != 1);
        let Some(&last) = long.next() else {
            return Some(steps[*group.last()?]);
        };
        // How far the group reaches, inside out.
        let mut reach = (steps[last], extents[last]);
        for &d in long {
            if [reach.0, reach.1, steps[d]].contains(&DYNAMIC) {
                return None;
            }
            if reach.0.checked_mul(reach.1)? != steps[d] {
                return None;
            }
            reach = (steps[d], extents[d]);
        }
        Some(steps[last])
    };
    let groups = view_groups(reassociation, extents.len())?;
    let strides: Vec<i64> = groups.iter().map(one).collect::<Option<_>>()?;
    (strides.len() == shape.len()).then(|| strided_type(source, shape, strides, offset))
}

/// The groups of the dimensions of a larger shape of so many; none where the smaller one is that of a scalar.
pub fn view_groups(reassociation: &[Attr], rank: usize) -> Option<Vec<Vec<usize>>> {
    match reassociation.is_empty() {
        true => Some(Vec::new()),
        false => groups(reassociation, rank).ok(),
    }
}

/// Layouts that say the same.
fn same_layout(a: Type, b: Type) -> bool {
    let (Some(x), Some(y)) = (a.get::<MemRefType>(), b.get::<MemRefType>()) else {
        return false;
    };
    x.shape == y.shape && x.elem == y.elem && x.space == y.space && x.strides() == y.strides()
}

impl Verify for SubView {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let ty = op.ir.ty(self.source);
        let Some(source) = ty.get::<MemRefType>() else {
            return Err(format!("views {ty}").into());
        };
        for (what, values, numbers) in [
            ("offsets", &self.offsets, &self.static_offsets),
            ("sizes", &self.sizes, &self.static_sizes),
            ("strides", &self.strides, &self.static_strides),
        ] {
            let places = numbers.iter().filter(|n| **n == DYNAMIC).count();
            if values.len() != places {
                return Err(
                    format!("has {} dynamic {what} for {places} places", values.len()).into(),
                );
            }
        }
        check_slice(
            &source.shape,
            &self.static_offsets,
            &self.static_sizes,
            &self.static_strides,
        )?;
        let part = self.result.0.shape().unwrap_or(&[]);
        let wanted = sub_view_type(
            source,
            &self.static_offsets,
            &self.static_sizes,
            &self.static_strides,
            part,
        );
        match wanted {
            Some(wanted) if same_layout(wanted, self.result.0) => Ok(()),
            Some(wanted) => {
                Err(format!("has result type {}, expected {wanted}", self.result.0).into())
            }
            None => Err(format!("makes {} of {ty}", self.result.0).into()),
        }
    }
}

/// The same buffer by a type that says more or less of its shape and strides.
#[derive(Op)]
#[op("memref.cast", Pure, MayStop, fold, verify, lower_to_eval)]
#[asm("$source attr-dict `:` type($source) `to` type($dest)")]
pub struct Cast {
    /// The buffer.
    #[is(MEMREF)]
    pub source: Value,
    /// Its type; what is not true of the buffer is an error at run time.
    #[is(MEMREF)]
    pub dest: Ret,
}
impl Verify for Cast {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let (from, to) = (op.ir.ty(self.source), self.dest.0);
        let (Some(x), Some(y)) = (from.get::<MemRefType>(), to.get::<MemRefType>()) else {
            return Err(format!("makes {to} of {from}").into());
        };
        let agree = |(a, b): (&i64, &i64)| *a == *b || *a == DYNAMIC || *b == DYNAMIC;
        let shapes = x.shape.len() == y.shape.len() && x.shape.iter().zip(&y.shape).all(agree);
        let layouts = match (x.strides(), y.strides()) {
            (Some((steps, start)), Some((others, other))) => {
                steps.iter().zip(&others).all(agree) && agree((&start, &other))
            }
            _ => x.layout == y.layout,
        };
        if x.elem != y.elem || x.space != y.space || !shapes || !layouts {
            return Err(format!("makes {to} of {from}, which it cannot be").into());
        }
        Ok(())
    }
}
impl Fold for Cast {
    fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
        (op.ir.ty(self.source) == self.dest.0).then(|| self.source.into())
    }
}

/// The size of a dimension of a buffer.
#[derive(Op)]
#[op(
    "memref.dim",
    Pure,
    MayStop,
    results(result),
    infer,
    fold,
    verify,
    lower_to_eval
)]
#[asm("$source `,` $index attr-dict `:` type($source)")]
pub struct Dim {
    /// The buffer.
    #[is(MEMREF)]
    pub source: Value,
    /// Which dimension; one that there is not is an error at run time.
    #[is(INDEX)]
    pub index: Value,
}
impl Infer for Dim {
    fn infer(&self, _: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        Ok(vec![Type::index()])
    }
}
impl Verify for Dim {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        match op.ir.ty(self.source).shape() {
            Some([]) => Err("asks for a dimension of a buffer without any".into()),
            _ => Ok(()),
        }
    }
}
impl Fold for Dim {
    fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
        let at = usize::try_from(op.ir.constant_int(self.index)?).ok()?;
        let size = *op.ir.ty(self.source).shape()?.get(at)?;
        (size != DYNAMIC).then(|| Attr::index(size).into())
    }
}

/// The bytes of a buffer from a place on, as a buffer of another type.
#[derive(Op)]
#[op("memref.view", Pure, verify, lower_to_eval)]
#[asm(
    "$source `` `[` $byte_shift `]` `` `[` ($sizes^)? `]` attr-dict `:` type($source) `to` type($result)"
)]
pub struct View {
    /// Bytes.
    #[is(MEMREF)]
    pub source: Value,
    /// Where it begins.
    #[is(INDEX)]
    pub byte_shift: Value,
    /// Sizes of the dynamic dimensions.
    #[is(INDEX)]
    pub sizes: Vec<Value>,
    /// Its type; dense.
    #[is(MEMREF)]
    pub result: Ret,
}
impl Verify for View {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let (from, to) = (op.ir.ty(self.source), self.result.0);
        let (Some(bytes), Some(view)) = (from.get::<MemRefType>(), to.get::<MemRefType>()) else {
            return Err(format!("makes {to} of {from}").into());
        };
        if bytes.elem != Type::int(8) || bytes.shape.len() != 1 || bytes.space != view.space {
            return Err(format!("makes {to} of {from}, expected bytes in the same space").into());
        }
        if view.layout != Layout::Identity {
            return Err(format!("makes {to}, expected a dense buffer").into());
        }
        let needed = view.shape.iter().filter(|d| **d == DYNAMIC).count();
        if needed != self.sizes.len() {
            return Err(format!("has {} sizes for {to}", self.sizes.len()).into());
        }
        let shift = op.ir.constant_int(self.byte_shift);
        let size = to.elements().zip(to.bytes()).map(|(n, b)| (n * b) as i64);
        if let (Some(shift), Some(size), [all]) = (shift, size, &bytes.shape[..])
            && *all != DYNAMIC
            && (shift < 0 || shift + size > *all)
        {
            return Err(format!("views bytes {shift} to {} of {all}", shift + size).into());
        }
        Ok(())
    }
}

/// The elements of a buffer that begins at its first byte, from a place on, with other sizes and strides, which are known.
#[derive(Op)]
#[op("memref.reinterpret_cast", Pure, verify, lower_to_eval)]
#[asm(
    "$source `to` `offset` `` `:` custom<indices>($offsets, $static_offsets) `,` `sizes` `` `:` custom<indices>($sizes, $static_sizes) `,` `strides` `` `:` custom<indices>($strides, $static_strides) attr-dict `:` type($source) `to` type($result)"
)]
pub struct ReinterpretCast {
    /// The buffer.
    #[is(MEMREF)]
    pub source: Value,
    /// The place of the first element, if it is not known.
    #[is(INDEX)]
    pub offsets: Vec<Value>,
    /// None.
    #[is(INDEX)]
    pub sizes: Vec<Value>,
    /// None.
    #[is(INDEX)]
    pub strides: Vec<Value>,
    /// The place of the first element; `DYNAMIC` if it is an operand.
    pub static_offsets: Vec<i64>,
    /// Sizes.
    pub static_sizes: Vec<i64>,
    /// Strides, in elements.
    pub static_strides: Vec<i64>,
    /// Type of the view.
    #[is(MEMREF)]
    pub result: Ret,
}
impl Verify for ReinterpretCast {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let (from, to) = (op.ir.ty(self.source), self.result.0);
        let Some(source) = from.get::<MemRefType>() else {
            return Err(format!("views {from}").into());
        };
        let known = [&self.static_sizes, &self.static_strides];
        if known.iter().any(|list| list.contains(&DYNAMIC)) {
            return Err("has a size or a stride that is not known".into());
        }
        let &[offset] = &self.static_offsets[..] else {
            let count = self.static_offsets.len();
            return Err(format!("has {count} offsets, expected 1").into());
        };
        if self.offsets.len() != usize::from(offset == DYNAMIC) {
            let count = self.offsets.len();
            return Err(format!("has {count} dynamic offsets for the offset {offset}").into());
        }
        if self.static_sizes.len() != self.static_strides.len() {
            let (sizes, strides) = (self.static_sizes.len(), self.static_strides.len());
            return Err(format!("has {sizes} sizes and {strides} strides").into());
        }
        if source.strides().is_none_or(|(_, start)| start != 0) {
            return Err(format!("views {from}, expected a buffer from its first byte on").into());
        }
        let strides = self.static_strides.clone();
        let wanted = strided_type(source, &self.static_sizes, strides, offset);
        match same_layout(wanted, to) {
            true => Ok(()),
            false => Err(format!("has result type {to}, expected {wanted}").into()),
        }
    }
}

macro_rules! reshape {
    ($($(#[$doc:meta])* $name:ident $text:literal $asm:literal |$from:ident, $to:ident| $sides:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Op)]
        #[op($text, Pure, verify, lower_to_eval)]
        #[asm($asm)]
        pub struct $name {
            /// The buffer.
            #[is(MEMREF)]
            pub src: Value,
            /// Which dimensions of the larger shape belong to each dimension of the smaller one.
            pub reassociation: Vec<Attr>,
            /// Type of the view.
            #[is(MEMREF)]
            pub result: Ret,
        }
        impl Verify for $name {
            fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
                let (from, to) = (op.ir.ty(self.src), self.result.0);
                let (Some(x), Some(y)) = (from.get::<MemRefType>(), to.get::<MemRefType>()) else {
                    return Err(format!("makes {to} of {from}").into());
                };
                if x.space != y.space {
                    return Err(format!("makes {to} of {from}, expected one space").into());
                }
                let ($from, $to) = (from, to);
                let (large, small) = $sides;
                check_reshape(large, small, &self.reassociation)
            }
        }
    )*};
}
reshape! {
    /// Groups of adjacent dimensions that are contiguous become one.
    CollapseShape "memref.collapse_shape" "$src $reassociation attr-dict `:` type($src) `into` type($result)" |from, to| (from, to);
    /// A dimension becomes a group of neighbouring ones.
    ExpandShape "memref.expand_shape" "$src $reassociation attr-dict `:` type($src) `into` type($result)" |from, to| (to, from);
}
