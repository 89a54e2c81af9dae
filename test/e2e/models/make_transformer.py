"""Makes encoder.onnx of this folder, an encoder as BERT has it (Devlin et al., "BERT", 2019), with its
inputs and ONNX Runtime's output: 2 layers of width 128, 4 heads, 32 positions, feed-forward 256.

    pip install onnx==1.23.2 numpy==2.4.6 onnxruntime==1.31.1
    python make_transformer.py

Both layers share their weights (Lan et al., "ALBERT", 2020), which keeps the file small. The first
layer normalises with LayerNormalization and ends in Gelu, the second says both by single
operations, as exporters do. Three of the 32 positions are masked.
"""

from make_models import F32, Net

import numpy as np
from onnx import TensorProto, numpy_helper

OPSET = 20
WIDTH, HEADS, LENGTH, INNER = 128, 4, 32, 256
SIZE = WIDTH // HEADS


class Encoder(Net):
    """Layers that take their weights from one list of names."""

    opset = OPSET

    def constant(self, name, values, dtype=np.float32):
        self.weights.append(numpy_helper.from_array(np.array(values, dtype), name))
        return name

    def shared(self):
        for name, shape in {
            "query": (WIDTH, WIDTH),
            "key": (WIDTH, WIDTH),
            "value": (WIDTH, WIDTH),
            "project": (WIDTH, WIDTH),
            "expand": (WIDTH, INNER),
            "contract": (INNER, WIDTH),
        }.items():
            self.weight(f"{name}.weight", shape, np.sqrt(1 / shape[0]))
            self.weight(f"{name}.bias", shape[1:], 0.1)
        for name in ("norm1", "norm2"):
            scale = 1 + 0.1 * self.random.standard_normal(WIDTH)
            self.constant(f"{name}.scale", scale)
            self.weight(f"{name}.bias", (WIDTH,), 0.1)
        self.constant("split", [1, LENGTH, HEADS, SIZE], np.int64)
        self.constant("merge", [1, LENGTH, WIDTH], np.int64)
        self.constant("last", [-1], np.int64)
        for name, value in {"root": np.sqrt(SIZE), "one": 1, "two": 2, "half": 0.5, "sqrt2": np.sqrt(2),
                            "epsilon": 1e-5, "low": -1e9}.items():
            self.constant(name, value)

    def dense(self, layer, name, x):
        y = self.node("MatMul", f"{layer}.{name}.product", [x, f"{name}.weight"])
        return self.node("Add", f"{layer}.{name}", [y, f"{name}.bias"])

    def heads(self, layer, name, x, perm):
        y = self.dense(layer, name, x)
        y = self.node("Reshape", f"{layer}.{name}.split", [y, "split"])
        return self.node("Transpose", f"{layer}.{name}.heads", [y], perm=perm)

    def attention(self, layer, x, mask):
        """softmax(q · kᵀ / √size + mask) · v, for each head."""
        q = self.heads(layer, "query", x, [0, 2, 1, 3])
        k = self.heads(layer, "key", x, [0, 2, 3, 1])
        v = self.heads(layer, "value", x, [0, 2, 1, 3])
        y = self.node("MatMul", f"{layer}.scores", [q, k])
        y = self.node("Div", f"{layer}.scaled", [y, "root"])
        y = self.node("Add", f"{layer}.masked", [y, mask])
        y = self.node("Softmax", f"{layer}.softmax", [y], axis=-1)
        y = self.node("MatMul", f"{layer}.mixed", [y, v])
        y = self.node("Transpose", f"{layer}.together", [y], perm=[0, 2, 1, 3])
        y = self.node("Reshape", f"{layer}.merge", [y, "merge"])
        return self.dense(layer, "project", y)

    def norm(self, layer, name, x, whole):
        if whole:
            weights = [f"{name}.scale", f"{name}.bias"]
            return self.node("LayerNormalization", f"{layer}.{name}", [x, *weights], axis=-1, epsilon=1e-5)
        title = f"{layer}.{name}"
        mean = self.node("ReduceMean", f"{title}.mean", [x, "last"], keepdims=1)
        centred = self.node("Sub", f"{title}.centred", [x, mean])
        square = self.node("Pow", f"{title}.square", [centred, "two"])
        var = self.node("ReduceMean", f"{title}.var", [square, "last"], keepdims=1)
        spread = self.node("Add", f"{title}.epsilon", [var, "epsilon"])
        spread = self.node("Sqrt", f"{title}.spread", [spread])
        y = self.node("Div", f"{title}.normal", [centred, spread])
        y = self.node("Mul", f"{title}.scaled", [y, f"{name}.scale"])
        return self.node("Add", title, [y, f"{name}.bias"])

    def gelu(self, layer, x, whole):
        if whole:
            return self.node("Gelu", f"{layer}.gelu", [x])
        y = self.node("Div", f"{layer}.gelu.inner", [x, "sqrt2"])
        y = self.node("Erf", f"{layer}.gelu.erf", [y])
        y = self.node("Add", f"{layer}.gelu.twice", [y, "one"])
        y = self.node("Mul", f"{layer}.gelu.product", [x, y])
        return self.node("Mul", f"{layer}.gelu", [y, "half"])

    def layer(self, layer, x, mask, whole):
        y = self.attention(layer, x, mask)
        y = self.node("Add", f"{layer}.residual1", [y, x])
        x = self.norm(layer, "norm1", y, whole)
        y = self.dense(layer, "expand", x)
        y = self.gelu(layer, y, whole)
        y = self.dense(layer, "contract", y)
        y = self.node("Add", f"{layer}.residual2", [y, x])
        return self.norm(layer, "norm2", y, whole)


def encoder():
    net = Encoder(5)
    net.shared()
    # 1 where a position counts, 0 where it is masked.
    mask = net.node("Unsqueeze", "mask.spread", ["mask", net.constant("mask.axes", [1, 2], np.int64)])
    mask = net.node("Sub", "mask.inverse", ["one", mask])
    mask = net.node("Mul", "mask.low", [mask, "low"])
    y = net.layer("layer1", "x", mask, True)
    y = net.layer("layer2", y, mask, False)
    shapes = {"x": (F32, [1, LENGTH, WIDTH]), "mask": (F32, [1, LENGTH])}
    net.save("encoder.onnx", shapes, {y: (F32, [1, LENGTH, WIDTH])})
    x = net.random.uniform(-1, 1, (1, LENGTH, WIDTH)).astype(np.float32)
    counts = np.ones((1, LENGTH), np.float32)
    counts[0, -3:] = 0
    net.answer("encoder.onnx", {"x": x, "mask": counts})


if __name__ == "__main__":
    encoder()
