//! Import cycles between the files of a crate. File A imports file B if a path in A refers to an item that B defines; re-exports are
//! followed. A module and the modules inside it may import each other. Code of tests and arguments of macros are not considered.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::{Path, PathBuf},
};

use syn::{
    Attribute, Item, ItemMod, ItemUse, UseTree, Visibility,
    visit::{self, Visit},
};

/// Path of a module from the root of its crate.
type ModulePath = Vec<String>;

/// A module with its own file.
struct Module {
    file: PathBuf,
    syntax: syn::File,
    /// Imported and re-exported names, as paths that are absolute or relative to this module.
    imports: BTreeMap<String, Vec<String>>,
}

/// Checks all crates below `root`.
///
/// # Errors
/// Returns an error if files import each other in a cycle, or a file cannot be read.
pub fn check(root: &Path) -> Result<(), String> {
    let mut crates = Vec::new();
    for folder in ["crates", "services", "cli", "tests", "xtask"] {
        manifests(&root.join(folder), &mut crates).map_err(|error| format!("{folder}: {error}"))?;
    }
    let mut cycles = Vec::new();
    for folder in crates {
        for cycle in cycles_of(&folder.join("src"))? {
            let files: Vec<_> = cycle
                .iter()
                .map(|file| file.strip_prefix(root).unwrap_or(file).display().to_string())
                .collect();
            cycles.push(format!(
                "these files import each other in a cycle: {}; move the shared items into a separate file",
                files.join(", ")
            ));
        }
    }
    if cycles.is_empty() { Ok(()) } else { Err(cycles.join("\n")) }
}

fn manifests(folder: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    if folder.join("Cargo.toml").is_file() {
        found.push(folder.to_owned());
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let skipped = ["src", "target", "fuzz"].iter().any(|name| entry.file_name() == *name);
        if entry.file_type()?.is_dir() && !skipped {
            manifests(&entry.path(), found)?;
        }
    }
    Ok(())
}

/// Groups of files in the folder `src` of a crate in which each file imports every other one, directly or through others.
fn cycles_of(src: &Path) -> Result<Vec<Vec<PathBuf>>, String> {
    let mut modules = BTreeMap::new();
    read_modules(src, &ModulePath::new(), &mut modules)?;
    let edges: BTreeMap<_, _> = modules.keys().map(|path| (path, imported(path, &modules))).collect();
    let reach: BTreeMap<_, _> = edges.keys().map(|path| (*path, reachable(path, &edges))).collect();
    let mut cycles = BTreeSet::new();
    for path in edges.keys().filter(|path| reach[**path].contains(**path)) {
        let members = reach[*path].iter().filter(|other| reach[*other].contains(*path));
        cycles.insert(members.map(|member| modules[member].file.clone()).collect::<Vec<_>>());
    }
    Ok(cycles.into_iter().collect())
}

fn reachable(path: &ModulePath, edges: &BTreeMap<&ModulePath, BTreeSet<ModulePath>>) -> BTreeSet<ModulePath> {
    let (mut found, mut open) = (BTreeSet::new(), vec![path.clone()]);
    while let Some(next) = open.pop() {
        for import in edges.get(&next).into_iter().flatten() {
            if found.insert(import.clone()) {
                open.push(import.clone());
            }
        }
    }
    found
}

fn read_modules(
    folder: &Path,
    path: &ModulePath,
    modules: &mut BTreeMap<ModulePath, Module>,
) -> Result<(), String> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let entry = entry.map_err(|error| format!("{}: {error}", folder.display()))?.path();
        let name = entry.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if entry.is_dir() {
            let mut inner = path.clone();
            inner.push(name);
            read_modules(&entry, &inner, modules)?;
        } else if entry.extension().is_some_and(|kind| kind == "rs") && name != "tests" {
            let mut module = path.clone();
            match name.as_str() {
                "mod" | "lib" => {}
                // The program of a package imports the library of this package by its name.
                "main" if folder.join("lib.rs").exists() => continue,
                "main" => {}
                _ => module.push(name),
            }
            let text = fs::read_to_string(&entry).map_err(|error| format!("{}: {error}", entry.display()))?;
            let syntax = syn::parse_file(&text).map_err(|error| format!("{}: {error}", entry.display()))?;
            let mut imports = BTreeMap::new();
            for item in &syntax.items {
                if let Item::Use(item) = item
                    && !is_for_tests(&item.attrs)
                {
                    flatten(&item.tree, &mut Vec::new(), &mut imports);
                }
            }
            modules.insert(module, Module { file: entry, syntax, imports });
        }
    }
    Ok(())
}

fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Path>().is_ok_and(|condition| condition.is_ident("test"))
    })
}

