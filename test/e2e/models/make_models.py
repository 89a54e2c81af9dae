"""Makes the test networks of this folder: models, inputs, and ONNX Runtime's outputs.

    pip install onnx==1.23.2 numpy==2.4.6 onnxruntime==1.31.1
    python make_models.py

Seeds are fixed and numpy's frozen RandomState is used, so models and inputs come out byte for
byte the same; outputs may differ in the last bits between processors.
"""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).parent
OPSET = 17
F32 = TensorProto.FLOAT


class Net:
    """A graph under construction: nodes and weights, each value named after its node."""

    opset = OPSET

    def __init__(self, seed):
        self.random = np.random.RandomState(seed)
        self.nodes = []
        self.weights = []

    def weight(self, name, shape, scale):
        values = (self.random.standard_normal(shape) * scale).astype(np.float32)
        self.weights.append(numpy_helper.from_array(values, name))
        return name

    def node(self, op, name, inputs, outputs=None, **attributes):
        outputs = outputs or [name]
        self.nodes.append(helper.make_node(op, inputs, outputs, name=name, **attributes))
        return outputs[0]

    def conv(self, name, x, channels_in, channels_out, kernel, relu=True, **attributes):
        fan_in = channels_in * kernel * kernel
        w = self.weight(f"{name}.weight", (channels_out, channels_in, kernel, kernel), np.sqrt(2 / fan_in))
        b = self.weight(f"{name}.bias", (channels_out,), 0.1)
        y = self.node("Conv", name, [x, w, b], kernel_shape=[kernel, kernel], **attributes)
        return self.node("Relu", f"{name}.relu", [y]) if relu else y

    def linear(self, name, x, features_in, features_out):
        w = self.weight(f"{name}.weight", (features_out, features_in), np.sqrt(1 / features_in))
        b = self.weight(f"{name}.bias", (features_out,), 0.1)
        return self.node("Gemm", name, [x, w, b], transB=1)

    def save(self, file, inputs, outputs, domains=()):
        """Inputs and outputs: name to (element type, shape)."""
        infos = [[helper.make_tensor_value_info(n, *t) for n, t in v.items()] for v in (inputs, outputs)]
        graph = helper.make_graph(self.nodes, file.split(".")[0], *infos, initializer=self.weights)
        imports = [helper.make_opsetid("", self.opset)] + [helper.make_opsetid(d, 1) for d in domains]
        model = helper.make_model(
            graph, opset_imports=imports, ir_version=8 if self.opset < 18 else 10, producer_name="tir make_models.py"
        )
        onnx.checker.check_model(model, full_check=True)
        (HERE / file).write_bytes(model.SerializeToString(deterministic=True))

    def run(self, file, shape):
        """Stores a seeded input x of `shape` and ONNX Runtime's only output."""
        self.answer(file, {"x": self.random.uniform(-1, 1, shape).astype(np.float32)})

    def answer(self, file, inputs):
        """Stores inputs, in the order of the graph's, and ONNX Runtime's only output."""
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
        session = onnxruntime.InferenceSession(HERE / file, options, ["CPUExecutionProvider"])
        (y,) = session.run(None, inputs)
        stem = file.removesuffix(".onnx")
        for k, x in enumerate(inputs.values()):
            np.save(HERE / f"{stem}.in_{k}.npy", x)
        np.save(HERE / f"{stem}.out_0.npy", y)
        print(f"{file}: {(HERE / file).stat().st_size} bytes, outputs {y.shape} of std {y.std():.3f}")


def cnn():
    """Convolutions with every bound: conv2 and conv3 have activations, conv8 has weights, that do
    not fit 256 KiB whole; the others fit. 19.2 M multiply-adds."""
    net = Net(1)
    same = {"pads": [1, 1, 1, 1]}
    half = {"pads": [1, 1, 1, 1], "strides": [2, 2]}
    y = net.conv("conv1", "x", 3, 16, 3, **same)  # 16x32x32
    y = net.conv("conv2", y, 16, 48, 3, **same)  # 48x32x32
    block = net.conv("conv3", y, 48, 32, 3, **half)  # 32x16x16
    y = net.conv("conv4", block, 32, 32, 3, **same)
    y = net.conv("conv5", y, 32, 32, 3, relu=False, **same)
    y = net.node("Add", "add", [y, block])
    y = net.node("Relu", "add.relu", [y])
    y = net.conv("conv6", y, 32, 64, 3, **half)  # 64x8x8
    y = net.conv("conv7", y, 64, 128, 1)  # 128x8x8
    y = net.node("MaxPool", "pool", [y], kernel_shape=[3, 3], **half)  # 128x4x4
    y = net.conv("conv8", y, 128, 96, 3, **same)  # 96x4x4
    y = net.node("GlobalAveragePool", "mean", [y])
    y = net.node("Flatten", "flat", [y], axis=1)
    y = net.linear("fc", y, 96, 10)
    net.save("cnn.onnx", {"x": (F32, [1, 3, 32, 32])}, {y: (F32, [1, 10])})
    net.run("cnn.onnx", (1, 3, 32, 32))


def micro():
    """A network of a few kilobytes, for tests that read it thousands of times."""
    net = Net(2)
    y = net.conv("conv", "x", 2, 4, 3, pads=[1, 1, 1, 1])  # 4x8x8
    y = net.node("MaxPool", "pool", [y], kernel_shape=[2, 2], strides=[2, 2])  # 4x4x4
    y = net.node("Flatten", "flat", [y])
    y = net.linear("fc", y, 64, 5)
    net.save("micro.onnx", {"x": (F32, [1, 2, 8, 8])}, {y: (F32, [1, 5])})
    net.run("micro.onnx", (1, 2, 8, 8))


def walkthrough():
    """relu(conv2d(x, w) + b): the program that the documentation follows through every level."""
    net = Net(3)
    y = net.conv("conv", "x", 16, 32, 3)
    net.save("walkthrough.onnx", {"x": (F32, [1, 16, 18, 18])}, {y: (F32, [1, 32, 16, 16])})
    net.run("walkthrough.onnx", (1, 16, 18, 18))


def unsupported():
    """A valid model most of whose ops no importer here knows: all must be listed at once."""
    net = Net(4)
    k = numpy_helper.from_array(np.array([3], np.int64), "k")
    net.weights.append(k)
    y = net.node("Relu", "relu", ["x"])
    net.node("TopK", "top", [y, "k"], ["top.values", "top.indices"])
    y = net.node("Einsum", "product", ["top.values", "top.values"], equation="ij,kj->ik")
    y = net.node("FancyGate", "gate", [y], domain="com.example", sharpness=2.5, mode="soft")
    net.node("NonMaxSuppression", "nms", ["boxes", "scores"])
    net.save(
        "unsupported.onnx",
        {"x": (F32, [4, 8]), "boxes": (F32, [1, 6, 4]), "scores": (F32, [1, 2, 6])},
        {
            y: (F32, [4, 4]),
            "top.indices": (TensorProto.INT64, [4, 3]),
            "nms": (TensorProto.INT64, ["selected", 3]),
        },
        domains=["com.example"],
    )


if __name__ == "__main__":
    cnn()
    micro()
    walkthrough()
    unsupported()
