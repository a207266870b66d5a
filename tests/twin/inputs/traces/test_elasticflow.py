"""ElasticFlow's traces: run times from measured iterations a second, errors."""

from __future__ import annotations

from pathlib import Path

import pytest

from flyball.core.errors import BadInput
from flyball.twin.inputs.traces import detect, read_trace

SAMPLES = Path(__file__).parent / "samples"
HEADER = "job_id,submit_time,iteration,model_name,batch_size,num_gpu"
GOOD = "0,0,10,vgg16,64,1"


def test_sample_is_read_in_full() -> None:
    notes: list[str] = []
    assert detect(SAMPLES / "elasticflow.csv") == "elasticflow"
    got = read_trace(SAMPLES / "elasticflow.csv", notes=notes)
    assert got.ids.tolist() == ["1", "0", "2", "3", "4"]
    assert got.submit_us.tolist() == [100e6, 200e6, 300e6, 400e6, 500e6]
    assert got.devices.tolist() == [1, 1, 1, 3, 4]
    assert [got.models[code] for code in got.model] == [
        "elasticflow-bert (batch size 128)",  # another task than Pollux's of that name
        "vgg16 (batch size 256)",
        "yolov3 (batch size 64)",
        "gpt2 (batch size 128)",
        "gpt2 (batch size 128)",
    ]
    devices = [got.device_names[code] for code in got.device]
    assert devices == ["A100-40GB", "A100-40GB", "T4", "A100-40GB", "A100-40GB"]
    # Iterations over the measured speed; as stated on three GPUs, which were not measured.
    assert got.duration_us / 1e6 == pytest.approx(
        [715 / 3.574926, 1314 / 1.313656, 876 / 0.43806, 77.5, 1667 / 16.666284], abs=1e-6
    )
    assert notes == [
        "elasticflow.csv: 1 rows state another duration than their iterations take "
        "(row 6: 555 s, here 100 s)"
    ]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "is empty"),
        (HEADER, "has a header but no jobs"),
        (f"{HEADER.replace('iteration', 'iters')}\n{GOOD}", "row 1: no column 'iteration'"),
        (f"{HEADER}\n{GOOD}\n1,0,ten,vgg16,64,1", "row 3: iteration = 'ten' is not a number"),
        (f"{HEADER}\n0,0,-1,vgg16,64,1", "row 2: iteration = '-1' is negative"),
        (f"{HEADER}\n0,0,1,vgg16,64,0", "row 2: num_gpu = '0' is outside 1 to 1e+06"),
        (f"{HEADER}\n{GOOD}\n1,0,10,vgg61,64,1", "row 3 'vgg61'; did you mean 'vgg16'?"),
        (f"{HEADER}\n0,0,1,vgg16,100,1", "batch_size = '100' was not measured for vgg16"),
        (f"{HEADER}\n0,0,1,vgg16,100,1", "measured: 64, 128, 256"),
        (f"{HEADER}\n0,0,1,yolov3,64,3", "num_gpu = '3' but yolov3 (batch size 64) was measured"),
        (f"{HEADER}\n0,0,1,yolov3,64,3", "on 1, 2, 4, 8, 16 T4 and no duration is given"),
        (f"{HEADER}\n{GOOD}\n{GOOD}", "row 3: job_id = '0' is also the id in row 2"),
        (f"{HEADER}\n{GOOD}\n1,0,10", "row 3: 3 fields, the header has 6"),
    ],
)
def test_bad_rows(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "bad.csv"
    path.write_text(text)
    with pytest.raises(BadInput) as caught:
        read_trace(path, "elasticflow")
    message = str(caught.value)
    assert says in message
    assert "bad.csv" in message
    assert caught.value.remedy