/// Adds the names that an import makes visible, with their paths.
fn flatten(tree: &UseTree, prefix: &mut Vec<String>, names: &mut BTreeMap<String, Vec<String>>) {
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten(&path.tree, prefix, names);
            prefix.pop();
        }
        UseTree::Name(name) if name.ident == "self" => {
            names.insert(prefix.last().cloned().unwrap_or_default(), prefix.clone());
        }
        UseTree::Name(name) => {
            let name = name.ident.to_string();
            let path = prefix.iter().cloned().chain([name.clone()]).collect();
            names.insert(name, path);
        }
        UseTree::Rename(name) => {
            let path = prefix.iter().cloned().chain([name.ident.to_string()]).collect();
            names.insert(name.rename.to_string(), path);
        }
        UseTree::Glob(_) => {
            names.insert(format!("{}::*", prefix.join("::")), prefix.clone());
        }
        UseTree::Group(group) => group.items.iter().for_each(|item| flatten(item, prefix, names)),
    }
}

/// The modules that a module imports, except its ancestors and descendants.
fn imported(path: &ModulePath, modules: &BTreeMap<ModulePath, Module>) -> BTreeSet<ModulePath> {
    let mut paths = Paths::default();
    paths.visit_file(&modules[path].syntax);
    let found = paths.found.iter().filter_map(|found| resolve(path, found, modules, 0));
    found.filter(|found| !found.starts_with(path) && !path.starts_with(found)).collect()
}

/// The module that defines the item to which `path` refers in `module`; `None` if it is not an item of this crate.
fn resolve(
    module: &ModulePath,
    path: &[String],
    modules: &BTreeMap<ModulePath, Module>,
    depth: usize,
) -> Option<ModulePath> {
    let (first, mut rest) = path.split_first()?;
    if depth > 16 {
        return None;
    }
    let mut at = module.clone();
    match first.as_str() {
        "crate" => at.clear(),
        "self" => {}
        "super" => {
            at.pop();
        }
        name => {
            at.push(name.to_owned());
            if !modules.contains_key(&at) {
                let import = modules[module].imports.get(name)?;
                // `use name;` and `use name::Item as name;` of another crate would resolve to themselves.
                if import.first() == Some(first) {
                    return None;
                }
                let whole: Vec<_> = import.iter().chain(rest).cloned().collect();
                return resolve(module, &whole, modules, depth + 1);
            }
        }
    }
    while let Some((next, after)) = rest.split_first() {
        if next == "super" {
            at.pop();
            rest = after;
            continue;
        }
        at.push(next.clone());
        if modules.contains_key(&at) {
            rest = after;
            continue;
        }
        at.pop();
        let Some(import) = modules.get(&at)?.imports.get(next) else { break };
        let whole: Vec<_> = import.iter().chain(after).cloned().collect();
        // An import from another crate resolves to no module.
        return resolve(&at, &whole, modules, depth + 1);
    }
    modules.contains_key(&at).then_some(at)
}

/// All paths of a file, except paths in re-exports and in tests.
#[derive(Default)]
struct Paths {
    found: BTreeSet<Vec<String>>,
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes = match item {
            Item::Mod(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        // Skips inline modules: their `super` is this file.
        if module.content.is_none() {
            visit::visit_item_mod(self, module);
        }
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        if matches!(item.vis, Visibility::Inherited) {
            let mut names = BTreeMap::new();
            flatten(&item.tree, &mut Vec::new(), &mut names);
            self.found.extend(names.into_values());
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.found.insert(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        visit::visit_path(self, path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The cycles of a crate with these files.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let cycles = cycles_of(folder.path()).unwrap();
        let names = |files: Vec<PathBuf>| {
            files
                .iter()
                .map(|file| file.file_name().unwrap().to_string_lossy().into_owned())
                .collect::<Vec<_>>()
                .join(" ")
        };
        cycles.into_iter().map(names).collect()
    }

    #[test]
    fn a_cycle_is_found_through_re_exports_and_paths_in_code() {
        let lib = ("lib.rs", "mod a; mod b; mod c; pub use a::A; pub use b::B;");
        let (a, c) =
            (("a.rs", "use crate::B; pub struct A(B);"), ("c.rs", "use crate::{A, B}; fn f(_: A, _: B) {}"));
        let b = ("b.rs", "pub struct B; fn f(_: crate::A) {}");
        assert_eq!(found(&[lib, a, b, c, ("d.rs", "")]), ["a.rs b.rs"]);
    }

    #[test]
    fn tests_other_crates_and_nested_modules_cause_no_cycle() {
        let lib = ("lib.rs", "mod a; mod b; pub use a::A;");
        let a = (
            "a.rs",
            "use crate::b::B; use b::Other; pub struct A(B); #[cfg(test)] mod tests { use crate::b::*; }",
        );
        let b = (
            "b.rs",
            "mod inner; pub struct B(inner::I); #[cfg(test)] use crate::A; #[cfg(test)] mod tests { use crate::A; }",
        );
        assert_eq!(
            found(&[lib, a, b, ("b/inner.rs", "use super::B; pub struct I(B);")]),
            Vec::<String>::new()
        );
    }
}
