"""What every field of the table owes: one bound and one rule, whichever way a job is described."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from flyball.api.models import JOB
from flyball.api.problems import Problem
from flyball.api.specs import checked, specs_of
from flyball.cli.jobs.job_file import KEYS, SET_BY_SUBMIT, SPECIAL, read_jobs
from flyball.cli.jobs.job_options import PARAMETERS
from flyball.cli.jobs.parse_job import parse_command
from flyball.cli.jobs.show import ARRANGED, facts
from flyball.cli.jobs.slurm_options import EVERY, FLAGS, SHORT
from flyball.control.jobs.submit_notes import ENFORCED, SubmitNotes
from flyball.core.errors import BadInput
from flyball.core.job_fields import DEFAULTS, FIELDS
from flyball.core.job_fields.field import JobField
from flyball.core.job_fields.forms import Choice, Flag, Names, Number, Structure, Text, Whole
from flyball.core.job_fields.page import renewed
from flyball.core.jobs import JobSpec

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "jobs.md"
SENT = [row for row in FIELDS.values() if row.sent]
SINGLE = [row for row in SENT if not isinstance(row.form, Structure) and row.name != "array"]
STRUCTURES: dict[str, Any] = {
    "argv": ["true", "a b"],
    "env": {"A": "1"},
    "after": [["afterok", 12]],
    "notify": ["http://localhost/x", ["tell", "me"]],
}
"""Values of fields that are lists or mappings, as HTTP has them."""
ELASTIC = {"least": "{0}-{0}", "most": "1-{0}"}
"""How `--elastic` states the two fields that it sets."""
NOT_AN_OPTION = {"checkpoint_signal", "cwd"}
"""Fields whose option names something else: a signal, a folder that must exist."""


def inside(row: JobField) -> list[Any]:
    """Return values at the bounds of a field."""
    form = row.form
    if isinstance(form, Whole | Number):
        return [form.low, form.high]
    if isinstance(form, Flag):
        return [True, False]
    if isinstance(form, Choice):
        return list(form.names)
    if isinstance(form, Names):
        return [["a"], [f"f{at}" for at in range(form.most)], ["x" * form.name.most]]
    assert isinstance(form, Text)
    longest = "/" + "x" * (form.most - 1) if _is_path(form) else "x" * form.most
    return [longest]


def outside(row: JobField) -> list[Any]:
    """Return values just beyond the bounds of a field."""
    form = row.form
    if isinstance(form, Whole):
        return [form.low - 1, form.high + 1]
    if isinstance(form, Number):
        return [form.low - 1, form.high * 1.001]
    if isinstance(form, Choice):
        return ["no-such"]
    if isinstance(form, Names):
        return [[f"f{at}" for at in range(form.most + 1)], ["x" * (form.name.most + 1)], ["a\x1b"]]
    if isinstance(form, Text):
        start = "/" if _is_path(form) else ""
        return [start + "x" * (form.most + 1), start + "a\x1b[2J"]
    return []


def _is_path(form: Text) -> bool:
    return "/" in form.pattern


CASES = [pytest.param(row, id=row.name) for row in SINGLE]


# The ways to describe a job -----------------------------------------------------------


def by_http(row: JobField, value: Any, _folder: Path) -> Any:
    """Send it over HTTP."""
    body = json.dumps({"argv": ["true"], row.name: value}).encode()
    [spec] = specs_of([checked(JOB, body)])
    return getattr(spec, row.name)


def by_file(row: JobField, value: Any, folder: Path) -> Any:
    """Write it into a job file."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = _plain(value)
    path = folder / "job.yaml"
    path.write_text(yaml.safe_dump({"command": ["true"], row.name: value}))
    return read_jobs(path)[0].values[row.name]


