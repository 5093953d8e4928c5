"""A model of pictures as a real ONNX file: the means of red, green and blue, by the library that defines the format."""

from __future__ import annotations

from pathlib import Path

from onnx import TensorProto, helper


def written(path: Path, channels: int = 3, side: int | str = 8) -> Path:
    """A model that averages each channel; a `side` in words is one that the model leaves open."""
    picture = helper.make_tensor_value_info("picture", TensorProto.FLOAT, ["n", channels, side, side])
    vector = helper.make_tensor_value_info("vector", TensorProto.FLOAT, ["n", channels, 1, 1])
    mean = helper.make_node("GlobalAveragePool", ["picture"], ["vector"])
    graph = helper.make_graph([mean], "means", [picture], [vector])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    path.write_bytes(model.SerializeToString())
    return path
