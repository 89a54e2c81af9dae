"""Cases of nodes that move elements: parts, joints, repetition, choice, element types, sizes of
images, and what is computed of shapes. `make_cases.py` runs them with the others; alone:

    python movement_cases.py
"""

import numpy as np
import onnx
from make_cases import case, floats, graph_case, ints
from onnx import helper


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs, outputs, name=outputs[0], **attributes)


def joints():
    x = (2, 3, 4)
    for axis in (0, 1, 2, -1, -3):
        shape = list(x)
        shape[axis] = 2
        case(f"concat_{axis}".replace("-", "minus"), "Concat", [x, tuple(shape)], axis=axis)
    case("concat_one", "Concat", [x], axis=1)
    case("concat_three", "Concat", [(1, 2, 3, 3), (1, 1, 3, 3), (1, 4, 3, 3)], axis=1)
    case("concat_channels", "Concat", [(1, 16, 5, 5), (1, 24, 5, 5), (1, 8, 5, 5)], axis=1)
    case("concat_rank1", "Concat", [(3,), (1,), (2,)], axis=0)
    case("concat_rank5", "Concat", [(1, 2, 1, 3, 2), (1, 2, 4, 3, 2)], axis=2)
    case("concat_empty", "Concat", [(2, 0), (2, 3)], axis=1)
    case("concat_int", "Concat", [ints(1, 2), ints(-3)], axis=0)
    case("concat_int32", "Concat", [np.int32([[1], [2]]), np.int32([[3], [4]])], axis=1)
    case("concat_bool", "Concat", [np.array([True, False]), np.array([True])], axis=0)
    case("concat_weight", "Concat", [(2, 3)], [(1, 3)], axis=0)
    for axis in (0, 1, 2, -1):
        name = f"split_{axis}".replace("-", "minus")
        case(name, "Split", [(4, 2, 6)], outputs=2, axis=axis)
    case("split_sizes", "Split", [(2, 7)], [ints(1, 4, 2)], outputs=3, axis=1)
    case("split_zero", "Split", [(2, 3)], [ints(0, 3)], outputs=2, axis=1)
    case("split_rank1", "Split", [(6,)], outputs=3)
    case("split_uneven", "Split", [(2, 7)], outputs=3, axis=1, num_outputs=3, opset=18)
    case("split_opset18", "Split", [(2, 6)], [ints(2, 4)], outputs=2, axis=1, opset=18)
    case("split_int", "Split", [ints(1, 2, 3, 4)], outputs=2)
    case("split_channels", "Split", [(1, 32, 4, 4)], outputs=2, axis=1)


def parts():
    x = (4, 5, 6)
    case("slice", "Slice", [x], [ints(1), ints(3)])
    case("slice_axes", "Slice", [x], [ints(1, 2), ints(4, 5), ints(1, 2)])
    case("slice_negative_axis", "Slice", [x], [ints(1), ints(4), ints(-1)])
    case("slice_from_end", "Slice", [x], [ints(-3), ints(-1), ints(1)])
    case("slice_beyond", "Slice", [x], [ints(2, -99), ints(2**63 - 1, 99), ints(0, 1)])
    case("slice_steps", "Slice", [x], [ints(0, 1), ints(5, 6), ints(1, 2), ints(2, 3)])
    case("slice_backwards", "Slice", [x], [ints(-1), ints(-(2**63)), ints(2), ints(-1)])
    case("slice_backwards_steps", "Slice", [x], [ints(4, 5), ints(0, -7), ints(1, 2), ints(-2, -3)])
    case("slice_empty", "Slice", [x], [ints(3), ints(1), ints(0)])
    case("slice_whole", "Slice", [x], [ints(0), ints(99), ints(1)])
    case("slice_rank1", "Slice", [(9,)], [ints(7), ints(1), ints(0), ints(-2)])
    case("slice_rank5", "Slice", [(2, 3, 2, 4, 3)], [ints(1, 1), ints(2, 4), ints(0, 3)])
    case("slice_int", "Slice", [ints(1, 2, 3, 4)], [ints(1), ints(3)])
    case("slice_int32_bounds", "Slice", [x], [np.int32([1]), np.int32([3])])
    case("slice_bool", "Slice", [np.array([True, False, True])], [ints(-1), ints(-9), ints(0), ints(-1)])
    case("slice_channels", "Slice", [(1, 40, 4, 4)], [ints(8), ints(32), ints(1)])
    for opset in (13, 18):
        suffix = "" if opset == 13 else f"_opset{opset}"
        case(f"pad{suffix}", "Pad", [(2, 3)], [ints(1, 0, 2, 1)], opset=opset)
    case("pad_value", "Pad", [(2, 3)], [ints(0, 2, 1, 0), floats(1.5).reshape(())])
    case("pad_axes", "Pad", [(2, 3, 4)], [ints(1, 2, 0, 1), None, ints(0, -1)], opset=18)
    case("pad_negative", "Pad", [(4, 5)], [ints(-1, 1, 2, -2)])
    case("pad_rank4", "Pad", [(1, 2, 3, 3)], [ints(0, 0, 1, 1, 0, 0, 1, 2)])
    case("pad_rank1", "Pad", [(3,)], [ints(2, 1), floats(-np.inf).reshape(())])
    case("pad_none", "Pad", [(2, 3)], [ints(0, 0, 0, 0)])
    case("pad_int", "Pad", [ints(1, 2)], [ints(1, 1), np.array(-7)])
    for mode in ("edge", "reflect"):
        case(f"pad_{mode}", "Pad", [(3, 4)], [ints(1, 2, 2, 1)], mode=mode)
    case("pad_wrap", "Pad", [(3, 4)], [ints(1, 2, 2, 1)], mode="wrap", opset=19)


