//! Requests: whether they lie on the device, and how they are cut into pieces.

use super::{Device, Extent};
use std::io::{self, IoSlice, IoSliceMut};

/// The bytes that buffers hold together.
pub(super) fn total<T: std::ops::Deref<Target = [u8]>>(buffers: &[T]) -> u64 {
    buffers.iter().map(|buffer| buffer.len() as u64).sum()
}

/// Refuses a range that is not on the device.
pub(super) fn within<D: Device + ?Sized>(device: &D, offset: u64, length: u64) -> io::Result<()> {
    if offset.checked_add(length).is_some_and(|end| end <= device.len()) {
        return Ok(());
    }
    let (name, len) = (device.describe(), device.len());
    let message =
        format!("{name}: {length} bytes at {offset} reach behind its end at {len}; ask for what lies before it");
    Err(io::Error::new(io::ErrorKind::InvalidInput, message))
}

/// Refuses a change of what is not on the device, or of a device that is only read.
pub(super) fn writable<D: Device + ?Sized>(device: &D, offset: u64, length: u64) -> io::Result<()> {
    if device.read_only() {
        let message = format!("{}: opened for reading only; open it for writing to change it", device.describe());
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, message));
    }
    within(device, offset, length)
}

/// Cuts a range at the multiples of `unit`: each piece's unit, where in it the piece begins, and the piece's length.
pub(super) fn by_unit(offset: u64, length: u64, unit: u64) -> impl Iterator<Item = (u64, u64, u64)> {
    let end = offset + length;
    let mut at = offset;
    std::iter::from_fn(move || {
        if at == end {
            return None;
        }
        let (number, inside) = (at / unit, at % unit);
        let length = (unit - inside).min(end - at);
        at += length;
        Some((number, inside, length))
    })
}

/// Cuts buffers to be filled into pieces of these lengths, which together are no longer than the buffers.
pub(super) fn cut_mut<'a>(
    buffers: &'a mut [IoSliceMut<'_>],
    lengths: impl IntoIterator<Item = u64>,
) -> Vec<Vec<IoSliceMut<'a>>> {
    let mut rest = buffers.iter_mut().map(|buffer| &mut **buffer);
    let mut open: &mut [u8] = &mut [];
    let mut cut = |mut length: u64| {
        let mut piece = Vec::new();
        while length > 0 {
            if open.is_empty() {
                let Some(next) = rest.next() else { break };
                open = next;
                continue;
            }
            let taken = open.len().min(usize::try_from(length).unwrap_or(usize::MAX));
            let (head, tail) = std::mem::take(&mut open).split_at_mut(taken);
            piece.push(IoSliceMut::new(head));
            open = tail;
            length -= taken as u64;
        }
        piece
    };
    lengths.into_iter().map(&mut cut).collect()
}

/// Cuts buffers to be written into pieces of these lengths, which together are no longer than the buffers.
pub(super) fn cut<'a>(buffers: &'a [IoSlice<'_>], lengths: impl IntoIterator<Item = u64>) -> Vec<Vec<IoSlice<'a>>> {
    let mut rest = buffers.iter().map(|buffer| &**buffer);
    let mut open: &[u8] = &[];
    let mut cut = |mut length: u64| {
        let mut piece = Vec::new();
        while length > 0 {
            if open.is_empty() {
                let Some(next) = rest.next() else { break };
                open = next;
                continue;
            }
            let taken = open.len().min(usize::try_from(length).unwrap_or(usize::MAX));
            let (head, tail) = open.split_at(taken);
            piece.push(IoSlice::new(head));
            open = tail;
            length -= taken as u64;
        }
        piece
    };
    lengths.into_iter().map(&mut cut).collect()
}

/// Fills buffers from bytes of their length.
pub(super) fn scatter(mut bytes: &[u8], buffers: &mut [IoSliceMut<'_>]) {
    for buffer in buffers {
        let (head, tail) = bytes.split_at(buffer.len());
        buffer.copy_from_slice(head);
        bytes = tail;
    }
}

/// Copies buffers into bytes of their length.
pub(super) fn gather(mut bytes: &mut [u8], buffers: &[IoSlice<'_>]) {
    for buffer in buffers {
        let (head, tail) = bytes.split_at_mut(buffer.len());
        head.copy_from_slice(buffer);
        bytes = tail;
    }
}

/// Writes zeroes where the storage knows no better way.
pub(super) fn write_zeroes<D: Device + ?Sized>(device: &D, offset: u64, length: u64) -> io::Result<()> {
    let zeroes = vec![0; length.min(1 << 20) as usize];
    let mut at = offset;
    while at < offset + length {
        let part = (offset + length - at).min(zeroes.len() as u64);
        device.write(at, &[IoSlice::new(&zeroes[..part as usize])])?;
        at += part;
    }
    Ok(())
}

/// Adds an extent; equal neighbours become one.
pub(super) fn append(extents: &mut Vec<Extent>, extent: Extent) {
    match extents.last_mut() {
        Some(last) if (last.hole, last.zero) == (extent.hole, extent.zero) => last.length += extent.length,
        _ => extents.push(extent),
    }
}

/// Adds to an error where it happened.
pub(super) fn at(error: &io::Error, name: &str, doing: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{name}: {doing}: {error}"))
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_cut_at_the_multiples_of_its_unit() {
        let pieces: Vec<_> = by_unit(3, 10, 4).collect();
        assert_eq!(pieces, [(0, 3, 1), (1, 0, 4), (2, 0, 4), (3, 0, 1)]);
        assert_eq!(by_unit(8, 0, 4).count(), 0);
    }

    #[test]
    fn buffers_are_cut_across_their_borders() {
        let (mut first, mut second) = ([1, 2, 3], [4, 5]);
        let whole = [IoSlice::new(&[1, 2, 3]), IoSlice::new(&[]), IoSlice::new(&[4, 5])];
        let pieces = cut(&whole, [2, 2, 1]);
        let pieces: Vec<Vec<u8>> =
            pieces.iter().map(|piece| piece.iter().flat_map(|part| part.to_vec()).collect()).collect();
        assert_eq!(pieces, [vec![1, 2], vec![3, 4], vec![5]]);
        let mut buffers = [IoSliceMut::new(&mut first), IoSliceMut::new(&mut second)];
        for mut piece in cut_mut(&mut buffers, [4]) {
            piece.iter_mut().for_each(|part| part.fill(9));
        }
        assert_eq!((first, second), ([9, 9, 9], [9, 5]));
    }
}
