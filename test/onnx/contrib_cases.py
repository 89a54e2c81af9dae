#!/usr/bin/env python3
"""ONNX Runtime's fused operators (com.microsoft) in the forms that its optimizer and its quantizer write them, against ONNX Runtime.

Each case is a model of one node, imported, run at graph level, and compared with ONNX Runtime's answer. A case that is refused is
named with the reason. Needs the Python packages onnx, onnxruntime and numpy.
"""

import argparse
import collections
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
RANDOM = np.random.default_rng(5)


def numbers(*shape):
    return RANDOM.standard_normal(shape, dtype=np.float32)


def cases():
    """Name, operator, operands (None: not there), those of them that are constants, number of results, attributes."""
    x, w, b, z = numbers(2, 4, 7, 6), numbers(6, 4, 3, 3), numbers(6), numbers(2, 6, 5, 4)
    for activation, parameters in (
        ("Relu", None), ("Tanh", None), ("Sigmoid", None), ("LeakyRelu", [0.3]), ("Clip", [-0.5, 0.7]), ("HardSigmoid", [0.3, 0.4]),
    ):
        more = {"activation_params": parameters} if parameters else {}
        yield f"conv {activation}", "FusedConv", [x, w, b], [1, 2], 1, {"activation": activation, **more}
    yield "conv and sum", "FusedConv", [x, w, b, z], [1, 2], 1, {"activation": "Relu"}
    yield "conv and sum, no bias", "FusedConv", [x, w, None, z], [1], 1, {"activation": "Relu"}
    yield "conv, strides", "FusedConv", [x, w, b], [1, 2], 1, {"activation": "Relu", "strides": [2, 2], "auto_pad": "SAME_UPPER"}
    yield "conv, groups", "FusedConv", [x, numbers(6, 2, 3, 3), b], [1, 2], 1, {"activation": "Relu", "group": 2, "pads": [1, 0, 1, 2], "dilations": [2, 1]}
    yield "conv of one dimension", "FusedConv", [numbers(2, 4, 9), numbers(6, 4, 3), b], [1, 2], 1, {"activation": "Relu"}

    yield "matmul", "FusedMatMul", [numbers(3, 4), numbers(4, 5)], [1], 1, {}
    yield "matmul A", "FusedMatMul", [numbers(2, 4, 3), numbers(2, 4, 5)], [], 1, {"transA": 1, "alpha": 0.25}
    yield "matmul both", "FusedMatMul", [numbers(2, 4, 3), numbers(5, 4)], [1], 1, {"transA": 1, "transB": 1}
    yield "matmul batch A", "FusedMatMul", [numbers(3, 2, 4), numbers(2, 4, 5)], [], 1, {"transBatchA": 1}
    yield "matmul batch B", "FusedMatMul", [numbers(2, 3, 4), numbers(5, 2, 4)], [], 1, {"transBatchB": 1, "transB": 1}
    yield "matmul batch and A", "FusedMatMul", [numbers(4, 2, 3), numbers(2, 4, 5)], [], 1, {"transBatchA": 1, "transA": 1}
    yield "matmul vector", "FusedMatMul", [numbers(4), numbers(4, 5)], [1], 1, {"alpha": 2.0}

    yield "gelu", "Gelu", [3 * numbers(3, 7)], [], 1, {}

    s, g = numbers(2, 3, 8), numbers(8)
    yield "skip", "SkipLayerNormalization", [s, numbers(2, 3, 8), g], [2], 1, {"epsilon": 1e-5}
    yield "skip, beta", "SkipLayerNormalization", [s, numbers(2, 3, 8), g, numbers(8)], [2, 3], 1, {}
    yield "skip, bias", "SkipLayerNormalization", [s, numbers(2, 3, 8), g, numbers(8), numbers(8)], [2, 3, 4], 1, {}
    yield "skip, no beta", "SkipLayerNormalization", [s, numbers(2, 3, 8), g, None, numbers(8)], [2, 4], 1, {}
    yield "skip, broadcast", "SkipLayerNormalization", [s, numbers(1, 3, 8), g, numbers(8)], [2, 3], 1, {}
    yield "skip, rank 2", "SkipLayerNormalization", [s, numbers(3, 8), g, numbers(8)], [2, 3], 1, {}
    yield "skip, the sum", "SkipLayerNormalization", [s, numbers(2, 3, 8), g, numbers(8), numbers(8)], [2, 3, 4], [0, 3], {}

    a, qkv, bias = numbers(2, 3, 8), numbers(8, 24), numbers(24)
    heads = {"num_heads": 2}
    yield "attention", "Attention", [a, qkv, bias], [1, 2], 1, heads
    yield "attention, causal", "Attention", [a, qkv, bias], [1, 2], 1, {**heads, "unidirectional": 1}
    yield "attention, scale", "Attention", [a, qkv, bias], [1, 2], 1, {**heads, "scale": 0.2}
    lengths, mask = np.array([3, 2], np.int32), np.array([[1, 1, 0], [1, 1, 1]], np.int32)
    yield "attention, lengths", "Attention", [a, qkv, bias, lengths], [1, 2], 1, heads
    yield "attention, begins and ends", "Attention", [a, qkv, bias, np.array([3, 2, 0, 1], np.int32)], [1, 2], 1, heads
    yield "attention, mask", "Attention", [a, qkv, bias, mask], [1, 2], 1, heads
    yield "attention, mask value", "Attention", [a, qkv, bias, mask], [1, 2], 1, {**heads, "mask_filter_value": -5.0}
    whole = np.tril(np.ones((2, 3, 3), np.int32))
    yield "attention, mask of rank 3", "Attention", [a, qkv, bias, whole], [1, 2], 1, heads
    yield "attention, mask and causal", "Attention", [a, qkv, bias, mask], [1, 2], 1, {**heads, "unidirectional": 1}
    past = numbers(2, 2, 2, 4, 4)
    yield "attention, past", "Attention", [a, qkv, bias, None, past], [1, 2], 2, heads
    yield "attention, past and causal", "Attention", [a, qkv, bias, None, past], [1, 2], 2, {**heads, "unidirectional": 1}
    longer = np.array([[1] * 7, [0] + [1] * 6], np.int32)
    yield "attention, past and mask", "Attention", [a, qkv, bias, longer, past], [1, 2], 2, heads
    yield "attention, present", "Attention", [a, qkv, bias], [1, 2], 2, heads
    yield "attention, addend", "Attention", [a, qkv, bias, None, None, numbers(2, 2, 3, 3)], [1, 2], 1, heads
    yield "attention, addend of all", "Attention", [a, qkv, bias, None, None, numbers(1, 2, 3, 3)], [1, 2], 1, heads
    sizes = {**heads, "qkv_hidden_sizes": [8, 8, 4]}
    yield "attention, sizes", "Attention", [a, numbers(8, 20), numbers(20)], [1, 2], 1, sizes
    yield "attention, rotary", "Attention", [numbers(2, 3, 32), numbers(32, 96), numbers(96)], [1, 2], 1, {**heads, "do_rotary": 1}

    scales = [np.array(0.02, np.float32), np.array(0.01, np.float32)]
    for kind, low, high, zero in ((np.uint8, 0, 255, 120), (np.int8, -128, 127, 3)):
        q = RANDOM.integers(low, high, (2, 3, 8)).astype(kind)
        # Of larger weights processors without VNNI cut sums of two products to 16 bits.
        k = RANDOM.integers(-60, 60, (8, 24)).astype(np.int8)
        zeros, name = [np.array(zero, kind), np.array(0, np.int8)], np.dtype(kind).name
        constants = [1, 2, 3, 4, 6, 7]
        yield f"quantized {name}", "QAttention", [q, k, bias, *scales, None, *zeros], constants, 1, heads
        yield f"quantized {name}, no zeros", "QAttention", [q, k, bias, *scales], constants, 1, heads
        yield f"quantized {name}, causal", "QAttention", [q, k, bias, *scales, None, *zeros], constants, 1, {**heads, "unidirectional": 1}
        yield f"quantized {name}, mask", "QAttention", [q, k, bias, *scales, mask, *zeros], constants + [5], 1, heads
        columns = [scales[0], np.linspace(0.005, 0.02, 24, dtype=np.float32)]
        yield f"quantized {name}, by column", "QAttention", [q, k, bias, *columns, None, zeros[0], np.zeros(24, np.int8)], constants, 1, heads
        yield f"quantized {name}, zero of weights", "QAttention", [q, k, bias, *scales, None, zeros[0], np.array(5, np.int8)], constants, 1, heads
        yield f"quantized {name}, past", "QAttention", [q, k, bias, *scales, None, *zeros, past], constants, 2, heads


