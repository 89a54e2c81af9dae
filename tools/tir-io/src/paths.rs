//! Paths between files.

use std::path::{Component, Path, PathBuf};

/// A path without `.` and with `..` taken away where something stands before it; absolute.
pub(crate) fn absolute(path: &Path) -> PathBuf {
    // A folder that exists is resolved, so that links do not make two names of one file.
    if let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
        let parent = if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        };
        if let Ok(folder) = parent.canonicalize() {
            return folder.join(name);
        }
    }
    let mut out = PathBuf::new();
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            part => out.push(part),
        }
    }
    out
}

/// The way from an absolute folder to an absolute path, with `/` between its parts.
pub(crate) fn relative(from: &Path, to: &Path) -> String {
    let (from, to): (Vec<_>, Vec<_>) = (from.components().collect(), to.components().collect());
    let same = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = std::iter::repeat_n("..".to_string(), from.len() - same);
    let down = to[same..]
        .iter()
        .map(|part| part.as_os_str().to_string_lossy().into_owned());
    up.chain(down).collect::<Vec<_>>().join("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths() {
        let way = |from: &str, to: &str| relative(Path::new(from), Path::new(to));
        assert_eq!(way("/a/b", "/a/b/w"), "w");
        assert_eq!(way("/a/b", "/a/c/w"), "../c/w");
        assert_eq!(way("/", "/w"), "w");
        assert_eq!(way("/a/b", "/w"), "../../w");
    }
}
