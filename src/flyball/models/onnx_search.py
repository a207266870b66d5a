"""Optimises an ONNX file: its settings of ONNX Runtime and OpenVINO, measured against each other.

The passes work on graphs of torch; an ONNX file keeps its own, which both runtimes rewrite. The
reference is ONNX Runtime as it comes, so a gain is one over what a user would run.
"""

from __future__ import annotations

import hashlib
import math
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from flyball.core.errors import BadInput
from flyball.models.backends.onnx_file import open_file
from flyball.models.extras import missing, require
from flyball.models.machine import OtherLoad, available_bytes, this_machine
from flyball.models.measure import TOLERANCE, Run, interleaved, worst_error
from flyball.models.onnx_stages import Draw, stages_of, texts_of
from flyball.models.outside import check_size
from flyball.models.result import EAGER, Candidate, Result
from flyball.models.run import Settings
from flyball.models.search import choose, with_times

DOMAINS = ("", "ai.onnx", "ai.onnx.ml", "com.microsoft")
"""Operator sets that ONNX Runtime brings along."""
CANDIDATES = ("onnxruntime-basic", "onnxruntime-one-thread", "openvino")
MOST_ELEMENTS = 2**28


def optimize_file(
    path: Path,
    settings: Settings,
    folder: Path | None,
    advance: Callable[[str], None],
    draw: Draw = lambda _stage, _operations: None,
) -> tuple[Result, list[str]]:
    """Return the fastest equal way to run an ONNX file, and the files written.

    Args:
        path: of the file.
        settings: how to search.
        folder: gets the model with a loader; None = nothing is written.
        advance: receives the name of each finished step.
        draw: receives the graph as it is given and after each level of ONNX Runtime.

    Raises:
        BadInput: the file is damaged, too large, or uses operators that no runtime knows.
    """
    require("onnx", "onnxruntime")
    began = time.monotonic()
    threads = settings.threads or torch.get_num_threads()
    model = check(path)
    example = example_of(model)
    stages = stages_of(path, model, draw)
    advance("graph")
    # "eager" stands for the model as it is: the file in ONNX Runtime with its default settings.
    reference = open_file(path, "onnxruntime", threads)
    runs: dict[str, Run] = {EAGER: reference}
    candidates = [Candidate(EAGER, "equal", error=0.0)]
    load = OtherLoad()
    for name in settings.backends or CANDIDATES:
        candidates.append(_built(path, name, threads, reference, example, runs))
        advance(name)
    times = interleaved(
        runs, EAGER, example, deadline=lambda: time.monotonic() - began > settings.time_limit_s
    )
    candidates = [with_times(one, times.get(one.name)) for one in candidates]
    choice = choose(candidates)
    digest = hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
    result = Result(path.stem, digest, threads, this_machine(), candidates, choice)
    result.run = result.call = runs[choice]
    result.other_load = round(load.share(), 2)
    advance("timed")
    result.notes = [
        "eager is ONNX Runtime with its default settings; the passes need a torch graph",
        f"operations after each level of ONNX Runtime's rewriting: {texts_of(stages)}",
    ]
    files = _write(path, folder, choice, threads) if folder is not None else []
    return result, files


def check(path: Path) -> Any:
    """Return the parsed model of an ONNX file.

    Raises:
        BadInput: it is damaged, too large, reads files outside its folder or has custom operators.
    """
    import onnx

    check_size(path)
    try:
        model = onnx.load(str(path), load_external_data=False)
    except Exception as error:
        raise BadInput(f"{path} is not an ONNX file", "write it with torch.onnx.export") from error
    if not model.graph.node:
        raise BadInput(f"{path} has no operations", "write it again")
    total = path.stat().st_size
    for tensor in model.graph.initializer:
        for entry in tensor.external_data:
            if entry.key == "location":
                total += _external_bytes(path, entry.value)
    if 2 * total > available_bytes():
        raise BadInput(
            f"{path} with its weights has {total / 2**30:.1f} GiB and needs twice that; "
            f"{available_bytes() / 2**30:.1f} GiB are free",
            "use a machine with more memory",
        )
    custom = sorted({node.domain for node in model.graph.node if node.domain not in DOMAINS})
    inside = {function.domain for function in model.functions}
    unknown = [domain for domain in custom if domain not in inside]
    if unknown:
        raise BadInput(
            f"{path} uses custom operators of {', '.join(unknown)}",
            "export it with standard operators",
        )
    return model