def by_option(row: JobField, value: Any, folder: Path) -> Any:
    """Write it on the command line, or into an `#SBATCH` line."""
    text = ",".join(value) if isinstance(value, list) else _plain(value)
    option = row.long_option
    if row.name in ELASTIC:
        option, text = "elastic", ELASTIC[row.name].format(text)
    elif row.notation == "duration":
        text = f"{text}s"
    (folder / "job.sh").write_text(f"#!/bin/sh\n#SBATCH --{option}='{text}'\ntrue\n")
    [draft] = parse_command([str(folder / "job.sh")], {}, dashes=False).drafts
    return draft.values[row.name]


def _plain(value: Any) -> str:
    """Return a number without an exponent."""
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    return f"{value:.3f}".rstrip("0").rstrip(".")


Way = Callable[[JobField, Any, Path], Any]


def ways(row: JobField) -> list[Way]:
    """Return the ways in which a field can be stated."""
    found: list[Way] = [by_http]
    if row.name not in SET_BY_SUBMIT:
        found.append(by_file)
    stated = (row.option and not row.is_switch) or row.name in ELASTIC
    return [*found, by_option] if stated and row.name not in NOT_AN_OPTION else found


def refusal(way: Way, row: JobField, value: Any, folder: Path) -> str:
    """Return the message with which a value is refused."""
    with pytest.raises((BadInput, Problem)) as refused:
        way(row, value, folder)
    error = refused.value
    return f"{error.detail}; {error.remedy}" if isinstance(error, Problem) else str(error)


# Bounds -------------------------------------------------------------------------------


@pytest.mark.parametrize("row", CASES)
def test_values_at_the_bounds_are_accepted_everywhere(row: JobField, tmp_path: Path) -> None:
    for value in inside(row):
        kept = tuple(value) if isinstance(value, list) else value
        for way in ways(row):
            if way is by_option and row.name in ELASTIC and value == 0:
                continue  # `--elastic` states a size
            got = way(row, value, tmp_path)
            assert (tuple(got) if isinstance(got, list) else got) == kept, way.__name__


@pytest.mark.parametrize("row", CASES)
def test_values_beyond_the_bounds_are_refused_everywhere(row: JobField, tmp_path: Path) -> None:
    for value in outside(row):
        for way in ways(row):
            said = refusal(way, row, value, tmp_path)
            low = isinstance(row.form, Whole | Number) and value < row.form.low
            if low and way is not by_http and (row.notation or row.name in (*ELASTIC, "gpus")):
                continue  # a time or a size has no sign: it is refused as one that cannot be read
            if isinstance(row.form, Choice):
                assert all(name in said for name in row.form.names), way.__name__
            elif not isinstance(row.form, Names) or len(value) > 1:
                # A path may be relative but over HTTP.
                rule = row.form.rule.removesuffix(", an absolute path")
                assert rule in said, f"{way.__name__}: {said}"


def test_the_first_word_of_a_choice_stands_for_it_everywhere(tmp_path: Path) -> None:
    for row in SINGLE:
        if isinstance(row.form, Choice):
            for name in row.form.names:
                for way in ways(row):
                    assert way(row, name.partition("-")[0], tmp_path) == name, way.__name__


def test_a_choice_that_does_not_exist_is_answered_with_the_nearest(tmp_path: Path) -> None:
    row = FIELDS["kind"]
    for way in (by_file, by_option):
        said = refusal(way, row, "latencey", tmp_path)
        assert "unknown class 'latencey'; did you mean 'latency-sensitive'?" in said
    assert by_option(row, "Memory_Bound", tmp_path) == "memory-bound"


def test_a_switch_of_the_command_line_sets_what_its_field_says(tmp_path: Path) -> None:
    for row in SENT:
        switches = [(row.off, False)] if row.off else []
        switches += [(row.option[0], True)] if row.is_switch and row.option else []
        for option, value in switches:
            line = {option.removeprefix("--"): ""}
            [draft] = parse_command(["true"], line, dashes=True).drafts
            assert draft.values.get(row.name, row.default) is value, option


