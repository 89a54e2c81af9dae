#!/usr/bin/env python3
"""Imports a model whose constants are a file beside it, and measures memory: `external.py [BYTES]`, 2e9 without it.

The model is a chain of products with matrices of 4096 x 4096 floats, 64 MiB each, all of them external data. Its file is written
to --folder, is imported by tir-translate and exported again, and the largest memory of each process is compared with the size of the
file: it is to be at most --ratio of it. Needs the Python packages onnx and numpy.
"""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
from onnx import TensorProto, helper

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
SIDE = 4096


def write(folder, count):
    """The model, and the bytes of its constants."""
    random = np.random.default_rng(1)
    nodes, constants, x = [], [], "x"
    with open(folder / "model.data", "wb") as data:
        for k in range(count):
            matrix = random.standard_normal((SIDE, SIDE), dtype=np.float32)
            tensor = TensorProto(name=f"w{k}", data_type=TensorProto.FLOAT, dims=matrix.shape)
            tensor.data_location = TensorProto.EXTERNAL
            for key, value in (("location", "model.data"), ("offset", data.tell()), ("length", matrix.nbytes)):
                tensor.external_data.add(key=key, value=str(value))
            data.write(matrix.tobytes())
            constants.append(tensor)
            nodes.append(helper.make_node("MatMul", [x, f"w{k}"], [f"y{k}"]))
            x = f"y{k}"
        size = data.tell()
    value = lambda name: helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, SIDE])
    graph = helper.make_graph(nodes, "chain", [value("x")], [value(x)], constants)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")
    return size


def measured(words):
    """Runs a program; gives its largest memory in bytes and its seconds."""
    begin = time.monotonic()
    process = subprocess.Popen([str(word) for word in words])
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{words[0]} failed")
    return usage.ru_maxrss * 1024, time.monotonic() - begin


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bytes", nargs="?", type=float, default=2e9)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "target/quick", help="folder of the programs")
    parser.add_argument("--folder", type=pathlib.Path, help="folder of the files, three times as large [a temporary one]")
    parser.add_argument("--ratio", type=float, default=1.2, help="memory by size of the file at most [1.2]")
    arguments = parser.parse_args()
    failed = False
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        folder = pathlib.Path(folder)
        size = write(folder, max(1, round(arguments.bytes / (4 * SIDE * SIDE))))
        program, again = folder / "program.tir", folder / "again.onnx"
        tool = arguments.bin / "tir-translate"
        for what, words in (
            ("import", [tool, "--import-onnx", folder / "model.onnx", "-o", program]),
            ("export", [tool, "--export-onnx", program, "-o", again]),
        ):
            memory, seconds = measured(words)
            failed |= memory > arguments.ratio * size
            print(f"{what}: {size / 1e9:.2f} GB of constants, {memory / 1e9:.2f} GB of memory ({memory / size:.2f}), {seconds:.1f} s")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
