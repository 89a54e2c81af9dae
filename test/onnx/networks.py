#!/usr/bin/env python3
"""Compiles networks as their packages ship them, runs every level, and compares with the answers beside them.

`networks.py FOLDER...`: a folder has model.onnx, its inputs in_0.npy, in_1.npy, ... in their order and the expected outputs
out_0.npy, .... Sizes that a model leaves open are those of its inputs; an input that is a single integer, such as a
sample rate, is bound to its value, as branches may depend on it. Needs the Python packages onnx and numpy.
"""

import argparse
import pathlib
import shlex
import subprocess
import sys

import numpy as np
import onnx

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def command(arguments, folder):
    """`tir compile` for a folder, with what the model leaves open."""
    model = onnx.load(folder / "model.onnx", load_external_data=False)
    known = {initializer.name for initializer in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in known]
    words = [str(arguments.bin / "tir"), "compile", str(folder / "model.onnx"), "--machine", str(arguments.machine)]
    files = []
    for k, value in enumerate(inputs):
        path = folder / f"in_{k}.npy"
        array = np.load(path)
        dims = value.type.tensor_type.shape.dim
        if np.issubdtype(array.dtype, np.integer) and array.size == 1 and not dims:
            words += ["--bind", f"{value.name}={path}"]
            continue
        if any(not dim.HasField("dim_value") for dim in dims):
            words += ["--shape", f"{value.name}={'x'.join(map(str, array.shape))}"]
        files += ["--input", str(path)]
    words += files
    for k in range(len(model.graph.output)):
        words += ["--compare", str(folder / f"out_{k}.npy")]
    return words + ["--out", str(arguments.out / folder.name), *arguments.more]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "target/quick", help="folder of the program tir")
    parser.add_argument("--machine", type=pathlib.Path, default=ROOT / "test/e2e/machines/npu.tir")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("target/tir"), help="folder of the results")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for a network [1800]")
    parser.add_argument("--print", action="store_true", help="print the commands, and run nothing")
    parser.add_argument("more", nargs="*", default=[], help="behind --: more options of tir compile")
    arguments = parser.parse_args()
    failed = 0
    for folder in filter(pathlib.Path.is_dir, arguments.folders):
        words = command(arguments, folder)
        if arguments.print:
            print(shlex.join(words))
            continue
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=arguments.timeout)
            code, text = done.returncode, done.stdout + done.stderr
        except subprocess.TimeoutExpired as stopped:
            code, text = 1, (stopped.stdout or b"").decode() + f"error: takes longer than {arguments.timeout} s\n"
        failed += code != 0
        print(f"== {folder}: {'right' if code == 0 else 'FAILED'}")
        for line in text.splitlines():
            words = line.split()
            if words and words[0] in ("graph", "tensor", "loop", "memref", "accel", "cycles") or "error" in line:
                print(f"   {line.strip()}")
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
