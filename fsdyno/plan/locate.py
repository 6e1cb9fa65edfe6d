"""Where each key of a TOML file stands. The standard parser forgets positions, and an error without
a line sends a person searching.

`positions` reads text that `tomllib` has already accepted, so it checks nothing: it only follows the
grammar far enough to know which path each key and each array element belongs to.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass

from fsdyno.plan.problems import Path

_BARE = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")


@dataclass(frozen=True, order=True)
class Position:
    """Line and column, both from 1."""

    line: int
    column: int


def positions(text: str) -> dict[Path, Position]:
    """The position of every key and array element, by path."""
    scanner = _Scanner(text.replace("\r\n", "\n"))
    scanner.document()
    return scanner.found


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.found: dict[Path, Position] = {}
        self.array_tables: dict[Path, int] = {}  # path of [[array]] -> index of its last element
        self.starts = [0] + [i + 1 for i, c in enumerate(text) if c == "\n"]

    # ---- document level -------------------------------------------------------------------------

    def document(self) -> None:
        table: Path = ()
        while True:
            self.blank(newlines=True)
            if self.at >= len(self.text):
                return
            if self.peek("[["):
                self.at += 2
                table = self.header(array=True)
                self.at += 2
            elif self.peek("["):
                self.at += 1
                table = self.header(array=False)
                self.at += 1
            else:
                self.pair(table)

    def header(self, *, array: bool) -> Path:
        path: Path = ()
        keys = self.dotted()
        for index, (key, start) in enumerate(keys):
            last = index == len(keys) - 1
            path = (*path, key)
            if array and last:
                self.array_tables[path] = self.array_tables.get(path, -1) + 1
                self.note(path, start)
                path = (*path, self.array_tables[path])
                self.note(path, start)
            else:
                self.note(path, start, explicit=last)
                if path in self.array_tables:
                    path = (*path, self.array_tables[path])
        return path

    def pair(self, table: Path) -> None:
        path = table
        for key, start in self.dotted():
            path = (*path, key)
            self.note(path, start)
        self.blank()
        self.at += 1  # the equals sign
        self.blank()
        self.value(path)

    # ---- values ---------------------------------------------------------------------------------

    def value(self, path: Path) -> None:
        if self.peek("["):
            self.array(path)
        elif self.peek("{"):
            self.inline_table(path)
        elif self.peek('"') or self.peek("'"):
            self.string()
        else:
            while self.at < len(self.text) and self.text[self.at] not in ",]}#\n":
                self.at += 1

    def array(self, path: Path) -> None:
        self.at += 1
        index = 0
        while True:
            self.blank(newlines=True)
            if self.peek("]"):
                self.at += 1
                return
            if self.peek(","):
                self.at += 1
                continue
            self.note((*path, index), self.at)
            self.value((*path, index))
            index += 1

    def inline_table(self, path: Path) -> None:
        self.at += 1
        while True:
            self.blank(newlines=True)
            if self.peek("}"):
                self.at += 1
                return
            if self.peek(","):
                self.at += 1
                continue
            self.pair(path)

    def string(self) -> None:
        mark = self.text[self.at]
        if self.peek(mark * 3):
            self.at += 3
            while not self.peek(mark * 3):
                self.at += 2 if mark == '"' and self.peek("\\") else 1
            self.at += 3
            while self.peek(mark):  # up to two marks may belong to the text before the closing three
                self.at += 1
            return
        self.at += 1
        while not self.peek(mark):
            self.at += 2 if mark == '"' and self.peek("\\") else 1
        self.at += 1

    # ---- words ----------------------------------------------------------------------------------

    def dotted(self) -> list[tuple[str, int]]:
        keys = []
        while True:
            self.blank()
            start = self.at
            if self.peek('"') or self.peek("'"):
                self.string()
                key = next(iter(tomllib.loads(f"{self.text[start : self.at]} = 0")))
            else:
                while self.at < len(self.text) and self.text[self.at] in _BARE:
                    self.at += 1
                key = self.text[start : self.at]
            keys.append((key, start))
            self.blank()
            if not self.peek("."):
                return keys
            self.at += 1

    def blank(self, *, newlines: bool = False) -> None:
        while self.at < len(self.text):
            character = self.text[self.at]
            if character in " \t" or (newlines and character == "\n"):
                self.at += 1
            elif character == "#" and newlines:
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return

    def peek(self, word: str) -> bool:
        return self.text.startswith(word, self.at)

    def note(self, path: Path, start: int, *, explicit: bool = False) -> None:
        if explicit or path not in self.found:
            self.found[path] = self.position(start)

    def position(self, offset: int) -> Position:
        from bisect import bisect_right

        line = bisect_right(self.starts, offset)
        return Position(line, offset - self.starts[line - 1] + 1)
