# The two targets a newcomer needs are `make demo` and `make test`; both install what they miss.
.PHONY: demo test build matrix soak bench
.DEFAULT_GOAL := build

build:
	@scripts/deps build
	cargo build --release

# A real Puma: started, kept busy, inspected, explained.
demo: build
	@scripts/deps demo
	demo/run

test:
	@scripts/deps build test apps
	cargo test --workspace --locked
	apps/test/run
	@if [ "$$(id -u)" = 0 ]; then scripts/matrix $(OTHER_DEBIAN); else echo "left out, as it needs root: scripts/matrix $(OTHER_DEBIAN)"; fi

# Of the two Debians that every change is tested on, the one that this machine is not.
OTHER_DEBIAN = $(shell grep -q trixie /etc/os-release && echo bookworm || echo trixie)

# The heap tests on the glibc and Ruby of Debian 11, 12, 13 and sid.
matrix:
	@scripts/deps build test
	scripts/matrix

# An hour or more: fork storms, 10,000 collections with trims, CRuby's own tests under `unbloat run`.
soak:
	@scripts/deps build test
	cargo build --release --locked
	scripts/soak

# Hours: every measurement of bench/ beside its peers. Each can be run by itself.
bench:
	@scripts/deps build test apps bench
	cargo build --release --locked
	@for script in bench/*; do [ ! -f "$$script" ] || [ ! -x "$$script" ] || { echo "$$script" && "$$script"; } || exit 1; done
