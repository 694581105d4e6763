//! From what the user names to the scenario files that are meant.
//!
//! A relative path that is not there is looked for in the folders above, as far as the one that has `scenarios/`: so
//! `squall run` works from anywhere inside a project, and the name of a scenario is the same from everywhere.

use std::fs;
use std::path::{Component, Path, PathBuf};

pub const DEFAULT_PATH: &str = "scenarios/smoke";

/// A scenario file: as it is named, and where it lies.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Found {
    /// With `/` separators and without a leading `./`; part of the verdict.
    pub name: String,
    pub path: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum FindError {
    #[error("there is no {name:?} here or in any folder above{hint}")]
    Missing { name: String, hint: String },
    #[error("no scenarios found: there is no {DEFAULT_PATH}/ here or in any folder above; name a file or a folder")]
    NoLibrary,
    #[error("{name:?} is no scenario: a scenario is a .toml file")]
    NotToml { name: String },
    #[error("the folder {name:?} holds no .toml file")]
    Empty { name: String },
    #[error("failed to read {name:?}: {source}")]
    Unreadable { name: String, source: std::io::Error },
}

/// All files that `paths` mean (none: [`DEFAULT_PATH`]), each once, in the order given and by name inside a folder.
pub fn scenarios(here: &Path, paths: &[String]) -> Result<Vec<Found>, FindError> {
    if paths.is_empty() {
        let root = locate(here, Path::new(DEFAULT_PATH)).ok_or(FindError::NoLibrary)?;
        return folder(DEFAULT_PATH, &root);
    }
    let mut all: Vec<Found> = Vec::new();
    for path in paths {
        for found in named(here, path)? {
            if !all.contains(&found) {
                all.push(found);
            }
        }
    }
    Ok(all)
}

fn named(here: &Path, given: &str) -> Result<Vec<Found>, FindError> {
    let name = plain(given);
    let path = locate(here, Path::new(&name))
        .ok_or_else(|| FindError::Missing { name: given.to_owned(), hint: hint(here, &name) })?;
    if path.is_dir() {
        return folder(&name, &path);
    }
    if path.extension().is_none_or(|extension| extension != "toml") {
        return Err(FindError::NotToml { name: given.to_owned() });
    }
    Ok(vec![Found { name, path }])
}

/// `./a//b/` -> `a/b`.
fn plain(given: &str) -> String {
    let text = if cfg!(windows) { given.replace('\\', "/") } else { given.to_owned() };
    let parts: Vec<String> = Path::new(&text)
        .components()
        .filter(|part| *part != Component::CurDir)
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    match parts.split_first() {
        Some((root, rest)) if root == "/" => format!("/{}", rest.join("/")),
        Some(_) => parts.join("/"),
        None => ".".into(),
    }
}

fn locate(here: &Path, path: &Path) -> Option<PathBuf> {
    if path.is_absolute() {
        return path.exists().then(|| path.to_owned());
    }
    let own = here.join(path);
    if own.exists() {
        return Some(own);
    }
    // Not any file of that name somewhere above: only in the project that has the scenarios.
    let root = here.ancestors().skip(1).find(|above| above.join("scenarios").is_dir())?;
    let above = root.join(path);
    above.exists().then_some(above)
}

/// A file of the library whose name was probably meant.
fn hint(here: &Path, name: &str) -> String {
    let Some(root) = locate(here, Path::new("scenarios")) else { return String::new() };
    let mut files = Vec::new();
    if walk("scenarios", &root, &mut files).is_err() {
        return String::new();
    }
    let stem = |text: &str| Path::new(text).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let wanted = stem(name).unwrap_or_default();
    let stems: Vec<String> = files.iter().filter_map(|found| stem(&found.name)).collect();
    let near = crate::run::vocabulary::nearest(&wanted, stems.iter().map(String::as_str));
    let file = near.and_then(|near| files.into_iter().find(|found| stem(&found.name).as_ref() == Some(&near)));
    file.map_or(String::new(), |found| format!("; did you mean {}?", found.name))
}

fn folder(name: &str, path: &Path) -> Result<Vec<Found>, FindError> {
    let mut files = Vec::new();
    walk(name, path, &mut files)?;
    if files.is_empty() {
        return Err(FindError::Empty { name: name.to_owned() });
    }
    files.sort();
    Ok(files)
}

fn walk(name: &str, path: &Path, files: &mut Vec<Found>) -> Result<(), FindError> {
    let unreadable = |source| FindError::Unreadable { name: name.to_owned(), source };
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let entry = entry.map_err(unreadable)?;
        let own = format!("{}/{}", name.trim_end_matches('/'), entry.file_name().to_string_lossy());
        let path = entry.path();
        if path.is_dir() {
            walk(&own, &path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "toml") {
            files.push(Found { name: own, path });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn project() -> &'static Path {
        Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
    }

    fn names(here: &Path, paths: &[&str]) -> Vec<String> {
        let paths: Vec<String> = paths.iter().map(|path| (*path).to_owned()).collect();
        scenarios(here, &paths).unwrap().into_iter().map(|found| found.name).collect()
    }

    #[test]
    fn a_scenario_has_the_same_name_from_everywhere_in_the_project() {
        let below = project().join("sim/src");
        assert_eq!(names(&below, &[]), names(project(), &[]));
        let file = "scenarios/smoke/total-outage.toml";
        assert_eq!(names(&below, &[file]), [file]);
        assert_eq!(names(project(), &["./scenarios//smoke/total-outage.toml"]), [file]);
    }

    #[test]
    fn a_folder_means_its_files_by_name_and_none_twice() {
        let all = names(project(), &["scenarios", "scenarios/smoke/total-outage.toml"]);
        let mut sorted = all.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(all, sorted);
        assert!(all.len() >= 20);
    }

    #[test]
    fn what_is_not_there_is_said_with_what_was_meant() {
        let missing = scenarios(project(), &["scenarios/smoke/total-outge.toml".to_owned()]).unwrap_err();
        assert!(missing.to_string().contains("did you mean scenarios/smoke/total-outage.toml?"), "{missing}");
        assert!(matches!(scenarios(Path::new("/"), &[]), Err(FindError::NoLibrary)));
        let not = scenarios(project(), &["README.md".to_owned()]);
        assert!(matches!(not, Err(FindError::NotToml { .. } | FindError::Missing { .. })));
    }
}
