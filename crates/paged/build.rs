//! What this library and the pager map for themselves is not in a region: their `mmap` is another than that which programs find here.

fn main() {
    for name in ["mmap", "mmap64"] {
        println!("cargo::rustc-link-arg-cdylib=-Wl,--wrap={name}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
