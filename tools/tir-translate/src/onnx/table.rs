//! The table of operators; [`super::opsets`] says what its rows mean.

use tir_graph::*;

use super::opsets::Readers;
use super::{
    attention, control, convolution, einsum, elementwise, fold, functions, grid, groups, movement,
    normalize, ops, pad, parts, quantize, recurrent, reductions, resize, scatter, search, spectrum,
    views,
};

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

macro_rules! composed {
    ($place:ident, $of:ident) => {
        Some(|cx, node| {
            reductions::composed(cx, node, normalize::Axes::$place, reductions::Of::$of)
        })
    };
}

/// The operators, in the order of their names.
pub(super) static TABLE: &[(&str, Readers)] = &[
    ("Abs", &[(1, unary!(Abs))]),
    (
        "Acos",
        &[(
            7,
            Some(|cx, node| functions::of_one(cx, node, functions::acos)),
        )],
    ),
    (
        "Acosh",
        &[(
            9,
            Some(|cx, node| functions::of_one(cx, node, functions::acosh)),
        )],
    ),
    ("Add", &[(1, onto_first!(Add)), (7, binary!(Add))]),
    ("And", &[(1, onto_first!(And)), (7, binary!(And))]),
    (
        "ArgMax",
        &[(1, Some(|cx, node| search::arg(cx, node, true)))],
    ),
    (
        "ArgMin",
        &[(1, Some(|cx, node| search::arg(cx, node, false)))],
    ),
    (
        "Asin",
        &[(
            7,
            Some(|cx, node| functions::of_one(cx, node, functions::asin)),
        )],
    ),
    (
        "Asinh",
        &[(
            9,
            Some(|cx, node| functions::of_one(cx, node, functions::asinh)),
        )],
    ),
    (
        "Atan",
        &[(
            7,
            Some(|cx, node| functions::of_one(cx, node, functions::atan)),
        )],
    ),
    (
        "Atanh",
        &[(
            9,
            Some(|cx, node| functions::of_one(cx, node, functions::atanh)),
        )],
    ),
    ("Attention", &[(23, Some(attention::attention))]),
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
    ("BitShift", &[(11, Some(functions::bit_shift))]),
    ("BitwiseAnd", &[(18, binary!(And))]),
    ("BitwiseNot", &[(18, Some(functions::bitwise_not))]),
    ("BitwiseOr", &[(18, binary!(Or))]),
    ("BitwiseXor", &[(18, binary!(Xor))]),
    // To is a word.
    ("Cast", &[(1, None), (6, Some(movement::cast))]),
    ("CastLike", &[(15, Some(movement::cast_like))]),
    (
        "CausalConvWithState",
        &[(27, Some(attention::causal_convolution))],
    ),
    ("Ceil", &[(1, unary!(Ceil))]),
    ("Celu", &[(12, Some(functions::celu))]),
    ("CenterCropPad", &[(18, Some(grid::centre))]),
    (
        "Clip",
        &[
            (1, Some(elementwise::clip_by_attributes)),
            (11, Some(elementwise::clip)),
        ],
    ),
    ("Col2Im", &[(18, Some(convolution::col_to_im))]),
    ("Compress", &[(9, Some(search::compress))]),
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
    ("ConvTranspose", &[(1, Some(convolution::transposed))]),
    ("Cos", &[(7, unary!(Cos))]),
    (
        "Cosh",
        &[(
            9,
            Some(|cx, node| functions::of_one(cx, node, functions::cosh)),
        )],
    ),
    (
        "CumProd",
        &[(26, Some(|cx, node| search::running(cx, node, true)))],
    ),
    (
        "CumSum",
        &[(11, Some(|cx, node| search::running(cx, node, false)))],
    ),
    (
        "DFT",
        &[
            (17, Some(|cx, node| spectrum::dft(cx, node, true))),
            (20, Some(|cx, node| spectrum::dft(cx, node, false))),
        ],
    ),
    (
        "DepthToSpace",
        &[(1, Some(|cx, node| grid::blocks(cx, node, true)))],
    ),
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
    ("Einsum", &[(12, Some(einsum::einsum))]),
    ("Equal", &[(1, onto_first!(Equal)), (7, binary!(Equal))]),
    ("Erf", &[(9, unary!(Erf))]),
    ("Exp", &[(1, unary!(Exp))]),
    ("Expand", &[(8, Some(movement::expand))]),
    ("EyeLike", &[(9, Some(search::eye_like))]),
    ("Flatten", &[(1, Some(views::flatten))]),
    ("Floor", &[(1, unary!(Floor))]),
    // Other forms of shapes until 6.
    (
        "GRU",
        &[
            (1, None),
            (
                7,
                Some(|cx, node| recurrent::layer(cx, node, recurrent::Cell::Gru)),
            ),
        ],
    ),
    ("Gather", &[(1, Some(movement::gather))]),
    ("GatherElements", &[(11, Some(scatter::gather_elements))]),
    ("GatherND", &[(11, Some(scatter::gather_nd))]),
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
        "GlobalLpPool",
        &[(
            1,
            Some(|cx, node| convolution::global_pool(cx, node, false)),
        )],
    ),
    (
        "GlobalMaxPool",
        &[(1, Some(|cx, node| convolution::global_pool(cx, node, true)))],
    ),
    (
        "Greater",
        &[(1, onto_first!(Greater)), (7, binary!(Greater))],
    ),
    ("GreaterOrEqual", &[(12, binary!(GreaterEqual))]),
    ("GridSample", &[(16, Some(grid::sample))]),
    // Factors of groups until 20, of channels since; how many there are tells.
    ("GroupNormalization", &[(18, Some(groups::group))]),
    ("HardSigmoid", &[(1, Some(elementwise::hard_sigmoid))]),
    ("HardSwish", &[(14, unary!(HardSwish))]),
    (
        "Hardmax",
        &[
            (1, Some(|cx, node| search::hardmax(cx, node, true))),
            (13, Some(|cx, node| search::hardmax(cx, node, false))),
        ],
    ),
    ("Identity", &[(1, Some(views::identity))]),
    ("If", &[(1, Some(control::if_))]),
    ("InstanceNormalization", &[(1, Some(groups::instance))]),
    ("IsInf", &[(10, Some(functions::is_inf))]),
    ("IsNaN", &[(9, Some(functions::is_nan))]),
    ("LRN", &[(1, Some(groups::local_response))]),
    // Other forms of shapes until 6.
    (
        "LSTM",
        &[
            (1, None),
            (
                7,
                Some(|cx, node| recurrent::layer(cx, node, recurrent::Cell::Lstm)),
            ),
        ],
    ),
    (
        "LayerNormalization",
        &[(17, Some(normalize::layer_normalization))],
    ),
    ("LeakyRelu", &[(1, Some(elementwise::leaky_relu))]),
    ("Less", &[(1, onto_first!(Less)), (7, binary!(Less))]),
    ("LessOrEqual", &[(12, binary!(LessEqual))]),
    ("LinearAttention", &[(27, Some(attention::linear))]),
    ("Log", &[(1, unary!(Log))]),
    (
        "LogSoftmax",
        &[
            (1, Some(|cx, node| groups::log_softmax(cx, node, true))),
            (13, Some(|cx, node| groups::log_softmax(cx, node, false))),
        ],
    ),
    ("Loop", &[(1, Some(control::loop_))]),
    (
        "LpNormalization",
        &[(1, Some(convolution::lp_normalization))],
    ),
    ("LpPool", &[(1, Some(convolution::lp_pool))]),
    ("MatMul", &[(1, Some(ops::matmul))]),
    ("MatMulInteger", &[(10, Some(quantize::matmul_integer))]),
    // Operands of one shape until 7, which broadcasting gives too.
    ("Max", &[(1, variadic!(Max))]),
    ("MaxPool", &[(1, Some(ops::max_pool))]),
    ("MaxUnpool", &[(9, Some(grid::unpool))]),
    ("Mean", &[(1, Some(elementwise::mean))]),
    ("Min", &[(1, variadic!(Min))]),
    ("Mod", &[(10, Some(functions::modulo))]),
    ("Mul", &[(1, onto_first!(Mul)), (7, binary!(Mul))]),
    ("Neg", &[(1, unary!(Neg))]),
    ("NonZero", &[(9, Some(fold::non_zero))]),
    ("Not", &[(1, Some(elementwise::not))]),
    ("OneHot", &[(9, Some(search::one_hot))]),
    ("Or", &[(1, onto_first!(Or)), (7, binary!(Or))]),
    (
        "PRelu",
        &[
            (1, Some(|cx, node| functions::prelu(cx, node, true))),
            (7, Some(|cx, node| functions::prelu(cx, node, false))),
        ],
    ),
    (
        "Pad",
        &[
            // Paddings by another name, of which nothing more is said.
            (1, None),
            (2, Some(pad::pad_by_attributes)),
            (11, Some(pad::pad)),
        ],
    ),
    ("Pow", &[(1, onto_first!(Pow)), (7, Some(functions::pow))]),
    ("QLinearConv", &[(10, Some(quantize::qlinear_conv))]),
    ("QLinearMatMul", &[(10, Some(quantize::qlinear_matmul))]),
    // As DequantizeLinear.
    ("QuantizeLinear", &[(10, Some(quantize::quantize))]),
    ("RMSNormalization", &[(23, Some(groups::root_mean_square))]),
    // Other forms of shapes until 6.
    (
        "RNN",
        &[
            (1, None),
            (
                7,
                Some(|cx, node| recurrent::layer(cx, node, recurrent::Cell::Rnn)),
            ),
        ],
    ),
    ("Range", &[(11, Some(fold::range))]),
    ("Reciprocal", &[(1, unary!(Reciprocal))]),
    (
        "ReduceL1",
        &[(1, composed!(Attribute, L1)), (18, composed!(Operand, L1))],
    ),
    (
        "ReduceL2",
        &[(1, composed!(Attribute, L2)), (18, composed!(Operand, L2))],
    ),
    (
        "ReduceLogSum",
        &[
            (1, composed!(Attribute, LogSum)),
            (18, composed!(Operand, LogSum)),
        ],
    ),
    (
        "ReduceLogSumExp",
        &[
            (1, composed!(Attribute, LogSumExp)),
            (18, composed!(Operand, LogSumExp)),
        ],
    ),
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
    (
        "ReduceProd",
        &[
            (1, composed!(Attribute, Prod)),
            (18, composed!(Operand, Prod)),
        ],
    ),
    (
        "ReduceSum",
        &[
            (1, reduce_attribute!(ReduceSum)),
            (13, reduce_operand!(ReduceSum)),
        ],
    ),
    (
        "ReduceSumSquare",
        &[
            (1, composed!(Attribute, SumSquare)),
            (18, composed!(Operand, SumSquare)),
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
    ("ReverseSequence", &[(10, Some(scatter::reverse_sequence))]),
    ("RotaryEmbedding", &[(23, Some(attention::rotary))]),
    ("Round", &[(11, unary!(Round))]),
    ("STFT", &[(17, Some(spectrum::stft))]),
    (
        "Scan",
        &[(8, Some(control::scan_of_batch)), (9, Some(control::scan))],
    ),
    // ScatterElements took its place.
    (
        "Scatter",
        &[(9, Some(scatter::scatter_elements)), (11, None)],
    ),
    ("ScatterElements", &[(11, Some(scatter::scatter_elements))]),
    ("ScatterND", &[(11, Some(scatter::scatter_nd))]),
    ("Shape", &[(1, Some(fold::shape))]),
    ("Sigmoid", &[(1, unary!(Sigmoid))]),
    ("Sign", &[(9, Some(functions::sign_of))]),
    ("Sin", &[(7, unary!(Sin))]),
    (
        "Sinh",
        &[(
            9,
            Some(|cx, node| functions::of_one(cx, node, functions::sinh)),
        )],
    ),
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
        "Softplus",
        &[(
            1,
            Some(|cx, node| functions::of_one(cx, node, functions::softplus)),
        )],
    ),
    (
        "SpaceToDepth",
        &[(1, Some(|cx, node| grid::blocks(cx, node, false)))],
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
    (
        "Tan",
        &[(
            7,
            Some(|cx, node| functions::of_one(cx, node, functions::tan)),
        )],
    ),
    ("Tanh", &[(1, unary!(Tanh))]),
    ("TensorScatter", &[(24, Some(scatter::tensor_scatter))]),
    // Repeats one dimension.
    ("Tile", &[(1, None), (6, Some(movement::tile))]),
    (
        "TopK",
        &[
            (1, Some(|cx, node| search::top_k(cx, node, true))),
            (10, Some(|cx, node| search::top_k(cx, node, false))),
        ],
    ),
    ("Transpose", &[(1, Some(views::transpose))]),
    ("Trilu", &[(14, Some(search::trilu))]),
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
