"""Lines for a terminal: words with a style, wrapped so that what is to be pasted stays whole.

No library of tables or markup: what prints by this is asked for often and has to answer at once.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from itertools import accumulate
from unicodedata import combining, east_asian_width

from fsdyno.printing import ReaderLeft, visible

WIDEST = 80  # columns, however wide the terminal is

Span = tuple[str, str]
"""Text and its style: empty, or one of `STYLES`."""

Line = tuple[Span, ...]

STYLES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
_FIXED = "\N{NO-BREAK SPACE}"
_UNIT = re.compile(r"(\d) (?=(?:[KMGTP]i)?B\b|%|bytes\b)")  # a number stays with its unit
_HANG = "  "  # what goes on below a command
NARROWEST = 20  # columns for text, however narrow the terminal is


def rendered(lines: Iterable[Line], *, colour: bool) -> str:
    """Lines as text, each ended, with nothing in it that a terminal obeys but the styles."""
    return "".join("".join(_styled(span, colour) for span in _trimmed(line)) + "\n" for line in lines)


def output(lines: Iterable[Line], *, err: bool = False) -> None:
    """Prints lines, coloured where a terminal is that wants it. Raises `ReaderLeft`."""
    import click

    terminal = (sys.stderr if err else sys.stdout).isatty()
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    try:
        click.echo(rendered(lines, colour=terminal and wanted), nl=False, err=err)
    except BrokenPipeError:
        raise ReaderLeft from None


def _trimmed(line: Line) -> Line:
    """A line without the spaces at its end."""
    while line and not line[-1][0].rstrip():
        line = line[:-1]
    return (*line[:-1], (line[-1][0].rstrip(), line[-1][1])) if line else line


def _styled(span: Span, colour: bool) -> str:
    text, style = clean(span[0]), span[1]
    return f"\x1b[{STYLES[style]}m{text}\x1b[0m" if colour and style and text else text


def clean(text: str) -> str:
    """Text that is one line, and that a terminal only shows."""
    return visible(text.replace("\n", "\\n").replace("\t", "\\t"))


def plain(line: Line) -> str:
    """A line without styles."""
    return "".join(text for text, _ in line)


def columns(text: str) -> int:
    """Columns that a text takes: East Asian wide characters take two (Unicode's UAX #11)."""
    return len(text) if text.isascii() else sum(map(_column, text))


def _column(character: str) -> int:
    return 0 if combining(character) else 2 if east_asian_width(character) in "WF" else 1


def padded(text: str, width: int) -> str:
    """Text with spaces behind it, up to `width` columns."""
    return text + " " * (width - columns(text))


def wrap(text: str, width: int) -> list[str]:
    """Text in lines of at most `width` columns, but for characters that are wider; at least one."""
    width, lines = max(width, NARROWEST), [""]
    for word in _UNIT.sub(f"\\1{_FIXED}", clean(text)).split(" "):
        if not lines[-1]:
            lines[-1] = word
        elif columns(lines[-1]) + 1 + columns(word) <= width:
            lines[-1] += f" {word}"
        else:
            lines[-1] = lines[-1].rstrip(" ")
            lines.append(word)
        while columns(lines[-1]) > width:  # one word: longer ones are begun on a line of their own
            fits = max(1, sum(end <= width for end in accumulate(map(_column, lines[-1]))))
            if fits == len(lines[-1]):
                break
            lines[-1:] = [lines[-1][:fits], lines[-1][fits:]]
    return [line.rstrip(" ").replace(_FIXED, " ") for line in lines]


def labelled(label: str, lines: Iterable[str], *, indent: int, style: str = "") -> list[Line]:
    """Lines beside a label; the texts begin in the same column."""
    column = indent + 10
    head = f"{'':{indent}}{label:<10}"
    return [((head if n == 0 else " " * column, "dim"), (text, style)) for n, text in enumerate(lines)]


def pasteable(command: str, width: int) -> list[str]:
    """A command in lines that a shell reads as the same command: broken between words only, by ` \\`. A
    comment stays one on every line, and what it says to type, after its last colon, stays in one.
    """
    width = max(width, NARROWEST)
    words = _words(clean(command))
    at = next((n for n, word in enumerate(words) if word.startswith("#")), len(words))
    lines: list[str] = []
    for n, word in enumerate(words[:at]):
        room = width if n == at - 1 else width - 2
        if lines and columns(lines[-1]) + 1 + columns(word) <= room:
            lines[-1] += f" {word}"
        else:
            lines.append(f"{_HANG}{word}" if lines else word)
    lines = [f"{line} \\" for line in lines[:-1]] + lines[-1:]
    return lines + _comment(" ".join(words[at:]).lstrip("# "), width) if at < len(words) else lines or [""]


def _words(command: str) -> list[str]:
    """Words as a shell divides them, as they are written."""
    words: list[str] = []
    word, quote, escaped, comment = "", "", False, False
    for character in command:
        if character == " " and not quote and not escaped:
            words += [word] if word else []
            comment, word = comment or word.startswith("#"), ""
            continue
        word += character
        if escaped:
            escaped = False
        elif character == "\\" and quote != "'" and not comment:
            escaped = True
        elif quote:
            quote = "" if character == quote else quote
        elif character in "'\"" and not comment:
            quote = character
    return [*words, word] if word else words


def _comment(text: str, width: int) -> list[str]:
    head, colon, typed = text.rpartition(": ")
    if colon and columns(typed) + 2 <= width:
        lines = wrap(f"{head}:", width - 2)
        if columns(lines[-1]) + 1 + columns(typed) + 2 <= width:
            lines[-1] += f" {typed}"
        else:
            lines.append(typed)
    else:
        lines = wrap(text, width - 2)
    return [f"# {line}" for line in lines]
