# A newcomer needs two targets, `make demo` and `make test`; both install missing packages.
.PHONY: demo test build gem packages faults matrix soak bench calibrate injector-matrix neighbor fuzz
.DEFAULT_GOAL := build

build:
	@scripts/deps build
	cargo build --release

# Finds the best setup for an Action Cable application: five minutes of real servers, a table, an answer and a report.
demo: build
	@scripts/deps apps target
	@mkdir -p target/demo && rm -f target/demo/demo.unbloat*
	target/release/unbloat compare demo --output target/demo/demo.unbloat

test:
	@scripts/deps build test apps gem lint
	cargo test --workspace --locked
	apps/test/run
	gem/lint
	gem/run-tests
	@if [ "$$(id -u)" = 0 ]; then scripts/matrix $(OTHER_DEBIAN); else echo "left out, as it needs root: scripts/matrix $(OTHER_DEBIAN)"; fi

# The gem for x86_64-linux, and the one for any platform, into target/gem.
gem: build
	gem/build

# Everything that a release has, into target/packages, and its tests in other Debians. Needs root.
packages:
	@scripts/deps build gem packages
	deploy/packages
	deploy/test/run

# Every change is tested on two Debian releases; this is the one other than this machine's.
OTHER_DEBIAN = $(shell grep -q trixie /etc/os-release && echo bookworm || echo trixie)

# An hour: the nth write, truncation or sync on the file of `record` fails, and all later ones, for each n up to 120; and one system
# call or allocation of `run`, `trim` and `record`, for some 600 of each. CI takes a sample.
faults:
	@scripts/deps build test
	UNBLOAT_FAULTS_LONG=1 cargo test -p unbloat --locked --test record_faults --test faults -- --nocapture

# The tests of the heap, of inspect and of trim on the glibc, Ruby and allocators of Debian 11, 12, 13 and sid.
matrix:
	@scripts/deps build test
	scripts/matrix

# An hour or more: fork storms, 10,000 collections with trims, CRuby's own tests under `unbloat run`; 1,000 trims each of a
# program that is always inside malloc and of a loaded Puma, with unbloat killed in half of them.
soak:
	@scripts/deps build test soak
	cargo build --release --locked
	scripts/soak
	scripts/soak --policy arenas=1,trim=adaptive forks
	scripts/soak --policy arenas=1,trim=adaptive collections
	UNBLOAT_SOAK=1000 cargo test --release --locked -p unbloat --test trim soak -- --nocapture --test-threads=1

# Half an hour: the simulations behind docs/method/compare.md, with twenty times as many experiments as in `make test`. Prints
# the figures quoted on that page.
calibrate:
	@scripts/deps build
	UNBLOAT_CALIBRATION=20 cargo test --release --locked -p unbloat-stats --test calibration -- --nocapture

# Hours: every measurement of bench/, compared with its peers. Each can be run separately.
bench:
	@scripts/deps build test apps bench
	@scripts/peers
	cargo build --release --locked -p unbloat -p unbloat-load-servers
	@for script in bench/*; do [ ! -f "$$script" ] || [ ! -x "$$script" ] || { echo "$$script" && "$$script"; } || exit 1; done

# Hours: every kind of wait, at every step of a borrowed call, with every possible event and pairs of events. STEP=8 takes every eighth cell.
STEP ?= 1
injector-matrix:
	UNBLOAT_INJECTOR_MATRIX=$(STEP) cargo test --locked -p unbloat-process --lib remote::tests::matrix -- --include-ignored --nocapture --test-threads=1

# An hour: another user's processes attack root's commands, a hundred times over. Needs root.
neighbor:
	@[ "$$(id -u)" = 0 ] || { echo "needs root: only root is worth attacking, and can become somebody else"; exit 1; }
	cargo test --locked -p unbloat --test neighbor --no-run
	@for round in $$(seq $(or $(ROUNDS),100)); do echo "round $$round"; cargo test --locked -q -p unbloat --test neighbor || exit 1; done

# Every fuzz target for FUZZ_SECONDS (an hour), at low priority, with the stable compiler: the flags are those of cargo-fuzz but
# for the sanitizers, which need a nightly one. A finding becomes a test beside the parser.
FUZZ_HOST = $(shell rustc -vV | sed -n 's/^host: //p')
FUZZ_FLAGS = --cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
  -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks
fuzz:
	RUSTFLAGS="$(FUZZ_FLAGS)" cargo build --release --locked --manifest-path fuzz/Cargo.toml --target $(FUZZ_HOST)
	@for target in $(or $(FUZZ_TARGETS),$$(cd fuzz/fuzz_targets && ls *.rs | sed 's/\.rs$$//')); do \
	  mkdir -p fuzz/corpus/$$target fuzz/artifacts/$$target && nice -n 19 fuzz/target/$(FUZZ_HOST)/release/$$target fuzz/corpus/$$target \
	  -artifact_prefix=fuzz/artifacts/$$target/ -max_total_time=$(or $(FUZZ_SECONDS),3600) -max_len=4096 -timeout=30 -rss_limit_mb=2048 || exit 1; done
