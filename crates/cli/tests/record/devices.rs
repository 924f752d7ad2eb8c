//! A real block device and a partition of it, recorded by the kernel's tracepoints.

use crate::{ended, folder, has, is_root, rows, signal, skip_unless, text, wait_until};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

#[test]
fn a_disk_is_recorded_while_a_program_runs_and_its_tracing_goes() {
    if !(has("losetup") && skip_unless(is_root(), "only root records devices")) {
        return;
    }
    let folder = folder();
    let image = folder.path().join("image");
    fs::File::create(&image).and_then(|file| file.set_len(16 << 20)).unwrap();
    let attached = Command::new("losetup").args(["--find", "--show"]).arg(&image).output().unwrap();
    if !skip_unless(attached.status.success(), "no loop device can be made here") {
        return;
    }
    let device = Loop(text(&attached.stdout).trim().to_owned());
    // The tracing is mounted for what runs here alone.
    let traced_on = |out: &Path, device: &str, more: &[&str]| {
        let mount = "mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing; exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args([
            "-m",
            "env",
            "--default-signal=INT,HUP",
            "sh",
            "-c",
            mount,
            "sh",
            env!("CARGO_BIN_EXE_forebay"),
            "record",
            "-o",
        ]);
        command.arg(out).args(["--blocks", device]).args(more).process_group(0);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    };
    let traced = |out: &Path, more: &[&str]| traced_on(out, &device.0, more);
    let tracing = |child: &Child| format!("/proc/{0}/root/sys/kernel/tracing/instances/forebay-{0}", child.id());
    let enabled = |child: &Child| {
        let enabled = format!("{}/events/block/block_bio_queue/enable", tracing(child));
        fs::read_to_string(enabled).is_ok_and(|is| is.starts_with('1'))
    };
    let read = format!("if={}", device.0);
    let dd = |more: &[&str]| {
        let read = Command::new("dd").args([&read, "of=/dev/null"]).args(more).stderr(Stdio::null()).status();
        read.unwrap().success()
    };
    let out = folder.path().join("t.parquet");
    let output =
        ended(traced(&out, &["--", "dd", &read, "of=/dev/null", "bs=8k", "count=20", "iflag=direct"]).spawn().unwrap());
    let err = text(&output.stderr);
    if !skip_unless(!err.contains("mount -t tracefs"), "the kernel has no tracing") {
        return;
    }
    assert!(output.status.success() && err.contains("pages of 8 KiB, from the requests"), "{err}");
    let rows = rows(&out);
    let mine: Vec<_> = rows.iter().filter(|row| row[0].starts_with("dd/")).collect();
    let expected: Vec<String> = (0..20).map(|block| format!("read {}+8192", block * 8192)).collect();
    assert_eq!(mine.iter().map(|row| format!("{} {}+{}", row[4], row[2], row[3])).collect::<Vec<_>>(), expected);

    // At its limit it ends by itself, and knows of a partition where it begins.
    let partition = ["1", "2048", "4096"];
    let added = Command::new("addpart").arg(&device.0).args(partition).status().is_ok_and(|status| status.success());
    let part = format!("{}p1", device.0);
    let out = folder.path().join("part.parquet");
    let number = fs::read_to_string(format!("/sys/class/block/{}/dev", part.trim_start_matches("/dev/")));
    if skip_unless(added && number.is_ok(), "no partition can be made here") {
        let numbers = number.unwrap();
        let (major, minor) = numbers.trim().split_once(':').expect("two numbers");
        let node = folder.path().join("part");
        assert!(Command::new("mknod").arg(&node).args(["b", major, minor]).status().unwrap().success());
        let child = traced_on(&out, node.to_str().unwrap(), &["--limit", "3"]).spawn().unwrap();
        wait_until("the partition is traced", || enabled(&child));
        // Below the partition, in it, behind it.
        for skip in ["8", "257", "1000"] {
            assert!(dd(&["bs=4k", "count=7", "iflag=direct", &format!("skip={skip}")]));
        }
        let output = ended(child);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let offsets: Vec<_> = crate::rows(&out).into_iter().map(|row| row[2].clone()).collect();
        assert_eq!(offsets, ["4096", "8192", "12288"]);
    }

    for name in ["INT", "TERM", "HUP"] {
        let out = folder.path().join(format!("{name}.parquet"));
        let child = traced(&out, &[]).spawn().unwrap();
        let tracing = tracing(&child);
        // The signal must not come before it is listened to; then reads go on until one is recorded.
        wait_until("the device is traced", || enabled(&child));
        assert!(dd(&["bs=4k", "count=7", "iflag=direct"]));
        signal(name, &child.id().to_string());
        let output = ended(child);
        assert!(output.status.success(), "{name}: {}", text(&output.stderr));
        assert_eq!(crate::rows(&out).iter().filter(|row| row[0].starts_with("dd/")).count(), 7, "{name}");
        assert!(!Path::new(&tracing).exists(), "{name}: {tracing} is left");
    }
}

/// A loop device, which goes with its partition when it is dropped.
struct Loop(String);

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("delpart").args([&self.0, "1"]).stderr(Stdio::null()).status();
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}
