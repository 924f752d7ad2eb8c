//! Which columns of a CSV file mean what: by the header's words, or as the user says.

/// What a column may mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::formats) enum Meaning {
    Nanoseconds,
    Microseconds,
    Milliseconds,
    Seconds,
    Owner,
    Object,
    Offset,
    Block,
    Page,
    Length,
    Blocks,
    Operation,
}

/// What a row says of its request. Each of these is said by one column at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::formats) enum Role {
    Time,
    Owner,
    Object,
    Place,
    Length,
    Operation,
}

use Meaning as M;
use Role as R;

/// The words for each meaning, its own name first. Where a header has several columns for one role, the meaning that
/// is first here wins, and within a meaning the word that is first.
const MEANINGS: &[(Meaning, Role, &[&str])] = &[
    (M::Nanoseconds, R::Time, &["time_ns"]),
    (M::Microseconds, R::Time, &["time_us"]),
    (M::Milliseconds, R::Time, &["time_ms"]),
    (M::Seconds, R::Time, &["time", "timestamp", "ts"]),
    (M::Owner, R::Owner, &["owner", "pid", "process", "client"]),
    (M::Object, R::Object, &["object", "file", "volume", "disk", "device"]),
    (M::Offset, R::Place, &["offset"]),
    (M::Block, R::Place, &["block", "lba", "lbn", "sector"]),
    (M::Page, R::Place, &["page", "id", "key"]),
    (M::Blocks, R::Length, &["blocks", "count"]),
    (M::Length, R::Length, &["length", "size", "bytes"]),
    (M::Operation, R::Operation, &["operation", "op", "type", "rw"]),
];

impl Meaning {
    fn row(self) -> &'static (Meaning, Role, &'static [&'static str]) {
        MEANINGS.iter().find(|(meaning, ..)| *meaning == self).expect("every meaning has its words")
    }

    fn role(self) -> Role {
        self.row().1
    }

    fn words(self) -> &'static [&'static str] {
        self.row().2
    }

    /// Whether it counts something.
    fn is_number(self) -> bool {
        matches!(self, M::Offset | M::Block | M::Length | M::Blocks)
    }

    /// Its name on the command line.
    pub(in crate::formats) fn name(self) -> &'static str {
        self.words()[0]
    }

    fn of(word: &str) -> Option<Self> {
        let known = |(_, _, words): &&(_, _, &[&str])| words.iter().any(|known| known.eq_ignore_ascii_case(word));
        MEANINGS.iter().find(known).map(|(meaning, ..)| *meaning)
    }
}

/// Which columns of a CSV file mean what, where its header does not say so in words that are known, or is missing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Columns {
    named: Vec<(Meaning, String)>,
    /// Columns counted from 0, of files without a header.
    numbered: Vec<(Meaning, usize)>,
    /// What the file does not say, whatever its header.
    absent: Vec<Role>,
    /// What is hexadecimal without `0x`.
    hexadecimal: Vec<Role>,
}

impl Columns {
    /// Reads `MEANING=COLUMN,…`, for example `time=ts,offset=addr`: a column is named as in the header, or, in a file
    /// without a header, is `#` and its number from 1 on; `-` says that the file has no such column, whatever its header. `offset_hex` is an
    /// offset in hexadecimal digits without `0x`, and so `block_hex`, `length_hex`, `blocks_hex`. The error says what is wrong and what may be written.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut columns = Self::default();
        let mut roles: Vec<Role> = Vec::new();
        for part in text.split(',') {
            let Some((word, column)) = part.split_once('=') else {
                return Err(format!("`{part}` is not MEANING=COLUMN; write for example time=ts,offset=addr"));
            };
            let (word, column) = (word.trim(), column.trim());
            let bare = word.strip_suffix("_hex");
            let Some(meaning) = Meaning::of(bare.unwrap_or(word)).filter(|of| bare.is_none() || of.is_number()) else {
                let known: Vec<&str> = MEANINGS.iter().map(|(.., words)| words[0]).collect();
                return Err(format!(
                    "a column cannot mean `{word}`; it can mean {}, and offset_hex, block_hex, blocks_hex, length_hex",
                    known.join(", ")
                ));
            };
            if roles.contains(&meaning.role()) {
                return Err(format!("`{part}`: another column is given for the same; give one"));
            }
            roles.push(meaning.role());
            if bare.is_some() {
                columns.hexadecimal.push(meaning.role());
            }
            if column == "-" {
                if meaning.role() == Role::Place {
                    return Err(format!("`{part}`: every request needs a place; name its column"));
                }
                columns.absent.push(meaning.role());
                continue;
            }
            match column.strip_prefix('#').map(str::parse::<usize>) {
                Some(Ok(number @ 1..)) => columns.numbered.push((meaning, number - 1)),
                Some(_) => return Err(format!("`{column}` is no column; they are #1, #2 and so on")),
                None if column.is_empty() => return Err(format!("`{part}` names no column")),
                None => columns.named.push((meaning, column.to_owned())),
            }
        }
        if !columns.named.is_empty() && !columns.numbered.is_empty() {
            return Err("columns are given by name and by number; a file has a header or has none".to_owned());
        }
        if columns.without_header() && !roles.contains(&Role::Place) {
            return Err("no column is given for offset, block or page; a request needs one".to_owned());
        }
        Ok(columns)
    }

    /// Whether nothing was said: the header's words decide.
    pub fn is_empty(&self) -> bool {
        self.named.is_empty() && self.numbered.is_empty() && self.absent.is_empty()
    }

    /// Whether the file has no header.
    pub(in crate::formats) fn without_header(&self) -> bool {
        !self.numbered.is_empty()
    }
}

