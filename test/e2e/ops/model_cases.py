"""Cases of operators that are imported as compositions; `make_cases.py` runs them."""

import numpy as np
from onnx import TensorProto, helper

from make_cases import case, graph_case, ints


def bools(*values):
    return np.array(values, np.bool_)


def elementwise():
    for name, op in (
        ("asin", "Asin"), ("acos", "Acos"), ("atan", "Atan"), ("asinh", "Asinh"), ("atanh", "Atanh"), ("sinh", "Sinh"),
        ("cosh", "Cosh"), ("tan", "Tan"), ("sign", "Sign"), ("softplus", "Softplus"), ("softsign", "Softsign"),
        ("elu", "Elu"), ("selu", "Selu"), ("celu", "Celu"), ("mish", "Mish"), ("thresholded_relu", "ThresholdedRelu"),
        ("shrink", "Shrink"),
    ):
        case(name, op, [(2, 9)], opset=18 if op == "Mish" else 17)
    case("acosh", "Acosh", [np.linspace(1, 9, 8).astype(np.float32)])
    case("atan_far", "Atan", [np.array([0, -1, 1, 3, -1e6, np.inf, -np.inf], np.float32)])
    case("sinh_far", "Sinh", [np.array([0, 1e-6, -1e-3, 5, -9], np.float32)])
    case("softplus_far", "Softplus", [np.array([0, 1, 89, 200, -7, -60, np.inf, -np.inf], np.float32)])
    case("softplus_f16", "Softplus", [np.array([0, 1, 12, 200, -7, -9], np.float16)])
    case("mish_far", "Mish", [np.array([0, 1, 89, 200, -7, -60], np.float32)], opset=18)
    case("elu_alpha", "Elu", [(2, 9)], alpha=0.3)
    case("prelu", "PRelu", [(1, 3, 2, 4)], [(3, 1, 1)])
    special = np.array([1, np.nan, np.inf, -np.inf], np.float32)
    case("is_nan", "IsNaN", [special])
    case("is_inf", "IsInf", [special])
    case("is_inf_positive", "IsInf", [special], detect_negative=0)
    whole = np.array([-7, 7, -8, 8, 0, 5], np.int32)
    case("mod_int", "Mod", [whole, np.array([3, -3, 4, 3, 2, 5], np.int32)])
    case("mod_as_c", "Mod", [np.array([-7.5, 7.5, 3], np.float32), np.array([2, -2, 1.5], np.float32)], fmod=1)
    case("pow_int", "Pow", [whole], [np.array(3, np.int32)])
    case("pow_int_both", "Pow", [np.array([2, 3, -4], np.int64), np.array([5, 0, 3], np.int64)])
    case("shift_left", "BitShift", [np.array([1, 200, 3], np.uint8), np.array([1, 2, 7], np.uint8)], direction="LEFT")
    case("shift_right", "BitShift", [np.array([1, 200, 255], np.uint32), np.array([1, 2, 31], np.uint32)], direction="RIGHT")
    both = [np.array([12, 10, -1], np.int32), np.array([10, 3, 7], np.int32)]
    for op in ("And", "Or", "Xor"):
        case(f"bitwise_{op.lower()}", f"Bitwise{op}", both, opset=18)
    case("bitwise_not", "BitwiseNot", [both[0]], opset=18)
    case("bitwise_not_unsigned", "BitwiseNot", [np.array([0, 255, 18], np.uint8)], opset=18)


