# fsdyno: `make demo` measures this machine's file systems, `make test` and `make check` judge the code.

STORE ?= fsdyno.sqlite
PLAN ?= plans/quickstart.toml
BIN := .venv/bin

.PHONY: demo setup setup-dev agent guest test check format lock clean
.DEFAULT_GOAL := demo

demo: setup agent ## measure, print the table, write report.html
	@$(BIN)/fsdyno run $(PLAN) --store $(STORE) || [ $$? -eq 9 ]
	@$(BIN)/fsdyno report --store $(STORE) --html report.html

setup: ## packages and the virtual environment
	@tools/setup.sh

setup-dev: ## the same, and what tests and checks need
	@tools/setup.sh --dev

agent: ## the release build of the agent, one static binary
	@command -v cargo >/dev/null || { echo "no cargo: install Rust 1.91 or newer with rustup" >&2; exit 4; }
	cargo build --release --locked --quiet

guest: setup-dev ## a kernel for guests in the cache; without one, what needs it is skipped
	@$(BIN)/fsdyno guest setup || { [ $$? -eq 4 ] && echo "no kernel for guests: what needs one is skipped" >&2; }

test: setup-dev agent guest ## all tests; those that need root are skipped, visibly, without it
	@[ $$(id -u) = 0 ] || echo "not root: all tests on loop devices, mounts and kills are skipped"
	cargo test --workspace --locked --quiet
	$(BIN)/python -m pytest

check: setup-dev ## formatters, linters and type checkers of both languages
	@cargo fmt --version >/dev/null 2>&1 || { echo "no rustfmt: rustup component add rustfmt" >&2; exit 4; }
	@cargo clippy --version >/dev/null 2>&1 || { echo "no clippy: rustup component add clippy" >&2; exit 4; }
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked --quiet -- -D warnings
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

format: setup-dev ## write all code as the formatters want it
	cargo fmt --all
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lock: ## renew the locks (needs pip-tools)
	tools/lock.sh

clean: ## remove what was built here; stores and reports stay
	rm -rf target .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
