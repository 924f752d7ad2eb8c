//! What a volume on object storage is: a length, cut into objects of one size.

use super::{storage_error, wrong};
use object_store::path::Path;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions};
use serde::{Deserialize, Serialize};
use std::io;

/// The longest object: it is held in memory while it is changed.
const LONGEST: u64 = 1 << 30;

/// What a volume is made with if it is not there yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewVolume {
    /// In bytes.
    pub length: u64,
    /// In bytes, a multiple of 4096.
    pub object_size: u64,
}

impl NewVolume {
    /// A volume of this many bytes in objects of 4 MiB.
    pub fn new(length: u64) -> Self {
        Self { length, object_size: 4 << 20 }
    }
}

/// What `manifest.json` holds.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Manifest {
    version: u32,
    pub(super) length: u64,
    pub(super) object_size: u64,
}

impl Manifest {
    fn check(self) -> Result<Self, String> {
        let Self { version, object_size, .. } = self;
        if version != 1 {
            return Err(format!("it is of version {version}, this program knows 1"));
        }
        if object_size == 0 || object_size > LONGEST || !object_size.is_multiple_of(4096) {
            return Err(format!("objects of {object_size} bytes: give a multiple of 4096, at most {LONGEST}"));
        }
        Ok(self)
    }
}

/// The manifest, read or made.
pub(super) async fn manifest(
    store: &dyn ObjectStore,
    path: &Path,
    name: &str,
    new: Option<NewVolume>,
) -> io::Result<Manifest> {
    let failed = |error| storage_error(name, "cannot reach its manifest", error);
    let made = new.map(|NewVolume { length, object_size }| Manifest { version: 1, length, object_size });
    let found = match store.get(path).await {
        Ok(found) => found.bytes().await.map_err(failed)?,
        Err(Error::NotFound { source, .. }) if source.to_string().contains("NoSuchBucket") => {
            let message = format!("{name}: there is no such bucket; make it, or name another");
            return Err(io::Error::new(io::ErrorKind::NotFound, message));
        }
        Err(Error::NotFound { .. }) => {
            let Some(made) = made else {
                let message = format!("{name}: there is no volume; give a length to make one");
                return Err(io::Error::new(io::ErrorKind::NotFound, message));
            };
            let made = made.check().map_err(|why| wrong(name, &why))?;
            let text = serde_json::to_vec_pretty(&made)?;
            // Of two that make one volume the second fails.
            let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
            return match store.put_opts(path, text.into(), options).await {
                Ok(_) => Ok(made),
                Err(Error::AlreadyExists { .. }) => {
                    let message = format!("{name}: another program has just made a volume there; name another prefix");
                    Err(io::Error::new(io::ErrorKind::AlreadyExists, message))
                }
                Err(error) => Err(failed(error)),
            };
        }
        Err(error) => return Err(failed(error)),
    };
    let found: Manifest = serde_json::from_slice(&found)
        .map_err(|error| wrong(name, &format!("its manifest cannot be read: {error}")))?;
    let found = found.check().map_err(|why| wrong(name, &format!("its manifest is wrong: {why}")))?;
    if let Some(made) = made.filter(|made| *made != found) {
        let (there, given) = ((found.length, found.object_size), (made.length, made.object_size));
        let message = format!(
            "there is a volume of {} bytes in objects of {}, not of {} in {}; give no length, or another prefix",
            there.0, there.1, given.0, given.1
        );
        return Err(wrong(name, &message));
    }
    Ok(found)
}
