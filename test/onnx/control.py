#!/usr/bin/env python3
"""Makes models with If, Loop, Scan and recurrent layers, imports them written out and as loops and branches of the program, runs each at
graph level and as an accel program, and compares with ONNX Runtime; prints ops, cycles and the time that lowering takes.

Needs Python packages (onnx, onnxruntime, numpy) and built programs (tir-translate, tir-opt, tir-run); see README.md.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
F32, I64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
value, node = helper.make_tensor_value_info, helper.make_node
random = np.random.RandomState(211)


def floats(*shape):
    return random.uniform(-1, 1, shape).astype(np.float32)


def model(nodes, inputs, outputs, constants):
    graph = helper.make_graph(nodes, "control", inputs, outputs,
                              [numpy_helper.from_array(v, k) for k, v in constants.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def layer(op, steps, gates, hidden, **attributes):
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    nodes = [node(op, ["x", "w", "r", "b"], ["y"], name=op, hidden_size=hidden, **attributes)]
    constants = {"w": floats(directions, gates * hidden, hidden) / 8, "r": floats(directions, gates * hidden, hidden) / 8,
                 "b": floats(directions, 2 * gates * hidden)}
    return (model(nodes, [value("x", F32, [steps, 2, hidden])], [value("y", F32, None)], constants),
            [floats(steps, 2, hidden)])


def cell(steps):
    """A cell that is put together of small operators, as searched ones are: what it needs of x it takes by its step's number."""
    body = helper.make_graph(
        [node("Gather", ["x", "i"], ["xi"], axis=0),
         node("MatMul", ["h_in", "u"], ["hu"]), node("MatMul", ["xi", "v"], ["xv"]),
         node("Add", ["hu", "xv"], ["s"]), node("Tanh", ["s"], ["t"]), node("Sigmoid", ["s"], ["g"]),
         node("Mul", ["t", "g"], ["a"]), node("Sub", ["t", "h_in"], ["d"]), node("Mul", ["d", "g"], ["e"]),
         node("Add", ["h_in", "e"], ["k"]), node("Add", ["k", "a"], ["b"]), node("Tanh", ["b"], ["h"]), node("Identity", ["go_in"], ["go"]), node("Identity", ["h"], ["seen"])],
        "body", [value("i", I64, []), value("go_in", BOOL, []), value("h_in", F32, [4, 32])],
        [value("go", BOOL, []), value("h", F32, [4, 32]), value("seen", F32, [4, 32])])
    nodes = [node("Loop", ["n", "", "h0"], ["y", "all"], name="cell", body=body)]
    constants = {"n": np.array(steps), "u": floats(32, 32) / 16, "v": floats(32, 32) / 16}
    return (model(nodes, [value("x", F32, [steps, 4, 32]), value("h0", F32, [4, 32])],
                  [value("y", F32, [4, 32]), value("all", F32, [steps, 4, 32])], constants),
            [floats(steps, 4, 32), floats(4, 32)])


def scan(steps, back):
    body = helper.make_graph(
        [node("MatMul", ["h_in", "u"], ["hu"]), node("Add", ["hu", "xi"], ["s"]), node("Tanh", ["s"], ["h"]),
         node("Relu", ["h"], ["seen"])],
        "body", [value("h_in", F32, [4, 32]), value("xi", F32, [4, 32])], [value("h", F32, [4, 32]), value("seen", F32, [4, 32])])
    nodes = [node("Scan", ["h0", "x"], ["y", "all"], name="scan", body=body, num_scan_inputs=1, scan_input_axes=[1],
                  scan_input_directions=[back], scan_output_axes=[-1], scan_output_directions=[1 - back])]
    return (model(nodes, [value("h0", F32, [4, 32]), value("x", F32, [4, steps, 32])],
                  [value("y", F32, [4, 32]), value("all", F32, [4, 32, steps])], {"u": floats(32, 32) / 4}),
            [floats(4, 32), floats(4, steps, 32)])