def normalizing():
    case("instance_norm", "InstanceNormalization", [(2, 3, 4, 5)], [(3,), (3,)])
    case("instance_norm_1d", "InstanceNormalization", [(2, 3, 7)], [(3,), (3,)], epsilon=1e-2)
    case("group_norm", "GroupNormalization", [(2, 4, 3, 3)], [(4,), (4,)], opset=21, num_groups=2)
    case("lrn", "LRN", [(1, 7, 3, 2)], size=3)
    case("lrn_wide", "LRN", [(1, 7, 3, 2)], size=5, alpha=0.5, beta=0.6, bias=2.0)
    case("rms_norm", "RMSNormalization", [(2, 3, 8)], [(8,)], opset=23)
    case("log_softmax", "LogSoftmax", [(2, 3, 4)])
    case("log_softmax_axis", "LogSoftmax", [(2, 3, 4)], axis=1)
    case("log_softmax_opset11", "LogSoftmax", [(2, 3, 4)], opset=11)
    case("lp_norm", "LpNormalization", [(3, 4)], p=2)
    case("lp_norm_f16", "LpNormalization", [np.array([[300, -400, 20], [1, 2, 2]], np.float16)], p=2)
    case("lrn_f16", "LRN", [np.array([300, -400, 20, 1], np.float16).reshape(1, 4, 1, 1)], size=3)
    case("lp_norm1", "LpNormalization", [(3, 4)], p=1, axis=0)
    case("mvn", "MeanVarianceNormalization", [(2, 3, 4, 3)], axes=[0, 2, 3])
    case("layer_norm_results", "LayerNormalization", [(2, 3, 8)], [(8,), (8,)], outputs=3)


def reducing():
    for name in ("L1", "L2", "LogSumExp", "Prod", "SumSquare"):
        case(f"reduce_{name.lower()}", f"Reduce{name}", [(2, 3, 5)], axes=[1])
        case(f"reduce_{name.lower()}_all", f"Reduce{name}", [(2, 3, 5)], opset=18, keepdims=0)
    case("reduce_logsum", "ReduceLogSum", [np.linspace(1, 3, 12).reshape(3, 4).astype(np.float32)], axes=[-1])
    case("reduce_prod_int", "ReduceProd", [np.arange(1, 7, dtype=np.int32).reshape(2, 3)], axes=[0])
    case("cumsum", "CumSum", [(3, 7)], [ints(1).reshape(())])
    case("cumsum_reverse", "CumSum", [(3, 7)], [ints(0).reshape(())], reverse=1, exclusive=1)
    case("argmax", "ArgMax", [(3, 4, 2)], axis=1)
    case("argmin_last", "ArgMin", [np.array([[1, 0, 0], [2, 2, 5]], np.float32)], axis=1, keepdims=0, select_last_index=1)
    case("hardmax", "Hardmax", [(3, 4)])
    case("topk", "TopK", [(2, 7)], [ints(3)], outputs=2)
    case("topk_smallest", "TopK", [(5, 3)], [ints(2)], outputs=2, axis=0, largest=0)
    many = (np.arange(1100) * 7919 % 211 - 100).astype(np.float32)
    puts = (np.arange(500) * 7 % 1200).reshape(500, 1)
    puts[::3] -= 1200
    case("scatter_nd_many", "ScatterND", [(1200, 2), puts, (500, 2)], opset=18)
    puts = np.arange(800).reshape(2, 400) * 13 % 397
    case("scatter_elements_many", "ScatterElements", [(2, 800), puts, (2, 400)], opset=18, axis=1, reduction="add")
    case("topk_of_many", "TopK", [np.stack([many, -many])], [ints(6)], outputs=2)
    case("topk_least_of_many", "TopK", [many.astype(np.int32).reshape(1100, 1)], [ints(3)], outputs=2, axis=0, largest=0)
    case("topk_equal", "TopK", [np.array([1, 3, 3, 2, 3], np.float32)], [ints(4)], outputs=2)


