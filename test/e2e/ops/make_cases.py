"""Makes the single-op cases of this folder: CASE.onnx, its inputs CASE.in_K.npy in the order of
the graph's inputs, and ONNX Runtime's answers CASE.out_K.npy.

    pip install onnx==1.23.2 numpy==2.4.6 onnxruntime==1.31.1
    python make_cases.py

The seed of a case is its name's CRC, so adding a case changes no other. To add one, add a call
to `case` below and run this again.
"""

import zlib
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

HERE = Path(__file__).parent
OPSET = 17


def case(name, op, inputs, constants=(), outputs=1, opset=OPSET, domain="", **attributes):
    """One case: `op` on inputs and then constants. Each of them is a shape (random f32) or an
    array, which is taken as it is; None is an omitted operand. An input array is stored too."""
    random = np.random.RandomState(zlib.crc32(name.encode()))

    def value(spec):
        if isinstance(spec, np.ndarray):
            return spec
        return random.uniform(-1, 1, spec).astype(np.float32)

    feeds = {f"x{k}": value(spec) for k, spec in enumerate(inputs)}
    weights = {f"w{k}": None if spec is None else value(spec) for k, spec in enumerate(constants)}
    operands = list(feeds) + ["" if v is None else n for n, v in weights.items()]
    results = [f"y{k}" for k in range(outputs)]
    nodes = [helper.make_node(op, operands, results, name="op", domain=domain, **attributes)]
    write(name, nodes, feeds, weights, results, opset)


def graph_case(name, nodes, inputs, constants=None, outputs=1, opset=OPSET):
    """A case of several nodes on inputs `x0`, … and named constants, with results `y0`, …; shapes
    and arrays as for `case`."""
    random = np.random.RandomState(zlib.crc32(name.encode()))

    def value(spec):
        if isinstance(spec, np.ndarray):
            return spec
        return random.uniform(-1, 1, spec).astype(np.float32)

    feeds = {f"x{k}": value(spec) for k, spec in enumerate(inputs)}
    weights = {n: value(spec) for n, spec in (constants or {}).items()}
    write(name, nodes, feeds, weights, [f"y{k}" for k in range(outputs)], opset)


def write(name, nodes, feeds, weights, results, opset):
    """Runs a network and writes it with its inputs and answers."""
    typed = [
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in feeds.items()
    ]
    graph = helper.make_graph(
        nodes,
        name,
        typed,
        [helper.make_value_info(n, onnx.TypeProto()) for n in results],
        initializer=[numpy_helper.from_array(v, n) for n, v in weights.items() if v is not None],
    )

    domains = {node.domain for node in nodes} - {""}
    others = [helper.make_opsetid(domain, 1) for domain in sorted(domains)]

    def model():
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", opset), *others],
            ir_version=8 if opset < 18 else 10,
            producer_name="tir make_cases.py",
        )

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(
        model().SerializeToString(), options, ["CPUExecutionProvider"]
    )
    answers = session.run(None, feeds)
    # Now that the runtime has inferred them, state the outputs' types.
    del graph.output[:]
    graph.output.extend(
        helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape)
        for n, v in zip(results, answers)
    )
    onnx.checker.check_model(model(), full_check=True)
    (HERE / f"{name}.onnx").write_bytes(model().SerializeToString(deterministic=True))
    for k, v in enumerate(feeds.values()):
        np.save(HERE / f"{name}.in_{k}.npy", v)
    for k, v in enumerate(answers):
        np.save(HERE / f"{name}.out_{k}.npy", v)


def ints(*values):
    return np.array(values, np.int64)


