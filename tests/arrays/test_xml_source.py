"""XML that a stranger may have written: bounds, refusals, and files that cannot be read."""

import io
import os

import pytest

import restride as rs
from restride.arrays.openvino import xml_source
from restride.openvino import read_ir
from support.errors import refused
from support.ir import EXAMPLE, layer, net


def read(text):
    return read_ir(io.BytesIO(text if isinstance(text, bytes) else text.encode()))


# --- documents ------------------------------------------------------------------------------------------

_BOMB = "".join(f'<!ENTITY l{i + 1} "{f"&l{i};" * 10}">' for i in range(9))
_DECLARED = {
    "bomb": f'<!DOCTYPE net [<!ENTITY l0 "lol">{_BOMB}]><net name="&l9;"/>',
    "file": '<!DOCTYPE net [<!ENTITY x SYSTEM "file:///etc/passwd">]><net>&x;</net>',
    "network": '<!DOCTYPE net SYSTEM "http://127.0.0.1:9/x.dtd"><net/>',
    "parameter": '<!DOCTYPE net [<!ENTITY % p SYSTEM "http://127.0.0.1:9/x"> %p;]><net/>',
    "empty": "<!DOCTYPE net><net/>",
    "in a model": net(layer()).replace("<net ", "<!DOCTYPE net []><net "),
}


@pytest.mark.parametrize("text", _DECLARED.values(), ids=_DECLARED.keys())
def test_document_types_and_entities_are_refused(text):
    with refused("declares a document type or an entity", "DOCTYPE"):
        read(text)


_NO_XML = {
    "empty": ("", "it is empty"),
    "blank": (" \n ", "no element found"),
    "text": ("hello", "syntax error"),
    "json": ('{"layers": []}', "not XML"),
    "zip": (b"PK\x03\x04\x00\x00", "not XML"),
    "weights": (bytes(100), "not XML"),
    "two roots": ("<net/><net/>", "junk after document element"),
    "crossed": ("<net><layers></net></layers>", "mismatched tag"),
    "attribute twice": ('<net name="a" name="b"/>', "duplicate attribute"),
    "no quotes": ("<net version=11/>", "not well-formed"),
    "unknown entity": ("<net>&lol;</net>", "undefined entity"),
    "not UTF-8": (b"<net>\xff</net>", "not well-formed"),
    "zero byte": (b"<net>\x00</net>", "not well-formed"),
    "unknown encoding": ('<?xml version="1.0" encoding="klingon"?><net/>', "encoding cannot be read"),
    "wide encoding": ('<?xml version="1.0" encoding="shift_jis"?><net/>', "encoding cannot be read"),
    "dots in a wrong place": ("<net>...<layers", "ends inside an element"),
}


@pytest.mark.parametrize(("text", "said"), _NO_XML.values(), ids=_NO_XML.keys())
def test_what_is_no_xml_is_refused(text, said):
    with refused(said, "cannot read <BytesIO>"):
        read(text)


def test_a_document_that_is_cut_anywhere_is_refused():
    text = net(layer()).rstrip()
    for end in range(len(text)):
        with refused("cannot read"):
            read(text[:end])
    for end in range(text.index("<layers>"), len(text), 7):
        with refused("ends inside an element", "truncated"):
            read(text[:end])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "latin-1", "ascii"])
def test_the_encodings_of_xml_are_read(encoding):
    name = "schön" if encoding != "ascii" else "schoen"
    declared = "utf-8" if encoding == "utf-8-sig" else encoding
    text = f'<?xml version="1.0" encoding="{declared}"?>' + layer(attributes=f'id="1" name="{name}"')
    assert read(text.encode(encoding))[0].name == name
    assert read_ir(io.StringIO(text))[0].name == name


def test_elements_are_nested_to_a_bound():
    deep = xml_source.MAX_DEPTH
    assert read("<net>" + "<a>" * (deep - 1) + "</a>" * (deep - 1) + "</net>") == ()
    with refused(f"nested more than {deep} levels deep"):
        read("<net>" + "<a>" * deep)


def test_documents_are_long_to_a_bound(monkeypatch):
    monkeypatch.setattr(xml_source, "MAX_BYTES", 2 << 20)
    assert read("<net>" + "<a/>" * (1 << 18) + "</net>") == ()
    with refused("longer than 2 MiB"):
        read("<net>" + "<a/>" * (1 << 20))


@pytest.mark.parametrize("start", ['<net name="', "<net><!--", "<net><", "<net><?x "])
def test_one_token_is_long_to_a_bound(monkeypatch, start):
    monkeypatch.setattr(xml_source, "MAX_TOKEN", 1 << 20)
    with refused("longer than 1 MiB"):
        read(start + "x" * (3 << 20))