def repetition():
    case("expand", "Expand", [(3, 1)], [ints(3, 4)])
    case("expand_rank", "Expand", [(3,)], [ints(2, 2, 3)])
    case("expand_both", "Expand", [(2, 1, 3)], [ints(4, 1)])
    case("expand_scalar", "Expand", [()], [ints(2, 3)])
    case("expand_same", "Expand", [(2, 3)], [ints(1)])
    case("expand_int", "Expand", [ints(7)], [ints(2, 3)])
    case("expand_rank5", "Expand", [(1, 2, 1, 1, 3)], [ints(2, 2, 2, 1, 3)])
    case("tile", "Tile", [(2, 3)], [ints(2, 2)])
    case("tile_one", "Tile", [(2, 3)], [ints(1, 1)])
    case("tile_rank3", "Tile", [(1, 2, 3)], [ints(3, 1, 2)])
    case("squeeze", "Squeeze", [(1, 3, 1)])
    case("squeeze_axes", "Squeeze", [(1, 3, 1)], [ints(-1)])
    case("squeeze_scalar", "Squeeze", [(1, 1)])
    case("unsqueeze", "Unsqueeze", [(3, 4)], [ints(1)])
    case("unsqueeze_two", "Unsqueeze", [(3, 4)], [ints(-1, 0)])
    case("unsqueeze_scalar", "Unsqueeze", [()], [ints(0)])
    for opset in (13, 21):
        case(f"unsqueeze_opset{opset}", "Unsqueeze", [(2,)], [ints(1)], opset=opset)
    case("transpose_negative_free", "Transpose", [(2, 3, 4, 2, 3)], perm=[4, 0, 3, 1, 2])


def choice():
    x = (4, 3, 5)
    table = (10, 6)
    ids = np.array([[1, 0, 9], [4, 4, 2]])
    for axis in (0, 1, 2, -1):
        name = f"gather_{axis}".replace("-", "minus")
        case(name, "Gather", [x, ints(2, 0)], axis=axis)
        case(f"{name}_constant", "Gather", [x], [ints(2, 0, 1)], axis=axis)
    case("gather_scalar", "Gather", [x], [np.array(-1)], axis=0)
    case("gather_scalar_axis", "Gather", [x], [np.array(1)], axis=1)
    case("gather_regular", "Gather", [x], [ints(3, 2, 1)], axis=0)
    case("gather_repeated", "Gather", [x], [ints(1, 1)], axis=1)
    case("gather_embedding", "Gather", [table, ids])
    case("gather_negative", "Gather", [table, ints(-1, -10, 3)])
    case("gather_int32", "Gather", [table, np.int32([1, -2])])
    case("gather_of_int", "Gather", [np.arange(6).reshape(3, 2), ints(2, 0)])
    case("gather_matrix_indices", "Gather", [x, ids % 3], axis=1)
    case("gather_constant_matrix", "Gather", [x], [ids % 3], axis=1)
    mask = np.array([[True], [False], [True]])
    case("where", "Where", [mask, (3, 4), (3, 4)])
    case("where_broadcast", "Where", [mask, (4,), (2, 1, 1)])
    case("where_scalar", "Where", [mask, (3, 4)], [floats(-1e9).reshape(())])
    case("where_int", "Where", [mask, np.arange(3).reshape(3, 1), ints(7)])
    case("where_twice", "Where", [mask], [floats(1).reshape(1), floats(1).reshape(1)])
    numbers = np.array([[0.0, 1.5, -1.5], [2.5, -0.25, 100.75]], np.float32)
    t = onnx.TensorProto
    targets = {"int64": t.INT64, "int32": t.INT32, "bool": t.BOOL, "double": t.DOUBLE, "float16": t.FLOAT16, "int8": t.INT8, "uint8": t.UINT8}
    for name, to in targets.items():
        case(f"cast_to_{name}", "Cast", [np.abs(numbers) if name == "uint8" else numbers], to=to)
    for dtype in (np.int64, np.int32, np.bool_, np.float64, np.float16, np.int8, np.uint8):
        case(f"cast_from_{np.dtype(dtype).name}", "Cast", [np.array([[0, 1, 3], [100, 7, 1]]).astype(dtype)], to=t.FLOAT)
    case("cast_int_to_int", "Cast", [ints(1, -2, 2**31 - 1)], to=t.INT32)
    case("cast_int_to_bool", "Cast", [ints(1, 0, -2)], to=t.BOOL)
    case("cast_bool_to_int", "Cast", [np.array([True, False])], to=t.INT64)
    case("cast_same", "Cast", [numbers], to=t.FLOAT)
    case("cast_opset19", "Cast", [numbers], to=t.INT64, opset=19)
    case("cast_like", "CastLike", [numbers, ints(1)])


