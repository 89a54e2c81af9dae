#!/usr/bin/env python3
"""Compiles networks as their packages ship them, runs every level, and compares with the answers beside them.

`networks.py FOLDER...`: a folder has model.onnx, its inputs in_0.npy, in_1.npy, ... in their order and the expected outputs
out_0.npy, .... Sizes that a model leaves open are those of its inputs; an input that is a single integer, such as a
sample rate, is bound to its value, as branches may depend on it. Needs the Python packages onnx and numpy.

An output that is dequantized is right within one step of its scale: sums of integers and sums of floats are rounded on either side of the
middle between two steps. One that is further off is right if the float model's answer, float_out_0.npy, ... beside it, is
nearer to it, by the mean of absolute differences, than to the expected one.
"""

import argparse
import pathlib
import shlex
import subprocess
import sys

import numpy as np
import onnx

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


# What a step may be more than its scale, for the rounding of the product with it.
ROUNDING = 1.001


def step(model, output):
    """The scale of an output that is dequantized, perhaps moved afterwards; none for another one."""
    made = {name: node for node in model.graph.node for name in node.output}
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    node = made.get(output)
    while node is not None and node.op_type in ("Reshape", "Flatten", "Transpose", "Squeeze", "Unsqueeze", "Identity"):
        node = made.get(node.input[0])
    if node is None or node.op_type != "DequantizeLinear" or node.input[1] not in constants:
        return None
    return float(np.max(onnx.numpy_helper.to_array(constants[node.input[1]])))


def steps(model):
    """The steps of all outputs if each has one."""
    found = [step(model, output.name) for output in model.graph.output]
    return None if None in found else found


def command(arguments, folder, model):
    """`tir compile` for a folder, with what the model leaves open."""
    options, files = sizes(model, [folder / f"in_{k}.npy" for k in range(len(model.graph.input))])
    words = [str(arguments.bin / "tir"), "compile", str(folder / "model.onnx"), "--machine", str(arguments.machine), *options]
    for path in files:
        words += ["--input", str(path)]
    for k in range(len(model.graph.output)):
        words += ["--compare", str(folder / f"out_{k}.npy")]
    known = steps(model)
    if known:
        words += ["--rtol", "0", "--atol", f"{max(known) * ROUNDING:.9g}"]
    return words + ["--out", str(arguments.out / folder.name), *arguments.more]


def sizes(model, paths):
    """The options for what a model leaves open, by its inputs' files, and the files that are left as inputs."""
    known = {initializer.name for initializer in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in known]
    words, files = [], []
    for value, path in zip(inputs, paths):
        array = np.load(path)
        dims = value.type.tensor_type.shape.dim
        if np.issubdtype(array.dtype, np.integer) and array.size == 1 and not dims:
            words += ["--bind", f"{value.name}={path}"]
            continue
        if any(not dim.HasField("dim_value") for dim in dims):
            words += ["--shape", f"{value.name}={'x'.join(map(str, array.shape))}"]
        files.append(path)
    return words, files


def nearer(arguments, folder, model):
    """Whether each level's outputs are nearer to the float model's than the expected ones, a line for each level."""
    inputs = [word for k in range(len(model.graph.input)) if (folder / f"in_{k}.npy").exists() for word in ("--input", folder / f"in_{k}.npy")]
    for level in ("graph", "tensor", "loop", "memref", "accel"):
        made = arguments.out / folder.name
        if not (made / f"{level}.tir").exists():
            yield False, f"{level}: there is no program"
            continue
        words = [arguments.bin / "tir-run", made / f"{level}.tir", *inputs, "--output", made / level]
        if subprocess.run(words, capture_output=True, timeout=arguments.timeout).returncode != 0:
            yield False, f"{level}: does not run"
            continue
        for k in range(len(model.graph.output)):
            real = np.load(folder / f"float_out_{k}.npy")
            ours, theirs = (np.abs(np.load(path) - real).mean() for path in (made / level / f"out_{k}.npy", folder / f"out_{k}.npy"))
            yield ours <= theirs, f"{level}: output {k} is {ours:.3e} from the float model, the expected one {theirs:.3e}"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "target/quick", help="folder of the program tir")
    parser.add_argument("--machine", type=pathlib.Path, default=ROOT / "test/e2e/machines/npu.tir")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("target/tir"), help="folder of the results")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for a network [1800]")
    parser.add_argument("--print", action="store_true", help="print the commands, and run nothing")
    parser.epilog = "More options of tir compile follow behind --."
    given = sys.argv[1:]
    at = given.index("--") if "--" in given else len(given)
    arguments = parser.parse_args(given[:at])
    arguments.more = given[at + 1 :]
    failed = 0
    for folder in filter(pathlib.Path.is_dir, arguments.folders):
        model = onnx.load(folder / "model.onnx", load_external_data=False)
        words = command(arguments, folder, model)
        if arguments.print:
            print(shlex.join(words))
            continue
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=arguments.timeout)
            code, text = done.returncode, done.stdout + done.stderr
        except subprocess.TimeoutExpired as stopped:
            code, text = 1, (stopped.stdout or b"").decode() + f"error: takes longer than {arguments.timeout} s\n"
        lines = []
        if code != 0 and steps(model) and (folder / "float_out_0.npy").exists():
            lines = list(nearer(arguments, folder, model))
            code = 0 if all(right for right, _ in lines) else code
        failed += code != 0
        print(f"== {folder}: {'right' if code == 0 else 'FAILED'}")
        for line in text.splitlines():
            words = line.split()
            if words and words[0] in ("graph", "tensor", "loop", "memref", "accel", "cycles") or "error" in line:
                print(f"   {line.strip()}")
        for _, line in lines:
            print(f"   {line}")
        sys.stdout.flush()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
