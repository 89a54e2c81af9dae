//! Which versions of which operators are read, and by what.
//!
//! A model states one version of ONNX's operator set, and an operator means what the newest of its
//! definitions says that is not newer. [`TABLE`] has, for each operator, the versions from which on
//! its meaning or its form is another one, each with the reader for it; a version without a reader
//! is refused. What only takes more element types is no other meaning. Sources: the change log of
//! ONNX's operators (`docs/Changelog.md` of onnx/onnx) up to [`NEWEST`].

use tir_graph::*;
use tir_onnx::Node;

use super::import::{Cx, Outcome};
use super::{elementwise, fold, movement, normalize, ops, pad, parts, quantize, resize, views};

/// Makes the ops of a node.
pub(super) type Importer = fn(&mut Cx, &Node) -> Outcome<()>;

/// The newest version of the operator set that the table was compared with.
pub(super) const NEWEST: i64 = 28;

/// Readers by the version from which on they apply, ascending; `None` where the operator is not
/// read, because it was taken out or means what cannot be imported.
type Readers = &'static [(i64, Option<Importer>)];

/// The importer of a node in a model of a version of the operator set; or what is said of the
/// operator if other versions are read, nothing if none is.
pub(super) fn importer(node: &Node, opset: i64) -> Result<Importer, Option<String>> {
    let row = TABLE
        .binary_search_by_key(&node.op_type.as_str(), |(op, _)| op)
        .ok()
        .and_then(|at| TABLE.get(at))
        .filter(|_| node.domain.is_empty());
    let Some((_, readers)) = row else {
        return Err(None);
    };
    let applies = readers.iter().rev().find(|(since, _)| *since <= opset);
    match applies {
        Some((_, Some(importer))) => Ok(*importer),
        _ => Err(Some(format!(
            "is not supported in opset {opset}, only in {}",
            supported(readers)
        ))),
    }
}

/// The versions that are read: `1 to 28`, `7 to 9`.
fn supported(readers: Readers) -> String {
    let mut ranges: Vec<(i64, i64)> = Vec::new();
    for (i, (since, reader)) in readers.iter().enumerate() {
        let last = readers.get(i + 1).map_or(NEWEST, |(next, _)| next - 1);
        match (reader, ranges.last_mut()) {
            (None, _) => {}
            (Some(_), Some(range)) if range.1 + 1 == *since => range.1 = last,
            (Some(_), _) => ranges.push((*since, last)),
        }
    }
    let text = |(first, last): &(i64, i64)| format!("{first} to {last}");
    ranges.iter().map(text).collect::<Vec<_>>().join(", ")
}

macro_rules! unary {
    ($name:ident) => {
        Some(|cx, node| elementwise::unary(cx, node, |x| $name { x }))
    };
}
/// Broadcasting as numpy does it, since version 7.
macro_rules! binary {
    ($name:ident) => {
        Some(|cx, node| elementwise::binary(cx, node, |x, y| $name { x, y }))
    };
}
/// Broadcasting of the second operand alone, where an attribute says so.
macro_rules! onto_first {
    ($name:ident) => {
        Some(|cx, node| elementwise::onto_first(cx, node, |x, y| $name { x, y }))
    };
}
macro_rules! variadic {
    ($name:ident) => {
        Some(|cx, node| elementwise::variadic(cx, node, |x, y| $name { x, y }))
    };
}
/// Axes in an attribute.
macro_rules! reduce_attribute {
    ($name:ident) => {
        Some(|cx, node| {
            let make = |x, axes, keepdims| $name { x, axes, keepdims };
            normalize::reduce(cx, node, normalize::Axes::Attribute, make)
        })
    };
}
/// Axes in an operand.
macro_rules! reduce_operand {
    ($name:ident) => {
        Some(|cx, node| {
            let make = |x, axes, keepdims| $name { x, axes, keepdims };
            normalize::reduce(cx, node, normalize::Axes::Operand, make)
        })
    };
}

