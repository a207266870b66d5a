"""The model of a submitted job, from the table of a job's fields.

A job arrives as a plain mapping, not as a model object: a batch of ten thousand is validated by
one call into compiled code.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, Required

from pydantic import BeforeValidator, ConfigDict, Field, StringConstraints, with_config
from typing_extensions import TypedDict

from flyball.core.job_fields import FIELDS, MAX_ID, MAX_TASKS
from flyball.core.job_fields.field import JobField
from flyball.core.job_fields.forms import Choice, Flag, Names, Number, Text, Whole
from flyball.core.jobs import Dependency

# Arguments may contain newlines and tabs (`sh -c "..."`), but no terminal escape sequences.
TEXT = r"^[^\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]*$"
MOST_TEXT = 131_071
"""Maximum length of one argument or variable on Linux."""
ARRAY = (
    r"^[0-9]{1,7}(-[0-9]{1,7}(:[0-9]{1,7})?)?"
    r"(,[0-9]{1,7}(-[0-9]{1,7}(:[0-9]{1,7})?)?)*(%[0-9]{1,7})?$"
)

ANNOTATED: Any = Annotated
LITERAL: Any = Literal
LIST: Any = list
TUPLE: Any = tuple
"""Generic types for arguments that are known only at run time."""

Argument = Annotated[str, StringConstraints(max_length=MOST_TEXT, pattern=TEXT)]
EnvName = Annotated[str, StringConstraints(max_length=256, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
JobNumber = Annotated[int, Field(ge=1, le=MAX_ID)]
Words = Annotated[list[Argument], Field(min_length=1, max_length=FIELDS["argv"].form.most)]

STRUCTURES: dict[str, tuple[Any, dict[str, Any]]] = {
    "argv": (
        list[Argument],
        {
            "min_length": 1,
            "json_schema_extra": {"prefixItems": [{"type": "string", "minLength": 1}]},
        },
    ),
    "env": (dict[EnvName, Argument], {}),
    "after": (LIST[TUPLE[LITERAL[tuple(how.value for how in Dependency)], JobNumber]], {}),
    "notify": (list[Argument | Words], {}),
}
"""Types and further rules of the fields that are lists or mappings."""


def annotation_of(row: JobField, meaning: str) -> Any:
    """Return the type of a field's values, with its bounds and its description."""
    form = row.form
    if isinstance(form, Whole):
        return Annotated[int, Field(ge=form.low, le=form.high, description=meaning)]
    if isinstance(form, Number):
        return Annotated[
            float, Field(ge=form.low, le=form.high, allow_inf_nan=False, description=meaning)
        ]
    if isinstance(form, Flag):
        return Annotated[bool, Field(description=meaning)]
    if isinstance(form, Text):
        return Annotated[str, _limits(form), Field(description=meaning)]
    if isinstance(form, Choice):
        literal = LITERAL["", *form.names]
        return ANNOTATED[literal, BeforeValidator(form.in_full), Field(description=meaning)]
    if isinstance(form, Names):
        kind, rules = list[Annotated[str, _limits(form.name, least=1)]], dict[str, Any]()
    else:
        kind, rules = STRUCTURES[row.name]
    return ANNOTATED[kind, Field(max_length=form.most, description=meaning, **rules)]


def _limits(form: Text, least: int | None = None) -> StringConstraints:
    return StringConstraints(min_length=least, max_length=form.most, pattern=form.pattern)


def _annotations() -> dict[str, Any]:
    """Return the types of the fields that a client may send, with those of their synonyms."""
    annotations: dict[str, Any] = {}
    for row in FIELDS.values():
        if row.sent and row.name != "array":
            annotations[row.name] = annotation_of(row, row.meaning)
            for synonym in row.synonyms:
                annotations[synonym] = annotation_of(row, f"The same as `{row.name}`.")
    annotations["argv"] = Required[annotations["argv"]]
    return annotations


def _model(title: str, meaning: str, annotations: dict[str, Any]) -> Any:
    model: Any = TypedDict(title, annotations, total=False)  # type: ignore[misc]
    model.__doc__ = meaning
    return with_config(ConfigDict(extra="forbid", strict=True, title=title))(model)


if TYPE_CHECKING:
    JobIn = dict[str, Any]
    OneIn = dict[str, Any]
else:
    JobIn = _model("JobIn", "A job to submit. Only `argv` is required.", _annotations())
    OneIn = _model(
        "OneIn",
        "A job, or an array of them.",
        _annotations()
        | {
            "array": Annotated[
                str,
                StringConstraints(max_length=1000, pattern=ARRAY),
                Field(description=FIELDS["array"].meaning),
            ]
        },
    )


@with_config(ConfigDict(extra="forbid", strict=True, title="BatchIn"))
class BatchIn(TypedDict):
    """Many jobs, accepted or refused together."""

    jobs: Annotated[list[JobIn], Field(min_length=1, max_length=MAX_TASKS)]
