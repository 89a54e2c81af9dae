"""Makes models that leave something open, or have faults of several causes; see README.md.

    pip install onnx==1.23.2 numpy==2.4.6 onnxruntime==1.31.1
    python make_open.py
"""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).parent
F32, I64 = TensorProto.FLOAT, TensorProto.INT64
value = helper.make_tensor_value_info


def write(name, model):
    model.producer_name = "tir make_open.py"
    (HERE / name).write_bytes(model.SerializeToString(deterministic=True))


def open_sizes():
    """Sizes by name and without one, an input that says a shape, a function of the model with an attribute."""
    scaled = helper.make_function(
        "com.example",
        "Scaled",
        ["v", "bias"],
        ["w"],
        [
            helper.make_node("Constant", [], ["factor"]),
            helper.make_node("Mul", ["v", "factor"], ["product"]),
            helper.make_node("Add", ["product", "bias"], ["w"]),
        ],
        [helper.make_opsetid("", 17)],
        attribute_protos=[helper.make_attribute("by", 3.0)],
    )
    reference = scaled.node[0].attribute.add()
    reference.name, reference.ref_attr_name, reference.type = "value_float", "by", onnx.AttributeProto.FLOAT
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["rows"], name="rows"),
        helper.make_node("Scaled", ["rows", "bias"], ["thrice"], name="thrice", domain="com.example"),
        helper.make_node("Scaled", ["thrice", "bias"], ["y"], name="half", domain="com.example", by=0.5),
    ]
    graph = helper.make_graph(
        nodes,
        "open",
        [value("x", F32, ["N", 3, None]), value("shape", I64, [2]), value("bias", F32, ["N", 1])],
        [value("y", F32, ["N", "M"])],
    )
    model = helper.make_model(
        graph,
        functions=[scaled],
        opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)],
        ir_version=10,
    )
    onnx.checker.check_model(model, full_check=True)
    write("open.onnx", model)
    random = np.random.RandomState(11)
    x = random.uniform(-1, 1, (2, 3, 4)).astype(np.float32)
    bias = random.uniform(-1, 1, (2, 1)).astype(np.float32)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    answers = session.run(None, {"x": x, "shape": np.array([2, -1], np.int64), "bias": bias})
    np.save(HERE / "open.in_0.npy", x)
    np.save(HERE / "open.in_1.npy", bias)
    np.save(HERE / "open.out_0.npy", answers[0])


def faults():
    """Faults of several causes, some of them several times."""
    nodes = [helper.make_node("Relu", ["a" if k == 0 else f"r{k - 1}"], [f"r{k}"], name=f"relu{k}", alpha=0.5) for k in range(3)]
    nodes += [
        helper.make_node("Concat", ["a", "a"], ["c"], name="concat"),
        helper.make_node("FancyGate", ["b"], ["g"], name="gate", domain="com.example"),
        helper.make_node("Transpose", ["b"], ["t"], name="turn", perm=[0, 0]),
    ]
    graph = helper.make_graph(
        nodes, "faults", [value("a", F32, [2, 3]), value("b", F32, ["N", 3]), value("d", F32, [2, None])],
        [value("r2", F32, None), value("c", F32, None), value("g", F32, None), value("t", F32, None)],
    )
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.example", 1)]
    write("faults.onnx", helper.make_model(graph, opset_imports=opsets, ir_version=10))


def stated():
    """Operands that decide shapes and are inputs, beside the shapes that the file states: of two axes either may be meant."""
    nodes = [
        helper.make_node("ReduceSum", ["x", "axes"], ["sum"], name="sum", keepdims=0),
        helper.make_node("Reshape", ["sum", "shape"], ["rows"], name="rows"),
        helper.make_node("Slice", ["rows", "starts", "ends"], ["y"], name="part"),
    ]
    graph = helper.make_graph(
        nodes, "stated",
        [value("x", F32, [3, 3, 4]), value("axes", I64, [1]), value("shape", I64, [2]), value("starts", I64, [2]),
         value("ends", I64, [2])],
        [value("y", F32, [2, 3])],
        value_info=[value("sum", F32, [3, 4]), value("rows", F32, [2, 6])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.checker.check_model(model)
    write("stated.onnx", model)
    x = np.random.RandomState(12).uniform(-1, 1, (3, 3, 4)).astype(np.float32)
    inputs = [x, [1], [-1, 6], [0, -4], [9, -1]]
    inputs = [x] + [np.array(n, np.int64) for n in inputs[1:]]
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    for k, array in enumerate(inputs):
        np.save(HERE / f"stated.in_{k}.npy", array)
    np.save(HERE / "stated.out_0.npy", session.run(None, dict(zip(names, inputs)))[0])


def looped():
    """A scan from the end, and a loop whose number of steps is an input and which data may end."""
    body = helper.make_graph(
        [helper.make_node("MatMul", ["h_in", "u"], ["hu"]), helper.make_node("Add", ["hu", "xi"], ["s"]),
         helper.make_node("Tanh", ["s"], ["h"]), helper.make_node("Relu", ["h"], ["seen"])],
        "step", [value("h_in", F32, [2, 4]), value("xi", F32, [2, 4])], [value("h", F32, [2, 4]), value("seen", F32, [2, 4])])
    again = helper.make_graph(
        [helper.make_node("Add", ["g_in", "g_in"], ["g"]), helper.make_node("ReduceMax", ["g"], ["m"], keepdims=0),
         helper.make_node("Less", ["m", "most"], ["more"])],
        "again", [value("i", I64, []), value("more_in", TensorProto.BOOL, []), value("g_in", F32, [2, 4])],
        [value("more", TensorProto.BOOL, []), value("g", F32, [2, 4])])
    nodes = [
        helper.make_node("Scan", ["h0", "x"], ["last", "all"], name="scan", body=body, num_scan_inputs=1, scan_input_axes=[1],
                         scan_input_directions=[1], scan_output_axes=[-1]),
        helper.make_node("Loop", ["n", "", "last"], ["y"], name="again", body=again),
    ]
    random = np.random.RandomState(13)
    u = random.uniform(-1, 1, (4, 4)).astype(np.float32)
    graph = helper.make_graph(
        nodes, "looped", [value("h0", F32, [2, 4]), value("x", F32, [2, 6, 4]), value("n", I64, [])],
        [value("y", F32, [2, 4]), value("all", F32, [2, 4, 6])],
        [numpy_helper.from_array(u, "u"), numpy_helper.from_array(np.array(3, np.float32), "most")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)
    onnx.checker.check_model(model)
    write("looped.onnx", model)
    inputs = [random.uniform(0, 1, (2, 4)).astype(np.float32), random.uniform(0, 1, (2, 6, 4)).astype(np.float32),
              np.array(9, np.int64)]
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    answers = session.run(None, dict(zip(["h0", "x", "n"], inputs)))
    for kind, arrays in (("in", inputs), ("out", answers)):
        for k, array in enumerate(arrays):
            np.save(HERE / f"looped.{kind}_{k}.npy", array)


if __name__ == "__main__":
    open_sizes()
    stated()
    looped()
    faults()
