//! What this library and the pager map for themselves is not in a region, swap space bypasses the system's cache, and the pager's threads are marked: their
//! `mmap`, `open64` and `pthread_create` are others than those which programs find here.

fn main() {
    for name in ["mmap", "mmap64", "open64", "pthread_create"] {
        println!("cargo::rustc-link-arg-cdylib=-Wl,--wrap={name}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