def _external_bytes(path: Path, location: str) -> int:
    """Return the size of a file of weights, which must lie in the model's folder."""
    beside = (path.parent / location).resolve()
    if not beside.is_relative_to(path.parent.resolve()):
        raise BadInput(f"{path}: weights at {location!r} are outside its folder", "move them there")
    if not beside.is_file():
        raise BadInput(f"{path}: weights at {location!r} are missing", "copy them beside it")
    return beside.stat().st_size


def example_of(model: Any) -> tuple[Tensor, ...]:
    """Return random inputs of a model; an axis without a size has length 1.

    Raises:
        BadInput: an input has no shape, or one that is too large.
    """
    from onnx import helper

    weights = {tensor.name for tensor in model.graph.initializer}
    generator = np.random.default_rng(0)
    inputs = []
    for entry in model.graph.input:
        if entry.name in weights:
            continue
        kind = entry.type.tensor_type
        if not kind.HasField("shape"):
            raise BadInput(f"input {entry.name} has no shape", "export it with fixed shapes")
        sizes = [axis.dim_value or 1 for axis in kind.shape.dim]
        if math.prod(sizes) > MOST_ELEMENTS:
            raise BadInput(f"input {entry.name} has {math.prod(sizes):,} elements")
        dtype = helper.tensor_dtype_to_np_dtype(kind.elem_type)
        if np.issubdtype(dtype, np.floating):
            array = generator.standard_normal(sizes).astype(dtype)
        else:
            array = generator.integers(0, 2, sizes).astype(dtype)
        inputs.append(torch.from_numpy(array))
    return tuple(inputs)


def _built(
    path: Path,
    name: str,
    threads: int,
    reference: Run,
    example: tuple[Tensor, ...],
    runs: dict[str, Run],
) -> Candidate:
    from flyball.models.backends.registry import get

    backend = get(name)
    absent = missing(backend.modules)
    if backend.reads != "onnx":
        return Candidate(name, "left out", reason="it needs a graph of torch")
    if absent:
        return Candidate(
            name,
            "left out",
            reason=f"{', '.join(absent)} not installed; pip install 'flyball[models]'",
        )
    began = time.monotonic()
    try:
        run = open_file(path, name, threads)
        error = worst_error(reference, run, example)
    except Exception as problem:  # a runtime's failure must not end the other
        words = (str(problem).splitlines() or [""])[0][:200]
        return Candidate(name, "failed", reason=f"{type(problem).__name__}: {words}")
    status = "equal" if error <= TOLERANCE else "different"
    if status == "equal":
        runs[name] = run
    shown = error if math.isfinite(error) else None
    return Candidate(name, status, shown, build_s=round(time.monotonic() - began, 3))


def _write(path: Path, folder: Path, choice: str, threads: int) -> list[str]:
    """Copy the model and write a loader with the chosen settings."""
    backend = "onnxruntime" if choice == EAGER else choice
    target = folder / "model.onnx"
    if path.resolve() != target.resolve():
        shutil.copyfile(path, target)
    text = (
        '"""Runs the model of this folder with the settings that were fastest."""\n\n'
        "from pathlib import Path\n\n"
        "from flyball.models.backends.onnx_file import open_file\n\n"
        f'model = open_file(Path(__file__).parent / "model.onnx", "{backend}", {threads})\n'
    )
    (folder / "load.py").write_text(text, "utf-8")
    return ["model.onnx", "load.py"]
