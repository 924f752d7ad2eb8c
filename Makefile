# `make test` installs what the tests need and runs them all; `make install`, `deb`, `static`, `container` and `wheel` make packages (docs/installing.md); `make lint` checks form. `make attack` runs all attacks on the built program
# at full length, some 30 minutes, and `make attack-soak` all at once for an hour.

# The registries of policies and of formats make their modules by a macro: `cargo fmt` does not find them, rustfmt by name does.
SOURCES = $(shell find crates bench examples fuzz -name '*.rs' -not -path '*/target/*')

# The processor's name in the targets of compilers.
MACHINE = $(shell uname -m)
STATIC = target/$(MACHINE)-unknown-linux-musl/dist/forebay

.PHONY: test lint fmt tools attack attack-soak install deb static container wheel

# Our crates are optimised for tests, too: what runs the program from outside takes the one that is built already.
# What is installed mostly waits for the network, and what is built computes.
test:
	tests/install-tools.sh & tools=$$!; cargo test --workspace --locked --no-run; built=$$?; wait $$tools && exit $$built
	cargo test --workspace --locked
	target/test-tools/bin/python tests/outside_readers.py target/debug/forebay
	target/test-tools/bin/python tests/monitoring.py target/debug/forebay
	cargo build --workspace --example gallery --locked
	target/test-tools/bin/python tests/report_in_browser.py target/debug/forebay target/debug/examples/gallery
	target/test-tools/bin/python tests/explain_in_browser.py target/debug/forebay
	bench/check.sh target/debug/forebay
	# The package mostly computes, and clients of volumes mostly wait.
	tests/python_package.sh target/debug >target/python-package.log 2>&1 & package=$$!; \
	/usr/bin/python3 tests/volumes_with_real_clients.py target/debug/forebay; volumes=$$?; \
	wait $$package; package=$$?; cat target/python-package.log; exit $$((volumes | package))
	python3 tests/attack/run.py --quick --program target/debug/forebay

lint:
	rustfmt --check $(SOURCES)
	tests/nothing-generated.sh
	tests/house-is-drawn.sh
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
	cargo check --manifest-path fuzz/Cargo.toml --locked --target-dir target

fmt:
	rustfmt $(SOURCES)

attack: tools
	cargo build --release --locked
	/usr/bin/python3 tests/attack/run.py --full --program target/release/forebay --json target/attack.json

attack-soak: tools
	cargo build --release --locked
	python3 tests/attack/run.py --soak 60 --program target/release/forebay --json target/attack-soak.json

tools:
	tests/install-tools.sh

# One build makes all three.
install:
	cargo build --locked --profile dist -p forebay -p forebay-advise -p forebay-paged
	install -D -t $${CARGO_HOME:-$$HOME/.cargo}/bin $${CARGO_TARGET_DIR:-target}/dist/forebay
	install -D -t $${CARGO_HOME:-$$HOME/.cargo}/lib/forebay $${CARGO_TARGET_DIR:-target}/dist/libforebay_advise.so $${CARGO_TARGET_DIR:-target}/dist/libforebay_paged.so

deb:
	command -v cargo-deb >/dev/null || cargo install --locked cargo-deb@3.8.0
	cargo build --locked --profile dist -p forebay -p forebay-advise -p forebay-paged
	rm -rf target/manual target/completions
	target/dist/forebay manual target/manual
	mkdir -p target/completions
	target/dist/forebay completions bash >target/completions/forebay
	target/dist/forebay completions zsh >target/completions/_forebay
	target/dist/forebay completions fish >target/completions/forebay.fish
	cargo deb --no-build --profile dist -p forebay

static:
	command -v musl-gcc >/dev/null || { echo "musl-gcc is missing: apt-get install musl-tools" >&2; exit 1; }
	rustup target add $(MACHINE)-unknown-linux-musl
	cargo build --locked --profile dist -p forebay --target $(MACHINE)-unknown-linux-musl
	@echo "made $(STATIC)"

container: static
	mkdir -p target/container
	cp $(STATIC) contrib/Containerfile target/container/
	if command -v podman >/dev/null; then podman build -t forebay target/container; else docker build -t forebay -f target/container/Containerfile target/container; fi

# The wheels' machines. Zig is the compiler and linker for C: it has the libraries of every machine, and of glibc as old as the wheels are for.
WHEELS = x86_64 aarch64

# maturin takes what is in the folder forebay._forebay.data into the wheel. The static program goes along as a script of the wheel: it needs no library of the machine, whatever Linux pip runs on.
wheel:
	[ -x target/wheel-tools/bin/maturin ] || python3 -m venv target/wheel-tools
	target/wheel-tools/bin/python -m pip install --quiet --disable-pip-version-check -r contrib/wheel-requirements.txt
	rm -rf target/wheels
	for machine in $(WHEELS); do PATH=$$PWD/target/wheel-tools/bin:$$PATH contrib/wheel.sh $$machine target/wheels || exit 1; done
	target/wheel-tools/bin/maturin sdist --manifest-path crates/python/Cargo.toml --out target/wheels
	ls -l target/wheels