def model(op, operands, constants, results, attributes):
    """The model of a node, and its inputs' values."""
    which = list(range(results)) if isinstance(results, int) else results
    names = [f"x{k}" if value is not None else "" for k, value in enumerate(operands)]
    outputs = [f"y{k}" if k in which else "" for k in range(max(which) + 1)]
    node = helper.make_node(op, names, outputs, name="op", domain="com.microsoft", **attributes)
    tensor = lambda k: helper.make_tensor_value_info(names[k], helper.np_dtype_to_tensor_dtype(operands[k].dtype), operands[k].shape)
    inputs = [k for k, value in enumerate(operands) if value is not None and k not in constants]
    weights = [numpy_helper.from_array(operands[k], names[k]) for k in constants if k < len(operands) and operands[k] is not None]
    results = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in outputs if name]
    graph = helper.make_graph([node], op, [tensor(k) for k in inputs], results, weights)
    domains = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=domains, ir_version=8), [operands[k] for k in inputs], [names[k] for k in inputs]


def checked(arguments, case, folder):
    """What is wrong with a case: none if it is right, false if ONNX Runtime itself refuses it."""
    _, op, operands, constants, results, attributes = case
    made, values, names = model(op, operands, constants, results, attributes)
    path = folder / "case.onnx"
    onnx.save(made, path)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
        wanted = session.run(None, dict(zip(names, values)))
    except Exception as error:  # what ONNX Runtime raises has no type in common
        return False, str(error).splitlines()[0]
    words = [arguments.bin / "tir-run", folder / "case.tir", "--rtol", "1e-3", "--atol", "1e-4"]
    for k, value in enumerate(values):
        np.save(folder / f"in_{k}.npy", value)
        words += ["--input", folder / f"in_{k}.npy"]
    for k, value in enumerate(wanted):
        np.save(folder / f"out_{k}.npy", value)
        words += ["--compare", folder / f"out_{k}.npy"]
    for command in ([arguments.bin / "tir-translate", "--import-onnx", path, "-o", folder / "case.tir"], words):
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        if done.returncode:
            said = [line.strip() for line in (done.stdout + done.stderr).splitlines() if "error" in line or "note" in line]
            return ("refused" if "tir-translate" in str(command[0]) else "wrong"), "; ".join(said)
    return "right", ""


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "target/quick", help="folder of the programs")
    arguments = parser.parse_args()
    count = collections.Counter()
    for case in cases():
        with tempfile.TemporaryDirectory() as folder:
            verdict, why = checked(arguments, case, pathlib.Path(folder))
        count[verdict or "not run by ONNX Runtime"] += 1
        if verdict != "right":
            print(f"{case[1]}, {case[0]}: {verdict or 'not run by ONNX Runtime'}: {why}")
    print(", ".join(f"{n} {verdict}" for verdict, n in count.items()))
    return 1 if count["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
