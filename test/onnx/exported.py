#!/usr/bin/env python3
"""Imports models, exports them again, and compares what ONNX Runtime says of the exported ones with the answers beside the first ones.

`exported.py MODEL...`: a model is CASE.onnx with CASE.in_0.npy, ... and CASE.out_0.npy, ..., or a folder with model.onnx, in_0.npy, ...
and out_0.npy, ...; without one, those of test/e2e/ops and test/e2e/models. `--passes` says what tir-opt does to a program in
between. Each exported model is also looked at by ONNX's own checker, with inference of shapes. Needs the Python packages onnx, onnxruntime and
numpy.
"""

import argparse
import pathlib
import subprocess
import sys
import tempfile

import networks
import numpy as np
import onnx
import onnxruntime

ROOT = networks.ROOT


def ran(words):
    """Runs a program; an error is what it says."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(next((line for line in done.stderr.splitlines() if "error" in line), done.stderr))


def exported(arguments, path, files, folder):
    """Exports a model; gives the exported file and the inputs that it has."""
    # Its own checks of the largest files are by path.
    model = onnx.load(path, load_external_data=False)
    options, left = networks.sizes(model, files)
    program, made = folder / "program.tir", folder / "exported.onnx"
    ran([arguments.bin / "tir-translate", "--import-onnx", path, *options, "-o", program])
    if arguments.passes:
        changed = folder / "changed.tir"
        ran([arguments.bin / "tir-opt", program, *arguments.passes.split(), "-o", changed])
        program = changed
    ran([arguments.bin / "tir-translate", "--export-onnx", program, "-o", made])
    return model, made, left


def compared(arguments, path, folder):
    """What is wrong with a model, if anything."""
    beside = (lambda what: path.with_name(f"{what}.npy")) if path.name == "model.onnx" else (lambda what: path.with_suffix(f".{what}.npy"))
    files = [beside(f"in_{k}") for k in range(len(onnx.load(path, load_external_data=False).graph.input))]
    if not beside("out_0").exists() or not all(file.exists() for file in files):
        raise FileNotFoundError("has no files for its inputs and outputs")
    model, made, left = exported(arguments, path, files, folder)
    onnx.checker.check_model(str(made), full_check=True)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(str(made), options, providers=["CPUExecutionProvider"])
    inputs = {value.name: np.load(file) for value, file in zip(session.get_inputs(), left, strict=True)}
    steps = networks.steps(model)
    for k, found in enumerate(session.run(None, inputs)):
        wanted = np.load(beside(f"out_{k}"))
        if found.shape != wanted.shape:
            return f"output {k} has shape {found.shape}, expected {wanted.shape}"
        rtol, atol = (0, steps[k] * networks.ROUNDING) if steps else (1e-3, 1e-4)
        found, wanted = found.astype(np.float64), wanted.astype(np.float64)
        if not np.allclose(found, wanted, rtol, atol, equal_nan=True):
            return f"output {k} is off by {np.nanmax(np.abs(found - wanted)):.3e}"
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", type=pathlib.Path)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "target/quick", help="folder of the programs")
    parser.add_argument("--passes", default="", help="options of tir-opt for the program in between, as '--fold-qdq --fuse-graph'")
    arguments = parser.parse_args()
    models = arguments.models or [*sorted((ROOT / "test/e2e/ops").glob("*.onnx")), *sorted((ROOT / "test/e2e/models").glob("*.onnx"))]
    right, wrong, refused = 0, 0, 0
    for path in models:
        path = path / "model.onnx" if path.is_dir() else path
        try:
            with tempfile.TemporaryDirectory() as folder:
                why = compared(arguments, path, pathlib.Path(folder))
        except FileNotFoundError as error:
            print(f"{path}: {error}")
            continue
        except RuntimeError as error:
            refused += 1
            print(f"{path}: {error}")
            continue
        except Exception as error:  # what ONNX's checker and ONNX Runtime raise has no type in common
            why = str(error).splitlines()[0]
        wrong += why is not None
        right += why is None
        if why or arguments.models:
            print(f"{path}: {why or 'right'}")
        sys.stdout.flush()
    print(f"{right} right, {wrong} wrong, {refused} refused")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
