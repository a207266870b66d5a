"""Text files, plain or gzipped: read line by line, replaced atomically."""

from __future__ import annotations

import csv
import gzip
import io
import os
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import IO, TextIO

from flyball.core.errors import BadInput, FlyballError

GZIP_MAGIC = b"\x1f\x8b"
MAX_LINE = 65_536
"""Maximum length of a line; a longer one is cut and then fails as a row, which bounds memory."""


@contextmanager
def opened(path: Path) -> Iterator[Iterator[str]]:
    """Yield the lines of a text file; gzip is recognised by its first bytes.

    Raises:
        BadInput: the file cannot be opened, or an error occurs while its lines are read.
    """
    try:
        with path.open("rb") as raw:
            packed = raw.read(2) == GZIP_MAGIC
            raw.seek(0)
            stream = gzip.GzipFile(fileobj=raw) if packed else raw
            text = io.TextIOWrapper(stream, encoding="utf-8-sig", newline="")
            with text:
                yield iter(partial(text.readline, MAX_LINE), "")
    except FlyballError:
        raise
    except UnicodeDecodeError as error:
        raise BadInput(
            f"{path} is not UTF-8 text (byte 0x{error.object[error.start]:02x})",
            "save it as UTF-8, or check that it is a trace",
        ) from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise BadInput(f"{path} is damaged gzip ({error})", "copy or download it again") from None
    except csv.Error as error:
        raise BadInput(f"{path} is not CSV ({error})", "check quotes and line ends") from None
    except FileNotFoundError:
        raise BadInput(f"{path} does not exist", "check the path") from None
    except IsADirectoryError:
        raise BadInput(f"{path} is a directory", "name a file in it") from None
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror})", "check the file") from None


@contextmanager
def replacing(path: Path) -> Iterator[TextIO]:
    """Yield a text file to write; it replaces `path` only if the block ends without an error.

    The file is gzipped if its name ends in `.gz`, without a time stamp: same text, same bytes.
    """
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    except OSError as error:
        raise BadInput(f"{path} cannot be written ({error.strerror})", "check the folder") from None
    try:
        with os.fdopen(handle, "wb") as raw:
            with _text(raw, path.suffix == ".gz") as text:
                yield text
            raw.flush()
            os.fsync(raw.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except OSError as error:
        raise BadInput(f"{path} cannot be written ({error.strerror})", "check the folder") from None
    finally:
        Path(temporary).unlink(missing_ok=True)


@contextmanager
def _text(raw: IO[bytes], pack: bool) -> Iterator[TextIO]:
    if not pack:
        plain = io.TextIOWrapper(raw, encoding="utf-8", newline="")
        yield plain
        plain.detach()
        return
    with (
        gzip.GzipFile("", "wb", compresslevel=6, fileobj=raw, mtime=0) as stream,
        io.TextIOWrapper(stream, encoding="utf-8", newline="") as text,
    ):
        yield text


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
