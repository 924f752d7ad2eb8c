//! What requests cost on each kind of device, worked by hand; and what holds of every preset.

use forebay_basis::{DeviceCost, Place};
use forebay_model::presets::{self, PRESETS};
use forebay_model::{Cost, Kind, Model, SimulatedDevice};
use proptest::prelude::*;

/// A device whose pages have 1,000 bytes: at 1 MB/s a page takes 1 ms.
fn device(toml: &str) -> SimulatedDevice {
    SimulatedDevice::new(&toml.parse::<Model>().expect("a model"), 1000)
}

/// The device time of each user's request, a list of blocks of one object that miss.
fn times(device: &mut SimulatedDevice, requests: &[&[u64]]) -> Vec<f64> {
    let mut before = device.cost(1).device_ms;
    let mut times = Vec::new();
    for request in requests {
        miss(device, request);
        let after = device.cost(1).device_ms;
        times.push(((after - before) * 1e6).round() / 1e6);
        before = after;
    }
    times
}

fn miss(device: &mut SimulatedDevice, blocks: &[u64]) {
    for (index, &block) in blocks.iter().enumerate() {
        device.miss(Place { object: 0, block }, index == 0, false);
    }
}

fn whole_cost(model: &Model, requests: &[Vec<u64>]) -> Cost {
    let mut device = SimulatedDevice::new(model, 8192);
    requests.iter().for_each(|request| miss(&mut device, request));
    device.cost(requests.len() as u64)
}

/// A disk of 1,000 pages that turns in 10 ms.
const DISK: &str = "
[disk]
capacity_gb = 0.001
rpm = 6000
overhead_ms = 0.5
seek.points = [[0.0, 1.0], [0.5, 3.0], [1.0, 7.0]]
zones = [{ until = 0.5, mb_s = 1.0 }, { until = 1.0, mb_s = 0.5 }]
";

#[test]
fn a_disk_seeks_turns_and_transfers() {
    // From 0 to 250: overhead 0.5, seek 2, half a turn 5, and 1 ms a page. On from there: no seek and no turn.
    // From 252 to 752, half of the disk: seek 3, and 2 ms a page in the inner zone. The same block again: seek 1.004, as the
    // head stands behind it.
    let times = times(&mut device(DISK), &[&[250], &[251], &[752], &[752]]);
    assert_eq!(times, [8.5, 1.5, 0.5 + 3.0 + 5.0 + 2.0, 0.5 + 1.004 + 5.0 + 2.0]);
}

#[test]
fn a_curve_of_seeks_is_drawn_through_what_specifications_tell() {
    let disk = "[disk]\ncapacity_gb = 0.001\nrpm = 6000\n";
    let rated = format!("{disk}seek.rated = {{ track_ms = 1.0, average_ms = 4.2, full_ms = 7.0 }}");
    // root + linear = 6 and 8/15 root + linear/3 = 3.2, so both: root = 6, linear = 0. From 0 to a quarter: 1 + 6/2.
    assert_eq!(times(&mut device(&rated), &[&[250]]), [9.0]);
    let curve = format!("{disk}seek.curve = {{ fixed_ms = 1.0, root_ms = 2.0, linear_ms = 4.0 }}");
    assert_eq!(times(&mut device(&curve), &[&[250]]), [8.0]);
}

#[test]
fn a_tracked_rotation_waits_for_the_first_byte_to_come_by() {
    let tracked = DISK.replace("rpm", "rotation = \"tracked\"\nrpm");
    // A track of the outer zone has 10 pages. After 0.5 + 2 ms the head is over 0.25 of a track; block 250 begins at 0, 7.5 ms
    // later. Then 11 ms have passed; 0.5 and a seek of 1 later block 251 begins a tenth of a turn into the track and has just gone.
    assert_eq!(times(&mut device(&tracked), &[&[250], &[251]]), [0.5 + 2.0 + 7.5 + 1.0, 0.5 + 1.0 + 8.5 + 1.0]);
}

#[test]
fn a_drives_cache_gives_again_what_it_has_and_goes_on_reading_a_stream() {
    let cached = format!("{DISK}cache = {{ segments = 2, segment_kib = 4 }}");
    // 100 and 101 are read, then come from the cache. After 300 the head has to go back to the stream that ends with 101: from
    // 301 to 102, a seek of 1.796. Then the cache holds 102 and 300; 500 pushes 300 out.
    let times = times(&mut device(&cached), &[&[100, 101], &[101], &[300], &[102], &[300], &[500], &[600], &[102]]);
    assert_eq!(times[..5], [0.5 + 1.4 + 5.0 + 2.0, 0.5, 0.5 + 1.792 + 5.0 + 1.0, 0.5 + 1.796 + 5.0 + 1.0, 0.5]);
    assert!(times[7] > 5.0, "the stream of 102 was used longest ago");
}