def places():
    x = (3, 4, 2)
    case("gather_elements", "GatherElements", [(3, 3), np.array([[0, -1, 2], [1, 1, 0]])], axis=0)
    case("gather_nd", "GatherND", [x, np.array([[0, 3], [-1, 0]])])
    case("gather_nd_batch", "GatherND", [x, np.array([[1], [0], [-1]])], batch_dims=1)
    case("scatter_elements", "ScatterElements", [(3, 4), np.array([[0, 2], [1, -1]]), (2, 2)], axis=1)
    case("scatter_elements_known", "ScatterElements", [(3, 4)], [np.array([[0, 2], [1, -1]]), (2, 2)], axis=1)
    for how in ("add", "mul", "max", "min"):
        indices = np.array([[0, 0], [1, -1]])
        case(f"scatter_elements_{how}", "ScatterElements", [(3, 4), indices, (2, 2)], opset=18, reduction=how)
    case("scatter_nd", "ScatterND", [x, np.array([[2], [0]]), (2, 4, 2)])
    case("scatter_nd_known", "ScatterND", [x], [np.array([[2, 1], [0, 3]]), (2, 2)])
    case("scatter_nd_add", "ScatterND", [x, np.array([[1], [1]]), (2, 4, 2)], opset=18, reduction="add")
    case("one_hot", "OneHot", [ints(0, 3, -1, 7)], [ints(5).reshape(()), np.array([-1, 2], np.float32)])
    case("one_hot_axis", "OneHot", [np.array([[0, 2], [1, 1]])], [ints(3).reshape(()), np.array([0, 1], np.int64)], axis=1)
    case("trilu", "Trilu", [(2, 4, 5)], [ints(1).reshape(())])
    case("trilu_lower", "Trilu", [(4, 4)], upper=0)
    case("eye_like", "EyeLike", [(3, 4)], k=1)
    case("compress", "Compress", [(3, 4)], [bools(1, 0, 1)], axis=0)
    case("reverse_sequence", "ReverseSequence", [(4, 3, 2), ints(4, 1, 3)])
    blocks = (1, 8, 2, 3)
    case("depth_to_space", "DepthToSpace", [blocks], blocksize=2)
    case("depth_to_space_crd", "DepthToSpace", [blocks], blocksize=2, mode="CRD")
    case("space_to_depth", "SpaceToDepth", [(1, 2, 4, 6)], blocksize=2)
    case("centre_crop_pad", "CenterCropPad", [(5, 3)], [ints(3, 6)], opset=18)
    case("einsum_matmul", "Einsum", [(2, 3, 4), (2, 4, 5)], equation="bij,bjk->bik")
    case("einsum_outer", "Einsum", [(3,), (4,)], equation="i,j->ij")
    case("einsum_diagonal", "Einsum", [(2, 3, 3)], equation="bii->bi")
    case("einsum_dots", "Einsum", [(2, 3, 4), (4, 5)], equation="...ij,jk->...ik")
    case("einsum_sum", "Einsum", [(2, 3, 4)], equation="ijk->k")
    case("einsum_three", "Einsum", [(2, 3), (3, 4), (4, 2)], equation="ij,jk,kl->il")


