//! Volumes behind their caches: one that volumes share, and one for each volume that asks for its own.

use crate::bounded::bounded;
use crate::cache::{CACHE, Cache, SHARED, common};
use crate::error::Error;
use crate::memory;
use crate::volumes::attached::Attached;
use crate::volumes::options::Options;
use crate::volumes::source::Opening;
use crate::volumes::volume::VolumeOptions;
use forebay_basis::show_bytes;
use forebay_model::Model;
use forebay_policy::Spec;
use forebay_policy::managers::Assignment;
use forebay_pool::device::{Device, Limited};
use forebay_pool::{Config, VolumeConfig};
use forebay_trace::Circumstances;
use std::sync::Arc;
use std::time::Duration;

impl Options {
    /// The pool of the volumes that share one. `volumes` are attached in their order, so that their numbers are known.
    pub(crate) fn shared_cache(&self) -> Result<Cache, Error> {
        let mut policy = self.service.policy();
        let volumes: Vec<&VolumeOptions> = self.volumes.iter().filter(|volume| !volume.own_cache()).collect();
        if volumes.iter().any(|volume| volume.manager.is_some()) {
            let mut managers = Assignment::new(None);
            for (number, volume) in volumes.iter().enumerate() {
                if let Some(manager) = volume.manager().map_err(|error| error.of_volume(&volume.name))? {
                    if policy.info.name != "lru-sp" {
                        let what = "manager= needs --policy lru-sp, which alone asks managers";
                        return Err(Error::Usage(what.to_owned()).of_volume(&volume.name));
                    }
                    if number >= Assignment::MOST_RULES {
                        return Err(Error::Usage(format!(
                            "at most the first {} volumes of a cache have managers",
                            Assignment::MOST_RULES
                        )));
                    }
                    managers.add(manager, Some(&[number as u32]), None);
                }
            }
            policy.managers = Some(Arc::new(managers));
        }
        Cache::new(SHARED, self.shared_config(policy)?)
    }

    /// Refuses what takes more memory than there is, `limit` bytes: the server would be killed with what clients have written to it.
    pub(crate) fn check_memory(&self, limit: u64) -> Result<(), Error> {
        let memory = self.volumes.iter().map(|volume| volume.path.memory()).fold(0, u64::saturating_add);
        if memory > limit {
            let [memory, limit] = [memory, limit].map(show_bytes);
            return Err(Error::Usage(format!(
                "volumes of {memory} in memory are more than the {limit} that this machine, a control group or `ulimit` allows: \
                 make memory:SIZE smaller"
            )));
        }
        let mut caches = Vec::new();
        for volume in self.volumes.iter().filter(|volume| volume.own_cache()) {
            caches.push(self.own_config(volume).map_err(|error| error.of_volume(&volume.name))?);
        }
        if caches.len() < self.volumes.len() {
            caches.push(self.shared_config(self.service.policy())?);
        }
        let sum = |bytes: fn(&Config) -> u64| caches.iter().map(bytes).fold(0, u64::saturating_add);
        let (frames, metadata) = (sum(|config| config.capacity), sum(Config::most_metadata));
        let nbd = forebay_nbd::Config::default();
        let buffers = self.buffers.map_or(nbd.buffers as u64, |size| size.0);
        let clients = self.max_connections.unwrap_or(nbd.connections) as u64;
        let program = clients.saturating_mul(memory::CONNECTION).saturating_add(memory::PROGRAM);
        let all = [frames, metadata, buffers, memory, program];
        if all.iter().copied().fold(0, u64::saturating_add) <= limit {
            return Ok(());
        }
        let in_memory =
            if memory > 0 { format!(" volumes of {} in memory,", show_bytes(memory)) } else { String::new() };
        let [frames, metadata, buffers, _, program] = all.map(show_bytes);
        let limit = show_bytes(limit);
        Err(Error::Usage(format!(
            "caches of {frames}, up to {metadata} of metadata, --buffers of {buffers},{in_memory} and {program} for the program and \
             {clients} connections need more memory than the {limit} that this machine, a control group or `ulimit` allows: make --cache, size=, \
             --buffers or --max-connections smaller"
        )))
    }

    fn shared_config(&self, policy: Spec) -> Result<Config, Error> {
        let mut config = self.service.config(self.service.cache_size(), policy, self.service.page_size())?;
        config.shares = self.volumes.iter().filter(|volume| volume.share().is_some()).count() as u32;
        Ok(config)
    }

    /// The bytes of a volume's own cache.
    pub(crate) fn own_size(&self, volume: &VolumeOptions) -> u64 {
        volume.size.or(self.service.cache).map_or(CACHE, |size| size.0)
    }

    fn own_config(&self, volume: &VolumeOptions) -> Result<Config, Error> {
        if volume.manager.is_some() {
            return Err(Error::Usage("manager= is for volumes that share a cache".to_owned()));
        }
        if volume.share().is_some() {
            let what = "min= and max= are for volumes that share a cache: leave policy=, size= and page= out";
            return Err(Error::Usage(what.to_owned()));
        }
        let policy = volume.policy.as_ref().map_or_else(|| self.service.policy(), |policy| policy.0.clone());
        self.service.config(self.own_size(volume), policy, self.page_size(volume))
    }

    /// The bytes of a page of a volume's cache, if it has its own.
    fn page_size(&self, volume: &VolumeOptions) -> u64 {
        volume.page.map_or_else(|| self.service.page_size(), |page| page.0)
    }

    /// The page size that a recording is to be replayed at: the smallest of all caches.
    pub(crate) fn recorded_page_size(&self) -> u64 {
        let own = self.volumes.iter().map(|volume| self.page_size(volume));
        own.min().unwrap_or_else(|| self.service.page_size())
    }

