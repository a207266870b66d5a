"""Makes a model cheaper without changing its results, or leaves it as it is.

The graph is rewritten by the passes; each back end then builds a candidate from it. A candidate
whose outputs equal the model's is timed against it, in turn; the fastest one wins if its gain is
beyond the noise.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils import _pytree as pytree

from flyball.core.errors import BadInput, FlyballError
from flyball.models import choice_cache
from flyball.models.backends.registry import BACKENDS, EXACT, REDUCED, get
from flyball.models.extras import missing
from flyball.models.graph.cost import work_of
from flyball.models.machine import OtherLoad, available_bytes, this_machine
from flyball.models.measure import TOLERANCE, Clock, Run, interleaved, worst_error
from flyball.models.program import FIXED_SHAPE, Program, digest, weight_bytes
from flyball.models.result import EAGER, Candidate, Result
from flyball.models.rewrite import Watch, modelled_rows, rewrite

Advance = Callable[[str], None]
TIME_LIMIT_S = 600.0
BUILD_SHARE = 0.6
"""Part of the time limit after which no candidate is begun; the rest is for timing."""
CONFIRM_ROUNDS = 12
"""So many that the interval of 95 % leaves out the two extreme rounds on either side."""
LEAST_CONFIRM_ROUNDS = 6
WITHOUT_GRAPH = ("inductor",)
"""Back ends that can work on a module which cannot be exported."""
FOR_SEVERAL_THREADS = ("onnxruntime-one-thread",)
"""Back ends that are the same as another one if the search has one thread."""
MOST_FLOP_OF_ONE_THREAD = 1e9
"""A model with more arithmetic than this, about 20 ms of a core, gains by further threads."""


def optimize(
    module: nn.Module,
    example: Any,
    *,
    name: str = "",
    threads: int = 0,
    time_limit_s: float = TIME_LIMIT_S,
    backends: Sequence[str] = EXACT,
    reduced: bool = False,
    use_cache: bool = True,
    clock: Clock = time.perf_counter,
    advance: Advance = lambda _step: None,
    watch: Watch = lambda _stage, _program: None,
) -> Result:
    """Return the fastest equal form of a model on this machine.

    Args:
        module: in evaluation mode afterwards.
        example: a tensor, a tuple of tensors, or a dict of keyword arguments.
        name: for reports. [default: the class]
        threads: of all candidates; 0 = as many as torch uses now.
        time_limit_s: no round of timing is begun after this time, and no candidate after 60 % of
            it; the six rounds that confirm the winner always run.
        backends: names of back ends to try.
        reduced: also measure bf16 and int8, which are never chosen.
        use_cache: use and keep the choice of an earlier run.
        clock: that times are read from; see `measure.interleaved`.
        advance: receives the name of each finished step: the graph, each back end, two timings.
        watch: receives the program after each pass that changed something.

    Raises:
        BadInput: the example does not fit, or a back end has an unknown name.
    """
    began = time.monotonic()
    for backend in backends:
        get(backend)
    args, kwargs = call_arguments(example)
    threads = threads or torch.get_num_threads()
    module.eval()
    with _threads(threads):
        reference = _reference(module, args, kwargs)
        graphs = rewrite(module, args, kwargs, name or type(module).__name__, watch)
        advance("graph")
        search = Search(
            reference=reference,
            program=graphs.after,
            module=module,
            names=(*backends, *(REDUCED if reduced else ())),
            threads=threads,
            is_late=lambda share=1.0: time.monotonic() - began > share * time_limit_s,
            advance=advance,
            clock=clock,
        )
        result = search.result(name or type(module).__name__, use_cache)
        result.notes, result.stages = graphs.notes, graphs.stages
        if graphs.before is not None and graphs.after is not None:
            result.modelled = modelled_rows(graphs.before, graphs.after)
        result.call = _caller(module, result, pytree.tree_structure((args, kwargs)))
    return result


class Search:
    """Builds candidates one after the other, compares them, and chooses."""

    def __init__(
        self,
        reference: tuple[Run, tuple[Tensor, ...]],
        program: Program | None,
        module: nn.Module,
        names: tuple[str, ...],
        threads: int,
        is_late: Callable[..., bool],
        advance: Advance,
        clock: Clock,
    ) -> None:
        self.eager, self.example = reference
        self.program, self.module = program, module
        self.names, self.threads = names, threads
        self.is_late, self.advance, self.clock = is_late, advance, clock
        self.runs: dict[str, Run] = {EAGER: self.eager}

    def result(self, name: str, use_cache: bool) -> Result:
        """Return the choice: remembered and compared again, else measured."""
        machine = this_machine()
        identity = digest(self.program) if self.program is not None else ""
        key = choice_cache.key_of(identity, machine, self.threads, self.names)
        kept = choice_cache.read(key) if use_cache and identity else None
        if kept is not None:
            result = self._remembered(kept, name, identity)
            if result is not None:
                return result
        load = OtherLoad()
        candidates = [Candidate(EAGER, "equal", error=0.0)]
        candidates += [self._built(backend) for backend in self.names]
        candidates = self._timed(candidates)
        choice = choose(candidates)
        candidates, choice = self._confirmed(candidates, choice)
        self.advance("confirmed")
        result = Result(name, identity, self.threads, machine, candidates, choice)
        result.program, result.run = self.program, self.runs[choice]
        result.other_load = round(load.share(), 2)
        was_cut = any("time limit" in candidate.reason for candidate in candidates)
        if identity and use_cache and not was_cut:
            rows = [asdict(candidate) for candidate in candidates]
            choice_cache.write(key, {"choice": choice, "candidates": rows})
        return result

    def _remembered(self, kept: dict[str, Any], name: str, identity: str) -> Result | None:
        """Return a remembered choice if its outputs are equal still; None otherwise."""
        try:
            candidates = [Candidate.from_dict(row) for row in kept["candidates"]]
            choice = str(kept["choice"])
            if choice != EAGER and (choice not in BACKENDS or not BACKENDS[choice].exact):
                return None
            if choice != EAGER:
                assert self.program is not None
                run = get(choice).build(self.program, self.threads)
                if worst_error(self.eager, run, self.example) > TOLERANCE:
                    return None
                self.runs[choice] = run
            result = Result(name, identity, self.threads, this_machine(), candidates, choice)
            assert result.chosen is not None
        except (AssertionError, TypeError, KeyError, FlyballError, RuntimeError):
            return None
        result.program, result.run, result.from_cache = self.program, self.runs[choice], True
        return result

    def _built(self, name: str) -> Candidate:
        """Build one candidate and compare its outputs; a failure leaves it out."""
        backend = get(name)
        reason = self._obstacle(name)
        if reason:
            self.advance(name)
            return Candidate(name, "left out", reason=reason)
        began = time.monotonic()
        try:
            if self.program is None:
                run = _compiled_module(self.module, self.example)
            else:
                run = backend.build(self.program, self.threads)
            error = worst_error(self.eager, run, self.example)
        except Exception as problem:  # a back end's failure must not end the others
            words = str(problem) if isinstance(problem, FlyballError) else _brief(problem)
            self.advance(name)
            return Candidate(name, "failed", reason=words, build_s=time.monotonic() - began)
        status = "equal" if error <= TOLERANCE else "different"
        if not backend.exact:
            status = "reduced"
        if status != "different":
            self.runs[name] = run
        self.advance(name)
        shown = error if math.isfinite(error) else None
        return Candidate(name, status, shown, build_s=round(time.monotonic() - began, 3))

    def _obstacle(self, name: str) -> str:
        """Return why a back end is not tried; "" = it is."""
        absent = missing(get(name).modules)
        if absent:
            return f"{', '.join(absent)} not installed; pip install 'flyball[models]'"
        if self.is_late(BUILD_SHARE):
            return "time limit reached"
        if self.program is None:
            return "" if name in WITHOUT_GRAPH else "it needs the exported graph"
        if name in FOR_SEVERAL_THREADS:
            if self.threads == 1:
                return "the search has one thread anyway"
            if sum(flop for flop, _bytes in work_of(self.program.graph)) > MOST_FLOP_OF_ONE_THREAD:
                return "the model is too large for one thread to win"
        needed = 3 * weight_bytes(self.program.graph)
        if needed > available_bytes():
            free_gib = available_bytes() / 2**30
            return f"needs about {needed / 2**30:.1f} GiB, {free_gib:.1f} GiB are free"
        return ""

    def _timed(self, candidates: list[Candidate]) -> list[Candidate]:
        times = interleaved(self.runs, EAGER, self.example, deadline=self.is_late, clock=self.clock)
        self.advance("timed")
        return [with_times(candidate, times.get(candidate.name)) for candidate in candidates]

    def _confirmed(self, candidates: list[Candidate], choice: str) -> tuple[list[Candidate], str]:
        """Time the winner, the runner-up and eager afresh: the best of many looks too good."""
        if choice == EAGER:
            return candidates, choice
        ranked = sorted(
            (one for one in candidates if one.status == "equal" and one.name != EAGER),
            key=lambda one: -(one.ratio or 0.0),
        )
        names = (EAGER, *(one.name for one in ranked[:2]))
        runs = {name: self.runs[name] for name in names}
        times = interleaved(
            runs,
            EAGER,
            self.example,
            CONFIRM_ROUNDS,
            math.inf,
            self.is_late,
            self.clock,
            least_rounds=LEAST_CONFIRM_ROUNDS,
        )
        candidates = [
            with_times(one, times[one.name]) if one.name in times else one for one in candidates
        ]
        finalists = [one for one in candidates if one.name in names]
        return candidates, choose(finalists)


def choose(candidates: Sequence[Candidate]) -> str:
    """Return the fastest equal candidate whose gain is beyond the noise; else eager."""
    faster = [
        candidate
        for candidate in candidates
        if candidate.status == "equal" and candidate.low is not None and candidate.low > 1.0
    ]
    best = max(faster, key=lambda one: one.ratio or 0.0, default=None)
    return EAGER if best is None else best.name


def call_arguments(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return positional and keyword arguments of an example.

    Raises:
        BadInput: it is something else than a tensor, a tuple of them or a dict.
    """
    if isinstance(example, Tensor):
        return (example,), {}
    if isinstance(example, (tuple, list)):
        return tuple(example), {}
    if isinstance(example, dict):
        return (), dict(example)
    raise BadInput(
        f"example inputs are {type(example).__name__}",
        "give a tensor, a tuple of tensors or a dict of keyword arguments",
    )


