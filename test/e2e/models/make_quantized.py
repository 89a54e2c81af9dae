"""Makes `cnn_int8.onnx`: `cnn.onnx` in QDQ form, int8, with powers of two as scales.

    pip install onnx==1.23.2 numpy==2.4.6 onnxruntime==1.31.1
    python make_quantized.py

Values are symmetric, one scale for a tensor of values and one for each output channel of weights: the
power of two that just holds the largest number that `cnn.in_0.npy` and seven random inputs lead to.
"""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

HERE = Path(__file__).parent


def session(model):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def scale_of(largest):
    """The power of two of which 127 are as much, or a little more."""
    return np.float32(2.0 ** np.ceil(np.log2(np.maximum(largest, 1e-6) / 127)))


def ranges(model, x):
    """The largest magnitude of each value."""
    probe = onnx.ModelProto()
    probe.CopyFrom(model)
    names = [o for n in model.graph.node for o in n.output]
    del probe.graph.output[:]
    probe.graph.output.extend(helper.make_value_info(n, onnx.TypeProto()) for n in names)
    run, random = session(probe), np.random.RandomState(8)
    inputs = [x] + [random.uniform(x.min(), x.max(), x.shape).astype(np.float32) for _ in range(7)]
    found = {model.graph.input[0].name: max(np.abs(x).max() for x in inputs)}
    for value in inputs:
        for name, result in zip(names, run.run(None, {model.graph.input[0].name: value})):
            found[name] = max(found.get(name, 0), np.abs(result).max())
    return found


def quantized(model, x):
    largest = ranges(model, x)
    weights = {i.name: numpy_helper.to_array(i) for i in model.graph.initializer}
    nodes, constants, scales = [], {"zero": np.int8(0)}, {}

    def step(value, result):
        """`value` as integers and back: what the next operator reads."""
        constants[f"{result}.scale"] = scale_of(largest[result])
        scales[result] = constants[f"{result}.scale"]
        names = [f"{result}.scale", "zero"]
        nodes.append(helper.make_node("QuantizeLinear", [value, *names], [f"{result}.int8"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{result}.int8", *names], [f"{result}.real"]))
        return f"{result}.real"

    def constant(name, array, scale, dtype):
        constants[f"{name}.scale"], constants[f"{name}.zero"] = scale, np.zeros(scale.shape, dtype)
        shape = (-1,) + (1,) * (array.ndim - 1)
        limits = np.iinfo(dtype)
        whole = np.clip(np.rint(array / scale.reshape(shape)), limits.min, limits.max)
        constants[f"{name}.int"] = whole.astype(dtype)
        operands = [f"{name}.int", f"{name}.scale", f"{name}.zero"]
        nodes.append(helper.make_node("DequantizeLinear", operands, [f"{name}.real"], axis=0))
        return f"{name}.real"

    real = {model.graph.input[0].name: step(model.graph.input[0].name, model.graph.input[0].name)}
    followed = {n.input[0]: n for n in model.graph.node if n.op_type == "Relu"}
    for node in model.graph.node:
        name, result = node.input[0], node.output[0]
        attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
        operands = [real.get(i, i) for i in node.input]
        if node.op_type in ("Conv", "Gemm"):
            w = weights[node.input[1]]
            scale = scale_of(np.abs(w).reshape(w.shape[0], -1).max(1))
            operands[1] = constant(node.input[1], w, scale, np.int8)
            operands[2] = constant(node.input[2], weights[node.input[2]], scale * scales[name], np.int32)
        nodes.append(helper.make_node(node.op_type, operands, [result], **attributes))
        if node.op_type in ("MaxPool", "Flatten"):
            largest[result] = largest[name]
        if result not in followed:
            real[result] = step(result, result)
            scales[result] = constants[f"{result}.scale"]
        else:
            real[result] = result
    last = nodes[-1]
    last.output[0] = model.graph.output[0].name + ".quantized"
    output = helper.make_tensor_value_info(last.output[0], onnx.TensorProto.FLOAT, [1, 10])
    graph = helper.make_graph(
        nodes, "cnn_int8", list(model.graph.input), [output],
        initializer=[numpy_helper.from_array(np.asarray(v), n) for n, v in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8,
                             producer_name="tir make_quantized.py")


if __name__ == "__main__":
    model, x = onnx.load(HERE / "cnn.onnx"), np.load(HERE / "cnn.in_0.npy")
    made = quantized(model, x)
    onnx.checker.check_model(made)
    onnx.save(made, HERE / "cnn_int8.onnx")
    np.save(HERE / "cnn_int8.in_0.npy", x)
    (y,) = session(made).run(None, {"x": x})
    np.save(HERE / "cnn_int8.out_0.npy", y)
    print(y, np.load(HERE / "cnn.out_0.npy"))