    /// What a recording says of these volumes and their cache; of several caches nothing.
    pub(crate) fn circumstances(&self) -> Circumstances {
        let readahead = common(self.volumes.iter().map(VolumeOptions::most_readahead));
        let mode = common(self.volumes.iter().map(VolumeOptions::mode_in_words));
        let all = self.service.circumstances("serve", readahead, mode);
        if self.volumes.iter().any(VolumeOptions::own_cache) {
            return Circumstances { policy: None, cache: None, policy_bytes: None, ..all };
        }
        all
    }

    /// Opens a volume and puts it behind its cache; `shared` is that of volumes without their own. What is opened later than `patience` is closed again.
    pub(crate) fn attach(
        &self,
        volume: &VolumeOptions,
        shared: Option<&Arc<Cache>>,
        delay: Option<&Arc<Model>>,
        patience: Option<Duration>,
    ) -> Result<Arc<Attached>, Error> {
        let attach = || {
            let opening = Opening {
                read_only: volume.read_only,
                create: volume.create.map(|size| size.0),
                retry: volume.retry.map(|retry| retry.0),
                direct: self.service.direct.unwrap_or_default(),
                timeout: self.service.device_timeout.map(|timeout| timeout.0),
                delay: delay.cloned(),
                rate: self.rate.map(|rate| rate.0),
            };
            let cache = match shared {
                Some(cache) if !volume.own_cache() => Arc::clone(cache),
                _ => Arc::new(Cache::new(&volume.name, self.own_config(volume)?)?),
            };
            let device: Arc<dyn Device> = match patience {
                None => volume.path.open(&opening)?,
                Some(patience) => {
                    let path = volume.path.clone();
                    bounded(&format!("opening {path}"), patience, || 0, move || path.open(&opening))?
                }
            };
            let limited = Limited::new(device, volume.limits().rate_limits());
            let limited = Arc::new(limited.map_err(|error| Error::Usage(format!("rate= and iops=: {error}")))?);
            let mut config = VolumeConfig::new(&volume.name);
            config.mode = volume.mode.into();
            config.read_only = volume.read_only;
            config.readahead = u32::try_from(volume.most_readahead()).unwrap_or(u32::MAX);
            let attached = cache.pool.attach(Arc::clone(&limited) as Arc<dyn Device>, config);
            if let Some(share) = volume.share()
                && let Err(error) = cache.pool.set_share(&attached, share)
            {
                cache.pool.detach(&attached)?;
                return Err(error.into());
            }
            Ok(Arc::new(Attached::new(volume.clone(), cache, attached, &limited)))
        };
        attach().map_err(|error: Error| error.of_volume(&volume.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ServiceOptions;

    #[test]
    fn all_that_a_server_takes_fits_in_the_memory_there_is() {
        let of = |volumes: &[&str]| Options {
            volumes: volumes.iter().map(|volume| volume.parse().unwrap()).collect(),
            service: ServiceOptions { cache: Some("512MiB".parse().unwrap()), ..ServiceOptions::default() },
            buffers: Some("256MiB".parse().unwrap()),
            ..Options::default()
        };
        const MIB: u64 = 1 << 20;
        // CLOCK-Pro's metadata is a 20th of its cache.
        let one = of(&["a=/x"]);
        one.check_memory(830 * MIB).unwrap();
        // The program and its connections take 34 MiB.
        assert!(one.check_memory(820 * MIB).unwrap_err().to_string().contains("need more memory than the 820 MiB"));
        let few = Options { max_connections: Some(1), ..one.clone() };
        few.check_memory(820 * MIB).unwrap();
        let two = of(&["a=/x", "b=/y,size=1GiB,policy=lru"]);
        assert!(two.check_memory(1800 * MIB).is_err());
        two.check_memory(1900 * MIB).unwrap();
        of(&["b=/y,size=1GiB"]).check_memory(1400 * MIB).unwrap();
        let memory = of(&["a=memory:600MiB", "b=concat:memory:300MiB+memory:300MiB"]);
        memory.check_memory(2040 * MIB).unwrap();
        let refused = memory.check_memory(2000 * MIB).unwrap_err().to_string();
        assert!(refused.contains("volumes of 1.2 GiB in memory"), "{refused}");
        let refused = memory.check_memory(1199 * MIB).unwrap_err().to_string();
        assert!(refused.contains("volumes of 1.2 GiB in memory are more than the 1.2 GiB"), "{refused}");
    }

    #[test]
    fn a_volume_may_have_a_share_of_the_common_cache() {
        let volume = |text: &str| text.parse::<VolumeOptions>().unwrap();
        let service = ServiceOptions { cache: Some("4MiB".parse().unwrap()), ..ServiceOptions::default() };
        let mut options = Options { service, ..Options::default() };
        options.volumes = vec![volume("a=memory:8MiB,min=1MiB,max=2MiB"), volume("b=memory:8MiB,min=3MiB")];
        let cache = Arc::new(options.shared_cache().unwrap());
        let attached = options.attach(&options.volumes[0], Some(&cache), None, None).unwrap();
        let share = cache.pool.statistics().volumes[0].share.unwrap();
        assert_eq!((share.min, share.max, share.resident), (1 << 20, 2 << 20, 0));
        // The laundry's frames are nobody's share.
        let refused = options.attach(&options.volumes[1], Some(&cache), None, None).err().unwrap().to_string();
        assert!(refused.contains("volume b") && refused.contains("does not fit"), "{refused}");
        assert_eq!(cache.pool.statistics().volumes.len(), 1);
        let own = options.attach(&volume("c=memory:8MiB,size=1MiB,max=1MiB"), Some(&cache), None, None).err().unwrap();
        assert!(own.to_string().contains("for volumes that share a cache"), "{own}");
        drop(attached);
    }
}
