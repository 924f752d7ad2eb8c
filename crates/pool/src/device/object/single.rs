//! One object of a store, read as it is: a Parquet file in a bucket.
//!
//! It is read on condition that it is the one that was opened: who replaces it makes reads of what is absent fail, and mixes no two.

use super::super::Device;
use super::super::pieces::{cut_mut, scatter, total, within, writable};
use super::{AT_ONCE, RETRIED, RETRIED_AT_OPENING, nothing_of_it, part_of_it, s3, storage_error, threads, wrong};
use futures_util::{StreamExt, stream};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{Error, GetOptions, ObjectStore};
use std::io::{self, IoSlice, IoSliceMut};
use std::sync::Arc;
use tokio::runtime::Runtime;
use url::Url;

/// The longest part that is asked for at once: longer reads are several, at the same time.
const PART: u64 = 8 << 20;

/// One object, read only. Its calls block on a runtime of its own, so they must not be made inside an asynchronous task.
pub struct SingleObject {
    store: Arc<dyn ObjectStore>,
    path: Path,
    name: String,
    length: u64,
    /// As which it was opened, where the store says that.
    tag: Option<String>,
    runtime: Runtime,
}

impl SingleObject {
    /// Opens the object at `s3://bucket/key` (with the AWS environment variables) or `file:///path`; nothing if there is none.
    ///
    /// # Errors
    /// The URL or the storage, and what is wrong with it.
    pub fn open(url: &str) -> io::Result<Option<Self>> {
        let parsed = Url::parse(url).map_err(|error| wrong(url, &format!("no URL: {error}")))?;
        let path = Path::from_url_path(parsed.path()).map_err(|error| wrong(url, &error.to_string()))?;
        let (opening, store): (Arc<dyn ObjectStore>, Arc<dyn ObjectStore>) = match parsed.scheme() {
            "file" => {
                let store = Arc::new(LocalFileSystem::new());
                (Arc::<LocalFileSystem>::clone(&store), store)
            }
            "s3" => (s3(url, RETRIED_AT_OPENING)?, s3(url, RETRIED)?),
            other => return Err(wrong(url, &format!("`{other}:` is unknown; write file:/// or s3://"))),
        };
        let runtime = threads::start()?;
        let found = match runtime.block_on(opening.get_opts(&path, nothing_of_it())) {
            Ok(found) => found.meta,
            Err(Error::NotFound { .. }) => return Ok(None),
            Err(error) => return Err(storage_error(url, "cannot be opened", error)),
        };
        Ok(Some(Self { store, path, name: url.to_owned(), length: found.size, tag: found.e_tag, runtime }))
    }

    /// By which a change of it shows.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    async fn fill(&self, offset: u64, length: u64, mut buffers: Vec<IoSliceMut<'_>>) -> io::Result<()> {
        let options = GetOptions { if_match: self.tag.clone(), ..part_of_it(offset, length) };
        let failed = |error| storage_error(&self.name, "cannot be read", error);
        let bytes = match self.store.get_opts(&self.path, options).await {
            Ok(found) => found.bytes().await.map_err(failed)?,
            Err(Error::Precondition { .. }) => {
                let message = format!("{}: has been replaced since it was opened: open it again", self.name);
                return Err(io::Error::new(io::ErrorKind::StaleNetworkFileHandle, message));
            }
            Err(error) => return Err(failed(error)),
        };
        if bytes.len() as u64 != length {
            let message = format!("{}: gave {} bytes of {length} at {offset}", self.name, bytes.len());
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, message));
        }
        scatter(&bytes, &mut buffers);
        Ok(())
    }
}

impl Device for SingleObject {
    fn len(&self) -> u64 {
        self.length
    }

    fn read_only(&self) -> bool {
        true
    }

    fn read(&self, offset: u64, buffers: &mut [IoSliceMut<'_>]) -> io::Result<()> {
        let length = total(buffers);
        within(self, offset, length)?;
        let starts = (0..length).step_by(PART as usize);
        let parts: Vec<(u64, u64)> = starts.map(|start| (offset + start, PART.min(length - start))).collect();
        let buffers = cut_mut(buffers, parts.iter().map(|&(_, length)| length));
        let reads = parts.into_iter().zip(buffers).map(|((at, length), buffers)| self.fill(at, length, buffers));
        let done: Vec<io::Result<()>> = self.runtime.block_on(stream::iter(reads).buffered(AT_ONCE).collect());
        done.into_iter().collect()
    }

    fn read_many(&self, runs: &mut [(u64, IoSliceMut<'_>)]) -> Vec<io::Result<()>> {
        let checked: Vec<_> = runs.iter().map(|(offset, run)| within(self, *offset, run.len() as u64)).collect();
        let reads = runs.iter_mut().zip(checked).map(|((offset, run), checked)| async move {
            checked?;
            self.fill(*offset, run.len() as u64, vec![IoSliceMut::new(run)]).await
        });
        self.runtime.block_on(stream::iter(reads).buffered(AT_ONCE).collect())
    }

    fn write(&self, offset: u64, buffers: &[IoSlice<'_>]) -> io::Result<()> {
        writable(self, offset, total(buffers))
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }

    fn trim(&self, offset: u64, length: u64) -> io::Result<()> {
        writable(self, offset, length)
    }

    fn write_zeroes(&self, offset: u64, length: u64, _allocate: bool) -> io::Result<()> {
        writable(self, offset, length)
    }

    fn describe(&self) -> String {
        self.name.clone()
    }
}

#[cfg(all(test, not(feature = "model-check")))]
mod tests {
    use super::*;

    #[test]
    fn an_object_is_read_as_it_is_until_it_is_replaced() {
        let folder = tempfile::tempdir().expect("a folder");
        let (path, data) = (folder.path().join("key"), (0..20_000u32).flat_map(u32::to_le_bytes).collect::<Vec<u8>>());
        std::fs::write(&path, &data).expect("written");
        let url = format!("file://{}", path.display());
        assert!(SingleObject::open(&format!("{url}-none")).expect("the store answers").is_none());
        assert!(SingleObject::open("x3://bucket/key").is_err());
        let object = SingleObject::open(&url).expect("the store answers").expect("it is there");
        assert_eq!((object.len(), object.read_only()), (80_000, true));
        let (mut one, mut two) = (vec![0; 70_000], vec![0; 9_999]);
        object.read(1, &mut [IoSliceMut::new(&mut one), IoSliceMut::new(&mut two)]).expect("read");
        assert!(one == data[1..70_001] && two == data[70_001..]);
        let runs = &mut [(5, IoSliceMut::new(&mut one[..7])), (79_999, IoSliceMut::new(&mut two[..2]))];
        let [first, second] = &object.read_many(runs)[..] else { panic!("two results") };
        assert!(first.is_ok() && second.is_err());
        assert_eq!(one[..7], data[5..12]);
        assert!(object.write(0, &[IoSlice::new(b"x")]).is_err());
        std::fs::write(&path, b"another").expect("written");
        let error = object.read(0, &mut [IoSliceMut::new(&mut two[..4])]).expect_err("it is another");
        assert!(error.to_string().contains("has been replaced"), "{error}");
    }
}
