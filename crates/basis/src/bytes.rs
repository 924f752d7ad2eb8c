//! Numbers of bytes, as users write and read them.

/// Reads bytes with a unit: `4096`, `64KiB`, `1.5GB`. There is no fraction of a byte.
///
/// # Errors
/// A sentence that says what is wrong.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no number of bytes: write 65536, 64KiB, 64KB, 1.5GiB, …");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let scale = scale_of(unit.trim_ascii()).ok_or_else(wrong)?;
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(scale).ok_or_else(|| format!("`{text}` is more than 2^64 bytes"));
    }
    if scale == 1 {
        return Err(wrong());
    }
    let bytes = number.parse::<f64>().map_err(|_| wrong())? * scale as f64;
    if bytes < u64::MAX as f64 { Ok(bytes as u64) } else { Err(format!("`{text}` is more than 2^64 bytes")) }
}

/// Bytes for a person: `64 MiB`.
pub fn show_bytes(bytes: u64) -> String {
    if bytes == 1 {
        return "1 byte".to_owned();
    }
    let mut scaled = bytes as f64;
    for unit in ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"] {
        if scaled < 1024.0 {
            // `1.0 GiB` is about as much, `1 GiB` is exact.
            let decimals = usize::from(scaled < 100.0 && scaled.fract() != 0.0);
            return format!("{scaled:.decimals$} {unit}");
        }
        scaled /= 1024.0;
    }
    format!("{scaled:.1} EiB")
}

fn scale_of(unit: &str) -> Option<u64> {
    let powers = |base: u64, letter: &str| {
        ["k", "m", "g", "t", "p", "e"].iter().position(|&l| l == letter).map(|p| base.pow(p as u32 + 1))
    };
    let unit = unit.to_ascii_lowercase();
    match unit.as_str() {
        "" | "b" => Some(1),
        unit => match unit.strip_suffix("ib") {
            Some(letter) => powers(1024, letter),
            None => match unit.strip_suffix('b') {
                Some(letter) => powers(1000, letter),
                None => powers(1024, unit),
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_no_fraction_but_their_units_may() {
        assert_eq!(["7", "7B", "1.5KiB", "0.5kb"].map(parse_bytes), [Ok(7), Ok(7), Ok(1536), Ok(500)]);
        for wrong in ["1000.5", "5.5B", "0.5 b", ".", "", "KiB"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn bytes_are_shown_with_the_unit_that_fits() {
        assert_eq!(show_bytes(512), "512 bytes");
        assert_eq!(show_bytes(8192), "8 KiB");
        assert_eq!(show_bytes(1_572_864), "1.5 MiB");
        assert_eq!(show_bytes(64 << 30), "64 GiB");
        assert_eq!([3 << 40, 3 << 50, u64::MAX].map(show_bytes), ["3 TiB", "3 PiB", "16.0 EiB"]);
        assert_eq!(parse_bytes("1EiB"), Ok(1 << 60));
    }
}
