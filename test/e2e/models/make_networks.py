"""Makes the networks of `networks`: models without their weights, and ONNX Runtime's outputs.

    pip install onnx==1.23.2 numpy==2.4.6 onnxruntime==1.31.1
    python make_networks.py

Weights are external data that are not stored: whoever reads a model makes them first. The tensor number `k` among the
external ones of a model is drawn by SplitMix64 from seed `k`, its floats times sqrt(6 / n) for n elements of each
first index, or times 0.1 if it is a vector; inputs are drawn from seeds 1,000,000 and up, and not scaled. Each number is
made of the top bits of the generator's next 64: a float in [-1, 1) of 24 of them, an int8 of 8.
"""

import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).parent / "networks"
F32 = TensorProto.FLOAT
INPUTS = 1_000_000


def bits(seed, count):
    """The first outputs of SplitMix64 from a seed."""
    with np.errstate(over="ignore"):
        z = np.uint64(seed) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def floats(seed, shape):
    half = 2.0**23
    drawn = bits(seed, int(np.prod(shape))) >> np.uint64(40)
    return ((drawn.astype(np.float64) - half) / half).astype(np.float32).reshape(shape)


def integers(seed, shape):
    return (bits(seed, int(np.prod(shape))) >> np.uint64(56)).astype(np.uint8).view(np.int8).reshape(shape)


def scale_of(shape):
    return np.float32(np.sqrt(6 / np.prod(shape[1:])) if len(shape) > 1 else 0.1)


class Net:
    """A graph under construction: nodes, weights that are stored, and those that are not."""

    def __init__(self, name):
        self.name = name
        self.nodes, self.stored, self.external = [], [], []

    def node(self, op, name, inputs, outputs=None, **attributes):
        outputs = outputs or [name]
        self.nodes.append(helper.make_node(op, inputs, outputs, name=name, **attributes))
        return outputs[0]

    def constant(self, name, values):
        self.stored.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def weight(self, name, shape):
        values = floats(len(self.external), shape) * scale_of(shape)
        self.external.append((name, values))
        return name

    def conv(self, name, x, shape, **attributes):
        w, b = self.weight(f"{name}.weight", shape), self.weight(f"{name}.bias", shape[:1])
        return self.node("Conv", name, [x, w, b], kernel_shape=list(shape[2:]), **attributes)

    def relu(self, x):
        return self.node("Relu", f"{x}.relu", [x])

    def linear(self, name, x, shape):
        w, b = self.weight(f"{name}.weight", shape), self.weight(f"{name}.bias", shape[:1])
        return self.node("Gemm", name, [x, w, b], transB=1)

    def save(self, inputs, outputs):
        """Stores the model without its external data, and ONNX Runtime's outputs with it."""
        file, weights, offset = HERE / f"{self.name}.onnx", f"{self.name}.weights", 0
        tensors = list(self.stored)
        for name, values in self.external:
            tensor = numpy_helper.from_array(values, name)
            tensor.ClearField("raw_data")
            tensor.data_location = TensorProto.EXTERNAL
            entries = {"location": weights, "offset": offset, "length": values.nbytes}
            tensor.external_data.extend(onnx.StringStringEntryProto(key=k, value=str(v)) for k, v in entries.items())
            tensors.append(tensor)
            offset += values.nbytes
        infos = [[helper.make_tensor_value_info(n, F32, s) for n, s in v.items()] for v in (inputs, outputs)]
        graph = helper.make_graph(self.nodes, self.name, *infos, initializer=tensors)
        opsets = [helper.make_opsetid("", 17)]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=8, producer_name="tir make_networks.py")
        file.write_bytes(model.SerializeToString(deterministic=True))
        with tempfile.TemporaryDirectory() as folder:
            whole = Path(folder) / file.name
            whole.write_bytes(file.read_bytes())
            (Path(folder) / weights).write_bytes(b"".join(values.tobytes() for _, values in self.external))
            onnx.checker.check_model(str(whole), full_check=True)
            feeds = {n: floats(INPUTS + k, s) for k, (n, s) in enumerate(inputs.items())}
            answers = run(whole, feeds)
        for k, y in enumerate(answers):
            np.save(HERE / f"{self.name}.out_{k}.npy", y)
        print(f"{self.name}: {file.stat().st_size} bytes, outputs of std {[float(y.std()) for y in answers]}")


def run(model, feeds):
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"]).run(None, feeds)


IMAGE, CLASSES = {"x": [1, 3, 224, 224]}, [1, 1000]
SAME, HALF = {"pads": [1, 1, 1, 1]}, {"pads": [1, 1, 1, 1], "strides": [2, 2]}
POOL = {"kernel_shape": [3, 3], "strides": [2, 2]}
# Channels of SqueezeNet 1.1's fire modules: into them, squeezed, expanded twice each; before which a pool stands.
FIRES = [(64, 16, 64), (128, 16, 64), (128, 32, 128), (256, 32, 128)]
FIRES += [(256, 48, 192), (384, 48, 192), (384, 64, 256), (512, 64, 256)]
POOLS = (0, 2, 4)


