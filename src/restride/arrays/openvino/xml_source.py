"""Parses XML from untrusted files: opening them, bounding their size, and rejecting what is unsafe.

Nothing is fetched and no entity is expanded: a document type is an error. The length, the depth, the length
of one token, and the number of elements and attributes, which determines the time, are bounded.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, NoReturn, Protocol
from xml.parsers import expat

from ...desc.parse import short_repr
from ...errors import Error, InvalidArguments, refuse
from ...foreign import attribute_of, plain_text

MAX_BYTES = 256 << 20
MAX_DEPTH = 256
MAX_TOKEN = 16 << 20
MAX_NODES = 1 << 22
_PIECE = 1 << 20
_EXAMPLE = 64 << 10
_XML_HINT = "pass the .xml file of a model; the .bin file next to it contains its weights"
# expat's errors for a truncated document.
_ENDED = (
    expat.errors.XML_ERROR_NO_ELEMENTS,
    expat.errors.XML_ERROR_UNCLOSED_TOKEN,
    expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION,
    expat.errors.XML_ERROR_PARTIAL_CHAR,
)


class Source(NamedTuple):
    """The name of the XML in errors, and a function that returns its next bytes or characters."""

    name: str
    read: Callable[[int], Any]


class Visitor(Protocol):
    """Receives the elements of a document, in order."""

    def start(self, tag: str, attributes: dict[str, str], line: int) -> None:
        """Handle the start of an element."""

    def end(self) -> None:
        """Handle the end of the innermost element."""

    def text(self, piece: str) -> None:
        """Handle characters, perhaps not all, of the innermost element."""


# --- opening --------------------------------------------------------------------------------------------


@contextlib.contextmanager
def opened(source: object) -> Iterator[Source]:
    """Open the XML of a path, or use an open file, which stays open.

    Raises RuntimeFailure if the system refuses access to the file, InvalidArguments for anything else.
    """
    if isinstance(source, str | os.PathLike):
        try:
            path = str.__str__(os.fsdecode(source))
        except Exception:  # a foreign __fspath__ can raise anything
            raise refuse("RS-F04:gives-no-path", type=type(source).__name__) from None
        with _opened_path(path) as file:
            yield Source(_quote(path), file.read)
        return
    read = attribute_of(source, "read")
    if not callable(read):
        is_text = isinstance(source, bytes | bytearray | memoryview)
        raise refuse(
            "RS-F04:neither-path-nor" if is_text else "RS-F04:neither-path-nor-open",
            source=short_repr(source),
            type=type(source).__name__,
        )
    name = attribute_of(source, "name")
    yield Source(_quote(plain_text(name)) if isinstance(name, str) else f"<{type(source).__name__}>", read)


def _opened_path(path: str) -> Any:
    """Open the plain file at `path`. Opening a pipe would wait for its writer, and a device has no length."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0))
    except OSError as error:
        hint = "check the name" if error.errno == errno.ENOENT else "use a file that you can read"
        hint = "pass XML text as io.StringIO(text)" if path.lstrip().startswith("<") else hint
        why = os.strerror(error.errno) if error.errno else str(error)
        raise refuse("RS-F02:xml", path=_quote(path), why=why, hint=hint) from None
    except ValueError:
        raise refuse("RS-F04:no-file-name", path=_quote(path)) from None
    if stat.S_ISREG(os.fstat(handle).st_mode):
        return os.fdopen(handle, "rb", buffering=0)
    os.close(handle)
    raise refuse("RS-F04:folder-pipe-device", path=_quote(path))


def _quote(path: str) -> str:
    return path if path.isprintable() and 0 < len(path.strip()) == len(path) <= 200 else short_repr(path)


# --- parsing --------------------------------------------------------------------------------------------


def visit(source: Source, visitor: Visitor) -> None:
    """Pass the elements of a document to `visitor`.

    Raises InvalidArguments for anything that is not XML, is truncated, has a document type, or exceeds a
    bound; errors of the visitor pass through, with the file's name and the line added.
    """
    head = _head(source)
    reader = _XmlReader(source.name, visitor, is_text=isinstance(head, str))
    reader.feed(_without_ellipses(_encoded(source, head)) if len(head) < _EXAMPLE else _encoded(source, head))
    while len(head) >= _EXAMPLE and (piece := _next(source, _PIECE)):
        reader.feed(_encoded(source, piece))
    reader.finish()


def _head(source: Source) -> Any:
    """Return the first 64 KiB, or a shorter document: files can return less than requested."""
    head = _next(source, _EXAMPLE)
    while 0 < len(head) < _EXAMPLE and (more := _next(source, _EXAMPLE)):
        if type(more) is not type(head):
            raise refuse("RS-F04:read-gives-bytes", name=source.name)
        head += more
    return head


