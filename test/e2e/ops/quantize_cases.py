"""Cases of quantized operators, for `make_cases.py`."""

import numpy as np
from onnx import helper

from make_cases import case, graph_case


def bytes_of(seed, shape, dtype, low=None, high=None):
    info = np.iinfo(dtype)
    random = np.random.RandomState(seed)
    low, high = info.min if low is None else low, info.max if high is None else high
    return random.randint(low, high + 1, shape).astype(dtype)


def f32(*values):
    return np.array(values, np.float32)


def one(value, dtype=np.float32):
    return np.array(value, dtype)


# Ties, ends of the range, beyond them.
EDGES = f32(0, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5, 127.5, 128, -128.5, -129, 254.5, 255.5, 300, -300, 1e9, -1e9,
            np.inf, -np.inf, 0.49999997, 1e-30)


def quantize():
    x = np.linspace(-9, 9, 2 * 3 * 4, dtype=np.float32).reshape(2, 3, 4)
    for dtype, zero in ((np.int8, -3), (np.uint8, 128)):
        name = np.dtype(dtype).name
        case(f"quantize_{name}", "QuantizeLinear", [x], [one(0.07), one(zero, dtype)])
        case(f"quantize_{name}_edges", "QuantizeLinear", [EDGES], [one(1), one(0, dtype)])
        case(f"quantize_{name}_edges_zero", "QuantizeLinear", [EDGES], [one(1), one(zero, dtype)])
        zeros = np.array([zero, 0, 7], dtype)
        case(f"quantize_{name}_channel", "QuantizeLinear", [x], [f32(0.1, 0.03, 2), zeros])
        q = bytes_of(1, (2, 3, 4), dtype)
        case(f"dequantize_{name}", "DequantizeLinear", [q], [one(0.07), one(zero, dtype)])
        case(f"dequantize_{name}_channel", "DequantizeLinear", [q], [f32(0.1, 0.03, 2), zeros])
    case("quantize_no_zero", "QuantizeLinear", [x], [one(0.07)])
    case("quantize_one_element_list", "QuantizeLinear", [x], [f32(0.07), np.array([5], np.uint8)])
    case("quantize_last_axis", "QuantizeLinear", [x], [f32(0.1, 0.03, 2, 1), np.zeros(4, np.int8)], axis=-1)
    case("quantize_opset10", "QuantizeLinear", [x], [one(0.07), one(128, np.uint8)], opset=10)
    case("quantize_opset21_type", "QuantizeLinear", [x], [one(0.07)], opset=21, output_dtype=3)
    case("quantize_scale_input", "QuantizeLinear", [x, one(0.07), one(128, np.uint8)])
    case("dequantize_no_zero", "DequantizeLinear", [bytes_of(2, (2, 3), np.int8)], [one(0.5)])
    case("dequantize_int32", "DequantizeLinear", [bytes_of(3, (2, 3), np.int32)], [one(1e-3)])
    case("dynamic_quantize", "DynamicQuantizeLinear", [(3, 5)], outputs=3)
    case("dynamic_quantize_positive", "DynamicQuantizeLinear", [f32(1, 2, 3.7)], outputs=3)
    case("dynamic_quantize_negative", "DynamicQuantizeLinear", [f32(-1, -2, -3.7)], outputs=3)