# Storage ------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in SENT])
def test_a_spec_keeps_every_value_through_json(row: JobField) -> None:
    values = [STRUCTURES[row.name]] if row.name in STRUCTURES else [7]
    values = inside(row) if row in SINGLE else values
    for value in values:
        stated = {"argv": ["true"], row.name: value}
        spec = JobSpec.of(json.loads(json.dumps(stated)))
        again = json.loads(spec.as_dict().text())
        assert JobSpec.of(again) == spec
        assert (row.name in again) == (getattr(spec, row.name) != DEFAULTS[row.name])


def test_a_spec_is_the_same_however_it_is_built() -> None:
    quick, usual = JobSpec.with_values({"argv": ("a",), "cpus": 2}), JobSpec(("a",), cpus=2)
    assert (quick, repr(quick), vars(quick)) == (usual, repr(usual), vars(usual))
    assert quick.env is not JobSpec.with_values({"argv": ("a",)}).env
    assert list(DEFAULTS) == list(vars(usual))


# Names --------------------------------------------------------------------------------


@pytest.mark.parametrize("row", [pytest.param(row, id=row.name) for row in SENT])
def test_every_field_can_be_stated_and_is_described(row: JobField) -> None:
    assert row.meaning.endswith(".")
    assert row.since
    assert row.name in {*KEYS, *SPECIAL, *SET_BY_SUBMIT}
    assert {*row.keys, *row.synonyms} <= {*KEYS, *SPECIAL}
    for option in (*row.option, row.off):
        if option.startswith("--"):
            assert option[2:] in EVERY
        elif option:
            assert SHORT[option[1:]] == row.long_option
    if row.off:
        assert row.off[2:] in FLAGS
    listed = {parameter.name for parameter in PARAMETERS}
    assert (row.name in listed) == bool(row.option or row.off)


def test_no_option_belongs_to_two_fields() -> None:
    options = [name for row in SENT for name in (*row.option, row.off) if name]
    assert len(set(options)) == len(options)
    keys = [key for row in SENT for key in (row.name, *row.keys, *row.synonyms)]
    assert len(set(keys)) == len(keys)


def test_synonyms_are_the_same_field() -> None:
    [spec] = specs_of([checked(JOB, b'{"argv": ["a"], "account": "vision"}')])
    assert spec.tenant == "vision"
    with pytest.raises(Problem, match="tenant is stated as well"):
        specs_of([checked(JOB, b'{"argv": ["a"], "account": "x", "tenant": "y"}')])


def test_the_page_has_the_table() -> None:
    text = PAGE.read_text("utf-8")
    remedy = "run the command in flyball/core/job_fields/page.py"
    assert text == renewed(text), remedy
    assert all(f"`{row.name}`" in text for row in SENT)


# Effects ------------------------------------------------------------------------------


def test_an_optional_field_that_nothing_honours_is_named() -> None:
    for row in SENT:
        if not row.optional:
            continue
        value = inside(row)[-1]
        spec = JobSpec.of({"argv": ["a"], row.name: value})
        notes = SubmitNotes(()).of([spec, JobSpec(("b",)), spec])
        if row.name in ENFORCED:
            assert notes == []
        else:
            assert notes == [{"field": row.name, "why": row.otherwise, "jobs": 2}]
            assert row.otherwise
        assert SubmitNotes({row.name}).of([spec]) == []


def test_show_prints_every_field_that_a_job_states() -> None:
    job = {
        "spec": {"argv": ["true"], **{row.name: inside(row)[-1] for row in SINGLE}},
        "user": "ada",
        "tenant": "vision",
        "cpus": 1,
        "gpus": 0,
        "memory_mib": 0,
        "reason": "",
        "submit_time": 1.0,
        "start_time": None,
        "end_time": None,
        "id": 1,
        "held": None,
    }
    shown = dict(facts(job, 2.0, {}))
    for row in SINGLE:
        if row.name not in ARRANGED:
            assert shown[row.label], row.name