def until(bound):
    """As long as a sum is small; the number of steps is bounded, or not."""
    body = helper.make_graph(
        [node("MatMul", ["h_in", "u"], ["hu"]), node("Add", ["hu", "h_in"], ["h"]), node("ReduceMax", ["h"], ["m"], keepdims=0),
         node("Less", ["m", "most"], ["go"])],
        "body", [value("i", I64, []), value("go_in", BOOL, []), value("h_in", F32, [4, 32])],
        [value("go", BOOL, []), value("h", F32, [4, 32])])
    constants = {"begin": np.array(True), "u": np.abs(floats(32, 32)) / 16, "most": np.array(60, np.float32)}
    if bound:
        constants["n"] = np.array(bound)
    nodes = [node("Loop", ["n" if bound else "", "begin", "h0"], ["y"], name="until", body=body)]
    return model(nodes, [value("h0", F32, [4, 32])], [value("y", F32, [4, 32])], constants), [np.abs(floats(4, 32))]


def given(steps):
    """A number of steps that is an input."""
    body = helper.make_graph(
        [node("MatMul", ["h_in", "u"], ["hu"]), node("Tanh", ["hu"], ["h"]), node("Identity", ["go_in"], ["go"])],
        "body", [value("i", I64, []), value("go_in", BOOL, []), value("h_in", F32, [4, 32])],
        [value("go", BOOL, []), value("h", F32, [4, 32])])
    nodes = [node("Loop", ["n", "", "h0"], ["y"], name="given", body=body)]
    return (model(nodes, [value("n", I64, []), value("h0", F32, [4, 32])], [value("y", F32, [4, 32])], {"u": floats(32, 32) / 4}),
            [np.array(steps), floats(4, 32)])


def branch(taken):
    then = helper.make_graph([node("MatMul", ["x", "u"], ["a"]), node("Relu", ["a"], ["p"])], "then", [], [value("p", F32, [4, 32])])
    other = helper.make_graph([node("Tanh", ["x"], ["q"])], "else", [], [value("q", F32, [4, 32])])
    nodes = [node("If", ["c"], ["y"], name="branch", then_branch=then, else_branch=other)]
    return (model(nodes, [value("c", BOOL, []), value("x", F32, [4, 32])], [value("y", F32, [4, 32])], {"u": floats(32, 32) / 4}),
            [np.array(taken), floats(4, 32)])


def nested(steps):
    """A scan of scans."""
    inner = helper.make_graph(
        [node("Add", ["s_in", "e"], ["sum"]), node("Tanh", ["sum"], ["s"]), node("Identity", ["s"], ["part"])],
        "inner", [value("s_in", F32, [32]), value("e", F32, [32])], [value("s", F32, [32]), value("part", F32, [32])])
    body = helper.make_graph(
        [node("Scan", ["h_in", "row"], ["h", "parts"], body=inner, num_scan_inputs=1)],
        "body", [value("h_in", F32, [32]), value("row", F32, [5, 32])], [value("h", F32, [32]), value("parts", F32, [5, 32])])
    nodes = [node("Scan", ["h0", "x"], ["y", "all"], name="nested", body=body, num_scan_inputs=1)]
    return (model(nodes, [value("h0", F32, [32]), value("x", F32, [steps, 5, 32])],
                  [value("y", F32, [32]), value("all", F32, [steps, 5, 32])], {}), [floats(32), floats(steps, 5, 32)])


