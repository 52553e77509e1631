"""The library's docstrings as reStructuredText.

A docstring has paragraphs, examples, and lists of arguments:

    x       what it is, over as many
            lines as it takes
    out     where to write

Words between backticks are names, linked where they are public ones. Numbers of rules, as in "(N8)", lead to
the numeric contract; those of documents that are not among these pages are left out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import restride

_NUMERICS = Path(__file__).parents[1] / "numerics.md"
_ARGUMENT = re.compile(r"(?P<name>[a-z_][\w, ]*?) {2,}(?P<text>\S.*)")
_RULE = r"(?:seed \d+|spec(?:\.md)? [\d.]+|[A-Z]\d{1,2})"
_RULES = re.compile(rf"\s*\(({_RULE}(?:(?:[,;–]| to)\s*{_RULE})*)\)")
_IS_ANY = re.compile(r"~?(?:typing\.)?Any")
_ANY_DEFAULT = re.compile(rf": {_IS_ANY.pattern} = ")
_ANY = re.compile(rf": {_IS_ANY.pattern}(?=[,)])")
_NAME = re.compile(r"(?<!`)`([^`]+)`(?!`)")


def setup(app: Any) -> dict[str, bool]:
    """Take part in autodoc's reading of docstrings, and in the finding of types."""
    _name_inner_classes()
    app.connect("autodoc-process-docstring", _process)
    app.connect("autodoc-process-signature", _signature)
    app.connect("missing-reference", _public_type)
    return {"parallel_read_safe": True}


def _name_inner_classes() -> None:
    """Let `Reorder.PrimitiveDesc` and the like be classes by that name, not aliases of others."""
    for owner in (getattr(restride.onednn, name) for name in restride.onednn.__all__):
        for name in ("PrimitiveDesc", "Desc"):
            if hasattr(owner, name):
                getattr(owner, name).__name__ = name


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = converted("\n".join(lines)).split("\n")


def _signature(app: Any, what: str, name: str, obj: Any, options: Any, signature: str, result: str) -> Any:
    """Without the annotations that say nothing; none for a class that only the package makes."""
    if ", _" in (signature or ""):
        return "", None
    said = _ANY.sub("", _ANY_DEFAULT.sub("=", signature or ""))
    return said or signature, None if _IS_ANY.fullmatch(result or "") else result


def converted(text: str) -> str:
    """The docstring `text` as reStructuredText."""
    blocks = re.split(r"\n[ ]*\n", text.strip("\n"))
    return "\n\n".join(_block(block) for block in blocks) + "\n"


def _block(block: str) -> str:
    if block.lstrip().startswith(">>>"):
        return block
    if all(line.startswith("    ") for line in block.split("\n")):
        return "::\n\n" + block
    if _ARGUMENT.fullmatch(block.split("\n")[0]):
        return "\n".join(_arguments(block))
    return _inline(block)


def _arguments(block: str) -> Iterator[str]:
    """A definition list: each name, and what it is below."""
    for line in re.sub(r"\n {2,}", " ", block).split("\n"):
        found = _ARGUMENT.fullmatch(line)
        yield f"``{found['name']}``\n    {_inline(found['text'])}" if found else _inline(line)


def _inline(text: str) -> str:
    return _RULES.sub(_rules, _NAME.sub(_name, text))


def _rules(found: re.Match[str]) -> str:
    known = [_rule_link(number) for number in re.findall(r"N\d+", found[1])]
    return f" ({', '.join(known)})" if known else ""


def _rule_link(number: str) -> str:
    anchor = _anchors().get(number)
    return f"`{number} <../numerics.html#{anchor}>`__" if anchor else number


@cache
def _anchors() -> dict[str, str]:
    """Of each rule of the numeric contract the anchor of its heading."""
    headings = re.findall(r"^#+ ((N\d+).*)$", _NUMERICS.read_text(encoding="utf-8"), re.MULTILINE)
    return {number: re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text, number in headings}


def _name(found: re.Match[str]) -> str:
    name = found[1].removeprefix("rs.").removeprefix("onednn.")
    public = _public_name(name)
    return f":py:obj:`{name} <{public}>`" if public else f"``{found[1]}``"


def _public_name(name: str) -> str:
    """Where the reference describes a public name; "" for other names."""
    owner = next((owner for owner in (restride, restride.onednn) if name in owner.__all__), None)
    return f"{owner.__name__}.{name}" if owner else ""


def _public_type(app: Any, env: Any, node: Any, contnode: Any) -> Any:
    """A type in a signature is named by the module that defines it: find the public one."""
    name = node.get("reftarget", "").rpartition(".")[2]
    public = _public_name(name)
    if node.get("refdomain") != "py" or not public or node.get("reftarget") == public:
        return None
    domain = env.domains["py"]
    return domain.resolve_xref(env, node["refdoc"], app.builder, "obj", public, node, contnode)
