//! What this library and the pager map for themselves is not in a region, and swap space bypasses the system's cache: their `mmap` and `open64` are others
//! than those which programs find here.

fn main() {
    for name in ["mmap", "mmap64", "open64"] {
        println!("cargo::rustc-link-arg-cdylib=-Wl,--wrap={name}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
