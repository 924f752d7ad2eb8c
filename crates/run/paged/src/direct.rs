//! Files that the program opens to bypass the system's cache (`O_DIRECT`): here they do not. The system writes what it reads from such a file to memory whose
//! page it has looked up before, and which may leave meanwhile: the bytes would be lost. Through its cache they are the same, and none is lost.

use crate::real::{self, Next};
use libc::{F_SETFL, O_DIRECT, c_char, c_int, c_long, mode_t};

/// The flags without that, in programs that are paged.
fn buffered(flags: c_int) -> c_int {
    if flags & O_DIRECT != 0 && std::env::var_os(forebay_run_shared::VARIABLE).is_some() {
        flags & !O_DIRECT
    } else {
        flags
    }
}

macro_rules! opening {
    ($($name:ident as $symbol:literal ($($argument:ident: $type:ty),*) $flags:ident ($($rest:ident: $more:ty),*);)*) => {$(
        /// Those who declare it with `...` pass as much, or what is not looked at.
        ///
        /// # Safety
        /// As of `open(2)`.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name($($argument: $type,)* $flags: c_int $(, $rest: $more)*) -> c_int {
            static FUNCTION: Next = Next::new($symbol);
            type Function = unsafe extern "C" fn($($type,)* c_int $(, $more)*) -> c_int;
            let Some(found) = FUNCTION.find() else { return real::missing() };
            // SAFETY: the function of that name has this type; the caller's arguments.
            unsafe { std::mem::transmute::<usize, Function>(found)($($argument,)* buffered($flags) $(, $rest)*) }
        }
    )*};
}

opening! {
    open as c"open" (path: *const c_char) flags (mode: mode_t);
    open64 as c"open64" (path: *const c_char) flags (mode: mode_t);
    __open_2 as c"__open_2" (path: *const c_char) flags ();
    __open64_2 as c"__open64_2" (path: *const c_char) flags ();
    openat as c"openat" (folder: c_int, path: *const c_char) flags (mode: mode_t);
    openat64 as c"openat64" (folder: c_int, path: *const c_char) flags (mode: mode_t);
    __openat_2 as c"__openat_2" (folder: c_int, path: *const c_char) flags ();
    __openat64_2 as c"__openat64_2" (folder: c_int, path: *const c_char) flags ();
}

/// What the linker has this library's own code call for `open64` (build.rs).
///
/// # Safety
/// As of `open(2)`.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn __wrap_open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int {
    // SAFETY: the caller's arguments, as wide as the kernel takes them.
    unsafe { libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path, c_long::from(flags), c_long::from(mode)) as c_int }
}

macro_rules! controlling {
    ($($name:ident as $symbol:literal;)*) => {$(
        /// # Safety
        /// As of `fcntl(2)`.
        #[unsafe(no_mangle)]
        pub(crate) unsafe extern "C" fn $name(file: c_int, command: c_int, argument: usize) -> c_int {
            static FUNCTION: Next = Next::new($symbol);
            let Some(found) = FUNCTION.find() else { return real::missing() };
            let argument = if command == F_SETFL { buffered(argument as c_int) as usize } else { argument };
            // SAFETY: the function of that name takes one argument at most after these, as wide as this; the caller's arguments.
            unsafe {
                std::mem::transmute::<usize, unsafe extern "C" fn(c_int, c_int, ...) -> c_int>(found)(file, command, argument)
            }
        }
    )*};
}

controlling! {
    fcntl as c"fcntl";
    fcntl64 as c"fcntl64";
}