def images():
    x = (1, 2, 4, 5)

    def scaled(*scales):
        return [None, np.array(scales, np.float32)]

    def sized(*sizes):
        return [None, None, ints(*sizes)]

    modes = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
    for mode in modes:
        for kind in ("nearest", "linear"):
            name = f"resize_{kind}_{mode}"
            how = {"mode": kind, "coordinate_transformation_mode": mode}
            case(f"{name}_up", "Resize", [x], scaled(1, 1, 2, 2), **how)
            case(f"{name}_down", "Resize", [x], scaled(1, 1, 0.5, 0.6), **how)
            case(f"{name}_sizes", "Resize", [x], sized(1, 2, 7, 3), **how)
    for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        for mode in ("asymmetric", "half_pixel"):
            how = {"nearest_mode": rounding, "coordinate_transformation_mode": mode}
            case(f"resize_{rounding}_{mode}", "Resize", [x], scaled(1, 1, 1.5, 2.5), **how)
    floor = {"nearest_mode": "floor", "coordinate_transformation_mode": "asymmetric"}
    case("resize_twice", "Resize", [(1, 3, 3, 3)], scaled(1, 1, 2, 2), **floor)
    case("resize_integer_factors", "Resize", [(1, 2, 2, 3)], scaled(1, 1, 3, 2), **floor)
    case("resize_one_axis", "Resize", [x], scaled(1, 1, 1, 2), **floor)
    case("resize_same", "Resize", [x], scaled(1, 1, 1, 1), **floor)
    case("resize_to_one", "Resize", [x], sized(1, 2, 1, 1), mode="linear", coordinate_transformation_mode="pytorch_half_pixel")
    case("resize_corners_to_one", "Resize", [x], sized(1, 2, 1, 5), mode="linear", coordinate_transformation_mode="align_corners")
    case("resize_int", "Resize", [np.arange(8, dtype=np.int32).reshape(1, 1, 2, 4)], scaled(1, 1, 2, 2), **floor)
    case("resize_rank3", "Resize", [(1, 2, 5)], scaled(1, 1, 2), mode="linear")
    case("resize_rank2", "Resize", [(3, 4)], scaled(2, 1.5), mode="linear")
    case("resize_axes", "Resize", [x], scaled(2, 3), opset=18, axes=[2, 3], mode="linear")
    case("resize_axes_negative", "Resize", [x], sized(8, 8), opset=18, axes=[-2, -1])
    case("resize_not_larger", "Resize", [x], sized(9, 9), opset=18, axes=[2, 3], keep_aspect_ratio_policy="not_larger", mode="linear")
    case("resize_not_smaller", "Resize", [x], sized(9, 9), opset=18, axes=[2, 3], keep_aspect_ratio_policy="not_smaller", mode="linear")
    case("resize_symmetric", "Resize", [x], scaled(1, 1, 1.3, 0.7), opset=19, mode="linear", coordinate_transformation_mode="half_pixel_symmetric")


