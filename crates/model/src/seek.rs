//! How long a disk's arm takes for a distance.

use crate::units::{Amount, Positive};
use serde::Deserialize;

/// The time of a seek by its distance, which is a share of the whole disk, from 0 to 1.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Seek {
    /// By coefficients.
    Curve(Curve),
    /// By what specifications tell.
    Rated(Rated),
    /// By measured points, straight lines between them.
    Points(Points),
}

/// `fixed + root·√distance + linear·distance` milliseconds.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    fixed_ms: Amount,
    root_ms: Amount,
    linear_ms: Amount,
}

/// The three times of a specification, in milliseconds, through which [`Curve`]'s formula is drawn.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(try_from = "WrittenRated")]
pub struct Rated {
    fixed: f64,
    root: f64,
    linear: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenRated {
    track_ms: Amount,
    average_ms: Positive,
    full_ms: Positive,
}

impl TryFrom<WrittenRated> for Rated {
    type Error = &'static str;

    /// Between two random places the distance d has the density 2(1 - d): its mean is 1/3, that of its root 8/15.
    fn try_from(written: WrittenRated) -> Result<Self, Self::Error> {
        let fixed = written.track_ms.get();
        let (average, full) = (written.average_ms.get() - fixed, written.full_ms.get() - fixed);
        let root = (average - full / 3.0) / (8.0 / 15.0 - 1.0 / 3.0);
        let linear = full - root;
        if average < 0.0 || root < 0.0 || root / 2.0 + linear < 0.0 {
            return Err("no curve that rises all the way has this average between track_ms and full_ms");
        }
        Ok(Self { fixed, root, linear })
    }
}

/// Pairs of distance and milliseconds.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "Vec<(Amount, Amount)>")]
pub struct Points(Vec<(f64, f64)>);

impl TryFrom<Vec<(Amount, Amount)>> for Points {
    type Error = &'static str;

    fn try_from(written: Vec<(Amount, Amount)>) -> Result<Self, Self::Error> {
        let points: Vec<(f64, f64)> = written.into_iter().map(|(distance, ms)| (distance.get(), ms.get())).collect();
        let ends =
            points.first().is_some_and(|first| first.0 == 0.0) && points.last().is_some_and(|last| last.0 == 1.0);
        if ends && points.windows(2).all(|pair| pair[0].0 < pair[1].0 && pair[0].1 <= pair[1].1) {
            return Ok(Self(points));
        }
        Err("write [distance, milliseconds] from distance 0 to 1, both rising")
    }
}

impl Seek {
    pub(crate) fn ms(&self, distance: f64) -> f64 {
        match self {
            Self::Curve(curve) => {
                curve.fixed_ms.get() + curve.root_ms.get() * distance.sqrt() + curve.linear_ms.get() * distance
            }
            Self::Rated(rated) => rated.fixed + rated.root * distance.sqrt() + rated.linear * distance,
            Self::Points(Points(points)) => {
                let next = points.partition_point(|&(at, _)| at <= distance).clamp(1, points.len() - 1);
                let ((near, near_ms), (far, far_ms)) = (points[next - 1], points[next]);
                near_ms + (far_ms - near_ms) * (distance - near) / (far - near)
            }
        }
    }
}
