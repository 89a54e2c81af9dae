#!/usr/bin/env python3
"""Imports ONNX's node cases, runs them at graph level and as accel programs, and writes a table.

Needs Python packages (onnx, onnxruntime, numpy) and built programs (tir-translate, tir-opt, tir-run); see README.md.
A case counts if its values are tensors of plain types and ONNX Runtime's CPU provider runs it.
"""

import argparse
import collections
import concurrent.futures
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx
import onnxruntime
from onnx.backend.test.case.node import collect_testcases

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent

# Numbers and truth values of at least 8 bits; floats of at least 16.
PLAIN = {onnx.TensorProto.DataType.Value(name) for name in (
    "FLOAT UINT8 INT8 UINT16 INT16 INT32 INT64 BOOL FLOAT16 DOUBLE UINT32 UINT64 BFLOAT16").split()}
# Losses: what networks are trained with.
TRAINING = {"SoftmaxCrossEntropyLoss", "NegativeLogLikelihoodLoss", "sce", "nllloss"}


class Case:
    """A case of ONNX, with what ONNX Runtime says to it."""

    def __init__(self, case):
        self.name, self.model = case.name, case.model
        self.inputs, self.expected = case.data_sets[0]
        self.rtol = max(case.rtol, 1e-3)
        nodes = self.model.graph.node
        expanded = len(nodes) != 1 or self.name.endswith("_expanded")
        self.op = f"body of {case.name.split('_')[1]}" if expanded else nodes[0].op_type
        values = list(self.model.graph.input) + list(self.model.graph.output)
        types = [v.type.tensor_type.elem_type if v.type.HasField("tensor_type") else None for v in values]
        self.runtime = None
        if any(t not in PLAIN for t in types):
            self.apart = "other types"
        elif self.op.removeprefix("body of ") in TRAINING:
            self.apart = "training"
        else:
            self.apart = self.ask()

    def ask(self):
        """Runs ONNX Runtime; why the case does not count, if it does not."""
        try:
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            options.intra_op_num_threads = 1
            session = onnxruntime.InferenceSession(
                self.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
            names = [i.name for i in session.get_inputs()]
            self.runtime = session.run(None, dict(zip(names, self.inputs)))
        except Exception:  # noqa: BLE001: whatever it is, ONNX Runtime does not run it
            return "not run by ONNX Runtime"
        return None


def array(value):
    """An array that .npy can say: bfloat16 as its bits is no such type, and becomes f32."""
    value = np.asarray(value)
    return value.astype(np.float32) if value.dtype.name == "bfloat16" else value


def other(random, value):
    """Another content of the same type and shape, not far from the one that is there."""
    if value.dtype == bool:
        return np.asarray(random.random(value.shape) < 0.5)
    if value.dtype.kind in "iu":
        step = random.integers(-2, 3, value.shape) * (random.random(value.shape) < 0.5)
        limits = np.iinfo(value.dtype)
        moved = [min(max(int(a) + int(b), limits.min), limits.max) for a, b in zip(value.flat, np.asarray(step).flat)]
        return np.array(moved, value.dtype).reshape(value.shape)
    if value.dtype.kind == "f":
        return np.asarray(value * random.choice([1, 1, 1.02, 0.9, 1.1], value.shape), value.dtype)
    return value


class Runner:
    def __init__(self, arguments, folder):
        self.arguments, self.folder = arguments, pathlib.Path(folder)

    def call(self, program, *words):
        path = self.arguments.bin / program
        try:
            done = subprocess.run([path, *map(str, words)], capture_output=True, text=True, errors="replace",
                                  timeout=self.arguments.timeout)
        except subprocess.TimeoutExpired:
            return 1, f"error: {program} takes longer than {self.arguments.timeout} s"
        return done.returncode, done.stdout + done.stderr

    def import_model(self, folder, model, case):
        """The program; where sizes or values of inputs are asked for, once more with those of the case."""
        program = folder / "graph.tir"
        words = ["--import-onnx", model, "-o", program]
        code, text = self.call("tir-translate", *words)
        if code == 0:
            return program, text, []
        names = [v.name for v in case.model.graph.input]
        bound = []
        for _ in range(5):
            asked = [n for n in re.findall(r"--bind '?([^\s'=]+)=", text) if n in names and n not in bound]
            shapes = [n for n in re.findall(r"--shape '?([^\s'=]+)=", text) if n in names]
            if not asked and not shapes:
                break
            bound += dict.fromkeys(asked)
            more = []
            for name in bound:
                more += ["--bind", f"{name}={folder / f'in_{names.index(name)}.npy'}"]
            for name in shapes:
                sizes = "x".join(map(str, np.asarray(case.inputs[names.index(name)]).shape))
                more += ["--shape", f"{name}={sizes}"]
            code, text = self.call("tir-translate", *words, *more)
            if code == 0:
                return program, text, bound
        return None, text, bound

    def compare(self, program, case, folder, inputs):
        """Whether the results are those that ONNX states, or else those of ONNX Runtime; what is said of them."""
        text = ""
        for kind in ("out", "runtime"):
            words = [program, "--rtol", case.rtol, "--atol", self.arguments.atol]
            for path in inputs:
                words += ["--input", path]
            for k in range(len(case.expected)):
                words += ["--compare", folder / f"{kind}_{k}.npy"]
            code, text = self.call("tir-run", *words)
            if code == 0:
                return "right", text
        return ("wrong" if "elements beyond" in text else "error"), text

    def altered(self, case, count):
        """Other contents of small operands than the case has: the program gives what ONNX Runtime gives, or stops. A list of
        `(what happened, reason)`."""
        folder = self.folder / f"{case.name}.altered"
        folder.mkdir()
        model = folder / "model.onnx"
        model.write_bytes(case.model.SerializeToString())
        program = folder / "graph.tir"
        if self.call("tir-translate", "--import-onnx", model, "-o", program)[0] != 0 or "cf.assert" not in program.read_text():
            return []
        # Where ONNX and ONNX Runtime differ, the second says nothing of other operands.
        if not all(np.allclose(a, b, case.rtol, self.arguments.atol, equal_nan=True)
                   for a, b in zip(case.expected, case.runtime)):
            return []
        results = []
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        session = onnxruntime.InferenceSession(case.model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        names = [i.name for i in session.get_inputs()]
        # The same for each run of a case.
        random = np.random.default_rng(sum(map(ord, case.name)))
        for _ in range(count):
            inputs = [np.array(value) for value in case.inputs]
            for k in range(1, len(inputs)) if len(inputs) > 1 else []:
                if 0 < inputs[k].size <= 16 and random.random() < 0.7:
                    inputs[k] = other(random, inputs[k])
            for k, value in enumerate(inputs):
                np.save(folder / f"in_{k}.npy", array(value))
            try:
                expected = session.run(None, dict(zip(names, inputs)))
            except Exception:  # noqa: BLE001: whatever it is, ONNX Runtime does not run it
                expected = None
            # Sums of large numbers that cancel out are as exact as their terms.
            most = max((np.abs(e).max() for e in expected or [] if e.size and e.dtype.kind == "f"), default=0)
            atol = max(self.arguments.atol, 1e-6 * most) if np.isfinite(most) else self.arguments.atol
            words = [program, "--rtol", case.rtol, "--atol", atol]
            for k in range(len(inputs)):
                words += ["--input", folder / f"in_{k}.npy"]
            same = expected is not None and [e.shape for e in expected] == [np.shape(e) for e in case.expected]
            if same:
                for k, value in enumerate(expected):
                    np.save(folder / f"out_{k}.npy", array(value))
                    words += ["--compare", folder / f"out_{k}.npy"]
            code, text = self.call("tir-run", *words)
            given = "; ".join(str(value.tolist()) for value in inputs[1:] if value.size <= 16)
            if code != 0:
                kind = "wrong" if "elements beyond" in text else "stopped" if "assertion" in text else "error"
                if kind == "stopped" and same:
                    kind = "stopped, ONNX Runtime does not"
            else:
                kind = "right" if same else "runs, ONNX Runtime does not" if expected is None else "wrong"
            results.append((kind, f"{given}: {reason(text) if code else ''}"))
        return results

    def run(self, case):
        """`(imported, graph, accel, reason)`."""
        folder = self.folder / case.name
        folder.mkdir()
        model = folder / "model.onnx"
        model.write_bytes(case.model.SerializeToString())
        for kind, arrays in (("in", case.inputs), ("out", case.expected), ("runtime", case.runtime)):
            for k, value in enumerate(arrays):
                np.save(folder / f"{kind}_{k}.npy", array(value))
        program, text, bound = self.import_model(folder, model, case)
        if program is None:
            return "no", "-", "-", reason(text)
        imported = "bound" if bound else "yes"
        names = [v.name for v in case.model.graph.input]
        inputs = [folder / f"in_{k}.npy" for k, name in enumerate(names) if name not in bound]
        graph, text = self.compare(program, case, folder, inputs)
        if graph != "right":
            return imported, graph, "-", reason(text)
        accel = folder / "accel.tir"
        words = [f"--to-accel=machine={self.arguments.machine} {self.arguments.options}".strip(), "-o", accel]
        code, text = self.call("tir-opt", program, *words)
        if code != 0:
            return imported, graph, "not lowered", reason(text)
        verdict, text = self.compare(accel, case, folder, inputs)
        return imported, graph, verdict, "" if verdict == "right" else reason(text)


def reason(text):
    """The first error, without the names of files and nodes."""
    lines = [line for line in text.splitlines() if "error" in line or "panicked" in line or "beyond" in line]
    line = lines[0] if lines else (text.strip().splitlines() or ["nothing said"])[-1]
    notes = re.findall(r"note: (.*)", text)
    line = re.sub(r"\S*/", "", line)
    if notes:
        line += " | " + re.sub(r"\S*/", "", notes[0])
    line = re.sub(r"node ('[^']*'|#\d+) ", "node ", line)
    return line.removeprefix("error: ").removeprefix("model.onnx: ")[:170]


def alter(runner, cases, arguments):
    """Runs programs with other operands and prints what happened; 1 if something was wrong."""
    total, programs = collections.Counter(), 0
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for case, results in zip(cases, pool.map(lambda c: runner.altered(c, arguments.altered), cases)):
            programs += bool(results)
            for kind, why in results:
                total[kind] += 1
                if kind in ("wrong", "error") or arguments.verbose and kind not in ("right", "stopped"):
                    print(f"{case.name}: {kind}: {why}", flush=True)
    print(f"{programs} programs that check operands, {total.total()} runs: "
          + "; ".join(f"{count} {kind}" for kind, count in sorted(total.items())))
    return 1 if total["wrong"] else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--bin", type=pathlib.Path, default=ROOT / "target/quick", help="folder of the programs")
    parser.add_argument("--machine", type=pathlib.Path, default=ROOT / "test/e2e/machines/npu.tir")
    parser.add_argument("--options", default="", help="more options of --to-accel, such as egraph=false")
    parser.add_argument("--jobs", type=int, default=2, help="cases at a time [2]")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for a program [60]")
    parser.add_argument("--atol", type=float, default=1e-4, help="absolute tolerance [1e-4]")
    parser.add_argument("--filter", default="", help="regular expression: cases whose names have it")
    parser.add_argument("--every", type=int, default=1, help="one case of so many [1]")
    parser.add_argument("--table", type=pathlib.Path, help="write the table there")
    parser.add_argument("--verbose", action="store_true", help="print each case that is not right")
    parser.add_argument("--altered", type=int, metavar="TIMES",
                        help="run programs of cases with other small operands than theirs, so often, beside ONNX Runtime")
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the files of the cases")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore")
    onnxruntime.set_default_logger_severity(4)
    found = [c for c in collect_testcases(None) if re.search(arguments.filter, c.name)]
    cases = [Case(c) for c in found[::arguments.every]]
    counted = [c for c in cases if not c.apart]
    apart = collections.Counter(c.apart for c in cases if c.apart)
    rows, reasons, total = {}, collections.defaultdict(collections.Counter), collections.Counter()
    with tempfile.TemporaryDirectory() as temporary:
        if arguments.keep:
            arguments.keep.mkdir(parents=True)
        runner = Runner(arguments, arguments.keep or temporary)
        if arguments.altered:
            return alter(runner, counted, arguments)
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for case, (imported, graph, accel, why) in zip(counted, pool.map(runner.run, counted)):
                row = rows.setdefault(case.op, collections.Counter())
                keys = ["cases"]
                keys += ["as is"] if imported == "yes" else []
                keys += ["imported"] if imported != "no" else []
                keys += ["graph"] if graph == "right" else []
                keys += ["accel"] if accel == "right" else []
                keys += ["wrong"] if "wrong" in (graph, accel) else []
                row.update(keys)
                total.update(keys)
                if why:
                    reasons[case.op][why] += 1
                    if arguments.verbose:
                        print(f"{case.name}: {imported} {graph} {accel}: {why}", flush=True)
    columns = ["cases", "as is", "imported", "graph", "accel", "wrong"]
    lines = [f"# onnx {onnx.__version__}, onnxruntime {onnxruntime.__version__}: {len(cases)} cases; {len(counted)} counted; "
             + "; ".join(f"{n} {what}" for what, n in sorted(apart.items()))]
    lines.append(f"{'operator':28}" + "".join(f"{c:>10}" for c in columns))
    for op in [*sorted(rows), "all"]:
        row = total if op == "all" else rows[op]
        lines.append(f"{op:28}" + "".join(f"{row[c]:>10}" for c in columns))
    lines.append("")
    for op in sorted(reasons):
        for why, count in sorted(reasons[op].items()):
            lines.append(f"{op}: {count} x {why}")
    text = "\n".join(lines) + "\n"
    if arguments.table:
        arguments.table.write_text(text)
    print(text if not arguments.table else lines[0] + "\n" + lines[1] + "\n" + f"{'all':28}"
          + "".join(f"{total[c]:>10}" for c in columns))
    return 1 if total["wrong"] else 0


if __name__ == "__main__":
    sys.exit(main())