def conv():
    x, w, b = (1, 3, 7, 6), (4, 3, 3, 3), (4,)
    case("conv", "Conv", [x], [w, b])
    case("conv_no_bias", "Conv", [x], [w])
    case("conv_batch", "Conv", [(2, 3, 5, 5)], [w, b])
    case("conv_weight_input", "Conv", [x, w, b])
    case("conv_1x1", "Conv", [x], [(4, 3, 1, 1), b])
    case("conv_1d", "Conv", [(1, 3, 9)], [(4, 3, 3), b], pads=[1, 1])
    case("conv_stride2", "Conv", [x], [w, b], strides=[2, 2])
    case("conv_stride_uneven", "Conv", [x], [w, b], strides=[2, 1])
    case("conv_stride_beyond_kernel", "Conv", [x], [(4, 3, 1, 1), b], strides=[2, 3])
    case("conv_kernel_uneven", "Conv", [x], [(4, 3, 3, 2), b], kernel_shape=[3, 2])
    case("conv_pad", "Conv", [x], [w, b], pads=[1, 1, 1, 1])
    case("conv_pad_asymmetric", "Conv", [x], [w, b], pads=[0, 2, 1, 0])
    case("conv_pad_stride", "Conv", [x], [w, b], pads=[1, 1, 1, 1], strides=[2, 2])
    case("conv_dilation", "Conv", [x], [w, b], dilations=[2, 2])
    case("conv_dilation_uneven", "Conv", [x], [w, b], dilations=[3, 1], pads=[2, 0, 2, 1])
    case("conv_group2", "Conv", [(1, 4, 5, 5)], [(6, 2, 3, 3), (6,)], group=2)
    case("conv_depthwise", "Conv", [(1, 4, 5, 5)], [(4, 1, 3, 3), b], group=4, pads=[1, 1, 1, 1])
    case("conv_depthwise_multiplier", "Conv", [(1, 3, 5, 5)], [(6, 1, 3, 3), (6,)], group=3)
    for mode in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        name = f"conv_auto_{mode.lower()}"
        case(name, "Conv", [x], [(4, 3, 2, 3), b], auto_pad=mode)
        case(f"{name}_stride", "Conv", [x], [w, b], auto_pad=mode, strides=[2, 2])


def elementwise():
    case("relu", "Relu", [(2, 3, 4)])
    case("relu_scalar", "Relu", [()])
    case("relu_special", "Relu", [np.array([np.inf, -np.inf, -0.0, 0.0, 1e-40], np.float32)])
    case("identity", "Identity", [(2, 3)])
    case("identity_int", "Identity", [ints(1, -2, 3)])
    case("add", "Add", [(2, 3, 4), (2, 3, 4)])
    case("add_scalar", "Add", [(2, 3), ()])
    case("add_row", "Add", [(2, 3, 4), (4,)])
    case("add_column", "Add", [(3, 4), (3, 1)])
    case("add_both", "Add", [(2, 1, 4), (3, 1)])
    case("add_rank", "Add", [(3,), (2, 1, 3)])
    case("add_channel", "Add", [(1, 3, 2, 2)], [(3, 1, 1)])
    case("add_int", "Add", [ints(1, 2, 3), ints(10)])
    case("add_empty", "Add", [(0, 3), (1, 3)])


