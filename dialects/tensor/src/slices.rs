//! Tensors without content, parts of tensors, and the same elements in another shape.

use tir::constraints::{INDEX, TENSOR};
use tir::interp::element;
use tir::{
    Attr, DYNAMIC, DenseElements, Failure, Fold, Folds, Hook, Infer, Op, OpRef, Ret, Type, Value,
    Verify,
};

/// A tensor whose elements are not defined; a place to write results to.
#[derive(Op)]
#[op("tensor.empty", Pure, verify, evaluate, cost)]
#[asm("`(` ($dynamic_sizes^)? `)` attr-dict `:` type($result)")]
pub struct Empty {
    /// Sizes of the dynamic dimensions.
    #[is(INDEX)]
    pub dynamic_sizes: Vec<Value>,
    /// Memory space of the machine it is to lie in.
    pub space: Option<String>,
    /// Its type.
    #[is(TENSOR)]
    pub result: Ret,
}

impl Verify for Empty {
    fn verify(&self, _: OpRef<'_>) -> Result<(), Failure> {
        let (ty, sizes) = (self.result.0, self.dynamic_sizes.len());
        let shape = ty.shape().unwrap_or(&[]);
        let dynamic = shape.iter().filter(|d| **d == DYNAMIC).count();
        if sizes != dynamic {
            let text = format!("has {sizes} sizes for the {dynamic} dynamic dimensions of {ty}");
            return Err(text.into());
        }
        Ok(())
    }
}

/// An element of a tensor.
#[derive(Op)]
#[op(
    "tensor.extract",
    Pure,
    MayStop,
    results(result),
    infer,
    verify,
    fold,
    lower_to_eval
)]
#[asm("$tensor `` `[` ($indices^)? `]` attr-dict `:` type($tensor)")]
pub struct Extract {
    /// The tensor.
    #[is(TENSOR)]
    pub tensor: Value,
    /// The position; outside of the tensor it is an error at run time.
    #[is(INDEX)]
    pub indices: Vec<Value>,
}
impl Infer for Extract {
    fn infer(&self, op: OpRef<'_>) -> Result<Vec<Type>, Failure> {
        Ok(vec![op.ir.ty(self.tensor).elem()])
    }
}
impl Verify for Extract {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let ty = op.ir.ty(self.tensor);
        if ty.shape().map_or(0, <[i64]>::len) != self.indices.len() {
            return Err(format!("has {} indices for a {ty}", self.indices.len()).into());
        }
        Ok(())
    }
}
impl Fold for Extract {
    fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
        let value = op.ir.constant(self.tensor)?;
        let shape = value.type_of()?.shape()?;
        let mut at = 0;
        for (index, size) in self.indices.iter().zip(shape) {
            // Of a splat every element is the same, wherever it lies.
            let index = match op.ir.constant_int(*index) {
                Some(index) if (0..*size).contains(&index) => index,
                None if value.get::<DenseElements>()?.is_splat() => 0,
                _ => return None,
            };
            at = at * size + index;
        }
        element(value, usize::try_from(at).ok()?).map(Folds::from)
    }
}

/// Static offsets, sizes and strides against the shape they cut from. `size` is the shape of the
/// part, before unit dimensions are dropped.
pub fn check_slice(
    shape: &[i64],
    offsets: &[i64],
    sizes: &[i64],
    strides: &[i64],
) -> Result<(), Failure> {
    let rank = shape.len();
    for (what, list) in [("offsets", offsets), ("sizes", sizes), ("strides", strides)] {
        if list.len() != rank {
            return Err(format!("has {} {what} for rank {rank}", list.len()).into());
        }
    }
    for d in 0..rank {
        let (offset, size, stride) = (offsets[d], sizes[d], strides[d]);
        if offset != DYNAMIC && offset < 0 || size != DYNAMIC && size < 0 {
            return Err(format!("has offset {offset} and size {size} in dimension {d}").into());
        }
        if [offset, size, stride, shape[d]].contains(&DYNAMIC) || size == 0 {
            continue;
        }
        let reach = (size - 1)
            .checked_mul(stride)
            .and_then(|n| n.checked_add(offset));
        if reach.is_none_or(|last| last >= shape[d] || last < 0) {
            let last = reach.unwrap_or(i64::MAX);
            return Err(format!(
                "reaches {last} in dimension {d}, which has {} elements",
                shape[d]
            )
            .into());
        }
    }
    Ok(())
}

