"""Operators in older and newer versions of the operator set, where their form or meaning differs."""

import numpy as np

from make_cases import case


def ints(*values):
    return np.array(values, np.int64)


def flat_softmax():
    # Until 12 all dimensions from the axis on are one.
    case("softmax_opset7", "Softmax", [(2, 3, 4)], opset=7)
    case("softmax_opset11", "Softmax", [(2, 3, 4)], opset=11)
    case("softmax_opset11_first", "Softmax", [(2, 3, 4)], opset=11, axis=0)
    case("softmax_opset12_last", "Softmax", [(2, 3, 4)], opset=12, axis=-1)
    case("softmax_opset13", "Softmax", [(2, 3, 4)], opset=13)


def attributes():
    case("clip_opset6", "Clip", [(2, 5)], opset=6, min=-0.5, max=0.25)
    case("clip_opset10_low", "Clip", [np.array([-1, 0.5, np.inf], np.float32)], opset=10, min=0.0)
    case("pad_opset10", "Pad", [(2, 3)], opset=10, pads=[1, 0, 0, 2], value=0.5)
    case("pad_opset7_edge", "Pad", [(2, 3)], opset=7, pads=[1, 0, 0, 2], mode="edge")
    case("slice_opset9", "Slice", [(4, 5)], opset=9, starts=[1, -3], ends=[3, 100], axes=[0, 1])
    case("slice_opset7_all", "Slice", [(4, 5)], opset=7, starts=[0, 1], ends=[2, 4])
    case("split_opset11", "Split", [(2, 6)], opset=11, outputs=2, axis=1, split=[2, 4])
    case("split_opset7_equal", "Split", [(2, 6)], opset=7, outputs=3, axis=1)
    case("split_opset13_equal", "Split", [(2, 6)], opset=13, outputs=2, axis=1)
    case("squeeze_opset11", "Squeeze", [(1, 3, 1, 2)], opset=11, axes=[0])
    case("squeeze_opset7_all", "Squeeze", [(1, 3, 1, 2)], opset=7)
    case("unsqueeze_opset11", "Unsqueeze", [(3, 2)], opset=11, axes=[0, 3])
    case("reduce_sum_opset11", "ReduceSum", [(2, 3, 4)], opset=11, axes=[1], keepdims=0)
    case("reduce_mean_opset17", "ReduceMean", [(2, 3, 4)], opset=17, axes=[-1])
    case("reduce_mean_opset18", "ReduceMean", [(2, 3, 4)], [ints(0, 2)], opset=18)
    case("reduce_max_opset18", "ReduceMax", [(2, 3, 4)], [ints(1)], opset=18, keepdims=0)
    case("split_opset18_uneven", "Split", [(2, 5)], opset=18, outputs=2, axis=1, num_outputs=2)


def inference():
    case("dropout_opset7", "Dropout", [(2, 3)], opset=7, ratio=0.5)
    case("dropout_opset12", "Dropout", [(2, 3)], [np.array(0.5, np.float32)], opset=12)
    off = np.array(False)
    case("dropout_opset13", "Dropout", [(2, 3)], [np.array(0.5, np.float32), off], opset=13)
    channels = [np.linspace(0.5, 1.5, 3, dtype=np.float32)] * 4
    case("batch_norm_opset7", "BatchNormalization", [(1, 3, 2, 2)], channels, opset=7, spatial=1)
    case("batch_norm_opset9", "BatchNormalization", [(1, 3, 2, 2)], channels, opset=9)


def images():
    image = (1, 2, 3, 4)
    double = np.array([1, 1, 2, 3], np.float32)
    case("upsample_opset7", "Upsample", [image], opset=7, scales=[1.0, 1.0, 2.0, 3.0])
    case("upsample_opset9", "Upsample", [image], [double], opset=9, mode="nearest")
    case("upsample_opset9_linear", "Upsample", [image], [double], opset=9, mode="linear")
    case("resize_opset10", "Resize", [image], [double], opset=10)
    case("resize_opset10_linear", "Resize", [image], [double], opset=10, mode="linear")
    case("avgpool_opset7", "AveragePool", [image], opset=7, kernel_shape=[2, 2], pads=[1, 1, 1, 1])
    case("maxpool_opset8", "MaxPool", [image], opset=8, kernel_shape=[2, 2])
    case("gemm_opset7", "Gemm", [(2, 3), (3, 4), (4,)], opset=7, alpha=0.5)
    case("reshape_opset5", "Reshape", [(2, 6)], [ints(3, -1)], opset=7)
    case("pow_opset7", "Pow", [(2, 3), np.full((3,), 2, np.float32)], opset=7)
    case("add_opset21", "Add", [(2, 3), (3,)], opset=21)


def halves():
    # Sums of 16-bit floats are accumulated in 32 bits.
    random = np.random.RandomState(7)

    def half(*shape):
        return random.uniform(-1, 1, shape).astype(np.float16)

    case("matmul_f16", "MatMul", [half(4, 256), half(256, 3)])
    case("gemm_f16", "Gemm", [half(4, 64), half(64, 3), half(3)])
    case("softmax_f16", "Softmax", [half(2, 200)])
    case("layernorm_f16", "LayerNormalization", [half(2, 200)], [half(200), half(200)])
    case("reduce_mean_f16", "ReduceMean", [half(2, 300)], axes=[1])
    case("reduce_sum_f16", "ReduceSum", [half(2, 300)], [ints(1)])


FAMILIES = (flat_softmax, attributes, inference, images, halves)
