#!/usr/bin/env python3
"""Writes functions.onnx: the fixed bodies that ONNX has for its own operators.

`python3 functions.py`, with the package onnx; the result says its version. A body whose nodes stand for the operator
itself, or that makes random numbers, is left out, and so are operators that the importer reads itself.
"""

import pathlib
import re

import onnx
from onnx import defs, helper

HERE = pathlib.Path(__file__).resolve().parent
RANDOM = {"Bernoulli", "RandomNormal", "RandomUniform"}


def read_by_importer():
    """The operators in the importer's table."""
    table = (HERE / "table.rs").read_text()
    table = table[table.index("static TABLE"):]
    return set(re.findall(r'\(\s*"(\w+)",', table))


def main():
    functions, skip = [], read_by_importer() | RANDOM
    for schema in sorted(defs.get_all_schemas_with_history(), key=lambda s: (s.domain, s.name, s.since_version)):
        if schema.domain or schema.name in skip or not schema.has_function:
            continue
        function = schema.function_body
        function.overload = str(schema.since_version)
        function.doc_string = ""
        for name, attribute in sorted(schema.attributes.items()):
            if name in function.attribute and attribute.default_value.name:
                function.attribute.remove(name)
                function.attribute_proto.append(attribute.default_value)
        for node in function.node:
            node.doc_string = ""
        functions.append(function)
    graph = helper.make_graph([], "none", [], [])
    model = helper.make_model(graph, functions=functions, opset_imports=[helper.make_opsetid("", 23)])
    model.producer_name, model.producer_version = "onnx", onnx.__version__
    model.ir_version = 10
    (HERE / "functions.onnx").write_bytes(model.SerializeToString(deterministic=True))
    print(len(functions), sorted({f.name for f in functions}))


if __name__ == "__main__":
    main()
