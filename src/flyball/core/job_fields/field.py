"""The description of one field of a job: its values, its meaning, and its name everywhere."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from flyball.core.job_fields.forms import Flag, Form

FIRST_VERSION = "0.1.0"
DESCRIPTION = "job_field"
"""Key of a field's description in the metadata of its dataclass."""


@dataclass(frozen=True)
class JobField:
    """Describes a field; `core/job_fields/__init__.py` has the table of them.

    Attributes:
        form: type and bounds of its values.
        default: the value of a job that does not state it; not kept in the journal.
        meaning: one sentence, for the HTTP schema; also for help and reference page without `help`.
        name: in the journal, over HTTP, in Python and in job files.
        unit: of a number.
        since: the first version that has it.
        synonyms: other names over HTTP and in job files.
        keys: further keys of job files, whose values are written as on the command line.
        option: options of `flyball submit` and of `#SBATCH` lines, the long name first: those of
            sbatch where it has them.
        off: the option that sets a flag to false.
        metavar: stands for the option's value in the help.
        notation: how a value is written on the command line; "" = as the form reads it.
        help: help of its option, where that takes more than `meaning` says.
        accepts: what clients send, where a spec keeps something else.
        advice: added to the refusal of a value.
        sent: whether clients may send it; other fields are set by the server.
        scheduled: whether decisions or the check of limits read it.
        optional: whether an engine may be unable to honour it; stating it is then answered with a
            note.
        otherwise: why it has no effect where it is not honoured, or what to use instead.
        variable: Slurm's environment variable that holds it; "" = none.
    """

    form: Form
    default: Any
    meaning: str
    name: str = ""
    unit: str = ""
    since: str = FIRST_VERSION
    synonyms: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    option: tuple[str, ...] = ()
    off: str = ""
    metavar: str = "TEXT"
    notation: str = ""
    help: str = ""
    accepts: str = ""
    advice: str = ""
    sent: bool = True
    scheduled: bool = False
    optional: bool = False
    otherwise: str = ""
    variable: str = ""

    @property
    def long_option(self) -> str:
        """The name under which a command line's option is kept: `time` for `--time -t`."""
        return self.option[0].removeprefix("--") if self.option else ""

    @property
    def is_switch(self) -> bool:
        """Whether its options take no value."""
        return isinstance(self.form, Flag)

    @property
    def rule(self) -> str:
        """What a valid value is, with its bounds and unit."""
        return self.accepts or self.form.rule + (f" ({self.unit})" if self.unit else "")

    @property
    def label(self) -> str:
        """The name as people read it."""
        return self.name.replace("_", " ")


def stated(default: Any, form: Form, meaning: str, option: str = "", **more: Any) -> Any:
    """Declare a field of the dataclass that is the table.

    Args:
        option: the names of its option, separated by spaces.
        more: further attributes of `JobField`.
    """
    described = JobField(form, default, meaning, option=tuple(option.split()), **more)
    if isinstance(default, dict):
        return field(default_factory=dict, metadata={DESCRIPTION: described})
    return field(default=default, metadata={DESCRIPTION: described})
