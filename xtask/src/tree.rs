//! The files that the house rules are about: what git tracks, and what it would track.
//!
//! Owns the listing and the reading, so that rules are functions of a [`Tree`] and can be tested on
//! imagined ones. Asks git, because only git knows what is ignored; a tree without git (a source
//! archive) is walked, without `target/` and dot folders other than `.ci` and `.cargo`.

use anyhow::Context;
use proc_macro2::TokenStream;
use std::cell::OnceCell;
use std::path::Path;
use std::process::Command;
use std::str::FromStr;

/// One file of the tree.
pub(crate) struct File {
    /// Path below the root, with `/`.
    pub path: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
    tokens: OnceCell<Option<TokenStream>>,
    syntax: OnceCell<Option<syn::File>>,
}

impl File {
    fn new(path: String, bytes: Vec<u8>) -> Self {
        Self { path, bytes, tokens: OnceCell::new(), syntax: OnceCell::new() }
    }

    /// The tokens of a Rust file, read once for all rules; none of one that is not Rust.
    pub(crate) fn tokens(&self) -> Option<&TokenStream> {
        let read = || TokenStream::from_str(&self.text()).ok();
        self.has_extension(&[".rs"]).then(|| self.tokens.get_or_init(read).as_ref()).flatten()
    }

    /// The syntax of a Rust file, read once for all rules; one that does not parse is the compiler's to report.
    pub(crate) fn syntax(&self) -> Option<&syn::File> {
        let read = || syn::parse2(self.tokens()?.clone()).ok();
        self.syntax.get_or_init(read).as_ref()
    }

    /// The content as text; what is not UTF-8 becomes the replacement character.
    pub(crate) fn text(&self) -> std::borrow::Cow<'_, str> {
        String::from_utf8_lossy(&self.bytes)
    }

    /// Whether the path ends in one of these, as in `&[".rs", ".c"]`.
    pub(crate) fn has_extension(&self, any_of: &[&str]) -> bool {
        any_of.iter().any(|extension| self.path.ends_with(extension))
    }

    /// Not text: a zero byte, or not UTF-8.
    pub(crate) fn is_binary(&self) -> bool {
        self.bytes.contains(&0) || std::str::from_utf8(&self.bytes).is_err()
    }
}

/// All files, sorted by path.
pub(crate) struct Tree {
    /// The files.
    pub files: Vec<File>,
}

impl Tree {
    /// Reads the tree below `root`.
    pub(crate) fn read(root: &Path) -> anyhow::Result<Self> {
        let mut paths = match listed_by_git(root) {
            Some(paths) => paths,
            None => {
                let mut paths = Vec::new();
                walk(root, "", &mut paths)?;
                paths
            }
        };
        paths.sort();
        paths.dedup();
        let mut files = Vec::new();
        for path in paths {
            let full = root.join(&path);
            // Deleted but not yet staged, and links, have nothing to say.
            if full.symlink_metadata().is_ok_and(|metadata| metadata.is_file()) {
                let bytes = std::fs::read(&full).with_context(|| path.clone())?;
                files.push(File::new(path, bytes));
            }
        }
        Ok(Self { files })
    }

    /// The file at exactly this path.
    pub(crate) fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// Whether a file or a folder of this name is in the tree.
    pub(crate) fn has(&self, path: &str) -> bool {
        let path = path.trim_end_matches('/');
        self.files.iter().any(|file| {
            file.path
                .strip_prefix(path)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        })
    }
}

fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .ok()?;
    if !listed.status.success() {
        return None;
    }
    let listed = String::from_utf8(listed.stdout).ok()?;
    Some(listed.split_terminator('\0').map(str::to_owned).collect())
}

fn walk(root: &Path, below: &str, paths: &mut Vec<String>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(root.join(below)).with_context(|| below.to_owned())? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = if below.is_empty() { name.clone() } else { format!("{below}/{name}") };
        let kind = entry.file_type()?;
        let hidden = name.starts_with('.') && !matches!(name.as_str(), ".ci" | ".cargo");
        if kind.is_dir() && name != "target" && !hidden {
            walk(root, &path, paths)?;
        } else if kind.is_file() {
            paths.push(path);
        }
    }
    Ok(())
}

#[cfg(test)]
impl Tree {
    /// An imagined tree.
    pub(crate) fn imagined(files: &[(&str, &str)]) -> Self {
        let file = |(path, text): &(&str, &str)| File::new((*path).into(), (*text).into());
        Self { files: files.iter().map(file).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn git_and_the_walk_both_find_this_file() {
        let mut walked = Vec::new();
        walk(crate::root(), "", &mut walked).unwrap();
        assert!(walked.contains(&"xtask/src/tree.rs".to_owned()));
        assert!(!walked.iter().any(|path| path.starts_with("target/")));
        let tree = Tree::read(crate::root()).unwrap();
        assert!(tree.file("xtask/src/tree.rs").is_some());
        assert!(tree.has("xtask/src/") && tree.has("Makefile") && !tree.has("xtask/sr"));
    }
}
