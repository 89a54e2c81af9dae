"""Writes the networks of this folder: real shapes, weights as arguments of @main, so no data.

They are the inputs of the e-graph's tests and benchmark. Run it in this folder: it writes each
file anew. The architectures are those of the papers named at each function.
"""

from pathlib import Path

F32 = "f32"


def tensor(shape):
    return "tensor<" + "".join(f"{d}x" for d in shape) + F32 + ">"


class Net:
    """A function in the making. Values are (name, shape)."""

    def __init__(self, title):
        self.title, self.args, self.lines, self.counts = title, [], [], {}

    def fresh(self, letter):
        self.counts[letter] = self.counts.get(letter, 0) + 1
        return f"%{letter}{self.counts[letter]}"

    def arg(self, *shape, letter="w"):
        name = self.fresh(letter)
        self.args.append(f"{name}: {tensor(shape)}")
        return name, list(shape)

    def op(self, op, operands, shape, attributes=None, between=""):
        """`graph.op` in the form that ends in a functional type."""
        name = self.fresh("v")
        names = ", ".join(v for v, _ in operands)
        types = ", ".join(tensor(s) for _, s in operands)
        said = ""
        if attributes:
            said = " {" + ", ".join(f"{k} = {v}" for k, v in attributes.items()) + "}"
        self.lines.append(f"{name} = graph.{op} {names}{between}{said} : ({types}) -> {tensor(shape)}")
        return name, list(shape)

    def plain(self, op, x):
        """An op of one operand, of its type."""
        name = self.fresh("v")
        self.lines.append(f"{name} = graph.{op} {x[0]} : {tensor(x[1])}")
        return name, x[1]

    def relu(self, x):
        return self.plain("relu", x)

    def conv(self, x, channels, kernel=1, stride=1, same=True, groups=1, bias=False):
        kernel = (kernel, kernel) if isinstance(kernel, int) else kernel
        n, c, *size = x[1]
        w = self.arg(channels, c // groups, *kernel)
        operands = [x, w] + ([self.arg(channels)] if bias else [])
        pads = window_pads(size, kernel, stride, same)
        shape = [n, channels] + window_sizes(size, kernel, stride, pads)
        said = {}
        if stride != 1:
            said["strides"] = ints([stride, stride])
        if any(pads):
            said["pads"] = ints(pads)
        if groups != 1:
            said["groups"] = f"{groups} : i64"
        return self.op("conv2d", operands, shape, said)

    def pool(self, kind, x, kernel, stride, same=True):
        n, c, *size = x[1]
        pads = window_pads(size, (kernel, kernel), stride, same)
        shape = [n, c] + window_sizes(size, (kernel, kernel), stride, pads)
        said = {"kernel": ints([kernel, kernel])}
        if stride != 1:
            said["strides"] = ints([stride, stride])
        if any(pads):
            said["pads"] = ints(pads)
        return self.op(f"{kind}_pool", [x], shape, said)

    def binary(self, op, a, b):
        rank = max(len(a[1]), len(b[1]))
        pad = lambda s: [1] * (rank - len(s)) + s
        shape = [max(i, j) for i, j in zip(pad(a[1]), pad(b[1]))]
        return self.op(op, [a, b], shape)

    def add(self, a, b):
        return self.binary("add", a, b)

    def concat(self, xs, axis=1):
        shape = list(xs[0][1])
        shape[axis] = sum(s[axis] for _, s in xs)
        return self.op("concat", xs, shape, {"axis": f"{axis} : i64"})

    def matmul(self, a, b):
        return self.op("matmul", [a, b], a[1][:-1] + [b[1][-1]])

    def dense(self, x, width):
        return self.matmul(x, self.arg(x[1][-1], width))

    def reshape(self, x, shape):
        name = self.fresh("v")
        self.lines.append(f"{name} = graph.reshape {x[0]} : {tensor(x[1])} to {tensor(shape)}")
        return name, list(shape)

    def transpose(self, x, perm):
        order = "[" + ", ".join(map(str, perm)) + "]"
        return self.op("transpose", [x], [x[1][d] for d in perm], between=f" {order}")

    def classify(self, x, classes):
        """Global average, then one matrix."""
        n, c, h, w = x[1]
        x = self.op("global_avg_pool", [x], [n, c, 1, 1])
        return self.dense(self.reshape(x, [n, c]), classes)

    def write(self, name, outputs):
        checks = {}
        for line in self.lines:
            op = line.split(" = ")[1].split()[0]
            checks[op] = checks.get(op, 0) + 1
        most = max(checks, key=lambda op: (checks[op], op))
        names = ", ".join(v for v, _ in outputs)
        types = ", ".join(tensor(s) for _, s in outputs)
        results = types if len(outputs) == 1 else f"({types})"
        head = [
            f"// {self.title} Written by make_networks.py.",
            "// RUN: tir-opt %s | filecheck %s",
            "// RUN: tir-opt %s --canonicalize | tir-opt -o %t.tir",
            "",
            f"// CHECK-COUNT-{checks[most]}: = {most} ",
            f"// CHECK-NOT: = {most} ",
            "// CHECK: func.return",
            "func.func @main(",
            "    " + ",\n    ".join(self.args),
            f") -> {results} {{",
        ]
        body = ["  " + line for line in self.lines] + [f"  func.return {names} : {types}", "}"]
        Path(name).write_text("\n".join(head + body) + "\n")


def ints(numbers):
    return "array<i64: " + ", ".join(map(str, numbers)) + ">"


def window_pads(size, kernel, stride, same):
    """Top, left, bottom, right: as many windows as strides begin in the input, or none."""
    if not same:
        return [0, 0, 0, 0]
    total = [max((-(-s // stride) - 1) * stride + k - s, 0) for s, k in zip(size, kernel)]
    return [t // 2 for t in total] + [t - t // 2 for t in total]


def window_sizes(size, kernel, stride, pads):
    return [(s + pads[d] + pads[d + 2] - k) // stride + 1 for d, (s, k) in enumerate(zip(size, kernel))]


def bert():
    """Devlin et al., "BERT", 2018: encoder blocks of width 1024, 16 heads, over 64 tokens."""
    blocks, tokens, width, heads = 8, 64, 1024, 16
    net = Net("Eight encoder blocks: attention of 16 heads and two dense layers, each with its residual.")
    x = net.arg(tokens, width, letter="x")

    def normalized(x):
        scale, bias = net.arg(width), net.arg(width)
        return net.op("layer_norm", [x, scale, bias], x[1], {"axis": "1 : i64"})

    def biased(x, width):
        return net.add(net.dense(x, width), net.arg(width))

    for _ in range(blocks):
        def split(x, perm):
            return net.transpose(net.reshape(x, [tokens, heads, width // heads]), perm)

        q = split(biased(x, width), [1, 0, 2])
        k = split(biased(x, width), [1, 2, 0])
        v = split(biased(x, width), [1, 0, 2])
        scale = net.arg(1)
        scores = net.binary("mul", net.matmul(q, k), scale)
        weights = net.op("softmax", [scores], scores[1], {"axis": "2 : i64"})
        mixed = net.transpose(net.matmul(weights, v), [1, 0, 2])
        mixed = net.reshape(mixed, [tokens, width])
        x = normalized(net.add(x, biased(mixed, width)))
        inner = net.plain("gelu", biased(x, 4 * width))
        x = normalized(net.add(x, biased(inner, width)))
    net.write("bert.tir", [x])


def nasrnn():
    """The recurrent cell of Zoph and Le, "Neural Architecture Search with Reinforcement Learning",
    2016, over five steps of width 512."""
    steps, width = 5, 512
    net = Net("A searched recurrent cell, unrolled over five steps; each sums eight pairs of products.")
    state = net.arg(1, width, letter="x")
    inputs = [net.arg(1, width, letter="x") for _ in range(steps)]
    weights = [(net.arg(width, width), net.arg(width, width)) for _ in range(8)]
    relu, sigmoid, tanh = (lambda x, op=op: net.plain(op, x) for op in ("relu", "sigmoid", "tanh"))
    mul = lambda a, b: net.binary("mul", a, b)
    for x in inputs:
        t = [net.add(net.matmul(x, w), net.matmul(state, u)) for w, u in weights]
        a = net.add(relu(t[0]), sigmoid(t[3]))
        b = net.add(sigmoid(t[1]), tanh(t[2]))
        c = mul(sigmoid(t[4]), tanh(t[5]))
        d = mul(sigmoid(t[6]), relu(t[7]))
        left = net.add(sigmoid(b), tanh(c))
        right = mul(tanh(a), tanh(d))
        state = tanh(mul(tanh(left), tanh(right)))
    net.write("nasrnn.tir", [state])


def residual(name, title, groups, width, bias):
    """He et al., "Deep Residual Learning", 2015; with groups Xie et al., "Aggregated Residual
    Transformations", 2016."""
    net = Net(title)
    x = net.relu(net.conv(net.arg(1, 3, 224, 224, letter="x"), 64, 7, 2, bias=bias))
    x = net.pool("max", x, 3, 2)
    for stage, blocks in enumerate((3, 4, 6, 3)):
        inner, outer = width << stage, 256 << stage
        for block in range(blocks):
            stride = 2 if stage > 0 and block == 0 else 1
            y = net.relu(net.conv(x, inner, bias=bias))
            y = net.relu(net.conv(y, inner, 3, stride, groups=groups, bias=bias))
            y = net.conv(y, outer, bias=bias)
            if block == 0:
                x = net.conv(x, outer, 1, stride, bias=bias)
            x = net.relu(net.add(y, x))
    net.write(name, [net.classify(x, 1000)])


def inception():
    """Szegedy et al., "Rethinking the Inception Architecture", 2015."""
    net = Net("Branches of convolutions over one input, put together.")

    def conv(x, *args, **said):
        return net.relu(net.conv(x, *args, **said))

    def chain(x, *layers):
        for channels, kernel in layers:
            x = conv(x, channels, kernel)
        return x

    def pooled(x, channels):
        return conv(net.pool("avg", x, 3, 1), channels)

    x = conv(net.arg(1, 3, 299, 299, letter="x"), 32, 3, 2, same=False)
    x = conv(conv(x, 32, 3, same=False), 64, 3)
    x = net.pool("max", x, 3, 2, same=False)
    x = conv(conv(x, 80), 192, 3, same=False)
    x = net.pool("max", x, 3, 2, same=False)
    for last in (32, 64, 64):
        x = net.concat([
            conv(x, 64),
            chain(x, (48, 1), (64, 5)),
            chain(x, (64, 1), (96, 3), (96, 3)),
            pooled(x, last),
        ])
    x = net.concat([
        conv(x, 384, 3, 2, same=False),
        conv(chain(x, (64, 1), (96, 3)), 96, 3, 2, same=False),
        net.pool("max", x, 3, 2, same=False),
    ])
    row, column = (1, 7), (7, 1)
    for inner in (128, 160, 160, 192):
        x = net.concat([
            conv(x, 192),
            chain(x, (inner, 1), (inner, row), (192, column)),
            chain(x, (inner, 1), (inner, column), (inner, row), (inner, column), (192, row)),
            pooled(x, 192),
        ])
    x = net.concat([
        conv(chain(x, (192, 1)), 320, 3, 2, same=False),
        conv(chain(x, (192, 1), (192, row), (192, column)), 192, 3, 2, same=False),
        net.pool("max", x, 3, 2, same=False),
    ])
    for _ in range(2):
        middle, deep = conv(x, 384), chain(x, (448, 1), (384, 3))
        x = net.concat([
            conv(x, 320),
            net.concat([conv(middle, 384, (1, 3)), conv(middle, 384, (3, 1))]),
            net.concat([conv(deep, 384, (1, 3)), conv(deep, 384, (3, 1))]),
            pooled(x, 192),
        ])
    net.write("inception.tir", [net.classify(x, 1000)])


def nasnet():
    """The cells A of Zoph et al., "Learning Transferable Architectures for Scalable Image
    Recognition", 2017, with four normal cells between reductions; what comes from before a
    reduction is brought to size by a convolution of stride 2."""
    net = Net("Searched cells of separable convolutions and pools over two inputs each.")

    def separable(x, kernel, stride=1):
        channels = x[1][1]
        x = net.conv(net.relu(x), channels, kernel, stride, groups=channels)
        return net.conv(x, channels)

    def squeezed(before, x, channels):
        stride = before[1][2] // x[1][2] if before[1][2] > x[1][2] else 1
        before = net.conv(net.relu(before), channels, 1, stride)
        return before, net.conv(net.relu(x), channels)

    def normal(before, x, channels):
        p, h = squeezed(before, x, channels)
        return net.concat([
            p,
            net.add(separable(h, 3), h),
            net.add(separable(p, 3), separable(h, 5)),
            net.add(net.pool("avg", h, 3, 1), p),
            net.add(net.pool("avg", p, 3, 1), net.pool("avg", p, 3, 1)),
            net.add(separable(p, 5), separable(p, 3)),
        ])

    def reduction(before, x, channels):
        p, h = squeezed(before, x, channels)
        first = net.add(separable(p, 7, 2), separable(h, 5, 2))
        second = net.add(net.pool("max", h, 3, 2), separable(p, 7, 2))
        third = net.add(net.pool("avg", h, 3, 2), separable(p, 5, 2))
        fourth = net.add(net.pool("max", h, 3, 2), separable(first, 3))
        fifth = net.add(net.pool("avg", first, 3, 1), second)
        return net.concat([second, third, fourth, fifth])

    channels = 44
    x = net.conv(net.arg(1, 3, 224, 224, letter="x"), 32, 3, 2)
    before = x
    for _ in range(2):
        before, x = x, reduction(before, x, channels // 2)
    for stage in range(3):
        if stage > 0:
            before, x = x, reduction(before, x, channels << stage)
        for _ in range(4):
            before, x = x, normal(before, x, channels << stage)
    net.write("nasnet.tir", [net.classify(net.relu(x), 1000)])


def conv_relu(net, x, *args, **said):
    return net.relu(net.conv(x, *args, **said))


def fire():
    """Three fire modules of Iandola et al., "SqueezeNet", 2016."""
    net = Net("Three fire modules: a narrow convolution, then two that are put together.")
    x = net.arg(1, 64, 28, 28, letter="x")
    for narrow, wide in ((16, 64), (32, 128), (32, 128)):
        x = conv_relu(net, x, narrow, bias=True)
        x = net.concat([conv_relu(net, x, wide, bias=True), conv_relu(net, x, wide, 3, bias=True)])
    net.write("fire.tir", [x])


def bottleneck(name, title, groups, width):
    """Three blocks of the third stage of `residual`."""
    net = Net(title)
    x = net.arg(1, 256, 14, 14, letter="x")
    for _ in range(3):
        y = conv_relu(net, x, width, bias=True)
        y = conv_relu(net, y, width, 3, groups=groups, bias=True)
        x = net.relu(net.add(net.conv(y, 256, bias=True), x))
    net.write(name, [x])


def inverted():
    """Three inverted residuals of Sandler et al., "MobileNetV2", 2018."""
    net = Net("Three inverted residuals: wide convolutions channel by channel between narrow ones.")
    x = net.arg(1, 32, 28, 28, letter="x")

    def clipped(x):
        name = net.fresh("v")
        net.lines.append(f"{name} = graph.clip {x[0]} {{max = 6.0 : f64, min = 0.0 : f64}} : {tensor(x[1])}")
        return name, x[1]

    for _ in range(3):
        y = clipped(net.conv(x, 192, bias=True))
        y = clipped(net.conv(y, 192, 3, groups=192, bias=True))
        x = net.add(net.conv(y, 32, bias=True), x)
    net.write("inverted.tir", [x])


def branches():
    """Two modules of `inception` on 17 by 17 pixels."""
    net = Net("Two modules of branches over one input.")
    x = net.arg(1, 192, 17, 17, letter="x")
    for _ in range(2):
        deep = conv_relu(net, conv_relu(net, conv_relu(net, x, 64), 96, 3), 96, 3)
        wide = conv_relu(net, conv_relu(net, x, 48), 64, 5)
        pooled = conv_relu(net, net.pool("avg", x, 3, 1), 32)
        x = net.concat([conv_relu(net, x, 64), wide, deep, pooled])
    net.write("branches.tir", [x])


def unet():
    """Two levels of Ronneberger et al., "U-Net", 2015, padded, with pixels repeated on the way up."""
    net = Net("Two levels down and up again, each beside what came from its level.")

    def twice(x, channels):
        return conv_relu(net, conv_relu(net, x, channels, 3, bias=True), channels, 3, bias=True)

    def enlarged(x):
        n, c, h, w = x[1]
        x = net.reshape(x, [n, c, h, 1, w, 1])
        name, wide = net.fresh("v"), [n, c, h, 2, w, 2]
        net.lines.append(f"{name} = graph.expand {x[0]} : {tensor(x[1])} to {tensor(wide)}")
        return net.reshape((name, wide), [n, c, 2 * h, 2 * w])

    kept, channels = [], 16
    x = net.arg(1, 4, 64, 64, letter="x")
    for _ in range(2):
        kept.append(twice(x, channels))
        x = net.pool("max", kept[-1], 2, 2)
        channels *= 2
    x = twice(x, channels)
    for skip in reversed(kept):
        channels //= 2
        up = net.conv(enlarged(x), channels, bias=True)
        x = twice(net.concat([skip, up]), channels)
    net.write("unet.tir", [net.conv(x, 2, bias=True)])


def dense():
    """A dense block of Huang et al., "Densely Connected Convolutional Networks", 2017, its normalizations folded into the
    convolutions: each layer reads what all before it gave."""
    net = Net("A dense block of six layers, each over what all before it gave.")
    parts = [conv_relu(net, net.arg(1, 48, 14, 14, letter="x"), 64, 3, bias=True)]
    for _ in range(6):
        x = net.concat(parts) if len(parts) > 1 else parts[0]
        x = conv_relu(net, x, 128, 1, bias=True)
        parts.append(conv_relu(net, x, 32, 3, bias=True))
    net.write("dense.tir", [conv_relu(net, net.concat(parts), 128, 1, bias=True)])


def lstm():
    """Hochreiter and Schmidhuber, "Long Short-Term Memory", 1997: four steps, each gate by products of its own."""
    steps, width = 4, 256
    net = Net("A cell with four gates over four steps.")
    hidden, cell = net.arg(1, width, letter="x"), net.arg(1, width, letter="x")
    inputs = [net.arg(1, width, letter="x") for _ in range(steps)]
    gates = [(net.arg(width, width), net.arg(width, width), net.arg(width)) for _ in range(4)]
    for x in inputs:
        keep, take, give, new = [
            net.add(net.add(net.matmul(x, w), net.matmul(hidden, u)), b) for w, u, b in gates
        ]
        keep, take, give = [net.plain("sigmoid", gate) for gate in (keep, take, give)]
        kept = net.binary("mul", keep, cell)
        cell = net.add(kept, net.binary("mul", take, net.plain("tanh", new)))
        hidden = net.binary("mul", give, net.plain("tanh", cell))
    net.write("lstm.tir", [hidden, cell])


bert()
nasrnn()
residual("resnet50.tir", "Residual blocks of three convolutions, with biases.", 1, 64, True)
residual("resnext50.tir", "Residual blocks whose middle convolution has 32 groups.", 32, 128, False)
inception()
nasnet()
fire()
bottleneck("bottleneck.tir", "Three residual blocks of three convolutions.", 1, 64)
bottleneck("grouped.tir", "Three residual blocks whose middle convolution has 32 groups.", 32, 128)
inverted()
branches()
unet()
dense()
lstm()
