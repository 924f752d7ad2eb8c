# `make test` installs what the tests need and runs them all; `make lint` checks form.

.PHONY: test lint tools

test: tools
	cargo test --workspace --locked
	cargo test -p forebay-pool --features model-check --lib --locked model_check
	cargo build --release --locked
	target/test-tools/bin/python tests/outside_readers.py target/release/forebay
	cargo build -p forebay-report --example gallery --locked
	target/test-tools/bin/python tests/report_in_browser.py target/release/forebay target/debug/examples/gallery
	bench/check.sh target/release/forebay
	/usr/bin/python3 tests/volumes_with_real_clients.py target/release/forebay

lint:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
	cargo check --manifest-path fuzz/Cargo.toml --locked

tools:
	tests/install-tools.sh