def pools():
    """Windows that stick out, in newer operator sets: a mean counts what is inside the padding."""
    x = (1, 2, 7, 6)
    how = {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}
    for include in (0, 1):
        for opset in (17, 19, 22):
            name = f"avgpool_ceil_include{include}_opset{opset}"
            case(name, "AveragePool", [x], pads=[1, 1, 1, 1], count_include_pad=include, opset=opset, **how)
    case("avgpool_dilation", "AveragePool", [x], kernel_shape=[2, 2], dilations=[2, 3], opset=19)
    case("avgpool_dilation_ceil", "AveragePool", [x], kernel_shape=[2, 2], dilations=[2, 2], strides=[2, 2], ceil_mode=1, count_include_pad=1, pads=[1, 1, 1, 1], opset=19)
    case("maxpool_ceil_dilation", "MaxPool", [x], kernel_shape=[2, 3], dilations=[2, 1], strides=[2, 2], ceil_mode=1)
    case("maxpool_opset22", "MaxPool", [x], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, opset=22)
    case("conv_opset22", "Conv", [(1, 3, 7, 6)], [(4, 3, 3, 3), (4,)], pads=[1, 1, 1, 1], opset=22)
    case("pad_conv", "Pad", [(1, 3, 5, 5)], [ints(0, 0, 1, 2, 0, 0, 2, 1)])