def _next(source: Source, size: int) -> Any:
    try:
        piece = source.read(size)
    except OSError as error:
        raise refuse("RS-F02:xml-file", name=source.name, reason=str(error)[:200]) from None
    except Exception as error:  # a foreign read() can raise anything
        why = f"read() failed: {type(error).__name__} {str(error)[:200]}"
        raise refuse("RS-F04:not-open", name=source.name, why=why) from None
    if isinstance(piece, bytes | str):
        return piece
    why = f"read() gives {type(piece).__name__}, not bytes"
    raise refuse("RS-F04:text-mode", name=source.name, why=why)


def _encoded(source: Source, piece: Any) -> bytes:
    if isinstance(piece, bytes):
        return piece
    try:
        return str(piece).encode()
    except UnicodeEncodeError:
        raise refuse("RS-F04:text-holds-half", name=source.name) from None


_TAG = re.compile(rb"<[A-Za-z](?:[^<>\"']|\"[^\"<]*\"|'[^'<]*')*>")
_QUOTED_OR_ELLIPSIS = re.compile(rb"\"[^\"]*\"|'[^']*'|(?<=\s)\.\.\.(?=[\s/>])")


def _without_ellipses(text: bytes) -> bytes:
    """Remove the dots of `<layer ... type="ShuffleChannels" ...>`, as documentation writes it, which is not
    XML.

    Valid XML is unchanged, because no tag has dots between blanks outside quotes.

    >>> _without_ellipses(b'<layer ... name=" ... " ...>')
    b'<layer  name=" ... " >'
    """
    if b"..." not in text:
        return text
    return _TAG.sub(
        lambda tag: _QUOTED_OR_ELLIPSIS.sub(lambda part: b"" if part[0] == b"..." else part[0], tag[0]), text
    )


class _XmlReader:
    """One pass over a document that checks every bound."""

    def __init__(self, name: str, visitor: Visitor, *, is_text: bool) -> None:
        self._name, self._visitor = name, visitor
        self._depth = self._fed = self._nodes = 0
        parser = self._parser = expat.ParserCreate("utf-8" if is_text else None)
        parser.buffer_text = True
        parser.StartElementHandler, parser.EndElementHandler = self._start, self._end
        parser.CharacterDataHandler = visitor.text
        # A document type can declare entities and refer to other files.
        parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = self._refuse_declarations

    def feed(self, piece: bytes) -> None:
        """Process the next bytes."""
        self._fed += len(piece)
        if self._fed > MAX_BYTES:
            raise refuse("RS-F04:longer-mib-no", name=self._name, max_bytes=MAX_BYTES >> 20)
        self._parse(piece, False)
        if self._fed - self._parser.CurrentByteIndex > MAX_TOKEN:
            raise refuse("RS-F04:tag-text-longer", name=self._name, max_token=MAX_TOKEN >> 20)

    def finish(self) -> None:
        """Process the end of the document."""
        if not self._fed:
            raise refuse("RS-F04:empty", name=self._name)
        self._parse(b"", True)

    def _parse(self, piece: bytes, is_last: bool) -> None:
        try:
            self._parser.Parse(piece, is_last)
        except expat.ExpatError as error:
            message, line, column = expat.ErrorString(error.code), error.lineno, error.offset + 1
            if message in _ENDED and self._depth:
                raise refuse(
                    "RS-F04:ends-inside-element", name=self._name, lineno=line, offset=column
                ) from None
            raise refuse("RS-F04:no-xml", name=self._name, lineno=line, offset=column, said=message) from None
        except Error as error:
            why = f"{error.what}: {error.why}" if error.why else error.what
            raise refuse(
                "RS-F04:at-line",
                name=self._name,
                currentlinenumber=self._parser.CurrentLineNumber,
                which=", " if error.where else "",
                reason=error,
                why=why,
            ) from None
        except (LookupError, ValueError) as error:  # from the declared encoding
            raise refuse("RS-F04:encoding", name=self._name, reason=str(error)[:100]) from None

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise refuse("RS-F04:elements-nested-more", max_depth=MAX_DEPTH)
        self._nodes += 1 + len(attributes)
        if self._nodes > MAX_NODES:
            what, why = f"there are more than {MAX_NODES} elements and attributes", "no model has that many"
            raise InvalidArguments(what, code="RS-F04", why=why, hint=_XML_HINT)
        self._visitor.start(tag, attributes, self._parser.CurrentLineNumber)

    def _end(self, _: str) -> None:
        self._depth -= 1
        self._visitor.end()

    def _refuse_declarations(self, *_: object) -> NoReturn:
        raise refuse("RS-F04:declares-document-type")