def windows():
    x, w = (1, 3, 4, 5), (3, 2, 3, 3)
    case("conv_transpose", "ConvTranspose", [x], [w])
    case("conv_transpose_stride", "ConvTranspose", [x], [w, (2,)], strides=[2, 2], pads=[1, 1, 1, 1])
    case("conv_transpose_more", "ConvTranspose", [x], [w], strides=[3, 2], output_padding=[1, 1], pads=[0, 1, 1, 0])
    case("conv_transpose_dilation", "ConvTranspose", [x], [w], dilations=[2, 1])
    case("conv_transpose_group", "ConvTranspose", [(1, 4, 3, 3)], [(4, 3, 2, 2)], group=2, strides=[2, 2])
    case("conv_transpose_same", "ConvTranspose", [x], [w], strides=[2, 2], auto_pad="SAME_UPPER")
    case("conv_transpose_shape", "ConvTranspose", [x], [w], strides=[2, 2], output_shape=[10, 11])
    case("conv_transpose_1d", "ConvTranspose", [(1, 3, 6)], [(3, 2, 4)], strides=[2])
    volume = (1, 2, 4, 5, 3)
    case("conv_3d", "Conv", [volume], [(4, 2, 3, 3, 2), (4,)], pads=[1, 1, 0, 1, 1, 1])
    case("conv_3d_stride", "Conv", [volume], [(4, 1, 2, 3, 1)], strides=[2, 1, 1], group=2)
    case("conv_transpose_3d", "ConvTranspose", [(1, 2, 3, 2, 3)], [(2, 2, 2, 2, 2)], strides=[2, 1, 2])
    case("max_pool_3d", "MaxPool", [volume], kernel_shape=[2, 3, 2], strides=[1, 2, 1], pads=[0, 1, 0, 1, 1, 0])
    case("average_pool_3d", "AveragePool", [volume], kernel_shape=[2, 2, 2], pads=[1, 0, 1, 0, 1, 0])
    case("max_pool_u8", "MaxPool", [np.arange(48, dtype=np.uint8).reshape(1, 3, 4, 4)], kernel_shape=[2, 2])
    case("max_pool_places", "MaxPool", [(1, 2, 5, 5)], outputs=2, kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    case("global_max_pool", "GlobalMaxPool", [(2, 3, 4, 5)])
    case("global_lp_pool", "GlobalLpPool", [(2, 3, 4, 5)])
    case("lp_pool_last", "LpPool", [(1, 1, 3, 4)], kernel_shape=[2, 1], strides=[3, 1], pads=[1, 0, 1, 0], ceil_mode=1, opset=18)
    case("lp_pool", "LpPool", [(1, 3, 5, 6)], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 0, 1])
    case("max_unpool", "MaxUnpool", [(1, 1, 2, 2), np.array([[[[5, 7], [8, 15]]]])], kernel_shape=[2, 2], strides=[2, 2])
    case("col2im", "Col2Im", [(1, 8, 4)], [ints(3, 3), ints(2, 2)], opset=18)
    sizes = [np.array([], np.float32), np.array([], np.float32), ints(1, 1, 7, 3)]
    for mode in ("align_corners", "half_pixel", "asymmetric"):
        case(f"resize_cubic_{mode}", "Resize", [(1, 1, 4, 5)], sizes, mode="cubic", coordinate_transformation_mode=mode)
    case("resize_cubic_inside", "Resize", [(1, 1, 4, 5)], sizes, mode="cubic", exclude_outside=1, cubic_coeff_a=-0.5)
    case("resize_antialias", "Resize", [(1, 1, 8, 5)], sizes[:2] + [ints(1, 1, 3, 4)], opset=18, mode="linear", antialias=1)
    part = [np.array([0, 0, 0.2, -0.3, 1, 1, 0.9, 1.2], np.float32), np.array([], np.float32), ints(1, 1, 3, 4)]
    case("resize_crop", "Resize", [(1, 1, 5, 6)], part, mode="linear", extrapolation_value=7.0,
         coordinate_transformation_mode="tf_crop_and_resize")
    for mode in ("bilinear", "nearest", "bicubic"):
        for beyond in ("zeros", "border", "reflection"):
            grid = np.random.RandomState(5).uniform(-1.4, 1.4, (1, 3, 4, 2)).astype(np.float32)
            case(f"grid_sample_{mode}_{beyond}", "GridSample", [(1, 2, 4, 5), grid], mode=mode, padding_mode=beyond)


def recurrent():
    x, lengths = (5, 2, 3), np.array([5, 3], np.int32)
    h = 4
    for op, gates in (("LSTM", 4), ("GRU", 3), ("RNN", 1)):
        name, outputs = op.lower(), 3 if op == "LSTM" else 2

        def weights(directions, gates=gates):
            return [(directions, gates * h, 3), (directions, gates * h, h), (directions, 2 * gates * h)]

        case(name, op, [x], weights(1), outputs=outputs, hidden_size=h)
        case(f"{name}_both", op, [x], weights(2), outputs=outputs, hidden_size=h, direction="bidirectional")
        state = [(2, 2, h)] * (2 if op == "LSTM" else 1)
        case(f"{name}_lengths", op, [x], [*weights(2), lengths, *state], outputs=outputs, hidden_size=h,
             direction="bidirectional")
        case(f"{name}_reverse", op, [x], weights(1)[:2], outputs=outputs, hidden_size=h, direction="reverse", clip=0.4)
    case("lstm_peepholes", "LSTM", [x], [(1, 16, 3), (1, 16, h), None, None, None, None, (1, 12)], outputs=3, hidden_size=h)
    case("lstm_coupled", "LSTM", [x], [(1, 16, 3), (1, 16, h)], outputs=3, hidden_size=h, input_forget=1)
    case("gru_behind", "GRU", [x], [(1, 12, 3), (1, 12, h), (1, 24)], outputs=2, hidden_size=h, linear_before_reset=1)
    case("rnn_functions", "RNN", [x], [(2, h, 3), (2, h, h)], outputs=2, hidden_size=h, direction="bidirectional",
         activations=["LeakyRelu", "HardSigmoid"], activation_alpha=[0.2, 0.3], activation_beta=[0.4])


