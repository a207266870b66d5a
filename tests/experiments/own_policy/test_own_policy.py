"""Policies of users: from files and modules, as classes, functions and knobs."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from flyball.core.errors import BadInput, FlyballError, UnknownName
from flyball.core.forecast import NO_OUTLOOK
from flyball.core.knobs import Knobs, Order
from flyball.core.plans import starts
from flyball.core.state import State
from flyball.experiments.own_policy.call import OwnPolicy
from flyball.experiments.own_policy.failure import PolicyFailed
from flyball.experiments.own_policy.settings import given_policies, named_policies
from flyball.experiments.own_policy.source import Source
from flyball.schedule.policies.registry import get_policy

CLASS = "class Mine:\n    def decide(self, state, outlook):\n        return 1\n"
FUNCTION = "def mine(state, outlook):\n    return 1\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return tmp_path


def refused(text: str) -> FlyballError:
    with pytest.raises(FlyballError) as caught:
        named_policies(text)
    return caught.value


# What a text names ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "place", "attribute"),
    [
        ("mine.py", "mine.py", ""),
        ("sub/mine.py:Widest", "sub/mine.py", "Widest"),
        ("pack.mod:Widest", "pack.mod", "Widest"),
    ],
)
def test_sources(text: str, place: str, attribute: str) -> None:
    assert Source.parse(text) == Source(text, place, attribute)


@pytest.mark.parametrize("text", ["easy", "tuned:mine.json", "fifo-skip"])
def test_names_are_not_sources(text: str) -> None:
    assert Source.parse(text) is None


# Files ------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", [CLASS, FUNCTION, CLASS + "policy = Mine()\n"])
def test_a_file_with_one_policy(folder: Path, content: str) -> None:
    (folder / "mine.py").write_text(content)
    (policy,) = named_policies("mine.py")
    assert policy.name == "mine.py"
    assert isinstance(policy.decider, OwnPolicy)
    assert policy.decider.place.startswith("mine.py line ")
    state: Any = None
    assert policy.decider.decide(state) == 1
    assert list(folder.iterdir()) == [folder / "mine.py"]  # no compiled file beside it


def test_a_file_of_knobs_runs_compiled(folder: Path) -> None:
    (folder / "mine.py").write_text("from flyball import Knobs\nmine = Knobs(depth=7)\n")
    (policy,) = named_policies("mine.py", ["ageing=0.5"])
    assert (policy.decider, policy.knobs) == (None, Knobs(depth=7, ageing=0.5))


def test_a_preset_of_shares_travels_to_other_processes(folder: Path) -> None:
    (folder / "mine.py").write_text(
        "from dataclasses import replace\n"
        "from flyball.schedule.policies.max_min import POLICY\n"
        "POLICY = replace(POLICY, name='mine')\n"
    )
    (policy,) = named_policies("mine.py")
    copy = pickle.loads(pickle.dumps(policy))
    assert copy.allocator is not None
    assert (copy.name, copy.knobs) == ("mine.py", policy.knobs)


def test_a_file_is_read_again_each_time(folder: Path) -> None:
    file = folder / "mine.py"
    file.write_text(FUNCTION)
    (before,) = named_policies("mine.py")
    file.write_text(FUNCTION.replace("1", "2"))
    (after,) = named_policies("mine.py")
    state: Any = None
    assert before.decider is not None and after.decider is not None
    deciders = (before.decider, after.decider)
    plans: list[Any] = [decider.decide(state, NO_OUTLOOK) for decider in deciders]
    assert plans == [1, 2]
    assert before.version != after.version


def test_a_file_may_import_its_neighbours_and_they_count(folder: Path) -> None:
    (folder / "own_helper.py").write_text("ONE = 1\n")
    (folder / "mine.py").write_text("import own_helper\n" + FUNCTION)
    before = named_policies("mine.py")[0].version
    (folder / "own_helper.py").write_text("ONE = 2\n")
    assert named_policies("mine.py")[0].version != before
    del sys.modules["own_helper"]


def test_helpers_are_not_policies(folder: Path) -> None:
    helpers = "def free(node, job):\n    pass\n\ndef _state(state, outlook):\n    pass\n"
    (folder / "mine.py").write_text("import flyball\nfrom flyball import Knobs\n" + helpers + CLASS)
    assert named_policies("mine.py")[0].name == "mine.py"


def test_several_policies_need_a_name(folder: Path) -> None:
    (folder / "two.py").write_text(CLASS + FUNCTION)
    assert "2 policies: Mine (line 1), mine (line 4)" in str(refused("two.py"))
    assert [policy.name for policy in named_policies("two.py:mine,easy,two.py:Mine")] == [
        *("two.py:mine", "easy", "two.py:Mine")
    ]
    assert "did you mean 'Mine'?" in str(refused("two.py:Mien"))
    (folder / "two.py").write_text(CLASS + FUNCTION + "POLICY = mine\n")
    assert len(named_policies("two.py")) == 1


@pytest.mark.parametrize(
    ("content", "words", "last"),
    [
        ("x = 1\ny = z\n", "bad.py line 2 cannot be loaded: NameError", "    y = z"),
        ("def f(state outlook)\n", "bad.py line 1 cannot be loaded: SyntaxError", "SyntaxError"),
        ("import no_such_module\n", "bad.py line 1 cannot be loaded: ModuleNotFound", "import"),
        ("raise SystemExit(3)\n", "bad.py line 1 cannot be loaded: SystemExit: 3", "SystemExit"),
    ],
)
def test_a_file_that_does_not_load(folder: Path, content: str, words: str, last: str) -> None:
    (folder / "bad.py").write_text(content)
    error = refused("bad.py")
    assert words in str(error)
    assert last in error.details
    assert "importlib" not in error.details


def test_no_such_file_and_no_policy(folder: Path) -> None:
    (folder / "mine.py").write_text("x = 1\n")
    assert "mine.py has no policy; define a class" in str(refused("mine.py"))
    assert "did you mean 'mine.py'?" in str(refused("mien.py"))
    assert "there is no file other.py; name a file" in str(refused("other.py"))
    assert "there is no module 'nowhere'" in str(refused("nowhere.at:all"))


def test_what_a_file_prints_is_not_output(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "mine.py").write_text("print('loading')\n" + FUNCTION)
    named_policies("mine.py")
    assert capsys.readouterr() == ("", "loading\n")


def test_a_module_of_this_folder(folder: Path) -> None:
    (folder / "own_module.py").write_text(CLASS)
    (policy,) = named_policies("own_module:Mine")
    assert policy.decider is not None
    assert pickle.loads(pickle.dumps(policy)).name == "own_module:Mine"
    (folder / "own_broken.py").write_text("import own_module\n1 / 0\n")
    error = refused("own_broken:Mine")
    assert "own_broken line 2 cannot be loaded: ZeroDivisionError" in str(error)
    del sys.modules["own_module"]


def test_an_error_in_a_decision_names_the_line(folder: Path) -> None:
    (folder / "mine.py").write_text("def mine(state, outlook):\n    x = 1\n    return x / 0\n")
    (policy,) = named_policies("mine.py")
    state: Any = None
    assert policy.decider is not None
    with pytest.raises(PolicyFailed, match=r"mine.py line 3 failed: ZeroDivisionError") as caught:
        policy.decider.decide(state, NO_OUTLOOK)
    assert caught.value.details.splitlines()[-1] == "ZeroDivisionError: division by zero"


# What a notebook gives ----------------------------------------------------------------------


def nothing(state: State, outlook: Any) -> Any:
    return starts(state, [])


class Sized:
    """A policy that needs an argument."""

    knobs = Knobs(depth=9)

    def __init__(self, size: int) -> None:
        self.size = size

    def decide(self, state: State, outlook: Any) -> Any:
        return starts(state, [])


def test_policies_in_any_form() -> None:
    settings = [
        *("fifo,easy", get_policy("saf"), Knobs(order=Order.AREA), nothing, Sized(3)),
        {"policy": "sjf", "ageing": 0.5},
        {"name": "mine", "order": "area"},
    ]
    policies = given_policies(settings, ["depth=5"])
    assert [policy.name for policy in policies] == [
        *("fifo", "easy", "saf", "order=area", "nothing", "Sized", "sjf ageing=0.5", "mine")
    ]
    assert {policy.knobs.depth for policy in policies} == {5}
    assert given_policies("easy")[0].name == "easy"
    assert given_policies(Sized(3))[0].knobs.depth == 9
    assert given_policies({"place": "fastest"})[0].name == "place=fastest"


def test_two_policies_of_one_name_are_told_apart() -> None:
    policies = given_policies([Sized(1), Sized(2), "easy", "easy"])
    assert [policy.name for policy in policies] == ["Sized", "Sized (2)", "easy"]


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (3, "3 is not a policy"),
        ([], "no policy is given"),
        (Sized, r"give an instance: Sized\(...\)"),
        (lambda state: state, "two arguments"),
        (dict, "class dict has no decide"),
        ({"ordr": "area"}, "did you mean 'order'"),
        ({"order": "aera"}, "did you mean 'area'"),
        ({"policy": "all"}, "'all' names"),
    ],
)
def test_what_is_no_policy(value: Any, words: str) -> None:
    with pytest.raises(BadInput, match=words):
        given_policies(value)


def test_an_unknown_name_has_a_suggestion() -> None:
    with pytest.raises(UnknownName, match="did you mean 'easy'"):
        given_policies(["fifo", "eazy"])


def test_a_policy_of_this_process_does_not_travel() -> None:
    (policy,) = given_policies(nothing)
    with pytest.raises(BadInput, match="cannot be sent"):
        pickle.dumps(policy)
