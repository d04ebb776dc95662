# The two targets a newcomer needs are `make demo` and `make test`; both install what they miss.
.PHONY: demo test build
.DEFAULT_GOAL := build

build:
	@scripts/deps build
	cargo build --release

test:
	@scripts/deps build test apps
	cargo test --workspace --locked
	apps/test/run
