//! Documents from files, folders and standard input, each with the place it came from.

use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use serde_json::Value;

use crate::core::problem::FieldPath;
use crate::core::yaml::{self, Position, YamlError};

/// The name that stands for standard input.
const STDIN: &str = "-";
/// Larger files are not policies; refusing them keeps a mistyped path from eating the memory.
const MAX_FILE_BYTES: u64 = 64 << 20;
/// How deep folders are searched; a link that points upwards must not search forever.
const MAX_FOLDER_DEPTH: usize = 32;

/// One document of a file.
#[derive(Clone, Debug)]
pub(super) struct Loaded {
    pub(super) file: String,
    /// Which document of the file it is, counted from 0; the items of a `List` count one by one.
    pub(super) index: usize,
    pub(super) document: Result<Placed, YamlError>,
}

/// A document that knows the lines of its fields.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub(super) value: Value,
    source: std::sync::Arc<yaml::Document>,
    /// Where the value stands in the document as read: the root, or an item of a `List`.
    prefix: Vec<usize>,
}

/// The text of a file, or of standard input.
#[derive(Clone, Debug)]
pub(super) struct Source {
    /// As it is told to people.
    pub(super) file: String,
    /// `None` for standard input.
    pub(super) path: Option<PathBuf>,
    pub(super) text: String,
}

/// Reads every document of the given files; folders give their `.yaml`, `.yml` and `.json` files in order of name.
pub(super) fn load(paths: &[PathBuf]) -> anyhow::Result<Vec<Loaded>> {
    let sources = sources(paths)?;
    Ok(sources.iter().flat_map(|source| split(&source.file, &source.text)).collect())
}

/// Reads the given files as they are; folders as [`load`] does.
pub(super) fn sources(paths: &[PathBuf]) -> anyhow::Result<Vec<Source>> {
    let mut sources = Vec::new();
    for path in paths {
        if path.as_os_str() == STDIN {
            let mut text = String::new();
            std::io::stdin().lock().take(MAX_FILE_BYTES).read_to_string(&mut text).context("reading standard input")?;
            sources.push(Source { file: STDIN.to_owned(), path: None, text });
            continue;
        }
        for file in files_below(path)? {
            let text = read_text(&file)?;
            sources.push(Source { file: file.display().to_string(), path: Some(file), text });
        }
    }
    Ok(sources)
}

/// The documents of one text.
pub(super) fn split(file: &str, text: &str) -> Vec<Loaded> {
    let mut loaded = Vec::new();
    for document in yaml::read(text) {
        match document {
            Ok(document) => {
                for document in expand(document) {
                    loaded.push(Loaded { file: file.to_owned(), index: loaded.len(), document: Ok(document) });
                }
            }
            Err(error) => loaded.push(Loaded { file: file.to_owned(), index: loaded.len(), document: Err(error) }),
        }
    }
    loaded
}

impl Placed {
    /// The line and column of a field of this value.
    pub(super) fn position_of(&self, field: &FieldPath) -> Position {
        let mut path = FieldPath::root();
        for index in &self.prefix {
            path = path.field("items").index(*index);
        }
        self.source.position_of(&field.below(&path))
    }

    /// What the reader found doubtful; the first item of a `List` speaks for all of them.
    pub(super) fn notes(&self) -> &[yaml::Note] {
        if self.prefix.iter().all(|index| *index == 0) { &self.source.notes } else { &[] }
    }
}

/// A `List` stands for its items, as it does for kubectl.
fn expand(document: yaml::Document) -> Vec<Placed> {
    let source = std::sync::Arc::new(document);
    let value = &source.value;
    let is_list = value.get("kind").and_then(Value::as_str) == Some("List") && value.get("apiVersion").is_some();
    match value.get("items").and_then(Value::as_array) {
        Some(items) if is_list => items
            .iter()
            .enumerate()
            .map(|(index, item)| Placed { value: item.clone(), source: source.clone(), prefix: vec![index] })
            .collect(),
        _ => vec![Placed { value: value.clone(), source: source.clone(), prefix: Vec::new() }],
    }
}

fn files_below(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let metadata = std::fs::metadata(path).with_context(|| format!("reading {}", path.display()))?;
    if !metadata.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    collect(path, 0, &mut files)?;
    if files.is_empty() {
        bail!("{} has no .yaml, .yml or .json file", path.display());
    }
    Ok(files)
}

fn collect(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    if depth > MAX_FOLDER_DEPTH {
        bail!("{} is nested deeper than {MAX_FOLDER_DEPTH} folders", folder.display());
    }
    let entries = std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(&path, depth + 1, files)?;
        } else if path
            .extension()
            .is_some_and(|extension| ["yaml", "yml", "json"].iter().any(|known| extension == *known))
        {
            files.push(path);
        }
    }
    Ok(())
}

fn read_text(file: &Path) -> anyhow::Result<String> {
    let reading = || format!("reading {}", file.display());
    let size = std::fs::metadata(file).with_context(reading)?.len();
    if size > MAX_FILE_BYTES {
        bail!("{} is larger than {} MiB", file.display(), MAX_FILE_BYTES >> 20);
    }
    std::fs::read_to_string(file).with_context(reading)
}
