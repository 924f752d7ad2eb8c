//! A mounted directory for a test.

#![allow(dead_code, reason = "each test program uses some of it")]

use forebay_extents::{Asked, Extents};
use forebay_fuse::{Mount, Mounts, Options};
use forebay_policy::Spec;
use forebay_pool::{Config, Pool};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long anything may take before a test fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct Mounted {
    pub(crate) mount: Mount,
    pub(crate) mounts: Mounts,
    pub(crate) pool: Arc<Pool>,
    folder: tempfile::TempDir,
}

/// Whether a directory can be mounted here: by root, with /dev/fuse. Elsewhere the test says that it is skipped; in CI that is a failure.
pub(crate) fn can_mount() -> bool {
    if rustix::process::geteuid().is_root() && Path::new("/dev/fuse").exists() {
        return true;
    }
    assert!(std::env::var_os("CI").is_none(), "a mount needs root and /dev/fuse, and CI skips nothing");
    // Straight to the stream: what eprintln prints in a test that passes is not shown.
    std::io::stderr()
        .write_all(b"skipped: a mount needs root and /dev/fuse\n")
        .expect("standard error can be written to");
    false
}

impl Mounted {
    /// A new folder behind a mebibyte under lru, and what `change` makes of that.
    #[track_caller]
    pub(crate) fn start(change: impl FnOnce(&mut Options, &mut Config)) -> Option<Self> {
        Self::over(tempfile::tempdir().expect("a folder"), change)
    }

    /// The same of what another mount has left.
    #[track_caller]
    pub(crate) fn over(folder: tempfile::TempDir, change: impl FnOnce(&mut Options, &mut Config)) -> Option<Self> {
        Self::knowing(None, folder, change)
    }

    /// The same, with a policy that goes by where files lie.
    #[track_caller]
    pub(crate) fn knowing(
        extents: Option<(Arc<Extents>, Asked)>,
        folder: tempfile::TempDir,
        change: impl FnOnce(&mut Options, &mut Config),
    ) -> Option<Self> {
        if !can_mount() {
            return None;
        }
        let [source, seen] = ["source", "seen"].map(|name| folder.path().join(name));
        [&source, &seen].iter().for_each(|folder| std::fs::create_dir_all(folder).expect("a folder"));
        let mut options = Options::new(&source, &seen);
        options.allow_other = true;
        let mut config = Config::new(1 << 20, Spec::parse("lru").expect("a policy"));
        change(&mut options, &mut config);
        let pool = Arc::new(Pool::new(config).expect("a pool"));
        let mut mounts = Mounts::new(Arc::clone(&pool), Vec::new()).expect("a pool for mounts");
        if let Some((extents, asked)) = extents {
            mounts = mounts.with_extents(extents, asked).expect("a thread");
        }
        let mount = mounts.add(options, || {}).expect("a mount");
        Some(Self { mount, mounts, pool, folder })
    }

    /// A path as programs see it.
    pub(crate) fn seen(&self, name: &str) -> PathBuf {
        self.folder.path().join("seen").join(name)
    }

    /// The same path below.
    pub(crate) fn below(&self, name: &str) -> PathBuf {
        self.folder.path().join("source").join(name)
    }

    /// Unmounts it in order; the folder is left.
    #[track_caller]
    pub(crate) fn stop(self) -> tempfile::TempDir {
        self.mount.stop(PATIENCE, PATIENCE).expect("everything is flushed");
        self.folder
    }
}

/// Waits until something holds.
#[track_caller]
pub(crate) fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "waited {PATIENCE:?} in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Bytes of which no two blocks are equal.
pub(crate) fn pattern(seed: u8, length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 7 * 31 + at / 4096 * 17) as u8 ^ seed).collect()
}