def attention():
    q = (1, 2, 3, 4)
    case("attention", "Attention", [q, q, q], opset=23)
    case("attention_causal", "Attention", [q, (1, 1, 5, 4), (1, 1, 5, 4)], opset=23, is_causal=1)
    mask = [bools(1, 1, 0), bools(0, 1, 1), bools(1, 0, 1)]
    case("attention_mask", "Attention", [q, q, q, np.array(mask)], opset=23, softcap=2.0)
    case("attention_flat", "Attention", [(2, 3, 8), (2, 4, 8), (2, 4, 8)], opset=23, q_num_heads=2, kv_num_heads=2, scale=0.3)
    case("rotary", "RotaryEmbedding", [(1, 2, 3, 4)], [(1, 3, 2), (1, 3, 2)], opset=23)
    case("rotary_pairs", "RotaryEmbedding", [(1, 3, 8), ], [(6, 2), (6, 2), np.array([[2, 0, 5]])], opset=23, num_heads=2,
         interleaved=1)
    case("dft", "DFT", [(1, 6, 1)], axis=1, onesided=1)
    case("dft_inverse", "DFT", [(1, 6, 2)], axis=1, inverse=1)
    case("stft", "STFT", [(1, 20, 1)], [ints(4).reshape(()), (8,)], onesided=0)


def control():
    """Branches and loops: known ones, and a branch on data."""
    node = helper.make_node
    out = helper.make_tensor_value_info("r", TensorProto.FLOAT, [2, 3])

    def branch(op):
        return helper.make_graph([node(op, ["x0"], ["r"])], op, [], [out])

    both = {"then_branch": branch("Relu"), "else_branch": branch("Neg")}
    graph_case("if_known", [node("If", ["c"], ["y0"], name="op", **both)], [(2, 3)], {"c": np.array(False)})
    whole = node("ReduceSum", ["x0"], ["s"], keepdims=0)
    positive = node("Greater", ["s", "zero"], ["c"])
    graph_case("if_data", [whole, positive, node("If", ["c"], ["y0"], name="op", **both)], [(2, 3)],
               {"zero": np.array(0, np.float32)})
    # A branch that would stop the program is not computed where the condition does not hold.
    whole_type = helper.make_tensor_value_info("r", TensorProto.INT32, None)
    guarded = {
        "then_branch": helper.make_graph([node("Div", ["x0", "x1"], ["r"])], "divided", [], [whole_type]),
        "else_branch": helper.make_graph([node("Neg", ["x0"], ["r"])], "negated", [], [whole_type]),
    }
    least = node("ReduceMin", ["x1"], ["least"], keepdims=0)
    some = node("Greater", ["least", "zero"], ["c"])
    for name, by in (("if_guards_division", [1, 0, 3]), ("if_divides", [1, 2, 3])):
        graph_case(name, [least, some, node("If", ["c"], ["y0"], name="op", **guarded)],
                   [np.array([8, 9, -7], np.int32), np.array(by, np.int32)], {"zero": np.array(0, np.int32)})
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [node("Identity", ["go"], ["go_on"]), node("Mul", ["v", "x0"], ["w"]), node("Identity", ["w"], ["each"])],
        "body",
        [value("i", TensorProto.INT64, []), value("go", TensorProto.BOOL, []), value("v", TensorProto.FLOAT, [3])],
        [value("go_on", TensorProto.BOOL, []), value("w", TensorProto.FLOAT, [3]), value("each", TensorProto.FLOAT, [3])],
    )
    loop = node("Loop", ["n", "", "x0"], ["y0", "y1"], name="op", body=body)
    graph_case("loop", [loop], [(3,)], {"n": ints(4).reshape(())}, outputs=2)
    scanned = helper.make_graph(
        [node("Add", ["sum", "each"], ["next"]), node("Neg", ["next"], ["shown"])],
        "scanned",
        [value("sum", TensorProto.FLOAT, [2]), value("each", TensorProto.FLOAT, [2])],
        [value("next", TensorProto.FLOAT, [2]), value("shown", TensorProto.FLOAT, [2])],
    )
    scan = node("Scan", ["x0", "x1"], ["y0", "y1"], name="op", body=scanned, num_scan_inputs=1, scan_input_directions=[1])
    graph_case("scan", [scan], [(2,), (4, 2)], outputs=2)


