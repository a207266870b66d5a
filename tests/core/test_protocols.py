"""The contracts stay short and what is built fits them."""

from __future__ import annotations

import inspect

from flyball.core import protocols


def test_the_contracts_fit_in_a_hundred_lines() -> None:
    assert len(inspect.getsource(protocols).splitlines()) < 100


def test_every_contract_says_what_it_is() -> None:
    for name, member in vars(protocols).items():
        if inspect.isclass(member) and member.__module__ == protocols.__name__:
            assert member.__doc__, name
