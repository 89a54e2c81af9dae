"""Calls models in ONNX Runtime and OpenVINO: a request in JSON a line, an answer in JSON a line.

The first line says the version of each engine, or null where Python has it not.
  {"engine", "model", "inputs", "calls"}      least milliseconds of so many calls; "outputs": files to write results to;
                                              "threads": how many, one if it says nothing
  {"engine", "model", "inputs", "profile"}    least microseconds of each node in so many calls; "optimized": a file for
                                              the graph that ran
  {"forget": true}                            gives up all models
"""

import importlib
import json
import os
import sys
import tempfile
import time


class OnnxRuntime:
    def __init__(self, model, feeds, threads=1, options=None):
        import onnxruntime

        options = options or onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = 3
        self.session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
        # Bound, a call copies neither inputs nor outputs to Python.
        self.binding = self.session.io_binding()
        for value, array in zip(self.session.get_inputs(), feeds):
            self.binding.bind_cpu_input(value.name, array)
        for value in self.session.get_outputs():
            self.binding.bind_output(value.name)

    def call(self):
        self.session.run_with_iobinding(self.binding)

    def outputs(self):
        return self.binding.copy_outputs_to_cpu()


class OpenVino:
    def __init__(self, model, feeds, threads=1):
        import openvino

        core = openvino.Core()
        # Processors with matrices of bfloat16 take them for float32 unless they are told.
        options = {"INFERENCE_NUM_THREADS": threads, "NUM_STREAMS": "1", "INFERENCE_PRECISION_HINT": "f32"}
        compiled = core.compile_model(core.read_model(model), "CPU", options)
        self.request = compiled.create_infer_request()
        for k, array in enumerate(feeds):
            self.request.set_input_tensor(k, openvino.Tensor(array, shared_memory=True))

    def call(self):
        self.request.infer()

    def outputs(self):
        return [tensor.data for tensor in self.request.output_tensors]


ENGINES = {"onnxruntime": OnnxRuntime, "openvino": OpenVino}
MADE = {}


def arrays(paths):
    import numpy

    return [numpy.ascontiguousarray(numpy.load(path)) for path in paths]


def measure(request):
    import numpy

    threads = request.get("threads", 1)
    key = (request["engine"], request["model"], threads)
    if key not in MADE:
        MADE[key] = ENGINES[request["engine"]](request["model"], arrays(request["inputs"]), threads)
    runner = MADE[key]
    best = float("inf")
    for _ in range(request["calls"]):
        start = time.perf_counter()
        runner.call()
        best = min(best, time.perf_counter() - start)
    for path, array in zip(request.get("outputs", []), runner.outputs()):
        numpy.save(path, array)
    return {"ms": best * 1e3}


def profile(request):
    import onnxruntime

    with tempfile.TemporaryDirectory() as folder:
        options = onnxruntime.SessionOptions()
        options.enable_profiling = True
        options.profile_file_prefix = os.path.join(folder, "profile")
        if request.get("optimized"):
            options.optimized_model_filepath = request["optimized"]
        runner = OnnxRuntime(request["model"], arrays(request["inputs"]), options=options)
        for _ in range(request["profile"]):
            runner.call()
        with open(runner.session.end_profiling()) as file:
            events = json.load(file)
    least = {}
    for event in events:
        name = event["name"].removesuffix("_kernel_time")
        if event.get("cat") == "Node" and name != event["name"]:
            least[name] = min(event["dur"], least.get(name, float("inf")))
    return {"nodes": list(least.items())}


def version(engine):
    try:
        return importlib.import_module(engine).__version__
    except ImportError:
        return None


def say(answer):
    print(json.dumps(answer), file=OUT, flush=True)


# Engines print to standard output what is no answer.
OUT = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)

say({engine: version(engine) for engine in ENGINES})
for line in sys.stdin:
    request = json.loads(line)
    try:
        if "forget" in request:
            MADE.clear()
            say({})
        elif "profile" in request:
            say(profile(request))
        else:
            say(measure(request))
    except Exception as error:
        say({"error": f"{type(error).__name__}: {error}".splitlines()[0]})
