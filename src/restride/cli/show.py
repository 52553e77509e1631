"""Draw a layout: in text, as a picture, or as a page; list the tensors of a file or a folder.

Lines run through memory from low offsets to high ones. Each cell holds the index of its element along the
axis in the heading; padding is hatched, inner blocks are outlined. The page of --html marks the
element under the pointer everywhere, and steps through memory. --dst shows the memory before and after a
reorder.

  restride show nChw16c 1x17x2x2
  restride show OIhw4i16o4i 20x9x1x1 --dtype s8
  restride show blocked.npy --svg blocked.svg
  restride show gguf.q4_0 --svg q4_0.svg
  restride show nchw 1x17x2x2 --dst nChw16c --html before-and-after.html
  restride show nChw16c 1x17x2x2 --svg - > picture.svg
  restride show OIhw4i16o4i 64x64x3x3 --at 37,12,1,2
  restride show '(8,8):(8,1)'
  restride show 'Sw<2,1,3> o 0 o (8,8):(8,1)' --svg swizzled.svg

It lists the tensors of a .safetensors, .gguf, .npz, .onnx or .xml file, a saved network, Zarr arrays, a
folder of files or the index of its shards. --stats reads their values block by block, quantized ones
dequantized; the status is 1 if some cannot be read. --tensor draws the layout of one.

  restride show model.safetensors
  restride show checkpoint/ --match '*.weight' --stats
  restride show model.gguf --tensor blk.0.attn_q.weight

--serve serves a page to type and compare layouts in, to this machine alone, until Ctrl-C.

  restride show --serve
  restride show nchw 1x17x2x2 --dst nChw16c --serve

An existing file is replaced only with --force; - is standard output.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ..desc.memory_desc import MemoryDesc
from ..desc.parse import parse_int
from ..files.writing.replacement import Replacement, shown
from ..formats import TensorFormat, named, names
from ..layouts import ComposedLayout, Layout, from_desc
from ..layouts.functions import LayoutFunction
from ..loading import load_whole
from ..view.explain import fields
from ..view.layout_grid import grid_svg, grid_text
from ..view.names import axis_names
from ..view.page import page
from ..view.stored import stored_svg
from ..view.svg import svg, svg_pair
from ..view.text import show
from .described import NamedDesc, described, stored_format
from .described import add_arguments as add_layout
from .listing import add_arguments as add_listing
from .listing import chosen_tensor, is_of_files, list_tensors
from .named_files import PIPE, add_force, check_output, is_file_name, write_output
from .output import CommandResult, ink, print_stderr, width
from .usage import Parser, checked, parse_format, typed, wrong_usage

__all__ = ["add_arguments", "run"]

_CUTE = re.compile(r"\s*(\(|Sw<|_?\d+\s*:)")
_SUFFIXES = {"svg": (".svg",), "html": (".html", ".htm")}


def add_arguments(parser: Parser) -> None:
    """Add FORMAT DIMS, or FILE; the layout after a reorder; and the files to write."""
    add_layout(parser, "; a CuTe layout, with or without a swizzle; with --serve one of these, or nothing")
    parser.add_argument(
        "--at", type=checked(_parse_index), metavar="I,J", help="print the offset of an element"
    )
    parser.add_argument(
        "--dst",
        type=checked(parse_format),
        metavar="FORMAT",
        help="also show the layout after a reorder into this format",
    )
    parser.add_argument("--svg", metavar="FILE", help="write a picture instead of text")
    parser.add_argument("--html", metavar="FILE", help="write a page to explore the layout with")
    add_force(parser)
    add_listing(parser)
    parser.add_argument("--serve", action="store_true", help="serve a page to explore layouts until Ctrl-C")
    parser.add_argument("--port", type=int, metavar="N", help="of --serve; default 8760, 0 for any free one")


def run(options: argparse.Namespace) -> CommandResult:
    """Draw the layout or write the files; as values the fields of the layout and the lines of the drawing."""
    is_cute = options.dims is None and _CUTE.match(options.format or "") is not None
    if options.serve:
        fields_of_page = _page_fields(options, is_cute)
        load_whole("restride.cli.page_server")
        from .page_server import serve

        return serve(options, fields_of_page)
    if options.port is not None:
        raise wrong_usage("--port without --serve", why="nothing is served")
    if options.format is None:
        raise wrong_usage(
            "FORMAT is missing", why="there is nothing to draw", hint="for example nchw 1x17x2x2"
        )
    if is_cute:
        return _show_cute(options)
    tensor_format = stored_format(options)
    if tensor_format is not None and options.at is not None:
        raise wrong_usage("--at with a stored format", why="its parts have separate layouts")
    if tensor_format is not None:
        if os.path.exists(options.format):
            name = shown(options.format)
            print_stderr(f"note: {name} is a stored format here; ./{name} is the file or folder")
        return _show_tensor_format(tensor_format, options)
    if is_of_files(options):
        if options.tensor is None:
            if (options.svg, options.html, options.dst, options.dtype) != (None,) * 4:
                raise wrong_usage(
                    "a picture, --dst or --dtype of several tensors", hint="select one: --tensor NAME"
                )
            if options.at is not None:
                raise wrong_usage("--at with several tensors", hint="select one: --tensor NAME")
            return list_tensors(options)
        if options.stats or options.match or options.dtype:
            raise wrong_usage(
                "--stats, --match or --dtype with --tensor", why="only the layout of one tensor can be drawn"
            )
        tensor = chosen_tensor(options)
        if tensor.format in names():
            return _show_tensor_format(named(tensor.format, tensor.dims), options)
        first = NamedDesc(tensor.desc, "")
    elif options.stats or options.tensor or options.match:
        raise wrong_usage(
            "--stats, --tensor or --match with a layout", why="these options are for tensor files"
        )
    else:
        first = described(options)
    sides = _sides(first, options)
    if options.at is not None:
        return _at([side.desc for side in sides], options)
    files = {kind: name for kind in _SUFFIXES if (name := getattr(options, kind)) is not None}
    _check_files(files, options)
    for kind, name in files.items():
        write_output(name, _draw(kind, sides))
    if options.json:
        return CommandResult("", {**_values(sides), "files": files})
    if files:
        return CommandResult("\n".join(f"wrote {shown(name)}" for name in files.values() if name != PIPE))
    return CommandResult("\n\n".join(show(desc, tag=tag, ink=ink(), width=width()) for desc, tag in sides))


def _page_fields(options: argparse.Namespace, is_cute: bool) -> dict[str, object]:
    """Return the fields of the page of --serve: the words as typed; for a file, its layout."""
    format, dims, data_type = options.format, options.dims, options.dtype
    if is_cute:
        _cute(options)
    elif format is not None and stored_format(options) is None:
        if dims is None and not (format == PIPE or is_file_name(format)):
            typed(parse_format, format)
        else:
            desc = described(options).desc
            if dims is None:
                # The page has no other form for a layout without a tag; its modes include padding.
                format, dims = (desc.tag, desc.dims) if desc.tag else (str(from_desc(desc)), None)
                data_type = desc.data_type
    return {"a": format, "b": options.dst, "type": data_type, "dims": dims and "x".join(map(str, dims))}


def _parse_index(text: str) -> tuple[int, ...]:
    """Parse an index such as 37,12,1,2."""
    return tuple(parse_int(int(n) if n.strip().isdecimal() else n, "--at") for n in text.split(","))


def _at(descs: Sequence[MemoryDesc], options: argparse.Namespace) -> CommandResult:
    """Return the offset of an element, before and after a reorder."""
    rows = []
    for md in descs:
        offset = typed(md.offset, *options.at)
        bits = offset * md.data_type.bits
        rows.append({"index": list(options.at), "offset": offset, "byte": bits // 8, "bit": bits % 8})
    lines = [
        f"{str(md).split()[-1]} {options.at}: offset {row['offset']}, byte {row['byte']}"
        + f", bit {row['bit']}" * bool(row["bit"])
        for md, row in zip(descs, rows, strict=True)
    ]
    return CommandResult("\n".join(lines), {**rows[0], **({"dst": rows[1]} if len(rows) > 1 else {})})


def _cute(options: argparse.Namespace) -> LayoutFunction:
    read = ComposedLayout.parse if "<" in options.format else Layout
    layout: LayoutFunction = typed(read, options.format.strip())
    return layout


def _show_cute(options: argparse.Namespace) -> CommandResult:
    """Draw the offsets of a CuTe layout, in elements."""
    if (options.html, options.dst, options.dtype, options.tensor, options.match) != (None,) * 5:
        raise wrong_usage("an option of tensors with a layout of CuTe", hint="use --svg, --at or --serve")
    if options.stats:
        raise wrong_usage("--stats with a layout of CuTe", why="it is for tensor files")
    layout = _cute(options)
    if options.at is not None:
        offset = typed(layout, *options.at)
        return CommandResult(f"{layout} {options.at}: offset {offset}", {"offset": offset})
    if options.svg is not None:
        _check_files({"svg": options.svg}, options)
        write_output(options.svg, (grid_svg(layout) + "\n").encode())
    values = {"layout": str(layout), "size": layout.size, "picture": grid_text(layout).splitlines()}
    if options.json:
        return CommandResult("", values)
    if options.svg is not None:
        return CommandResult(f"wrote {shown(options.svg)}" if options.svg != PIPE else "")
    return CommandResult(grid_text(layout))


def _show_tensor_format(tensor_format: TensorFormat, options: argparse.Namespace) -> CommandResult:
    """Return the parts of a stored format; as a picture its bytes."""
    if options.html is not None or options.dst is not None:
        raise wrong_usage("--html or --dst with a stored format", why="use --svg for a picture of its bytes")
    if options.svg is not None:
        _check_files({"svg": options.svg}, options)
        write_output(options.svg, (stored_svg(tensor_format) + "\n").encode())
    parts = {name: _values_of(md, "") for name, md in tensor_format.parts.items()}
    if options.json:
        return CommandResult("", {"name": tensor_format.name, "parts": parts})
    if options.svg is not None:
        return CommandResult(f"wrote {shown(options.svg)}" if options.svg != PIPE else "")
    pictures = (f"{name}: {show(md, ink=ink(), width=width())}" for name, md in tensor_format.parts.items())
    return CommandResult("\n\n".join(pictures))


def _check_files(files: Mapping[str, str], options: argparse.Namespace) -> None:
    """Raise for files that cannot be written, before any is written."""
    if options.svg is not None and options.svg == options.html:
        raise wrong_usage("--svg and --html name the same file", hint="use different files")
    if options.json and PIPE in files.values():
        raise wrong_usage("--json with a picture on standard output", hint="write one of them to a file")
    for kind, name in files.items():
        check_output("restride show", name, _SUFFIXES[kind], options.force)
        if name != PIPE:
            Replacement(name)


def _sides(first: NamedDesc, options: argparse.Namespace) -> list[NamedDesc]:
    """Return the layout; with --dst also the one after the reorder."""
    if options.dst is None:
        return [first]
    after = typed(MemoryDesc, first.desc.dims, first.desc.data_type, options.dst)
    return [first, NamedDesc(after, options.dst)]


def _values(sides: Sequence[NamedDesc]) -> dict[str, Any]:
    before, *after = (_values_of(*side) for side in sides)
    return {**before, "dst": after[0]} if after else before


def _values_of(desc: MemoryDesc, tag: str) -> dict[str, Any]:
    return {**fields(desc, axis_names(desc.ndims, tag)), "picture": show(desc, tag=tag).splitlines()}


def _draw(kind: str, sides: Sequence[NamedDesc]) -> bytes:
    if kind == "html":
        return page(sides).encode()
    text = svg_pair(*sides) if len(sides) > 1 else svg(sides[0].desc, tag=sides[0].tag)
    return (text + "\n").encode()
