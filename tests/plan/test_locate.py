"""The scanner knows the same keys as the standard parser, whatever way they are written, and says where
they really stand."""

from __future__ import annotations

import json
import tomllib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fsdyno.plan.locate import positions

AWKWARD = ["a", "b", "c-d", "1", "a b", "ä", '"', "'", "#", "[x]", "=", "a.b", "\\", "{", ","]
STRINGS = ["", "x", "# no comment", "]", "}", '"', "'", "a\nb", "\\", '""', "''", "= 1", "\t"]
names = st.sampled_from(AWKWARD)
scalars = st.one_of(
    st.sampled_from(STRINGS),
    st.integers(-5, 5),
    st.booleans(),
    st.floats(-2, 2, allow_nan=False).map(lambda x: round(x, 3)),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
    max_leaves=12,
)
documents = st.dictionaries(names, values, max_size=5)


def paths(value: Any, here: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
    found = {here} - {()}
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        found |= paths(inner, (*here, key))
    return found


class Writer:
    """Writes a document in one of the many ways that TOML allows."""

    def __init__(self, draw: Any) -> None:
        self.draw = draw

    def one_of(self, *choices: str) -> str:
        return str(self.draw(st.sampled_from(choices)))

    def document(self, value: dict[str, Any], table: tuple[str, ...] = ()) -> str:
        plain, below = "", ""
        for key, inner in value.items():
            style = self.one_of("pair", "table")
            if isinstance(inner, dict) and style == "table":
                head = self.one_of(" . ", ".").join(self.key(k) for k in (*table, key))
                below += self.trash() + f"[{head}]" + self.one_of("", " # a comment [not.a.table]") + "\n"
                below += self.document(inner, (*table, key))
            elif (
                isinstance(inner, list)
                and inner
                and all(isinstance(i, dict) for i in inner)
                and style == "table"
            ):
                for element in inner:
                    below += "[[" + ".".join(self.key(k) for k in (*table, key)) + "]]\n"
                    below += self.document(element, (*table, key))
            else:
                plain += self.trash() + self.pair(key, inner) + self.one_of("", " # = 1") + "\n"
        return plain + below

    def pair(self, key: str, value: Any) -> str:
        if isinstance(value, dict) and len(value) == 1 and self.draw(st.booleans()):
            ((inner, deep),) = value.items()
            return f"{self.key(key)}{self.one_of('.', ' . ')}{self.pair(inner, deep)}"
        return f"{self.key(key)}{self.one_of('=', ' = ')}{self.value(value)}"

    def key(self, key: str) -> str:
        bare = key and all(c.isascii() and (c.isalnum() or c in "-_") for c in key)
        if bare and self.draw(st.booleans()):
            return key
        return f"'{key}'" if "'" not in key and self.draw(st.booleans()) else json.dumps(key)

    def value(self, value: Any) -> str:
        if isinstance(value, dict):
            return "{ " + ", ".join(self.pair(k, v) for k, v in value.items()) + " }"
        if isinstance(value, list):
            gap = self.one_of("", " ", "\n", "\n  # a comment, with ] and '''\n")
            end = self.one_of("", ",") if value else ""
            return "[" + gap + ("," + gap).join(self.value(v) for v in value) + gap + end + gap + "]"
        return self.string(value) if isinstance(value, str) else json.dumps(value)

    def string(self, text: str) -> str:
        ways = [json.dumps(text)]
        if "'" not in text and "\n" not in text:
            ways.append(f"'{text}'")
        if "'" not in text:
            ways.append(f"'''\n{text}'''")
        if "\\" not in text and '"' not in text:
            ways.append(f'"""{text}\\\n   """' if not text.startswith("\n") else json.dumps(text))
        ways.append(
            '"""' + text.replace("\\", "\\\\").replace('"', '\\"') + '"""' if text[:1] != "\n" else ways[0]
        )
        if text in ('"', '""'):
            ways.append(f'"""{text}"""')  # up to two quotes may stand before the closing three
        if text in ("'", "''"):
            ways.append(f"'''{text}'''")
        return self.one_of(*ways)

    def trash(self) -> str:
        return self.one_of("", "\n", "  ", "# [a.comment] = 'x\n")


@st.composite
def written(draw: Any) -> str:
    return Writer(draw).document(draw(documents))


@settings(max_examples=300)
@given(written())
def test_the_paths_are_those_of_the_standard_parser(text: str) -> None:
    assert set(positions(text)) == paths(tomllib.loads(text))


@settings(max_examples=300)
@given(written())
def test_every_key_stands_where_it_is_said_to(text: str) -> None:
    lines = text.split("\n")
    for path, position in positions(text).items():
        key, rest = path[-1], lines[position.line - 1][position.column - 1 :]
        if isinstance(key, str):
            assert rest.startswith((key, json.dumps(key), f"'{key}'"))
        else:
            assert rest.strip(), "an element begins here"


def test_lines_of_a_plan() -> None:
    text = '''a = 1
[t]                     # a table
x.y = [1,
  { k = "v" },          # an element
]
[[r]]
n = """
three
lines"""
m = 2
[[r]]
n = 3
[r.s]
'''
    found = {path: (p.line, p.column) for path, p in positions(text).items()}
    assert found[("t", "x", "y")] == (3, 3)
    assert found[("t", "x", "y", 1)] == (4, 3)
    assert found[("t", "x", "y", 1, "k")] == (4, 5)
    assert found[("r", 0, "m")] == (10, 1)
    assert found[("r", 1)] == (11, 3)
    assert found[("r", 1, "s")] == (13, 4)


def test_tables_in_tables_are_counted_anew() -> None:
    found = positions("[[a]]\n[[a.b]]\n[[a.b]]\n[[a]]\n[[a.b]]\nx = 1\n")
    assert found[("a", 1, "b", 0, "x")].line == 6
    assert ("a", 1, "b", 1) not in found


def test_a_table_opened_late_is_found_at_its_header() -> None:
    found = positions("[a.b]\nx = 1\n[a]\ny = 2\n")
    assert found[("a",)].line == 3


def test_an_escaped_quote_does_not_end_a_long_string() -> None:
    found = positions('a = """\\"""x = 1\n[no]\n"""\nb = 1\n')
    assert set(found) == {("a",), ("b",)}


def test_windows_line_ends() -> None:
    assert positions("a = 1\r\nb = 2\r\n")[("b",)].line == 2