#[test]
fn flash_takes_its_latency_once_for_a_request_and_serves_requests_side_by_side() {
    let flash = "[flash]\nread_us = 100.0\nwrite_us = 20.0\nchannels = 2\nmb_s = 100.0";
    // 10 µs a page: 0.11 ms for one, 0.12 for two in a row.
    assert_eq!(times(&mut device(flash), &[&[1], &[5, 6]]), [0.11, 0.12]);
    let mut device = device(flash);
    // Three at once: two begin, and share the bus: done after 0.11 and 0.12; the third begins at 0.11.
    miss(&mut device, &[1, 3, 5]);
    let cost = device.cost(1);
    assert!((cost.wait_mean_ms - 0.22).abs() < 1e-9, "{cost:?}");
    device.miss(Place { object: 0, block: 9 }, true, true);
    assert!((device.cost(1).wait_mean_ms - 0.25).abs() < 1e-9);
}

#[test]
fn a_network_volume_holds_back_requests_above_its_limit() {
    let network = "[network]\nlatency_ms = 1.0\nmb_s = 1.0\niops = 100\nrequest_kib = 4";
    // 2 ms; the next may begin at 10 ms, of six pages as two: the one behind at 30 ms.
    assert_eq!(times(&mut device(network), &[&[1], &[10, 11, 12, 13, 14, 15], &[20]]), [2.0, 8.0 + 7.0, 13.0 + 2.0]);
}

#[test]
fn object_storage_reads_parts_side_by_side_and_is_paid_by_the_part() {
    let object = "[object]\nfirst_byte_ms = 100.0\nmb_s = 1.0\nconnections = 2\npart_kib = 4\n\
                  price_per_1000_reads = 2.0\nprice_per_1000_writes = 8.0\nprice_per_gb = 1000.0";
    let mut device = device(object);
    // Ten pages in three parts, of 4,096, 4,096 and 1,808 bytes; the third begins when the first is done.
    assert_eq!(times(&mut device, &[&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9]]), [104.096 + 101.808]);
    assert_eq!(device.cost(1).price, Some(3.0 * 0.002 + 1e4 * 1e-6));
    device.start_counting();
    device.miss(Place { object: 0, block: 50 }, true, true);
    assert_eq!(device.cost(1).price, Some(0.008 + 1e-3));
}

#[test]
fn schedulers_choose_among_the_requests_made_at_once() {
    let order = |scheduler: &str, requests: &[&[u64]]| {
        let disk = "[disk]\ncapacity_gb = 0.001\nrpm = 6000\nseek.curve = { fixed_ms = 0.0, root_ms = 0.0, linear_ms = 1000.0 }";
        times(&mut device(&format!("{scheduler}\n{disk}")), requests)
    };
    // The head is behind 400 when 300, 600 and 500 are asked for: 99 + 301 + 299 / 1000 s away one after the other, 99 + 99 + 301 in
    // C-SCAN's order, and half a turn of 5 ms each.
    let requests: &[&[u64]] = &[&[400], &[300, 600, 500]];
    assert_eq!(order("", requests), [405.0, 15.0 + 101.0 + 299.0 + 101.0]);
    assert_eq!(order("scheduler = \"c-scan\"", requests), [405.0, 15.0 + 99.0 + 99.0 + 301.0]);
    assert_eq!(order("scheduler = \"deadline\"", requests), [405.0, 15.0 + 99.0 + 99.0 + 301.0]);
    // After 99 ms in the first the others have waited too long: the oldest is served.
    let expired = "scheduler = \"deadline\"\ndeadline_ms = 50";
    assert_eq!(order(expired, requests), [405.0, 15.0 + 99.0 + 201.0 + 299.0]);
}

#[test]
fn waits_are_told_over_all_references_and_the_warm_up_is_not_counted() {
    let model = presets::named("table-1").expect("it is a preset").model();
    let mut device = SimulatedDevice::new(&model, 8192);
    miss(&mut device, &[1, 2, 7]);
    device.start_counting();
    // Goes on behind 7; then two requests at once, the second of which waits for the first.
    miss(&mut device, &[8]);
    miss(&mut device, &[20, 21, 40]);
    let cost = device.cost(200);
    let expected = Cost {
        device_ms: 19.0,
        wait_mean_ms: 19.0 / 200.0,
        wait_p99_ms: 0.0,
        requests: 3,
        read_requests: 3,
        mean_request_pages: 4.0 / 3.0,
        bytes: 4 * 8192,
        price: None,
    };
    assert_eq!(cost, expected);
    assert_eq!(device.cost(100).wait_p99_ms, 9.5);
}

#[test]
fn what_is_read_ahead_is_waited_for_only_if_it_is_late() {
    let at = |block| Place { object: 0, block };
    let mut device = device(DISK);
    // Two pages from 250 on take 0.5 + 2 + 5 + 2 ms; nobody waits. A miss behind them has to: 1.5 ms more.
    let early = device.read_ahead(at(250), 2);
    miss(&mut device, &[252]);
    assert_eq!(device.cost(1).wait_mean_ms, 11.0);
    assert!(!device.need(early));
    let late = device.read_ahead(at(253), 3);
    assert!(device.need(late) && !device.need(late));
    let cost = device.cost(1);
    assert_eq!((cost.wait_mean_ms, cost.device_ms, cost.requests), (14.5, 14.5, 3));
}

