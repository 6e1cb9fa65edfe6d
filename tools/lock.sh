#!/usr/bin/env bash
# Writes the two locks anew from pyproject.toml: versions and hashes, no download addresses.
# Needs pip-tools, which is no dependency of fsdyno: pip install pip-tools.
set -euo pipefail
cd "$(dirname "$0")/.."

options=(--quiet --generate-hashes --allow-unsafe --strip-extras --no-header
         --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-emit-options)
runtime=$(mktemp) development=$(mktemp)
trap 'rm -f "$runtime" "$development"' EXIT
printf 'setuptools>=77\n' | cat - <(python3 -c '
import tomllib
print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")') >"$runtime.in"
python3 -c '
import tomllib
print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["dev"], sep="\n")' >"$development.in"
trap 'rm -f "$runtime" "$development" "$runtime.in" "$development.in"' EXIT

pip-compile "${options[@]}" --no-annotate --output-file "$runtime" "$runtime.in"
pip-compile "${options[@]}" --no-annotate --constraint "$runtime" --output-file "$development" "$runtime.in" "$development.in"
{ echo "# What fsdyno runs on, with hashes. Written by tools/lock.sh."; cat "$runtime"; } >requirements.lock
{ echo "# The same, and what tests and checks need. Written by tools/lock.sh."; cat "$development"; } >requirements-dev.lock