/// The operators, in the order of their names.
static TABLE: &[(&str, Readers)] = &[
    ("Abs", &[(1, unary!(Abs))]),
    ("Add", &[(1, onto_first!(Add)), (7, binary!(Add))]),
    ("And", &[(1, onto_first!(And)), (7, binary!(And))]),
    // `count_include_pad` came with 7, `ceil_mode` with 10, `dilations` with 19.
    ("AveragePool", &[(1, Some(ops::average_pool))]),
    (
        "BatchNormalization",
        &[
            // Training unless `is_test` is set.
            (1, Some(normalize::batch_normalization_with_is_test)),
            // Inference unless other results are asked for; `spatial` until 8.
            (7, Some(normalize::batch_normalization)),
        ],
    ),
    // To is a word.
    ("Cast", &[(1, None), (6, Some(movement::cast))]),
    ("CastLike", &[(15, Some(movement::cast_like))]),
    ("Ceil", &[(1, unary!(Ceil))]),
    (
        "Clip",
        &[
            (1, Some(elementwise::clip_by_attributes)),
            (11, Some(elementwise::clip)),
        ],
    ),
    // The axis has a default until 3.
    (
        "Concat",
        &[
            (1, Some(|cx, node| parts::concat(cx, node, Some(1)))),
            (4, Some(|cx, node| parts::concat(cx, node, None))),
        ],
    ),
    ("Constant", &[(1, Some(views::constant))]),
    ("ConstantOfShape", &[(9, Some(fold::constant_of_shape))]),
    ("Conv", &[(1, Some(ops::conv))]),
    ("ConvInteger", &[(10, Some(quantize::conv_integer))]),
    ("Cos", &[(7, unary!(Cos))]),
    // Scales by an axis since 13, of blocks (which are not read) since 21.
    ("DequantizeLinear", &[(10, Some(quantize::dequantize))]),
    ("Div", &[(1, onto_first!(Div)), (7, binary!(Div))]),
    (
        "Dropout",
        &[
            (1, Some(movement::dropout_with_is_test)),
            (7, Some(movement::dropout)),
            // Training where an operand says so.
            (12, Some(movement::dropout)),
        ],
    ),
    (
        "DynamicQuantizeLinear",
        &[(11, Some(quantize::dynamic_quantize))],
    ),
    ("Equal", &[(1, onto_first!(Equal)), (7, binary!(Equal))]),
    ("Erf", &[(9, unary!(Erf))]),
    ("Exp", &[(1, unary!(Exp))]),
    ("Expand", &[(8, Some(movement::expand))]),
    ("Flatten", &[(1, Some(views::flatten))]),
    ("Floor", &[(1, unary!(Floor))]),
    ("Gather", &[(1, Some(movement::gather))]),
    ("Gelu", &[(20, Some(elementwise::gelu))]),
    // `broadcast` until 6; the addend may be left out since 11.
    (
        "Gemm",
        &[
            (1, Some(|cx, node| ops::gemm(cx, node, &["broadcast"]))),
            (7, Some(|cx, node| ops::gemm(cx, node, &[]))),
        ],
    ),
    ("GlobalAveragePool", &[(1, Some(ops::global_average_pool))]),
    (
        "Greater",
        &[(1, onto_first!(Greater)), (7, binary!(Greater))],
    ),
    ("GreaterOrEqual", &[(12, binary!(GreaterEqual))]),
    ("HardSigmoid", &[(1, Some(elementwise::hard_sigmoid))]),
    ("HardSwish", &[(14, unary!(HardSwish))]),
    ("Identity", &[(1, Some(views::identity))]),
    (
        "LayerNormalization",
        &[(17, Some(normalize::layer_normalization))],
    ),
    ("LeakyRelu", &[(1, Some(elementwise::leaky_relu))]),
    ("Less", &[(1, onto_first!(Less)), (7, binary!(Less))]),
    ("LessOrEqual", &[(12, binary!(LessEqual))]),
    ("Log", &[(1, unary!(Log))]),
    ("MatMul", &[(1, Some(ops::matmul))]),
    ("MatMulInteger", &[(10, Some(quantize::matmul_integer))]),
    // Operands of one shape until 7, which broadcasting gives too.
    ("Max", &[(1, variadic!(Max))]),
    ("MaxPool", &[(1, Some(ops::max_pool))]),
    ("Mean", &[(1, Some(elementwise::mean))]),
    ("Min", &[(1, variadic!(Min))]),
    ("Mod", &[(10, Some(fold::modulo))]),
    ("Mul", &[(1, onto_first!(Mul)), (7, binary!(Mul))]),
    ("Neg", &[(1, unary!(Neg))]),
    ("NonZero", &[(9, Some(fold::non_zero))]),
    ("Not", &[(1, Some(elementwise::not))]),
    ("Or", &[(1, onto_first!(Or)), (7, binary!(Or))]),
    (
        "Pad",
        &[
            // Paddings by another name, of which nothing more is said.
            (1, None),
            (2, Some(pad::pad_by_attributes)),
            (11, Some(pad::pad)),
        ],
    ),
    ("Pow", &[(1, onto_first!(Pow)), (7, Some(elementwise::pow))]),
    ("QLinearConv", &[(10, Some(quantize::qlinear_conv))]),
    ("QLinearMatMul", &[(10, Some(quantize::qlinear_matmul))]),
    // As DequantizeLinear.
    ("QuantizeLinear", &[(10, Some(quantize::quantize))]),
    ("Range", &[(11, Some(fold::range))]),
    ("Reciprocal", &[(1, unary!(Reciprocal))]),
    (
        "ReduceMax",
        &[
            (1, reduce_attribute!(ReduceMax)),
            (18, reduce_operand!(ReduceMax)),
        ],
    ),
    (
        "ReduceMean",
        &[
            (1, reduce_attribute!(ReduceMean)),
            (18, reduce_operand!(ReduceMean)),
        ],
    ),
    (
        "ReduceMin",
        &[
            (1, reduce_attribute!(ReduceMin)),
            (18, reduce_operand!(ReduceMin)),
        ],
    ),
    ("ReduceProd", &[(1, Some(fold::reduce_prod))]),
    (
        "ReduceSum",
        &[
            (1, reduce_attribute!(ReduceSum)),
            (13, reduce_operand!(ReduceSum)),
        ],
    ),
    ("Relu", &[(1, unary!(Relu))]),
    (
        "Reshape",
        &[
            (1, Some(views::reshape_by_attribute)),
            (5, Some(views::reshape)),
        ],
    ),
    (
        "Resize",
        &[
            // As Upsample.
            (10, Some(|cx, node| resize::upsample(cx, node, false))),
            (11, Some(resize::resize)),
        ],
    ),
    ("Round", &[(11, unary!(Round))]),
    ("Shape", &[(1, Some(fold::shape))]),
    ("Sigmoid", &[(1, unary!(Sigmoid))]),
    ("Sin", &[(7, unary!(Sin))]),
    ("Size", &[(1, Some(fold::size))]),
    (
        "Slice",
        &[
            (1, Some(parts::slice_by_attributes)),
            (10, Some(parts::slice)),
        ],
    ),
    (
        "Softmax",
        &[
            // Of all dimensions from the axis on together.
            (1, Some(normalize::softmax_of_rows)),
            (13, Some(normalize::softmax)),
        ],
    ),
    (
        "Split",
        &[
            // Sizes in an attribute or an operand.
            (1, None),
            (2, Some(parts::split_by_attribute)),
            (13, Some(parts::split_equally)),
            // The last part may be smaller.
            (18, Some(parts::split)),
        ],
    ),
    ("Sqrt", &[(1, unary!(Sqrt))]),
    (
        "Squeeze",
        &[
            (1, Some(views::squeeze_by_attribute)),
            (13, Some(views::squeeze)),
        ],
    ),
    ("Sub", &[(1, onto_first!(Sub)), (7, binary!(Sub))]),
    ("Sum", &[(1, variadic!(Add))]),
    ("Tanh", &[(1, unary!(Tanh))]),
    // Repeats one dimension.
    ("Tile", &[(1, None), (6, Some(movement::tile))]),
    ("Transpose", &[(1, Some(views::transpose))]),
    (
        "Unsqueeze",
        &[
            (1, Some(views::unsqueeze_by_attribute)),
            (13, Some(views::unsqueeze)),
        ],
    ),
    (
        "Upsample",
        &[
            // Scales of height and width alone.
            (1, None),
            (7, Some(|cx, node| resize::upsample(cx, node, true))),
            (9, Some(|cx, node| resize::upsample(cx, node, false))),
            // Resize took its place.
            (10, None),
        ],
    ),
    ("Where", &[(9, Some(movement::choose))]),
    ("Xor", &[(1, onto_first!(Xor)), (7, binary!(Xor))]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_order() {
        assert!(TABLE.is_sorted_by(|a, b| a.0 < b.0));
        for (op, readers) in TABLE {
            assert!(readers.is_sorted_by(|a, b| a.0 < b.0), "{op}");
            assert!(readers.iter().all(|(since, _)| *since <= NEWEST), "{op}");
        }
    }

    #[test]
    fn versions_are_told() {
        let readers = |name: &str| TABLE.iter().find(|(op, _)| *op == name).unwrap().1;
        assert_eq!(supported(readers("Softmax")), format!("1 to {NEWEST}"));
        assert_eq!(supported(readers("Upsample")), "7 to 9");
        assert_eq!(supported(readers("Split")), format!("2 to {NEWEST}"));
    }
}