def test_many_short_tokens_are_no_long_one(monkeypatch):
    monkeypatch.setattr(xml_source, "MAX_TOKEN", 1 << 20)
    assert read("<net>" + "<a>text</a>\n" * (1 << 18) + layer() + "</net>")[0].group == 3


# --- the dots of the documents --------------------------------------------------------------------------


def test_dots_inside_quotes_stay():
    (found,) = read(EXAMPLE.replace("<layer ...", "<layer ... name=' ... > ... '"))
    assert found.name == " ... > ... "


@pytest.mark.parametrize("tag", ["<net....>", "<net..>", "<net .... />", "<net a=... />", "<net ... ..."])
def test_other_dots_are_no_xml(tag):
    with refused("cannot read"):
        read(tag + "</net>")


def test_the_dots_are_for_short_examples():
    with refused("not XML"):
        read("<net>" + " " * (64 << 10) + EXAMPLE + "</net>")


# --- files ----------------------------------------------------------------------------------------------


def test_a_missing_file_is_the_system_s_refusal(tmp_path):
    with refused("cannot read", "model.xml", "No such file", "check the name", kind=rs.RuntimeFailure):
        read_ir(tmp_path / "model.xml")
    with refused("Not a directory", kind=rs.RuntimeFailure):
        (tmp_path / "file").write_text("")
        read_ir(tmp_path / "file" / "model.xml")
    with refused("too long", kind=rs.RuntimeFailure):
        read_ir("x" * 5000)


def test_xml_instead_of_a_path_is_told_the_way():
    with refused("io.StringIO(text)", kind=rs.RuntimeFailure):
        read_ir(layer())
    with refused("io.BytesIO(text)"):
        read_ir(layer().encode())


def test_folders_pipes_and_devices_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", "/dev/zero"):
        with refused("a folder, a pipe or a device"):
            read_ir(path)


class NoPath(os.PathLike):
    def __fspath__(self):
        raise KeyError("nowhere")


@pytest.mark.parametrize("source", [None, 3, 3.5, [], {}, object(), NoPath(), "a\0b", ""], ids=range(9))
def test_what_is_no_path_is_refused(source):
    with pytest.raises(rs.Error, match="cannot read") as caught:
        read_ir(source)
    assert caught.value.why


class Stream:
    """An open file whose read gives one piece after another."""

    def __init__(self, *pieces, name=None):
        self.pieces, self.name = list(pieces), name

    def read(self, size):
        piece = self.pieces.pop(0) if self.pieces else b""
        if isinstance(piece, Exception):
            raise piece
        return piece


def test_open_files_may_give_little_at_a_time():
    text = net(layer()).encode()
    assert read_ir(Stream(*(text[i : i + 1] for i in range(len(text)))))[0].group == 3
    large = net("<a/>" * 100_000, layer()).encode()
    pieces = [large[i : i + 999] for i in range(0, len(large), 999)]
    assert read_ir(Stream(*pieces))[0].group == 3


def test_an_open_file_stays_open(tmp_path):
    path = tmp_path / "model.xml"
    path.write_text(layer())
    with path.open("rb") as file:
        assert read_ir(file)
        assert not file.closed
        file.seek(0)
        assert read_ir(file)
    with refused(str(path), "closed"):
        read_ir(file)


@pytest.mark.parametrize(
    ("stream", "kind", "said"),
    [
        (Stream(OSError(5, "I/O error")), rs.RuntimeFailure, "I/O error"),
        (Stream(b"<net>", OSError(5, "I/O error")), rs.RuntimeFailure, "I/O error"),
        (Stream(KeyError("x")), rs.InvalidArguments, "KeyError"),
        (Stream(None), rs.InvalidArguments, "NoneType, not bytes"),
        (Stream(b"<net>", 3), rs.InvalidArguments, "int, not bytes"),
        (Stream(b"<net>", "</net>"), rs.InvalidArguments, "a mixture"),
        (Stream("<net>\ud800</net>"), rs.InvalidArguments, "ends inside a character"),
        (Stream(b"<net>", name="model.xml"), rs.InvalidArguments, "cannot read model.xml"),
        (Stream(b"<net>", name="a\nb"), rs.InvalidArguments, "cannot read 'a\\nb'"),
    ],
    ids=range(9),
)
def test_an_open_file_that_fails_is_refused(stream, kind, said):
    with refused(said, kind=kind):
        read_ir(stream)


def test_an_endless_file_is_refused(monkeypatch):
    monkeypatch.setattr(xml_source, "MAX_BYTES", 4 << 20)

    class Endless:
        def read(self, size):
            return b"<net>" if size < 0 else b"<!---->" * (size // 7)

    with refused("cannot read"):
        read_ir(Endless())