def integer_products():
    x8, xu = bytes_of(4, (1, 4, 5, 6), np.int8), bytes_of(5, (1, 4, 5, 6), np.uint8)
    w = bytes_of(6, (6, 4, 3, 3), np.int8, -63, 63)
    wu = bytes_of(6, (6, 4, 3, 3), np.uint8, 0, 127)
    pads = [1, 1, 1, 1]
    case("conv_integer", "ConvInteger", [xu], [wu])
    case("conv_integer_pad_zero", "ConvInteger", [xu], [wu, one(130, np.uint8)], pads=pads)
    case("conv_integer_both_zeros", "ConvInteger", [xu], [wu, one(7, np.uint8), one(5, np.uint8)], pads=pads, strides=[2, 1])
    case("conv_integer_zero_input", "ConvInteger", [xu, wu, one(9, np.uint8)], pads=pads)
    case("matmul_integer", "MatMulInteger", [bytes_of(7, (3, 7), np.uint8), bytes_of(8, (7, 5), np.int8, -63, 63)])
    case("matmul_integer_zeros", "MatMulInteger", [bytes_of(7, (3, 7), np.uint8)],
         [bytes_of(8, (7, 5), np.int8, -63, 63), one(12, np.uint8), one(3, np.int8)])
    case("matmul_integer_columns", "MatMulInteger", [bytes_of(7, (2, 3, 7), np.uint8)],
         [bytes_of(8, (7, 5), np.int8, -63, 63), one(12, np.uint8), np.array([1, 2, -3, 0, 5], np.int8)])
    case("matmul_integer_zero_inputs", "MatMulInteger",
         [bytes_of(7, (3, 7), np.uint8), bytes_of(8, (7, 5), np.int8, -63, 63), one(12, np.uint8), one(3, np.int8)])
    scale = f32(0.02, 0.011, 0.03, 0.005, 0.02, 0.017)
    bias = bytes_of(9, (6,), np.int32, -4000, 4000)
    uint8, int8 = np.uint8, np.int8
    case("qlinear_conv", "QLinearConv", [xu],
         [one(0.05), one(0, uint8), w, one(0.02), one(0, int8), one(0.9), one(0, uint8)])
    case("qlinear_conv_channels", "QLinearConv", [xu],
         [one(0.05), one(120, uint8), w, scale, np.zeros(6, int8), one(0.4), one(100, uint8), bias], pads=pads)
    case("qlinear_conv_int8", "QLinearConv", [x8],
         [one(0.05), one(-7, int8), w, scale, np.zeros(6, int8), one(0.4), one(11, int8), bias], pads=pads, strides=[2, 2])
    depthwise = bytes_of(10, (4, 1, 3, 3), np.int8, -63, 63)
    case("qlinear_conv_depthwise", "QLinearConv", [x8],
         [one(0.05), one(3, int8), depthwise, f32(0.1, 0.2, 0.05, 0.07), np.zeros(4, int8), one(0.4), one(0, int8)],
         group=4, pads=pads)
    case("qlinear_conv_1d", "QLinearConv", [bytes_of(11, (1, 4, 9), np.uint8)],
         [one(0.05), one(120, uint8), w[:, :, 0], one(0.02), one(0, int8), one(0.4), one(100, uint8), bias], pads=[1, 1])
    a, b = bytes_of(12, (3, 7), np.uint8), bytes_of(13, (7, 5), np.int8, -63, 63)
    case("qlinear_matmul", "QLinearMatMul", [a],
         [one(0.05), one(110, uint8), b, one(0.02), one(0, int8), one(0.3), one(90, uint8)])
    case("qlinear_matmul_columns", "QLinearMatMul", [a],
         [one(0.05), one(110, uint8), b, scale[:5], np.array([0, 1, 2, -3, 0], int8), one(0.3), one(90, uint8)])


def quantized_network():
    """Two convolutions and a sum in QDQ form: int8, symmetric; scales are powers of two."""
    w1, w2 = bytes_of(14, (8, 3, 3, 3), np.int8, -63, 63), bytes_of(15, (8, 8, 1, 1), np.int8, -63, 63)
    constants = {
        "s_x": one(2**-6), "z": one(0, np.int8), "s_1": np.full(8, 2**-7, np.float32), "z_w": np.zeros(8, np.int8),
        "s_y": one(2**-4), "w1": w1, "w2": w2, "b1": bytes_of(16, (8,), np.int32, -4000, 4000),
        "s_b": np.full(8, 2**-13, np.float32), "z_b": np.zeros(8, np.int32), "s_2": np.full(8, 2**-8, np.float32),
        "s_o": one(2**-3),
    }
    n = helper.make_node
    nodes = [
        n("QuantizeLinear", ["x0", "s_x", "z"], ["q0"]),
        n("DequantizeLinear", ["q0", "s_x", "z"], ["d0"]),
        n("DequantizeLinear", ["w1", "s_1", "z_w"], ["dw1"], axis=0),
        n("DequantizeLinear", ["b1", "s_b", "z_b"], ["db1"], axis=0),
        n("Conv", ["d0", "dw1", "db1"], ["c1"], pads=[1, 1, 1, 1]),
        n("Relu", ["c1"], ["r1"]),
        n("QuantizeLinear", ["r1", "s_y", "z"], ["q1"]),
        n("DequantizeLinear", ["q1", "s_y", "z"], ["d1"]),
        n("DequantizeLinear", ["w2", "s_2", "z_w"], ["dw2"], axis=0),
        n("Conv", ["d1", "dw2"], ["c2"]),
        n("QuantizeLinear", ["c2", "s_y", "z"], ["q2"]),
        n("DequantizeLinear", ["q2", "s_y", "z"], ["d2"]),
        n("Add", ["d1", "d2"], ["a"]),
        n("QuantizeLinear", ["a", "s_o", "z"], ["q3"]),
        n("DequantizeLinear", ["q3", "s_o", "z"], ["y0"]),
    ]
    graph_case("qdq_network", nodes, [(1, 3, 8, 8)], constants)


FAMILIES = (quantize, integer_products, quantized_network)