#[test]
fn what_is_read_ahead_right_behind_misses_comes_with_them() {
    let at = |block| Place { object: 0, block };
    let mut device = device(DISK);
    device.miss(at(250), true, false);
    let joined = device.read_ahead(at(251), 2);
    let apart = device.read_ahead(at(600), 2);
    assert!(!device.need(joined), "the misses have waited for it");
    assert!(device.need(apart));
    assert_eq!(device.cost(1).requests, 2);
    device.miss(at(700), true, true);
    assert!({
        let behind_a_write = device.read_ahead(at(701), 1);
        device.need(behind_a_write)
    });
    assert_eq!(device.cost(1).requests, 4);
}

#[test]
fn what_is_wrong_with_a_model_is_named_by_line_and_key() {
    let wrong = |text: &str| text.parse::<Model>().expect_err(text).to_string();
    let cases = [
        ("title = \"x\"", "says no kind of device"),
        (&DISK.replace("6000", "-1"), "line 4, `rpm = -1`: write a number above 0"),
        (&DISK.replace("rpm", "rmp"), "line 4, `rmp = 6000`: unknown field `rmp`"),
        (&DISK.replace("[1.0, 7.0]", "[1.0, 2.0]"), "line 6, `seek.points"),
        (&DISK.replace("until = 1.0", "until = 0.9"), "line 7, `zones"),
        (&DISK.replace("[disk]", "scheduler = \"best\"\n[disk]"), "line 2, `scheduler = \"best\"`: unknown variant"),
        (&format!("{DISK}[flash]\nread_us = 1\nwrite_us = 1\nchannels = 1\nmb_s = 1"), "a device is of one kind"),
        ("[flash]\nread_us = 1\nwrite_us = 1\nchannels = 0\nmb_s = 1", "line 4, `channels = 0`: write a whole number"),
        ("scheduler = \"fifo\"\n[flash]\nread_us = 1\nwrite_us = 1\nchannels = 1\nmb_s = 1", "line 1"),
        ("[disk]\nrpm = 1\ncapacity_gb = 1\nrotation = \"tracked\"\nseek.points = [[0, 1], [1, 2]]", "needs `zones`"),
        ("[disk]\nrpm = 1\ncapacity_gb = 1\nseek.rated = { track_ms = 9, average_ms = 8, full_ms = 9 }", "line 4"),
    ];
    for (text, expected) in cases {
        let message = wrong(text);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn every_preset_is_well_formed_and_names_its_source() {
    for preset in PRESETS {
        let model = preset.model();
        assert!(!model.title.is_empty() && !model.source.is_empty(), "{}", preset.name);
        assert!(preset.toml.lines().all(|line| line.chars().count() <= 140), "{}", preset.name);
    }
}

/// Blocks in a row, and another order of the same.
fn rows() -> impl Strategy<Value = (Vec<u64>, Vec<u64>)> {
    (0..1_000_000u64, 2..40u64).prop_flat_map(|(first, count)| {
        let row: Vec<u64> = (first..first + count).collect();
        (Just(row.clone()), Just(row).prop_shuffle())
    })
}

proptest! {
    #[test]
    fn reading_in_a_row_is_never_dearer_than_reading_the_same_blocks_in_another_order((row, shuffled) in rows()) {
        for preset in PRESETS {
            let one_by_one = |blocks: &[u64]| {
                whole_cost(&preset.model(), &blocks.iter().map(|&block| vec![block]).collect::<Vec<_>>())
            };
            let (row, shuffled) = (one_by_one(&row), one_by_one(&shuffled));
            prop_assert!(row.device_ms <= shuffled.device_ms + 1e-6, "{}: {row:?} {shuffled:?}", preset.name);
            prop_assert!(row.wait_mean_ms <= shuffled.wait_mean_ms + 1e-6, "{}: {row:?} {shuffled:?}", preset.name);
        }
    }

    #[test]
    fn coalescing_never_costs_more(requests in prop::collection::vec((0..100_000u64, 1..30u64), 1..20)) {
        let coalesced: Vec<Vec<u64>> = requests.iter().map(|&(first, count)| (first..first + count).collect()).collect();
        let alone: Vec<Vec<u64>> = coalesced.iter().flatten().map(|&block| vec![block]).collect();
        for preset in PRESETS {
            let (coalesced, alone) = (whole_cost(&preset.model(), &coalesced), whole_cost(&preset.model(), &alone));
            prop_assert!(coalesced.device_ms <= alone.device_ms + 1e-6, "{}: {coalesced:?} {alone:?}", preset.name);
            prop_assert!(coalesced.price <= alone.price.map(|price| price + 1e-9), "{}", preset.name);
            prop_assert!(coalesced.bytes == alone.bytes);
        }
    }
}

#[test]
fn a_request_right_behind_another_is_cheap_on_disks_alone() {
    for preset in PRESETS {
        let DeviceCost { request, behind, page } = preset.model().reads(4096);
        let disk = matches!(preset.model().kind, Kind::Disk(_));
        assert_eq!(behind < request / 2.0, disk, "{}: {request} {behind} {page}", preset.name);
    }
}
