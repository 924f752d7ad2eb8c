//! What the command and the library in its programs agree on: an environment variable.

use rustix::fs::OFlags;
use std::fs::File;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// The variable that has the settings. A program without it is run as always.
pub const VARIABLE: &str = "FOREBAY_RUN";

/// How the memory of each process is paged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The most bytes of its large memory that are resident.
    pub memory: u64,
    /// The bytes of a page.
    pub page_size: u32,
    /// The most bytes that are read ahead; 0: nothing is.
    pub readahead: u32,
    /// The policy, as the user named it.
    pub policy: String,
    /// The folder of files without a name to which pages go.
    pub swap: PathBuf,
    /// The device, by its name, as slow as which these files are.
    pub delay: Option<String>,
    /// The folder of figures, messages and recorded references.
    pub folder: PathBuf,
    /// Whether references are recorded.
    pub record: bool,
}

/// The file of messages in the folder.
pub const MESSAGES: &str = "messages";

impl Settings {
    /// Opens the file to which processes add what there is to say.
    ///
    /// # Errors
    /// The system's.
    pub fn open_messages(&self) -> io::Result<File> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        File::options().append(true).custom_flags(flags).open(self.folder.join(MESSAGES))
    }

    /// As the variable's value: a setting a line.
    pub fn to_value(&self) -> String {
        let (swap, folder) = (self.swap.display(), self.folder.display());
        let delay = self.delay.iter().map(|delay| format!("delay={delay}\n")).collect::<String>();
        format!(
            "memory={}\npage_size={}\nreadahead={}\npolicy={}\nswap={swap}\n{delay}folder={folder}\nrecord={}\n",
            self.memory, self.page_size, self.readahead, self.policy, self.record
        )
    }

    /// Those of a variable's value; `None` if it is not one of ours.
    pub fn parse(value: &str) -> Option<Self> {
        let of = |name: &str| {
            let mut lines = value.lines().filter_map(|line| line.split_once('='));
            lines.find_map(|(own, value)| (own == name).then_some(value))
        };
        Some(Self {
            memory: of("memory")?.parse().ok()?,
            page_size: of("page_size")?.parse().ok()?,
            readahead: of("readahead")?.parse().ok()?,
            policy: of("policy")?.to_owned(),
            swap: of("swap")?.into(),
            delay: of("delay").map(str::to_owned),
            folder: of("folder")?.into(),
            record: of("record")?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variable_keeps_every_setting() {
        let mut settings = Settings {
            memory: 64 << 20,
            page_size: 4096,
            readahead: 32 << 10,
            policy: "mq:queues=8".to_owned(),
            swap: "/var/tmp/a b".into(),
            delay: Some("nearline".to_owned()),
            folder: "/tmp/x=y".into(),
            record: true,
        };
        assert_eq!(Settings::parse(&settings.to_value()), Some(settings.clone()));
        settings.delay = None;
        assert_eq!(Settings::parse(&settings.to_value()), Some(settings));
        assert_eq!(Settings::parse("memory=1\n"), None);
    }
}
