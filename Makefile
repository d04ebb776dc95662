# The two targets a newcomer needs are `make demo` and `make test`; both install what they miss.
.PHONY: demo test build faults matrix soak bench calibrate injector-matrix
.DEFAULT_GOAL := build

build:
	@scripts/deps build
	cargo build --release

# Which set-up is best for an Action Cable application: five minutes of real servers, a table, an answer and a report.
demo: build
	@scripts/deps apps target
	@mkdir -p target/demo && rm -f target/demo/demo.unbloat*
	target/release/unbloat compare demo --output target/demo/demo.unbloat

test:
	@scripts/deps build test apps
	cargo test --workspace --locked
	apps/test/run
	@if [ "$$(id -u)" = 0 ]; then scripts/matrix $(OTHER_DEBIAN); else echo "left out, as it needs root: scripts/matrix $(OTHER_DEBIAN)"; fi

# Of the two Debians that every change is tested on, the one that this machine is not.
OTHER_DEBIAN = $(shell grep -q trixie /etc/os-release && echo bookworm || echo trixie)

# Ten minutes: the nth write, truncation or sync on the file of `record` fails, and all later ones, for each n up to 120. CI takes four of them.
faults:
	UNBLOAT_FAULTS_LONG=1 cargo test -p unbloat --locked --test record_faults

# The tests of the heap, of inspect and of trim on the glibc, Ruby and allocators of Debian 11, 12, 13 and sid.
matrix:
	@scripts/deps build test
	scripts/matrix

# An hour or more: fork storms, 10,000 collections with trims, CRuby's own tests under `unbloat run`; 1,000 trims each of a
# program that is in malloc all the time and of a loaded Puma, unbloat killed in half of them.
soak:
	@scripts/deps build test
	cargo build --release --locked
	scripts/soak
	scripts/soak --policy arenas=1,trim=adaptive forks
	scripts/soak --policy arenas=1,trim=adaptive collections
	UNBLOAT_SOAK=1000 cargo test --release --locked -p unbloat --test trim soak -- --nocapture --test-threads=1

# Half an hour: the simulations behind docs/method/compare.md, with twenty times as many experiments as in `make test`. Prints
# the figures that the page quotes.
calibrate:
	@scripts/deps build
	UNBLOAT_CALIBRATION=20 cargo test --release --locked -p unbloat-stats --test calibration -- --nocapture

# Hours: every measurement of bench/ beside its peers. Each can be run by itself.
bench:
	@scripts/deps build test apps bench
	@scripts/peers
	cargo build --release --locked -p unbloat -p unbloat-load-servers
	@for script in bench/*; do [ ! -f "$$script" ] || [ ! -x "$$script" ] || { echo "$$script" && "$$script"; } || exit 1; done

# Every kind of wait, at every step of a borrowed call, with everything that can happen, and pairs: hours.
injector-matrix:
	UNBLOAT_INJECTOR_MATRIX=1 cargo test --locked -p unbloat-process --lib remote::tests::matrix -- --include-ignored --nocapture --test-threads=1
