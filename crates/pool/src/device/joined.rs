//! Several devices as one: one behind the other, or in stripes (RAID-0).

use super::pieces::{append, by_unit, cut, cut_mut, total, within, writable};
use super::{Device, Extent, Reserved, Space};
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;

/// A device made of devices. It lasts no longer than the first of them that is lost.
pub struct Joined {
    parts: Vec<Arc<dyn Device>>,
    layout: Layout,
    len: u64,
}

enum Layout {
    /// Where each part begins.
    Concatenated(Vec<u64>),
    /// Stripes of this many bytes, on the parts in turn.
    Striped(u64),
}

/// A part of a request that lies on one device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    part: usize,
    offset: u64,
    length: u64,
}

impl Joined {
    /// One behind the other.
    ///
    /// # Errors
    /// There are no parts.
    pub fn concatenated(parts: Vec<Arc<dyn Device>>) -> io::Result<Self> {
        some(&parts)?;
        let mut len = 0_u64;
        let mut starts = Vec::with_capacity(parts.len());
        for part in &parts {
            starts.push(len);
            len = len.checked_add(part.len()).ok_or_else(|| wrong("the parts are longer than 2^64 bytes together"))?;
        }
        Ok(Self { parts, layout: Layout::Concatenated(starts), len })
    }

    /// In stripes of this many bytes, on the parts in turn. Of longer parts only as many stripes are used as the shortest has.
    ///
    /// # Errors
    /// There are no parts, or none has a whole stripe, or the stripe is no multiple of 4096 bytes, which would break every
    /// part's alignment.
    pub fn striped(parts: Vec<Arc<dyn Device>>, stripe: u64) -> io::Result<Self> {
        let shortest = some(&parts)?;
        if stripe == 0 || !stripe.is_multiple_of(4096) {
            return Err(wrong(&format!("a stripe of {stripe} bytes: give a multiple of 4096")));
        }
        let each = shortest / stripe * stripe;
        if each == 0 {
            return Err(wrong(&format!(
                "a part of {shortest} bytes is shorter than a stripe of {stripe}: give a smaller stripe"
            )));
        }
        let len = each.checked_mul(parts.len() as u64);
        let len = len.ok_or_else(|| wrong("the parts are longer than 2^64 bytes together"))?;
        Ok(Self { parts, layout: Layout::Striped(stripe), len })
    }

    /// What a range is made of, in order.
    fn pieces(&self, offset: u64, length: u64) -> Vec<Piece> {
        let parts = self.parts.len() as u64;
        match &self.layout {
            Layout::Concatenated(starts) => {
                let first = starts.partition_point(|start| *start <= offset).saturating_sub(1);
                let mut rest = offset..offset + length;
                let mut pieces = Vec::new();
                for (part, start) in starts.iter().enumerate().skip(first) {
                    let end = start + self.parts[part].len();
                    let taken = end.min(rest.end).saturating_sub(rest.start);
                    if taken > 0 {
                        pieces.push(Piece { part, offset: rest.start - start, length: taken });
                        rest.start += taken;
                    }
                    if rest.is_empty() {
                        break;
                    }
                }
                pieces
            }
            Layout::Striped(stripe) => {
                let piece = |(number, inside, length): (u64, u64, u64)| Piece {
                    part: (number % parts) as usize,
                    offset: number / parts * stripe + inside,
                    length,
                };
                by_unit(offset, length, *stripe).map(piece).collect()
            }
        }
    }

    /// Pieces by part, each part's in order; a part's pieces of one range follow each other without gap there, so that they
    /// are one request of it.
    fn by_part<T>(&self, pieces: &[Piece], buffers: Vec<Vec<T>>) -> Vec<(usize, u64, Vec<T>)> {
        let mut requests: Vec<(usize, u64, Vec<T>)> = Vec::new();
        for (piece, buffers) in pieces.iter().zip(buffers) {
            match requests.iter_mut().find(|(part, ..)| *part == piece.part) {
                Some((.., all)) => all.extend(buffers),
                None => requests.push((piece.part, piece.offset, buffers)),
            }
        }
        requests
    }
}