/// Where a row says what: a meaning and a column for each role that the file has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::formats) struct Layout {
    found: [Option<(Meaning, usize)>; 6],
    hexadecimal: [bool; 6],
}

impl Layout {
    /// The layout of a file with this header.
    pub(in crate::formats) fn of_header(header: &[&str], columns: &Columns) -> Result<Self, String> {
        let mut layout = Self::with(columns);
        let position = |word: &str| header.iter().position(|name| name.trim_ascii().eq_ignore_ascii_case(word));
        for (meaning, name) in &columns.named {
            let Some(column) = position(name) else {
                return Err(format!("the header has no column `{name}`; it has {}", header.join(", ")));
            };
            layout.found[meaning.role() as usize] = Some((*meaning, column));
        }
        for (meaning, role, words) in MEANINGS {
            let unsaid = layout.found[*role as usize].is_none() && !columns.absent.contains(role);
            let taken = |column: &usize| layout.found.iter().flatten().any(|(_, taken)| taken == column);
            if unsaid && let Some(column) = words.iter().filter_map(|word| position(word)).find(|c| !taken(c)) {
                layout.found[*role as usize] = Some((*meaning, column));
            }
        }
        if layout.column(R::Place).is_none() {
            let words: Vec<&str> = MEANINGS
                .iter()
                .filter(|(_, role, _)| *role == R::Place)
                .flat_map(|(.., words)| *words)
                .copied()
                .collect();
            return Err(format!(
                "no column is known as the place of a request: there are {}, and none of {}; say which it is with --columns \
                 offset=NAME (bytes), block=NAME or page=NAME (any key)",
                header.join(", "),
                words.join(", ")
            ));
        }
        // A place in bytes goes with a length in bytes, if the header has that too.
        let chosen = |role: Role| columns.named.iter().any(|(meaning, _)| meaning.role() == role);
        if layout.is(R::Place, M::Offset) && layout.is(R::Length, M::Blocks) && !chosen(R::Length) {
            let length = layout.found[R::Length as usize].take();
            let free = |column: &usize| layout.found.iter().flatten().all(|(_, taken)| taken != column);
            let column = M::Length.words().iter().filter_map(|word| position(word)).find(free);
            layout.found[R::Length as usize] = column.map(|column| (M::Length, column)).or(length);
        }
        Ok(layout)
    }

    /// The layout of a file without a header.
    pub(super) fn of_numbers(columns: &Columns) -> Self {
        let mut layout = Self::with(columns);
        for &(meaning, column) in &columns.numbered {
            layout.found[meaning.role() as usize] = Some((meaning, column));
        }
        layout
    }

    fn with(columns: &Columns) -> Self {
        let mut layout = Self::default();
        for role in &columns.hexadecimal {
            layout.hexadecimal[*role as usize] = true;
        }
        layout
    }

    /// Whether what a role says is hexadecimal without `0x`.
    pub(in crate::formats) fn is_hexadecimal(&self, role: Role) -> bool {
        self.hexadecimal[role as usize]
    }

    /// The column for a role, and what exactly it means.
    pub(in crate::formats) fn column(&self, role: Role) -> Option<(Meaning, usize)> {
        self.found[role as usize]
    }