def pooling():
    x = (1, 2, 7, 6)
    for op, name in (("MaxPool", "maxpool"), ("AveragePool", "avgpool")):
        case(name, op, [x], kernel_shape=[2, 2])
        case(f"{name}_1d", op, [(1, 2, 9)], kernel_shape=[3], strides=[2])
        case(f"{name}_stride", op, [x], kernel_shape=[2, 3], strides=[2, 1])
        case(f"{name}_pad", op, [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
        case(f"{name}_pad_asymmetric", op, [x], kernel_shape=[3, 3], pads=[0, 1, 2, 0])
        case(f"{name}_ceil", op, [x], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
        case(f"{name}_ceil_pad", op, [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], ceil_mode=1)
        case(f"{name}_same_upper", op, [x], kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_UPPER")
        case(f"{name}_same_lower", op, [x], kernel_shape=[3, 2], strides=[2, 2], auto_pad="SAME_LOWER")
    case("maxpool_dilation", "MaxPool", [x], kernel_shape=[2, 2], dilations=[2, 3])
    case("maxpool_negative", "MaxPool", [np.full((1, 1, 3, 3), -5, np.float32)], kernel_shape=[3, 3], pads=[1, 1, 1, 1])
    include = {"kernel_shape": [3, 3], "strides": [2, 2], "count_include_pad": 1}
    case("avgpool_include", "AveragePool", [x], pads=[1, 1, 1, 1], **include)
    case("avgpool_include_asymmetric", "AveragePool", [x], pads=[0, 1, 2, 0], **include)
    case("global_avgpool", "GlobalAveragePool", [(2, 3, 4, 5)])
    case("global_avgpool_1x1", "GlobalAveragePool", [(1, 3, 1, 1)])


def shapes():
    x = (2, 3, 4)
    for axis in (0, 1, 2, 3, -1, -2):
        case(f"flatten_{axis}".replace("-", "minus"), "Flatten", [x], axis=axis)
    case("flatten", "Flatten", [(2, 3, 2, 2)])
    case("reshape", "Reshape", [x], [ints(4, 6)])
    case("reshape_infer", "Reshape", [x], [ints(-1, 2)])
    case("reshape_keep", "Reshape", [x], [ints(0, -1)])
    case("reshape_keep_all", "Reshape", [x], [ints(0, 0, 2, 2)])
    case("reshape_scalar", "Reshape", [(1, 1)], [np.zeros((0,), np.int64)])
    case("reshape_allowzero", "Reshape", [(0, 3)], [ints(3, 0)], allowzero=1)


def floats(*values):
    return np.array(values, np.float32)


SPECIAL = floats(np.inf, -np.inf, -0.0, 0.0, 1e-40, -3.0, 88.0, -88.0, 0.5)
# What is not a number only where the runtime says what comes of it.
NAN = floats(np.nan, 1.0, -1.0)


def functions():
    """Elementwise functions of one operand."""
    random = np.random.RandomState(7)
    wide = random.uniform(-6, 6, (2, 3, 4)).astype(np.float32)
    positive = random.uniform(0.01, 9, (2, 3, 4)).astype(np.float32)
    for op in ("Sigmoid", "Tanh", "Exp", "Neg", "Abs", "Erf", "Reciprocal", "Floor", "Ceil", "Round", "Sin", "Cos"):
        case(op.lower(), op, [wide])
    for op in ("Log", "Sqrt"):
        case(op.lower(), op, [positive])
    for op in ("Sigmoid", "Tanh", "Exp", "Neg", "Abs", "Erf", "Reciprocal", "Floor", "Ceil"):
        case(f"{op.lower()}_special", op, [SPECIAL])
    case("log_special", "Log", [floats(np.inf, 0.0, 1.0, -1.0, 1e-38)])
    case("sqrt_special", "Sqrt", [floats(np.inf, 0.0, -0.0, -1.0, 1e-38)])
    for op in ("Sigmoid", "Tanh", "Exp", "Sqrt", "Abs", "Neg"):
        case(f"{op.lower()}_nan", op, [NAN])
    case("round_ties", "Round", [floats(0.5, 1.5, 2.5, -0.5, -1.5, 0.49999997)])
    case("neg_int", "Neg", [ints(1, -2, 0)])
    case("abs_int", "Abs", [ints(1, -2, 0)])
    case("exp_scalar", "Exp", [()])
    case("tanh_rank5", "Tanh", [(1, 2, 1, 3, 2)])
    case("clip", "Clip", [wide], [floats(-1)[0:1].reshape(()), floats(2).reshape(())])
    case("clip_relu6", "Clip", [wide], [floats(0).reshape(()), floats(6).reshape(())])
    case("clip_low", "Clip", [wide], [floats(-1).reshape(())])
    case("clip_high", "Clip", [wide], [None, floats(1).reshape(())])
    case("clip_none", "Clip", [wide])
    case("clip_special", "Clip", [SPECIAL], [floats(-4).reshape(()), floats(5).reshape(())])
    case("clip_inputs", "Clip", [wide, floats(-1).reshape(()), floats(2).reshape(())])
    case("clip_int", "Clip", [ints(-5, 0, 3, 9)], [np.array(-1), np.array(4)])
    case("leaky_relu", "LeakyRelu", [wide])
    case("leaky_relu_alpha", "LeakyRelu", [wide], alpha=0.3)
    case("leaky_relu_special", "LeakyRelu", [SPECIAL])
    case("hard_sigmoid", "HardSigmoid", [wide])
    case("hard_sigmoid_alpha", "HardSigmoid", [wide], alpha=0.5, beta=0.1)
    case("hard_swish", "HardSwish", [wide])
    case("gelu", "Gelu", [wide], opset=20)
    case("gelu_tanh", "Gelu", [wide], opset=20, approximate="tanh")


def pairs():
    """Elementwise functions of two and more operands."""
    x, y = (2, 3, 4), (3, 1)
    integers = np.arange(-6, 6).reshape(3, 4)
    for op in ("Sub", "Mul", "Div"):
        name = op.lower()
        case(name, op, [x, x])
        case(f"{name}_broadcast", op, [x, y])
        case(f"{name}_rank5", op, [(2, 1, 3, 1, 2), (4, 1, 2, 1)])
        case(f"{name}_same", op, [(), ()])
    case("sub_int", "Sub", [integers, ints(5)])
    case("mul_int", "Mul", [integers, ints(1, 2, 3, 4)])
    case("div_int", "Div", [integers, ints(-3)])
    case("div_special", "Div", [floats(1, -1, 0, np.inf), floats(0, 0, 5, 3)])
    for op in ("Max", "Min"):
        name = op.lower()
        case(name, op, [x, x])
        case(f"{name}_broadcast", op, [x, y])
        case(f"{name}_three", op, [x, y, (4,)])
        case(f"{name}_one", op, [x])
        case(f"{name}_int", op, [integers, np.array([[2]])])
        case(f"{name}_special", op, [floats(np.inf, -np.inf, 3, 3), floats(1, 1, -np.inf, np.inf)])
    case("sum_three", "Sum", [x, y, (4,)])
    case("mean_three", "Mean", [x, y, (4,)])
    base = np.array([[0.5, 1.0, 2.0, 3.5]], np.float32)
    case("pow", "Pow", [base, floats(-1, 0, 2, 0.5)])
    case("pow_square", "Pow", [x], [floats(2).reshape(())])
    case("pow_int_exponent", "Pow", [x], [np.array(3)])
    case("pow_broadcast", "Pow", [base, np.array([[2], [3]], np.float32)])
    few = np.array([[1, 2, 3], [3, 2, 1]], np.float32)
    for op in ("Equal", "Less", "Greater", "LessOrEqual", "GreaterOrEqual"):
        name = "".join("_" + c.lower() if c.isupper() else c for c in op)[1:]
        case(name, op, [few, floats(1, 2, 2)])
        case(f"{name}_int", op, [integers, ints(0)])
        case(f"{name}_nan", op, [floats(np.nan, 1.0, 2.0), floats(np.nan, np.nan, 2.0)])
    truth, row = np.array([[True, False], [False, True]]), np.array([True, False])
    for op in ("And", "Or", "Xor"):
        case(op.lower(), op, [truth, row])
    case("not", "Not", [truth])


def reductions():
    shapes = {"": (2, 3, 4), "_rank1": (5,), "_rank5": (2, 1, 3, 2, 2)}
    for op in ("ReduceMax", "ReduceMin"):
        name = op.lower().replace("reduce", "reduce_")
        many = np.random.RandomState(11).randint(0, 256, (3, 5, 7)).astype(np.uint8)
        case(f"{name}_uint8", op, [many], axes=[1])
        case(f"{name}_int8", op, [many.view(np.int8)], axes=[0, 2], keepdims=0)
        case(f"{name}_bool", op, [many[:, :2] > 128], [ints(1)], opset=20)
    for op in ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin"):
        name = op.replace("Reduce", "reduce_").lower()

        def one(suffix, shape, axes, opset, **attributes):
            """Axes stand in an operand from opset 13 (sum) and 18 (others) on."""
            if axes is None:
                case(f"{name}{suffix}", op, [shape], opset=opset, **attributes)
            elif opset >= 18 or op == "ReduceSum":
                case(f"{name}{suffix}", op, [shape], [ints(*axes)], opset=opset, **attributes)
            else:
                case(f"{name}{suffix}", op, [shape], opset=opset, axes=list(axes), **attributes)

        for suffix, shape in shapes.items():
            one(f"{suffix}_all", shape, None, 18)
            one(f"{suffix}_last", shape, [-1], 18)
            one(f"{suffix}_first_dropped", shape, [0], 18, keepdims=0)
        one("_two", (2, 3, 4), [0, 2], 18)
        one("_two_dropped", (2, 3, 4), [2, 0], 18, keepdims=0)
        one("_middle", (2, 3, 4), [1], 13)
        one("_middle_dropped", (2, 3, 4), [-2], 13, keepdims=0)
        one("_all_dropped", (2, 3), None, 13, keepdims=0)
        one("_noop", (2, 3), None, 18, noop_with_empty_axes=1)
        one("_unit", (2, 1, 3), [1], 18)
        one("_special", np.array([[np.inf, 1, 2], [-np.inf, 3, 4]], np.float32), [1], 18)
        if op != "ReduceMean":
            one("_int", np.arange(-4, 8, dtype=np.int32).reshape(3, 4), [1], 18)


def normalizing():
    x = (2, 3, 4, 5)
    by_channel = [(3,), (3,), (3,), np.array([0.5, 1.0, 2.0], np.float32)]
    case("batch_normalization", "BatchNormalization", [x], by_channel)
    case("batch_normalization_epsilon", "BatchNormalization", [x], by_channel, epsilon=0.1)
    case("batch_normalization_rank2", "BatchNormalization", [(2, 3)], by_channel)
    case("batch_normalization_rank3", "BatchNormalization", [(2, 3, 4)], by_channel)
    case("batch_normalization_inputs", "BatchNormalization", [x, *by_channel])
    case("softmax", "Softmax", [(2, 3, 4)])
    for axis in (0, 1, 2, -2):
        case(f"softmax_{axis}".replace("-", "minus"), "Softmax", [(2, 3, 4)], axis=axis)
    case("softmax_rank1", "Softmax", [(5,)])
    case("softmax_rank4", "Softmax", [(2, 3, 4, 5)], axis=-1)
    case("softmax_large", "Softmax", [np.array([[1e4, 1e4 - 1, -1e4], [-1e4, -1e4, -1e4]], np.float32)])
    case("softmax_masked", "Softmax", [np.array([[1, 2, -np.inf], [-np.inf, 0, -np.inf]], np.float32)])
    case("softmax_unit", "Softmax", [(3, 1)])
    case("layer_normalization", "LayerNormalization", [(2, 3, 4)], [(4,), (4,)])
    case("layer_normalization_no_bias", "LayerNormalization", [(2, 3, 4)], [(4,)])
    case("layer_normalization_axis1", "LayerNormalization", [(2, 3, 4)], [(3, 4), (3, 4)], axis=1)
    case("layer_normalization_epsilon", "LayerNormalization", [(2, 3, 4)], [(4,), (4,)], epsilon=0.5)
    case("layer_normalization_offset", "LayerNormalization", [np.float32([[100, 101, 103], [-50, -50, -50]])], [(3,), (3,)])
    case("layer_normalization_rank1", "LayerNormalization", [(6,)], [(6,), (6,)])


def matrices():
    """Products of all ranks, as numpy broadcasts them."""
    case("matmul_batch4", "MatMul", [(2, 2, 3, 4), (2, 2, 4, 5)])
    case("matmul_broadcast_left", "MatMul", [(3, 4), (2, 4, 5)])
    case("matmul_broadcast_right", "MatMul", [(2, 2, 3, 4), (4, 5)])
    case("matmul_broadcast_both", "MatMul", [(1, 2, 3, 4), (3, 1, 4, 2)])
    case("matmul_vector_batch", "MatMul", [(3,), (2, 3, 4)])
    case("matmul_batch_vector", "MatMul", [(2, 4, 3), (3,)])
    case("matmul_rank5", "MatMul", [(2, 1, 2, 3, 4), (1, 3, 1, 4, 2)])
    case("matmul_unit", "MatMul", [(1, 1), (1, 1)])
    case("matmul_large", "MatMul", [(20, 33), (33, 18)])
    case("gemm_large", "Gemm", [(18, 33)], [(20, 33), (20,)], transB=1)


def products():
    case("gemm", "Gemm", [(2, 3)], [(3, 4), (4,)])
    case("gemm_no_c", "Gemm", [(2, 3)], [(3, 4)])
    case("gemm_trans_a", "Gemm", [(3, 2)], [(3, 4), (4,)], transA=1)
    case("gemm_trans_b", "Gemm", [(2, 3)], [(4, 3), (4,)], transB=1)
    case("gemm_trans_both", "Gemm", [(3, 2)], [(4, 3), (4,)], transA=1, transB=1)
    case("gemm_alpha_beta", "Gemm", [(2, 3)], [(3, 4), (2, 4)], alpha=0.5, beta=-2.0)
    case("gemm_beta_zero", "Gemm", [(2, 3)], [(3, 4), (2, 4)], beta=0.0)
    case("gemm_c_scalar", "Gemm", [(2, 3)], [(3, 4), ()])
    case("gemm_c_one", "Gemm", [(2, 3)], [(3, 4), (1,)])
    case("gemm_c_column", "Gemm", [(2, 3)], [(3, 4), (2, 1)])
    case("gemm_c_row", "Gemm", [(2, 3)], [(3, 4), (1, 4)])
    case("gemm_inputs", "Gemm", [(2, 3), (3, 4), (2, 4)])
    case("matmul", "MatMul", [(2, 3), (3, 4)])
    case("matmul_weight", "MatMul", [(2, 3)], [(3, 4)])
    case("matmul_batch", "MatMul", [(2, 2, 3), (2, 3, 4)])
    case("matmul_broadcast", "MatMul", [(2, 1, 2, 3), (3, 3, 4)])
    case("matmul_vector_matrix", "MatMul", [(3,), (3, 4)])
    case("matmul_matrix_vector", "MatMul", [(2, 3), (3,)])
    case("matmul_vectors", "MatMul", [(3,), (3,)])


def constants():
    matrix = np.array([[1, -2.5, 3], [0.1, 1e-30, np.inf]], np.float32)
    case("constant_tensor", "Constant", [], value=numpy_helper.from_array(matrix))
    case("constant_int_tensor", "Constant", [], value=numpy_helper.from_array(ints(3, -4)))
    case("constant_float", "Constant", [], value_float=1.5)
    case("constant_floats", "Constant", [], value_floats=[1.5, -2.0])
    case("constant_int", "Constant", [], value_int=7)
    case("constant_ints", "Constant", [], value_ints=[7, -8, 9])


if __name__ == "__main__":
    from model_cases import FAMILIES as MODELS
    from movement_cases import FAMILIES
    from opset_cases import FAMILIES as OPSETS
    from quantize_cases import FAMILIES as QUANTIZED

    for family in (
        conv, elementwise, functions, pairs, pooling, shapes, reductions, normalizing, products, matrices, constants,
        *FAMILIES, *OPSETS, *QUANTIZED, *MODELS,
    ):
        family()
    files = [f for f in HERE.iterdir() if f.suffix in (".onnx", ".npy")]
    cases = sum(f.suffix == ".onnx" for f in files)
    print(f"{cases} cases, {sum(f.stat().st_size for f in files)} bytes")