/// The parts' least length.
fn some(parts: &[Arc<dyn Device>]) -> io::Result<u64> {
    parts.iter().map(|part| part.len()).min().ok_or_else(|| wrong("name at least one device to join"))
}

fn wrong(message: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

/// Runs of several devices at once: each device's on a thread of their own, if there are several devices.
/// A run's pieces give it the first of their errors.
fn on_all<R: Send>(
    parts: &[Arc<dyn Device>],
    mut runs: Vec<Vec<(usize, R)>>,
    count: usize,
    go: impl Fn(&dyn Device, Vec<R>) -> Vec<io::Result<()>> + Sync,
) -> Vec<io::Result<()>> {
    let go = |part: usize, runs: Vec<(usize, R)>| {
        let (owners, runs): (Vec<_>, Vec<_>) = runs.into_iter().unzip();
        owners.into_iter().zip(go(&*parts[part], runs)).collect::<Vec<_>>()
    };
    let busy: Vec<usize> = (0..parts.len()).filter(|part| !runs[*part].is_empty()).collect();
    let mut answers = Vec::new();
    if let [part] = busy[..] {
        answers = go(part, std::mem::take(&mut runs[part]));
    } else {
        std::thread::scope(|scope| {
            let threads: Vec<_> = busy
                .iter()
                .map(|&part| {
                    let runs = std::mem::take(&mut runs[part]);
                    let go = &go;
                    scope.spawn(move || go(part, runs))
                })
                .collect();
            for thread in threads {
                answers.extend(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            }
        });
    }
    let mut results: Vec<io::Result<()>> = Vec::with_capacity(count);
    results.resize_with(count, || Ok(()));
    for (owner, answer) in answers {
        if results[owner].is_ok() {
            results[owner] = answer;
        }
    }
    results
}

impl Device for Joined {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_only(&self) -> bool {
        self.parts.iter().any(|part| part.read_only())
    }

    fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        let length = total(buffers);
        within(self, offset, length)?;
        let pieces = self.pieces(offset, length);
        if let [piece] = pieces[..] {
            return self.parts[piece.part].read(piece.offset, buffers);
        }
        let buffers = cut_mut(buffers, pieces.iter().map(|piece| piece.length));
        for (part, offset, mut buffers) in self.by_part(&pieces, buffers) {
            self.parts[part].read(offset, &mut buffers)?;
        }
        Ok(())
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        let length = total(buffers);
        writable(self, offset, length)?;
        let pieces = self.pieces(offset, length);
        if let [piece] = pieces[..] {
            return self.parts[piece.part].write(piece.offset, buffers);
        }
        let buffers = cut(buffers, pieces.iter().map(|piece| piece.length));
        for (part, offset, buffers) in self.by_part(&pieces, buffers) {
            self.parts[part].write(offset, &buffers)?;
        }
        Ok(())
    }

    fn read_many(&self, runs: &mut [(u64, IoSliceMut<'_>)]) -> Vec<io::Result<()>> {
        let outside: Vec<_> = runs.iter().map(|(offset, run)| within(self, *offset, run.len() as u64)).collect();
        let mut split: Vec<Vec<_>> = self.parts.iter().map(|_| Vec::new()).collect();
        let count = runs.len();
        for (owner, (offset, run)) in runs.iter_mut().enumerate().filter(|(owner, _)| outside[*owner].is_ok()) {
            let mut rest = &mut **run;
            for piece in self.pieces(*offset, rest.len() as u64) {
                let (taken, left) = rest.split_at_mut(piece.length as usize);
                split[piece.part].push((owner, (piece.offset, IoSliceMut::new(taken))));
                rest = left;
            }
        }
        let done = on_all(&self.parts, split, count, |part, mut runs| part.read_many(&mut runs));
        outside.into_iter().zip(done).map(|(outside, done)| outside.and(done)).collect()
    }

    fn write_many(&self, runs: &[(u64, IoSlice<'_>)]) -> Vec<io::Result<()>> {
        let outside: Vec<_> = runs.iter().map(|(offset, run)| writable(self, *offset, run.len() as u64)).collect();
        let mut split: Vec<Vec<_>> = self.parts.iter().map(|_| Vec::new()).collect();
        for (owner, (offset, run)) in runs.iter().enumerate().filter(|(owner, _)| outside[*owner].is_ok()) {
            let mut rest = &**run;
            for piece in self.pieces(*offset, rest.len() as u64) {
                let (taken, left) = rest.split_at(piece.length as usize);
                split[piece.part].push((owner, (piece.offset, IoSlice::new(taken))));
                rest = left;
            }
        }
        let done = on_all(&self.parts, split, runs.len(), |part, runs| part.write_many(&runs));
        outside.into_iter().zip(done).map(|(outside, done)| outside.and(done)).collect()
    }

    fn flush(&self) -> io::Result<()> {
        // Every part is flushed though another failed: what can be durable shall be.
        self.parts.iter().map(|part| part.flush()).fold(Ok(()), Result::and)
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        writable(self, offset, length)?;
        self.pieces(offset, length).iter().try_for_each(|piece| self.parts[piece.part].trim(piece.offset, piece.length))
    }

    fn write_zeroes(&self, offset: u64, length: u64, allocate: bool) -> io::Result<()> {
        writable(self, offset, length)?;
        let zero = |piece: &Piece| self.parts[piece.part].write_zeroes(piece.offset, piece.length, allocate);
        self.pieces(offset, length).iter().try_for_each(zero)
    }

    fn zeroes_fast(&self) -> bool {
        self.parts.iter().all(|part| part.zeroes_fast())
    }

    fn spaces(&self) -> Vec<Space> {
        self.parts.iter().flat_map(|part| part.spaces()).collect()
    }

    fn reserve(&self, offset: u64, length: u64) -> io::Result<Reserved> {
        let pieces = self.pieces(offset, length);
        let reserve = |piece: &Piece| self.parts[piece.part].reserve(piece.offset, piece.length);
        pieces.iter().map(reserve).try_fold(Reserved::Plenty, |worst, next| Ok(worst.max(next?)))
    }

    fn extents(&self, offset: u64, length: u64) -> io::Result<Vec<Extent>> {
        within(self, offset, length)?;
        let mut extents = Vec::new();
        for piece in self.pieces(offset, length) {
            let mut told = 0;
            for extent in self.parts[piece.part].extents(piece.offset, piece.length)? {
                told += extent.length;
                append(&mut extents, extent);
            }
            if told < piece.length {
                break;
            }
        }
        Ok(extents)
    }

    fn describe(&self) -> String {
        let parts: Vec<String> = self.parts.iter().map(|part| part.describe()).collect();
        match self.layout {
            Layout::Concatenated(_) => parts.join(" + "),
            Layout::Striped(stripe) => format!("{} in stripes of {stripe} bytes", parts.join(", ")),
        }
    }
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::super::MemoryDevice;
    use super::*;

    fn parts(lengths: &[u64]) -> Vec<Arc<dyn Device>> {
        lengths.iter().map(|length| Arc::new(MemoryDevice::new(*length)) as Arc<dyn Device>).collect()
    }

    #[test]
    fn a_range_is_found_on_the_parts_it_lies_on() {
        let piece = |part, offset, length| Piece { part, offset, length };
        let row = Joined::concatenated(parts(&[100, 0, 50, 200])).expect("parts");
        assert_eq!(row.pieces(90, 70), [piece(0, 90, 10), piece(2, 0, 50), piece(3, 0, 10)]);
        assert_eq!(row.pieces(100, 1), [piece(2, 0, 1)]);
        let stripes = Joined::striped(parts(&[16384, 20000, 16384]), 8192).expect("parts");
        assert_eq!(stripes.len(), 3 * 16384);
        let found = stripes.pieces(8000, 8192 * 3);
        assert_eq!(found, [piece(0, 8000, 192), piece(1, 0, 8192), piece(2, 0, 8192), piece(0, 8192, 8000)]);
    }

    #[test]
    fn what_cannot_be_joined_is_refused() {
        for (parts, stripe) in
            [(parts(&[]), 4096), (parts(&[8192]), 0), (parts(&[8192]), 5000), (parts(&[8192]), 16384)]
        {
            let error = Joined::striped(parts, stripe).err().expect("it cannot be joined");
            assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        }
        assert!(Joined::concatenated(Vec::new()).is_err());
    }
}