    /// The columns that mean something, each with its role.
    pub(in crate::formats) fn columns(&self) -> impl Iterator<Item = (Role, usize)> {
        self.found.iter().flatten().map(|(meaning, column)| (meaning.role(), *column))
    }

    /// The number of columns that a row has at least.
    pub(super) fn width(&self) -> usize {
        self.found.iter().flatten().map(|(_, column)| column + 1).max().unwrap_or(0)
    }

    fn is(&self, role: Role, meaning: Meaning) -> bool {
        self.column(role).is_some_and(|(is, _)| is == meaning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(header: &str, columns: &str) -> Result<Layout, String> {
        let columns = if columns.is_empty() { Columns::default() } else { Columns::parse(columns)? };
        Layout::of_header(&header.split(',').collect::<Vec<_>>(), &columns)
    }

    #[test]
    fn the_headers_words_are_known_in_any_case_and_order() {
        let layout = layout("Op,LBA,Count,Disk,PID,time_ms", "").unwrap();
        assert_eq!(layout.column(R::Operation), Some((M::Operation, 0)));
        assert_eq!(layout.column(R::Place), Some((M::Block, 1)));
        assert_eq!(layout.column(R::Length), Some((M::Blocks, 2)));
        assert_eq!(layout.column(R::Object), Some((M::Object, 3)));
        assert_eq!(layout.column(R::Owner), Some((M::Owner, 4)));
        assert_eq!(layout.column(R::Time), Some((M::Milliseconds, 5)));
        assert_eq!(layout.width(), 6);
    }

    #[test]
    fn an_offset_is_preferred_to_a_block_and_to_an_id() {
        assert_eq!(layout("id,block,offset", "").unwrap().column(R::Place), Some((M::Offset, 2)));
        assert_eq!(layout("id,block,offset", "page=id").unwrap().column(R::Place), Some((M::Page, 0)));
    }

    #[test]
    fn a_length_in_the_places_unit_is_preferred() {
        assert_eq!(layout("offset,blocks,bytes", "").unwrap().column(R::Length), Some((M::Length, 2)));
        assert_eq!(layout("block,bytes,blocks", "").unwrap().column(R::Length), Some((M::Blocks, 2)));
        assert_eq!(layout("offset,n,bytes", "blocks=n").unwrap().column(R::Length), Some((M::Blocks, 1)));
    }

    #[test]
    fn a_column_given_for_one_thing_is_not_taken_for_another() {
        let layout = layout("device,offset", "owner=device").unwrap();
        assert_eq!((layout.column(R::Owner), layout.column(R::Object)), (Some((M::Owner, 0)), None));
    }

    #[test]
    fn columns_by_number_mean_a_file_without_a_header() {
        let columns = Columns::parse("offset=#3,time_us=#1").unwrap();
        assert!(columns.without_header());
        let layout = Layout::of_numbers(&columns);
        assert_eq!(layout.column(R::Place), Some((M::Offset, 2)));
        assert_eq!(layout.column(R::Time), Some((M::Microseconds, 0)));
    }

    #[test]
    fn a_column_that_is_said_to_be_missing_is_not_looked_for() {
        let layout = layout("offset,op,bytes", "operation=-,length=-").unwrap();
        assert_eq!((layout.column(R::Operation), layout.column(R::Length)), (None, None));
        assert_eq!(layout.column(R::Place), Some((M::Offset, 0)));
        assert!(!Columns::parse("operation=-").unwrap().is_empty());
        assert!(!Columns::parse("operation=-").unwrap().without_header());
    }

    #[test]
    fn wrong_columns_are_refused_with_what_would_be_right() {
        for (columns, says) in [
            ("", "is not MEANING=COLUMN"),
            ("offset", "is not MEANING=COLUMN"),
            ("colour=red", "it can mean time_ns"),
            ("offset=a,page=b", "the same"),
            ("offset=#0", "#1, #2"),
            ("offset=#x", "#1, #2"),
            ("offset=", "names no column"),
            ("offset=#1,time=t", "by name and by number"),
            ("time=#1", "offset, block or page"),
            ("page_hex=a", "it can mean time_ns"),
            ("offset=-", "every request needs a place"),
            ("operation=-,op=x", "the same"),
        ] {
            let error = Columns::parse(columns).unwrap_err();
            assert!(error.contains(says), "{columns}: {error}");
        }
        assert!(layout("time,addr", "").unwrap_err().contains("--columns offset=NAME"));
        assert!(layout("time,addr", "offset=adr").unwrap_err().contains("it has time, addr"));
    }
}
