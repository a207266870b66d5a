"""Every registered trace reader: to register is to pass these, with a sample of its own."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from flyball.core.codes import Outcome
from flyball.core.errors import BadInput
from flyball.core.units import MILLI_PER_DEVICE
from flyball.core.workload import Workload
from flyball.physics import catalogue
from flyball.twin.inputs.traces import READERS, SIGNS, WRITERS, detect, read_trace, write_trace

PROJECT = Path(__file__).parents[2]
SAMPLES = PROJECT / "tests" / "twin" / "inputs" / "traces" / "samples"
NAMED_OTHERWISE = {"canonical": "jobs.csv", "swf": "log.swf"}

readers = pytest.mark.parametrize("reader", sorted(READERS))


def sample_of(reader: str) -> Path:
    """The sample of a reader: `samples/<reader>.<anything>`."""
    samples = sorted(SAMPLES.glob(f"{reader}.*"))
    if reader in NAMED_OTHERWISE:
        samples = [SAMPLES / NAMED_OTHERWISE[reader]]
    if not samples:
        folder = SAMPLES.relative_to(PROJECT).as_posix()
        pytest.fail(
            f"trace reader {reader!r} has no sample: write a file of a few rows to "
            f"{folder}/{reader}.csv (or another ending) that it reads"
        )
    return samples[0]


def read(reader: str) -> Workload:
    return read_trace(sample_of(reader), reader)


@readers
def test_reads_its_sample(reader: str) -> None:
    got = read(reader)
    assert len(got) > 0
    assert len(set(got.ids.tolist())) == len(got)
    assert (np.diff(got.submit_us) >= 0).all()
    assert got.submit_us[0] >= 0
    assert np.isfinite(got.duration_us).all()
    assert (got.duration_us >= 0).all()
    assert got.duration_us.sum() > 0
    assert (got.devices >= 0).all()
    assert ((got.devices > 0) | (got.cpu_milli > 0) | (got.host_mib > 0)).all()
    assert ((got.milli >= 1) & (got.milli <= MILLI_PER_DEVICE)).all()
    assert (got.memory_mib >= 0).all()
    assert (got.limit_us >= 0).all()
    assert not (got.estimate_us < 0).any()
    assert set(got.outcome.tolist()) <= set(Outcome)
    assert (got.row >= 1).all()


@readers
def test_names_stand_for_something(reader: str) -> None:
    got = read(reader)
    for codes, names in (
        (got.model, got.models),
        (got.device, got.device_names),
        (got.tenant, got.tenants),
        (got.user, got.users),
        (got.group, got.group_limits),
    ):
        assert codes.max() < len(names)
        assert codes.min() >= -1
    for name in got.device_names:
        assert catalogue.get(name)


@readers
def test_recognises_its_sample_plain_and_gzipped(reader: str, tmp_path: Path) -> None:
    sample = sample_of(reader)
    packed = tmp_path / "packed"
    packed.write_bytes(gzip.compress(sample.read_bytes()))
    assert detect(sample) == reader
    assert detect(packed) == reader
    assert read_trace(packed).ids.tolist() == read(reader).ids.tolist()


@readers
def test_reads_the_same_twice(reader: str) -> None:
    one, other = read(reader), read(reader)
    assert one.ids.tolist() == other.ids.tolist()
    assert one.submit_us.tolist() == other.submit_us.tolist()
    assert one.tenants == other.tenants


@readers
@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\n\n  \n",
        b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\xff\xfe",
        bytes(range(256)) * 40,
        b"\x00" * 4096,
        gzip.compress(b"")[:-3],
    ],
    ids=["empty", "blank", "picture", "every byte", "zeros", "cut gzip"],
)
def test_refuses_what_is_no_trace(reader: str, content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "no-trace.dat"
    path.write_bytes(content)
    with pytest.raises(BadInput) as caught:
        read_trace(path, reader)
    assert path.name in str(caught.value)
    assert caught.value.remedy


@readers
def test_a_cut_file_is_read_in_part_or_refused(reader: str, tmp_path: Path) -> None:
    content = sample_of(reader).read_bytes()
    path = tmp_path / "cut.dat"
    for keep in range(1, len(content), max(1, len(content) // 40)):
        path.write_bytes(content[:keep])
        try:
            assert len(read_trace(path, reader)) > 0
        except BadInput as error:
            assert "cut.dat" in str(error)


@readers
@pytest.mark.parametrize("writer", sorted(WRITERS))
def test_everything_that_is_read_can_be_written(reader: str, writer: str, tmp_path: Path) -> None:
    got = read(reader)
    path = tmp_path / "out"
    write_trace(got, path, writer)
    again = read_trace(path, writer)
    if writer == "swf":  # which knows no jobs without processors
        got = got.take(np.flatnonzero(got.devices > 0))
    assert len(again) == len(got)
    assert again.devices.tolist() == got.devices.tolist()
    if writer != "swf":  # which rounds to seconds
        assert again.submit_us.tolist() == got.submit_us.tolist()
        assert again.duration_us.tolist() == got.duration_us.tolist()


def test_every_reader_but_the_last_resort_has_a_sign() -> None:
    assert {name for name, _ in SIGNS} == set(READERS) - {"canonical"}


@readers
def test_the_page_and_the_command_line_name_it(reader: str) -> None:
    from flyball.cli.options import FORMATS

    page = (PROJECT / "docs" / "reference" / "traces.md").read_text("utf-8")
    assert f"\n## {reader}:" in page, (
        f"add a section '## {reader}: ...' to docs/reference/traces.md"
    )
    assert reader in FORMATS, f"add {reader!r} to FORMATS in cli/options.py"