/// Whether `part` is `sizes` with some unit dimensions dropped.
pub(crate) fn reduces(sizes: &[i64], part: &[i64]) -> bool {
    let mut rest = part.iter().peekable();
    for size in sizes {
        if rest.peek() == Some(&size) {
            rest.next();
        } else if *size != 1 {
            return false;
        }
    }
    rest.next().is_none()
}

/// The hook by which the result has the type of the second operand.
#[allow(clippy::extra_unused_type_parameters)] // a hook is made for a record
pub(crate) fn like_dest<T: Op>() -> Hook {
    Hook::Infer(&|ir, op| {
        let dest = ir
            .operands(op)
            .nth(1)
            .ok_or("has no operand to write into")?;
        Ok(vec![ir.ty(dest)])
    })
}

fn dynamic_count(op: &[Value], list: &[i64], what: &str) -> Result<(), Failure> {
    let wanted = list.iter().filter(|n| **n == DYNAMIC).count();
    if wanted != op.len() {
        return Err(format!("has {} dynamic {what} for {wanted} places", op.len()).into());
    }
    Ok(())
}

macro_rules! slice {
    ($($(#[$doc:meta])* $name:ident $text:literal [$($hook:path),*] $asm:literal { $($(#[$fdoc:meta])* $field:ident: $fty:ty,)* })*) => {$(
        $(#[$doc])*
        #[derive(Op)]
        #[op($text, Pure, IntegersMayStop, fold, verify, cost, $($hook),*)]
        #[asm($asm)]
        pub struct $name {
            $($(#[$fdoc])* #[is(TENSOR)] pub $field: $fty,)*
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
            /// Type of the result.
            #[is(TENSOR)]
            pub result: Ret,
        }
        impl $name {
            fn check(&self, whole: Type, part: Type) -> Result<(), Failure> {
                dynamic_count(&self.offsets, &self.static_offsets, "offsets")?;
                dynamic_count(&self.sizes, &self.static_sizes, "sizes")?;
                dynamic_count(&self.strides, &self.static_strides, "strides")?;
                let shape = whole.shape().unwrap_or(&[]);
                check_slice(shape, &self.static_offsets, &self.static_sizes, &self.static_strides)?;
                if !reduces(&self.static_sizes, part.shape().unwrap_or(&[])) || whole.elem() != part.elem() {
                    return Err(format!("takes a {part} as the part {:?} of a {whole}", self.static_sizes).into());
                }
                Ok(())
            }
            /// Whether the part is the whole.
            fn is_whole(&self, whole: Type, part: Type) -> bool {
                whole == part
                    && self.static_offsets.iter().all(|n| *n == 0)
                    && self.static_strides.iter().all(|n| *n == 1)
            }
        }
    )*};
}

slice! {
    /// A part of a tensor, given by offsets, sizes and strides; unit dimensions may be dropped.
    ExtractSlice "tensor.extract_slice" [tir::hooks::evaluate]
        "$source `` custom<indices>($offsets, $static_offsets) custom<indices>($sizes, $static_sizes) custom<indices>($strides, $static_strides) attr-dict `:` type($source) `to` type($result)"
    {
        /// What is cut from.
        source: Value,
    }
    /// A tensor with a part replaced.
    InsertSlice "tensor.insert_slice" [tir::hooks::lower_to_eval, crate::slices::like_dest]
        "$source `into` $dest `` custom<indices>($offsets, $static_offsets) custom<indices>($sizes, $static_sizes) custom<indices>($strides, $static_strides) attr-dict `:` type($source) `into` type($dest)"
    {
        /// The part.
        source: Value,
        /// What it is put into.
        dest: Value,
    }
}
impl Verify for ExtractSlice {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        self.check(op.ir.ty(self.source), self.result.0)
    }
}
impl Fold for ExtractSlice {
    fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
        self.is_whole(op.ir.ty(self.source), self.result.0)
            .then(|| self.source.into())
    }
}
impl Verify for InsertSlice {
    fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
        let whole = op.ir.ty(self.dest);
        if whole != self.result.0 {
            return Err(format!("has a result of type {}, expected {whole}", self.result.0).into());
        }
        self.check(whole, op.ir.ty(self.source))
    }
}
impl Fold for InsertSlice {
    fn fold(&self, op: OpRef<'_>) -> Option<Folds> {
        self.is_whole(op.ir.ty(self.dest), op.ir.ty(self.source))
            .then(|| self.source.into())
    }
}

/// The groups of `reassociation`, which together name the dimensions of the larger shape in order.
pub fn groups(reassociation: &[Attr], rank: usize) -> Result<Vec<Vec<usize>>, Failure> {
    let bad = || {
        Failure::from(format!(
            "has a reassociation that does not list {rank} dimensions in order"
        ))
    };
    let mut groups = Vec::new();
    let mut next = 0;
    for group in reassociation {
        let items = group.get::<tir::ArrayAttr>().ok_or_else(bad)?;
        let mut dims = Vec::new();
        for item in &items.0 {
            if item.as_int() != Some(next) {
                return Err(bad());
            }
            dims.push(next as usize);
            next += 1;
        }
        groups.push(dims);
    }
    if next as usize != rank {
        return Err(bad());
    }
    Ok(groups)
}

/// The attribute that says groups of dimensions: `[[0, 1], [2]]`.
pub fn reassociation(groups: &[Vec<i64>]) -> Vec<Attr> {
    let group =
        |dims: &Vec<i64>| Attr::array(dims.iter().map(|d| Attr::i64(*d)).collect::<Vec<_>>());
    groups.iter().map(group).collect()
}

/// Whether one shape comes from the other by the groups of `reassociation`, of the dimensions of
/// the larger one.
pub fn check_reshape(large: Type, small: Type, reassociation: &[Attr]) -> Result<(), Failure> {
    let (Some(big), Some(little)) = (large.shape(), small.shape()) else {
        return Err("expects ranked types".into());
    };
    // To or from a scalar all dimensions are 1 and there are no groups.
    let scalar = little.is_empty() && reassociation.is_empty() && big.iter().all(|d| *d == 1);
    let groups = if scalar {
        Vec::new()
    } else {
        groups(reassociation, big.len())?
    };
    let products: Vec<i64> = groups
        .iter()
        .map(|g| g.iter().map(|d| big[*d]).product())
        .collect();
    if products != little || large.elem() != small.elem() {
        return Err(format!("relates {large} and {small} by groups that give {products:?}").into());
    }
    Ok(())
}

macro_rules! reshape {
    ($($(#[$doc:meta])* $name:ident $text:literal {$($(#[$fdoc:meta])* $field:ident: $fty:ty)?} $asm:literal |$from:ident, $to:ident| $check:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Op)]
        #[op($text, Pure, verify, evaluate, cost)]
        #[asm($asm)]
        pub struct $name {
            /// The elements.
            #[is(TENSOR)]
            pub src: Value,
            /// Which dimensions of the larger shape belong to each dimension of the smaller one.
            pub reassociation: Vec<Attr>,
            $($(#[$fdoc])* pub $field: $fty,)?
            /// Type of the result.
            #[is(TENSOR)]
            pub result: Ret,
        }
        impl Verify for $name {
            fn verify(&self, op: OpRef<'_>) -> Result<(), Failure> {
                let ($from, $to) = (op.ir.ty(self.src), self.result.0);
                let (large, small) = $check;
                $(if let Some(shape) = &self.$field
                    && $to.shape() != Some(shape)
                {
                    return Err(format!("has output shape {shape:?}, its result is {}", $to).into());
                })?
                check_reshape(large, small, &self.reassociation)
            }
        }
    )*};
}
reshape! {
    /// Groups of neighbouring dimensions become one.
    CollapseShape "tensor.collapse_shape" {}
        "$src $reassociation attr-dict `:` type($src) `into` type($result)" |from, to| (from, to);
    /// A dimension becomes a group of neighbouring ones.
    ExpandShape "tensor.expand_shape" {
        /// The shape of the result once more, where MLIR's spelling gives it.
        static_output_shape: Option<Vec<i64>>
    }
        "$src $reassociation (`output_shape` $static_output_shape^)? attr-dict `:` type($src) `into` type($result)" |from, to| (to, from);
}