def squeezenet():
    """Fire modules: a squeezing 1x1 convolution, and 1x1 and 3x3 ones side by side."""
    net = Net("squeezenet")
    y = net.relu(net.conv("conv1", "x", (64, 3, 3, 3), strides=[2, 2]))
    for k, (wide, thin, each) in enumerate(FIRES):
        if k in POOLS:
            y = net.node("MaxPool", f"fire{k}.pool", [y], ceil_mode=1, **POOL)
        y = net.relu(net.conv(f"fire{k}.squeeze", y, (thin, wide, 1, 1)))
        one = net.relu(net.conv(f"fire{k}.expand1", y, (each, thin, 1, 1)))
        three = net.relu(net.conv(f"fire{k}.expand3", y, (each, thin, 3, 3), **SAME))
        y = net.node("Concat", f"fire{k}.join", [one, three], axis=1)
    y = net.relu(net.conv("classifier", y, (1000, 512, 1, 1)))
    y = net.node("GlobalAveragePool", "mean", [y])
    y = net.node("Flatten", "flat", [y])
    net.save(IMAGE, {y: CLASSES})


def mobilenet_v2():
    """Inverted residuals: a 1x1 convolution to six times the channels, a depthwise one, a 1x1 one back."""
    net = Net("mobilenet_v2")
    net.constant("low", np.float32(0)), net.constant("high", np.float32(6))

    def clipped(x):
        return net.node("Clip", f"{x}.clip", [x, "low", "high"])

    y, channels = clipped(net.conv("stem", "x", (32, 3, 3, 3), **HALF)), 32
    plan = [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for group, (times, out, count, stride) in enumerate(plan):
        for k in range(count):
            name, before, hidden = f"block{group}.{k}", y, channels * times
            if times > 1:
                y = clipped(net.conv(f"{name}.expand", y, (hidden, channels, 1, 1)))
            step = HALF if k == 0 and stride == 2 else SAME
            y = clipped(net.conv(f"{name}.depthwise", y, (hidden, 1, 3, 3), group=hidden, **step))
            y = net.conv(f"{name}.project", y, (out, hidden, 1, 1))
            if channels == out and k > 0:
                y = net.node("Add", f"{name}.sum", [before, y])
            channels = out
    y = clipped(net.conv("last", y, (1280, channels, 1, 1)))
    y = net.node("GlobalAveragePool", "mean", [y])
    y = net.node("Flatten", "flat", [y])
    y = net.linear("fc", y, (1000, 1280))
    net.save(IMAGE, {y: CLASSES})


def resnet18():
    """Residual blocks of two 3x3 convolutions."""
    net = Net("resnet18")
    y = net.relu(net.conv("stem", "x", (64, 3, 7, 7), pads=[3, 3, 3, 3], strides=[2, 2]))
    y, channels = net.node("MaxPool", "pool", [y], pads=[1, 1, 1, 1], **POOL), 64
    for group, out in enumerate((64, 128, 256, 512)):
        for k in range(2):
            name, before = f"block{group}.{k}", y
            first = out != channels
            y = net.relu(net.conv(f"{name}.conv1", y, (out, channels, 3, 3), **(HALF if first else SAME)))
            y = net.conv(f"{name}.conv2", y, (out, out, 3, 3), **SAME)
            if first:
                before = net.conv(f"{name}.short", before, (out, channels, 1, 1), strides=[2, 2])
            y = net.relu(net.node("Add", f"{name}.sum", [y, before]))
            channels = out
    y = net.node("GlobalAveragePool", "mean", [y])
    y = net.node("Flatten", "flat", [y])
    y = net.linear("fc", y, (1000, 512))
    net.save(IMAGE, {y: CLASSES})


def lstm_cell():
    """Eight steps of an LSTM cell, width 512, one after the other; shapes are computed as exporters do."""
    net, width = Net("lstm_cell"), 512
    net.weight("wx.weight", (4 * width, width)), net.weight("wx.bias", (4 * width,))
    net.weight("wh", (width, 4 * width))
    net.constant("four", np.int64(4)), net.constant("one", np.array([1], np.int64))
    for k in range(5):
        net.constant(f"n{k}", np.array([k], np.int64))
    h, c = "h", "c"
    for t in range(8):
        name = f"step{t}"
        x = net.node("Gather", f"{name}.x", ["x", net.constant(f"{name}.t", np.int64(t))], axis=0)
        wx = net.node("Gemm", f"{name}.wx", [x, "wx.weight", "wx.bias"], transB=1)
        wh = net.node("MatMul", f"{name}.wh", [h, "wh"])
        gates = net.node("Add", f"{name}.gates", [wx, wh])
        shape = net.node("Shape", f"{name}.shape", [gates])
        whole = net.node("Gather", f"{name}.width", [shape, "one"], axis=0)
        part = net.node("Div", f"{name}.part", [whole, "four"])
        ends = [net.node("Mul", f"{name}.end{k}", [part, f"n{k}"]) for k in range(5)]
        gate = [net.node("Slice", f"{name}.gate{k}", [gates, ends[k], ends[k + 1], "one"]) for k in range(4)]
        i, f, o = (net.node("Sigmoid", f"{name}.open{k}", [gate[k]]) for k in range(3))
        new = net.node("Tanh", f"{name}.new", [gate[3]])
        kept = net.node("Mul", f"{name}.kept", [f, c])
        added = net.node("Mul", f"{name}.added", [i, new])
        c = net.node("Add", f"{name}.c", [kept, added])
        h = net.node("Mul", f"{name}.h", [o, net.node("Tanh", f"{name}.seen", [c])])
    net.save({"x": [8, 1, width], "h": [1, width], "c": [1, width]}, {h: [1, width], c: [1, width]})


class Quantized(Net):
    """A network in QDQ form: uint8 values, one scale each; int8 weights and int32 biases, one for each output channel."""

    def __init__(self, name):
        super().__init__(name)
        self.real = {}

    def step(self, x, scale, zero):
        """`x` as integers and back."""
        self.constant(f"{x}.scale", np.float32(scale)), self.constant(f"{x}.zero", np.uint8(zero))
        names = [f"{x}.scale", f"{x}.zero"]
        self.node("QuantizeLinear", f"{x}.q", [x, *names])
        self.real[f"{x}.dq"] = scale
        return self.node("DequantizeLinear", f"{x}.dq", [f"{x}.q", *names])

    def conv(self, name, x, shape, **attributes):
        whole = integers(len(self.external), shape)
        self.external.append((f"{name}.int", whole))
        # Channels of their own: by a half to once and a half.
        own = 1 + floats(INPUTS + len(self.external), shape[:1]) / 2
        scale = (own * scale_of(shape) / 128).astype(np.float32)
        bias = floats(INPUTS * 2 + len(self.external), shape[:1]) * 0.1
        both = (scale * np.float32(self.real[x])).astype(np.float32)
        operands = [x]
        for what, ints, scales in ((f"{name}", None, scale), (f"{name}.bias", np.rint(bias / both).astype(np.int32), both)):
            if ints is not None:
                self.constant(f"{what}.int", ints)
            self.constant(f"{what}.scale", scales)
            self.constant(f"{what}.zero", np.zeros(shape[0], np.int32 if ints is not None else np.int8))
            names = [f"{what}.int", f"{what}.scale", f"{what}.zero"]
            operands.append(self.node("DequantizeLinear", f"{what}.real", names, axis=0))
        return self.node("Conv", name, operands, kernel_shape=list(shape[2:]), **attributes)


def squeezenet_qdq(largest=None):
    """SqueezeNet in QDQ form. First without steps behind the input, for the largest number that each is given."""
    net, steps = Quantized("squeezenet_qdq"), []

    def step(x):
        steps.append(x)
        if largest is None:
            net.real[x] = 1 / 128
            return x
        return net.step(x, largest[x] / 255, 0)

    y = net.step("x", 2 / 255, 128)
    y = step(net.relu(net.conv("conv1", y, (64, 3, 3, 3), strides=[2, 2])))
    for k, (wide, thin, each) in enumerate(FIRES):
        if k in POOLS:
            y = step(net.node("MaxPool", f"fire{k}.pool", [y], ceil_mode=1, **POOL))
        y = step(net.relu(net.conv(f"fire{k}.squeeze", y, (thin, wide, 1, 1))))
        one = step(net.relu(net.conv(f"fire{k}.expand1", y, (each, thin, 1, 1))))
        three = step(net.relu(net.conv(f"fire{k}.expand3", y, (each, thin, 3, 3), **SAME)))
        y = step(net.node("Concat", f"fire{k}.join", [one, three], axis=1))
    y = step(net.relu(net.conv("classifier", y, (1000, 512, 1, 1))))
    y = step(net.node("GlobalAveragePool", "mean", [y]))
    y = step(net.node("Flatten", "flat", [y]))
    if largest is not None:
        net.save(IMAGE, {y: CLASSES})
        print(f"one step of the result: {largest['flat'] / 255}")
        return
    tensors = net.stored + [numpy_helper.from_array(v, n) for n, v in net.external]
    image = helper.make_tensor_value_info("x", F32, IMAGE["x"])
    infos = [helper.make_tensor_value_info(n, F32, None) for n in steps]
    graph = helper.make_graph(net.nodes, "probe", [image], infos, initializer=tensors)
    probe = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    found = run(probe.SerializeToString(), {"x": floats(INPUTS, IMAGE["x"])})
    squeezenet_qdq({name: float(y.max()) for name, y in zip(steps, found)})


if __name__ == "__main__":
    HERE.mkdir(exist_ok=True)
    squeezenet()
    mobilenet_v2()
    resnet18()
    lstm_cell()
    squeezenet_qdq()