def graphs():
    """Several nodes: what exporters write around shapes, and parts that meet."""
    shape_of = [node("Shape", ["x0"], ["s"])]
    graph_case(
        "shape_flatten",
        shape_of + [
            node("Gather", ["s", "zero"], ["n"], axis=0),
            node("Unsqueeze", ["n", "axes"], ["n1"]),
            node("Concat", ["n1", "rest"], ["to"], axis=0),
            node("Reshape", ["x0", "to"], ["y0"]),
        ],
        [(2, 3, 4)],
        {"zero": np.array(0), "axes": ints(0), "rest": ints(-1)},
    )
    graph_case(
        "shape_halves",
        shape_of + [
            node("Gather", ["s", "last"], ["n"], axis=0),
            node("Add", ["n", "one"], ["n1"]),
            node("Div", ["n1", "two"], ["h"]),
            node("Mul", ["h", "one"], ["a"]),
            node("Mul", ["h", "two"], ["b"]),
            node("Slice", ["x0", "nought", "a", "last"], ["y0"]),
            node("Slice", ["x0", "a", "b", "last"], ["y1"]),
        ],
        [(3, 8)],
        {"last": ints(-1), "one": ints(1), "two": ints(2), "nought": ints(0)},
        outputs=2,
    )
    graph_case(
        "shape_interpolate",
        shape_of + [
            node("Slice", ["s", "two", "four"], ["hw"]),
            node("Cast", ["hw"], ["f"], to=onnx.TensorProto.FLOAT),
            node("Mul", ["f", "factor"], ["g"]),
            node("Floor", ["g"], ["fl"]),
            node("Cast", ["fl"], ["sizes"], to=onnx.TensorProto.INT64),
            node("Slice", ["s", "nought", "two"], ["nc"]),
            node("Concat", ["nc", "sizes"], ["to"], axis=0),
            node("Resize", ["x0", "", "", "to"], ["y0"], mode="linear"),
        ],
        [(1, 2, 3, 3)],
        {"two": ints(2), "four": ints(4), "factor": floats(1.5, 2.0), "nought": ints(0)},
    )
    graph_case(
        "shape_expand",
        shape_of + [
            node("Shape", ["s"], ["r"]),
            node("ConstantOfShape", ["r"], ["ones"], value=onnx.numpy_helper.from_array(ints(1))),
            node("Mul", ["ones", "minus"], ["neg"]),
            node("Equal", ["s", "neg"], ["is"]),
            node("Where", ["is", "ones", "s"], ["to"]),
            node("Expand", ["row", "to"], ["e"]),
            node("Add", ["x0", "e"], ["y0"]),
        ],
        [(2, 3)],
        {"minus": ints(-1), "row": floats(1, 2, 3)},
    )
    graph_case(
        "shape_range",
        shape_of + [
            node("Gather", ["s", "one"], ["n"], axis=0),
            node("Range", ["nought", "n", "one"], ["ids"]),
            node("Gather", ["table", "ids"], ["e"], axis=0),
            node("Add", ["x0", "e"], ["y0"]),
        ],
        [(2, 3, 4)],
        {"one": np.array(1), "nought": np.array(0), "table": floats(*range(40)).reshape(10, 4)},
    )
    graph_case(
        "shape_squeeze",
        [
            node("Shape", ["x0"], ["s"], start=1, end=-1),
            node("Squeeze", ["s"], ["n"]),
            node("Size", ["x0"], ["all"]),
            node("Div", ["all", "n"], ["rest"]),
            node("Unsqueeze", ["rest", "axes"], ["r1"]),
            node("Unsqueeze", ["n", "axes"], ["n1"]),
            node("Concat", ["n1", "r1"], ["to"], axis=0),
            node("Reshape", ["x0", "to"], ["y0"]),
        ],
        [(2, 3, 4)],
        {"axes": ints(0)},
    )
    graph_case("identity_initializer", [node("Identity", ["w"], ["v"]), node("Add", ["x0", "v"], ["y0"])], [(2, 3)], {"w": floats(1, 2, 3)})
    # Parts that meet others.
    graph_case(
        "slice_of_pad",
        [node("Pad", ["x0", "pads", "value"], ["p"]), node("Slice", ["p", "a", "b", "axes", "steps"], ["y0"])],
        [(3, 4)],
        {"pads": ints(2, 1, 1, 2), "value": floats(5).reshape(()), "a": ints(1, 6), "b": ints(6, 0), "axes": ints(0, 1), "steps": ints(2, -1)},
    )
    graph_case(
        "pad_of_slice",
        [node("Slice", ["x0", "a", "b", "axes"], ["s"]), node("Pad", ["s", "pads"], ["p"]), node("Relu", ["p"], ["y0"])],
        [(6, 5)],
        {"pads": ints(1, 1, 1, 1), "a": ints(2), "b": ints(4), "axes": ints(0)},
    )
    graph_case(
        "pad_before_conv",
        [node("Pad", ["x0", "pads", "value"], ["p"]), node("Conv", ["p", "w"], ["y0"], pads=[1, 1, 1, 1])],
        [(1, 3, 5, 5)],
        {"pads": ints(0, 0, 1, 1, 0, 0, 1, 1), "value": floats(2).reshape(()), "w": (4, 3, 3, 3)},
    )
    graph_case(
        "pad_before_pool",
        [node("Pad", ["x0", "pads", "value"], ["p"]), node("MaxPool", ["p"], ["y0"], kernel_shape=[3, 3], strides=[2, 2])],
        [(1, 16, 7, 7)],
        {"pads": ints(0, 0, 0, 0, 0, 0, 1, 1), "value": floats(-np.inf).reshape(())},
    )
    graph_case(
        "slices_multiplied",
        [
            node("Slice", ["x0", "a", "b", "last"], ["l"]),
            node("Slice", ["x1", "a", "b", "first"], ["r"]),
            node("MatMul", ["l", "r"], ["y0"]),
        ],
        [(5, 40), (40, 6)],
        {"a": ints(3), "b": ints(27), "last": ints(1), "first": ints(0)},
    )
    graph_case(
        "concat_of_convs",
        [
            node("Conv", ["x0", "u"], ["a"]),
            node("Conv", ["x0", "v"], ["b"], pads=[1, 1, 1, 1]),
            node("Relu", ["b"], ["c"]),
            node("Conv", ["x0", "w"], ["d"]),
            node("Concat", ["a", "c", "d"], ["y0"], axis=1),
        ],
        [(1, 16, 6, 6)],
        {"u": (16, 16, 1, 1), "v": (24, 16, 3, 3), "w": (8, 16, 1, 1)},
    )
    graph_case(
        "concat_used_twice",
        [
            node("Relu", ["x0"], ["a"]),
            node("Concat", ["a", "x0"], ["b"], axis=1),
            node("Concat", ["b", "a", "a"], ["y0"], axis=1),
            node("Mul", ["a", "a"], ["y1"]),
        ],
        [(2, 3)],
        outputs=2,
    )
    graph_case(
        "split_joined",
        [
            node("Split", ["x0"], ["a", "b"], axis=1),
            node("Sigmoid", ["b"], ["c"]),
            node("Mul", ["a", "c"], ["d"]),
            node("Concat", ["b", "d"], ["y0"], axis=1),
        ],
        [(1, 32, 3, 3)],
    )
    graph_case(
        "flip_and_add",
        [node("Slice", ["x0", "a", "b", "axes", "steps"], ["r"]), node("Add", ["x0", "r"], ["y0"])],
        [(3, 33)],
        {"a": ints(-1), "b": ints(-99), "axes": ints(1), "steps": ints(-1)},
    )


FAMILIES = (joints, parts, repetition, choice, images, pools, graphs)

if __name__ == "__main__":
    for family in FAMILIES:
        family()