MODELS = {
    "lstm16": lambda: layer("LSTM", 16, 4, 32), "lstm128": lambda: layer("LSTM", 128, 4, 32),
    "lstm-both": lambda: layer("LSTM", 24, 4, 32, direction="bidirectional"),
    "gru64": lambda: layer("GRU", 64, 3, 32), "gru-reset": lambda: layer("GRU", 24, 3, 32, linear_before_reset=1),
    "rnn-back": lambda: layer("RNN", 24, 1, 32, direction="reverse"),
    "cell12": lambda: cell(12), "cell400": lambda: cell(400),
    "scan12": lambda: scan(12, 0), "scan-back": lambda: scan(12, 1), "scan300": lambda: scan(300, 0), "nested": lambda: nested(7),
    "until20": lambda: until(20), "until2": lambda: until(2), "until": lambda: until(0), "until-many": lambda: until(1 << 40),
    "given7": lambda: given(7), "given0": lambda: given(0), "then": lambda: branch(True), "else": lambda: branch(False),
}


class Runner:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, pathlib.Path(folder)

    def call(self, program, *words):
        done = subprocess.run([self.arguments.bin / program, *map(str, words)], capture_output=True, text=True)
        return done.returncode, done.stdout, done.stderr

    def run(self, name, made, inputs, written):
        """One line, and whether it is right."""
        folder = self.folder / f"{name}.{written}"
        folder.mkdir()
        (folder / "model.onnx").write_bytes(made.SerializeToString())
        session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
        expected = session.run(None, dict(zip([i.name for i in session.get_inputs()], inputs)))
        words = ["--rtol", 1e-3, "--atol", 1e-5]
        for k, array in enumerate(inputs):
            np.save(folder / f"in_{k}.npy", array)
            words += ["--input", folder / f"in_{k}.npy"]
        for k, array in enumerate(expected):
            np.save(folder / f"out_{k}.npy", array)
            words += ["--compare", folder / f"out_{k}.npy"]
        graph, accel = folder / "graph.tir", folder / "accel.tir"
        code, _, text = self.call("tir-translate", "--import-onnx", folder / "model.onnx", "-o", graph, "--max-written", written)
        if code:
            return f"not imported: {first(text)}", False
        ops = sum(" = " in line for line in graph.read_text().splitlines())
        loops = len(re.findall(r"loop\.(for|if)", graph.read_text()))
        code, out, text = self.call("tir-run", graph, *words)
        if code:
            return f"graph: {first(out + text)}", False
        start = time.process_time(), time.time()
        code, _, text = self.call("tir-opt", graph, f"--to-accel=machine={self.arguments.machine} {self.arguments.options}".strip(),
                                  "-o", accel)
        took = time.time() - start[1]
        if code:
            return f"not lowered: {first(text)}", False
        code, out, text = self.call("tir-run", accel, *words)
        if code:
            return f"accel: {first(out + text)}", False
        cycles = re.search(r"([\d,]+) cycles", out)
        moved = re.search(r"([\d,]+) bytes moved", out)
        return (f"right; {ops:>6} ops, {loops:>2} loops and branches, lowered in {took:6.2f} s, {cycles[1]:>10} cycles, "
                f"{moved[1]:>12} bytes"), True


def first(text):
    lines = [line for line in text.splitlines() if "error" in line or "panicked" in line or "not close" in line]
    return (lines or text.strip().splitlines() or ["nothing said"])[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="models; all without one: " + ", ".join(MODELS))
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "target/quick", help="folder of the programs")
    parser.add_argument("--machine", type=pathlib.Path, default=ROOT / "test/e2e/machines/npu.tir")
    parser.add_argument("--options", default="egraph=false", help="more options of --to-accel [egraph=false]")
    parser.add_argument("--written", default="0,1000000", help="values of --max-written, with commas [0,1000000]")
    arguments = parser.parse_args()
    onnxruntime.set_default_logger_severity(4)
    bad = 0
    with tempfile.TemporaryDirectory() as folder:
        runner = Runner(arguments, folder)
        for name in arguments.names or MODELS:
            made, inputs = MODELS[name]()
            for written in arguments.written.split(","):
                line, right = runner.run(name, made, inputs, written)
                bad += not right
                print(f"{name:10} --max-written {written:8} {line}", flush=True)
    print(f"{bad} not right")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