def _reference(
    module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Run, tuple[Tensor, ...]]:
    """Return the module as a function of flat tensors, and its flat example."""
    flat, spec = pytree.tree_flatten((args, kwargs))

    def call(*inputs: Any) -> tuple[Tensor, ...]:
        arguments, keywords = pytree.tree_unflatten(list(inputs), spec)
        with torch.no_grad():
            return tuple(pytree.tree_leaves(module(*arguments, **keywords)))

    return call, tuple(flat)


def _caller(module: nn.Module, result: Result, spec: pytree.TreeSpec) -> Callable[..., Any]:
    """Return a function with the module's signature that runs the chosen candidate."""
    if result.choice == EAGER or result.program is None or result.run is None:
        return lambda *args, **kwargs: module(*args, **kwargs)
    return bound(result.program, result.run, spec)


def bound(program: Program, run: Run, spec: pytree.TreeSpec) -> Callable[..., Any]:
    """Return a function that takes and returns what the user's module does."""
    shapes = [(tuple(tensor.shape), tensor.dtype) for tensor in program.inputs]

    def call(*args: Any, **kwargs: Any) -> Any:
        flat, structure = pytree.tree_flatten((args, kwargs))
        if structure != spec:
            raise BadInput("the arguments differ from those of the example", FIXED_SHAPE)
        for at, (tensor, (size, kind)) in enumerate(zip(flat, shapes, strict=True)):
            if tuple(tensor.shape) != size or tensor.dtype != kind:
                raise BadInput(
                    f"input {at + 1} is {tuple(tensor.shape)} {tensor.dtype}, the example was "
                    f"{size} {kind}",
                    FIXED_SHAPE,
                )
        return pytree.tree_unflatten(list(run(*flat)), program.out_spec)

    return call


def _compiled_module(module: nn.Module, example: tuple[Tensor, ...]) -> Run:
    """Compile a module that cannot be exported: inductor compiles the parts that it can."""
    torch._dynamo.reset()
    compiled = torch.compile(module)

    def call(*inputs: Any) -> tuple[Tensor, ...]:
        with torch.no_grad():
            return tuple(pytree.tree_leaves(compiled(*inputs)))

    call(*example)
    return call


def with_times(candidate: Candidate, times: Any) -> Candidate:
    """Return the candidate with its times; unchanged if it was not timed."""
    if times is None:
        return candidate
    return replace(
        candidate, call_s=times.call_s, ratio=times.ratio, low=times.low, high=times.high
    )


def _brief(problem: Exception) -> str:
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    return f"{type(problem).__name__}: {lines[0][:200]}" if lines else type(problem).__name__


@contextmanager
def _threads(count: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
