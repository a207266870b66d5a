"""Policies as users give them: names, files, knobs, classes, functions; one or several."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

from flyball.app import PolicySetting, policy_settings
from flyball.core.errors import BadInput, UnknownName
from flyball.core.knobs import Knobs
from flyball.experiments.own_policy.call import FORM, OwnAllocator, OwnPolicy
from flyball.experiments.own_policy.source import Source, load
from flyball.schedule.policies.preset import Preset
from flyball.schedule.policies.registry import names

NAME, BASE = "name", "policy"
"""Keys of a policy given as a dict that are not knobs: its name, and the policy it changes."""
UNNAMED = "knobs"


def named_policies(text: str, settings: Sequence[str] = ()) -> list[PolicySetting]:
    """Return the policies of a comma-separated list: names, `FILE.py`, `module:Class`.

    Args:
        text: `all` stands for every registered policy.
        settings: `knob=value`, for every policy.

    Raises:
        BadInput: an unknown policy or knob, a value out of range.
        FlyballError: a file or module that does not load.
    """
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    chosen: dict[str, PolicySetting] = {}
    for entry in entries or ["all"]:
        source = None if entry in names() else Source.parse(entry)
        if source is None:
            listed = policy_settings(entry, list(settings))
        else:
            loaded = load(source)
            setting = own_policy(entry, loaded.value, settings, source, loaded.version)
            listed = [setting]
        chosen |= {setting.name: setting for setting in listed if setting.name not in chosen}
    return list(chosen.values())


def own_policy(
    name: str,
    value: Any,
    settings: Sequence[str] = (),
    source: Source | None = None,
    version: str = "",
) -> PolicySetting:
    """Return a policy from what a user defined.

    Args:
        name: under which its results are shown.
        value: a preset, knobs, a dict of knobs, a class, an instance or a function.
        settings: `knob=value`.
        source: where it was loaded from; None = it was defined in this process.
        version: digest of its code.

    Raises:
        BadInput: it is none of these.
    """
    if isinstance(value, Mapping):
        return _from_dict(name, value, settings)
    if isinstance(value, Knobs):
        return PolicySetting(name, value.with_settings(list(settings)))
    if isinstance(value, Preset):
        allocator = value.allocator
        if allocator is not None and source is not None:
            allocator = OwnAllocator(allocator, source)
        knobs = value.knobs.with_settings(list(settings))
        return PolicySetting(name, knobs, allocator, version=version)
    stated = getattr(value, "knobs", None)
    knobs = stated if isinstance(stated, Knobs) else Knobs()
    decider = OwnPolicy(name, value, source)
    return PolicySetting(
        name, knobs.with_settings(list(settings)), decider=decider, version=version
    )


def _from_dict(name: str, content: Mapping[str, Any], settings: Sequence[str]) -> PolicySetting:
    """Return a policy from `{"policy": "saf", "place": "fastest"}`."""
    names = [field.name for field in fields(Knobs)]
    for key in content:
        if key not in (*names, NAME, BASE):
            raise UnknownName("knob", str(key), [*names, NAME, BASE])
    texts = knob_settings({key: content[key] for key in content if key not in (NAME, BASE)})
    base = str(content.get(BASE, ""))
    if not base:
        knobs = Knobs().with_settings([*texts, *settings])
        return PolicySetting(str(content.get(NAME, name)), knobs)
    (changed,) = _one(named_policies(base, [*texts, *settings]), base)
    if NAME not in content:
        return changed if not texts else replace(changed, name=f"{base} {' '.join(texts)}")
    return replace(changed, name=str(content[NAME]))


def _one(policies: list[PolicySetting], text: str) -> list[PolicySetting]:
    if len(policies) != 1:
        raise BadInput(f"{text!r} names {len(policies)} policies", "name one")
    return policies


def knob_settings(values: Mapping[str, Any]) -> list[str]:
    """Return knobs as `knob=value` texts; an enumerated value may be given as such."""
    return [f"{name}={_text(value)}" for name, value in values.items()]


def _text(value: Any) -> str:
    label = getattr(value, "name", None)  # an enumerated value: Order.AREA
    return label.lower().replace("_", "-") if isinstance(label, str) else str(value)


def given_policies(given: Any, settings: Sequence[str] = ()) -> list[PolicySetting]:
    """Return the policies that a caller gives: one, or several, in any form.

    Raises:
        BadInput: something that is no policy, or two of the same name.
    """
    several = isinstance(given, Iterable) and not isinstance(given, str | Mapping | type)
    chosen: list[PolicySetting] = []
    for value in given if several else [given]:
        chosen += _given(value, settings)
    if not chosen:
        raise BadInput("no policy is given", f"give e.g. 'easy'; {FORM}")
    return _with_unique_names(chosen)


def _given(value: Any, settings: Sequence[str]) -> list[PolicySetting]:
    if isinstance(value, str):
        return named_policies(value, settings)
    if isinstance(value, PolicySetting):
        return [value]
    if isinstance(value, Preset):
        return [own_policy(value.name, value, settings)]
    if isinstance(value, Knobs):
        return [own_policy(_short(value), value, settings)]
    if isinstance(value, Mapping):
        return [own_policy(_dict_name(value), value, settings)]
    if not (callable(value) or callable(getattr(value, "decide", None))):
        raise BadInput(f"{value!r:.80} is not a policy", f"{FORM}, a name, a file or knobs")
    label = getattr(value, "name", None) or getattr(value, "__name__", None)
    return [own_policy(str(label or type(value).__name__), value, settings)]


def _short(knobs: Knobs) -> str:
    texts = [f"{name}={value}" for name, value in knobs.changed().items()]
    return " ".join(texts) or UNNAMED


def _dict_name(content: Mapping[str, Any]) -> str:
    return " ".join(knob_settings(content)) or UNNAMED


def _with_unique_names(policies: list[PolicySetting]) -> list[PolicySetting]:
    """Return the policies, each once; of two different ones of one name the second is numbered."""
    by_name: dict[str, PolicySetting] = {}
    for policy in policies:
        name, number = policy.name, 2
        while name in by_name and by_name[name] != policy:
            name, number = f"{policy.name} ({number})", number + 1
        by_name.setdefault(name, policy if name == policy.name else replace(policy, name=name))
    return list(by_name.values())