def optimized():
    """What ONNX Runtime's optimizer writes."""

    def contrib(name, op, inputs, constants=(), **others):
        case(f"ms_{name}", op, inputs, constants, domain="com.microsoft", **others)

    contrib("gelu", "Gelu", [(2, 5)])
    contrib("fast_gelu", "FastGelu", [(2, 5)], [(5,)])
    contrib("bias_gelu", "BiasGelu", [(2, 5)], [(5,)])
    contrib("quick_gelu", "QuickGelu", [(2, 5)], alpha=1.5)
    x, w = (1, 3, 5, 4), (4, 3, 3, 3)
    contrib("fused_conv", "FusedConv", [x], [w, (4,)], activation="Relu", pads=[1, 1, 1, 1])
    contrib("fused_conv_sum", "FusedConv", [x], [w, (4,), (1, 4, 3, 2)], activation="Relu")
    contrib("fused_conv_clip", "FusedConv", [x], [w], activation="Clip", activation_params=[-0.3, 0.4])
    contrib("fused_matmul", "FusedMatMul", [(2, 3, 4), (2, 5, 4)], transB=1, alpha=0.5)
    contrib("fused_gemm", "FusedGemm", [(3, 4)], [(5, 4), (5,)], transB=1, activation="LeakyRelu", activation_alpha=0.2)
    contrib("skip_layer_norm", "SkipLayerNormalization", [(2, 3, 8), (2, 3, 8)], [(8,), (8,), (8,)])
    contrib("skip_rms_norm", "SkipSimplifiedLayerNormalization", [(2, 3, 8), (2, 3, 8)], [(8,)])
    one = [(2, 3, 8)]
    contrib("attention", "Attention", one, [(8, 24), (24,)], num_heads=2)
    contrib("attention_causal", "Attention", one, [(8, 24), (24,)], num_heads=2, unidirectional=1)
    mask = np.array([[1, 1, 0], [1, 0, 0]], np.int32)
    contrib("attention_mask", "Attention", one, [(8, 24), (24,), mask], num_heads=4)
    contrib("attention_lengths", "Attention", one, [(8, 24), (24,), np.array([3, 2], np.int32)], num_heads=2)
    contrib("multi_head", "MultiHeadAttention", [(2, 3, 8), (2, 4, 8), (2, 4, 8)], [(24,)], num_heads=2)
    random = np.random.RandomState(3)
    x8 = random.randint(0, 255, (2, 3, 8)).astype(np.uint8)
    # Of larger weights processors without VNNI cut sums of two products to 16 bits.
    w8 = random.randint(-60, 60, (8, 24)).astype(np.int8)
    scales = [np.array([0.01], np.float32), np.array([0.005], np.float32)]
    zeros = [None, np.array([120], np.uint8), np.array([0], np.int8)]
    contrib("q_attention", "QAttention", [x8], [w8, (24,), *scales, *zeros], num_heads=2)


FAMILIES = (optimized, elementwise, normalizing, reducing, places, windows, recurrent, attention, control)
