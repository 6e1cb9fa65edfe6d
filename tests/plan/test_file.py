"""Plan files that cannot even be read get a sentence too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fsdyno.errors import Exit, UserError
from fsdyno.plan import load


def error_of(path: Path) -> UserError:
    with pytest.raises(UserError) as caught:
        load(path, schema={}, describe={})
    return caught.value


def test_a_missing_file(tmp_path: Path) -> None:
    error = error_of(tmp_path / "none.toml")
    assert error.code is Exit.PLAN
    assert str(error).startswith(f"{tmp_path}/none.toml: cannot be read: No such file or directory\n")


def test_a_folder(tmp_path: Path) -> None:
    assert "Is a directory" in str(error_of(tmp_path))


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "image.toml"
    path.write_bytes(b"a = 1\n\xff\xfe")
    assert "is not UTF-8 text (byte 6)" in str(error_of(path))


def test_an_empty_file(tmp_path: Path, schema: dict[str, Any], describe: dict[str, Any]) -> None:
    path = tmp_path / "empty.toml"
    path.touch()
    with pytest.raises(UserError) as caught:
        load(path, schema=schema, describe=describe)
    assert str(caught.value).splitlines() == [
        f'{path}: missing key "question": what should the numbers answer?',
        f'{path}: missing table "[trial]": the stack and the phases to run on it',
    ]
