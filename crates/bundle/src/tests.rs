//! The libraries in caches and directories, trusted and not.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

use super::*;
use crate::cache::{Place, place};
use crate::trust::user;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

fn unpack(home: &Path) -> Result<PathBuf, BundleError> {
    cache(&Library::ALL, |name| (name == "XDG_CACHE_HOME").then(|| home.display().to_string()))
}

#[test]
fn unpacking_keeps_others_from_writing_and_is_done_once() {
    let home = tempfile::tempdir().unwrap();
    let directory = unpack(home.path()).unwrap();
    let runtime = directory.join("libunbloat.so");
    let expected = if user() == 0 { 0o755 } else { 0o700 };
    assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, expected);
    let first = fs::metadata(&runtime).unwrap().ino();
    assert_eq!(unpack(home.path()).unwrap(), directory);
    assert_eq!(fs::metadata(&runtime).unwrap().ino(), first);
}

#[test]
fn a_library_that_was_changed_is_put_right() {
    let home = tempfile::tempdir().unwrap();
    let directory = unpack(home.path()).unwrap();
    fs::write(directory.join("libunbloat.so"), b"not a library").unwrap();
    unpack(home.path()).unwrap();
    assert_eq!(fs::read(directory.join("libunbloat.so")).unwrap(), contents(Library::Runtime));
}

#[test]
fn root_keeps_its_libraries_where_those_it_becomes_can_read_them() {
    let home = |name: &str| (name == "HOME").then(|| "/home/u".to_owned());
    assert_eq!(place(home, 0), Some(Place { top: "/var/cache/unbloat".into(), mode: 0o755 }));
    let told = |name: &str| (name == "XDG_CACHE_HOME").then(|| "/srv/cache".to_owned());
    assert_eq!(place(told, 0), Some(Place { top: "/srv/cache/unbloat".into(), mode: 0o755 }));
    assert_eq!(place(home, 1000), Some(Place { top: "/home/u/.cache/unbloat".into(), mode: 0o700 }));
    assert_eq!(place(|_| None, 1000), None);
}

#[test]
fn a_directory_that_others_can_write_to_is_refused() {
    let home = tempfile::tempdir().unwrap();
    let directory = unpack(home.path()).unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(unpack(home.path()), Err(BundleError::NotPrivate { .. })));
}

#[test]
fn a_directory_above_that_others_can_write_to_is_refused_as_well() {
    let home = tempfile::tempdir().unwrap();
    let directory = unpack(home.path()).unwrap();
    fs::set_permissions(directory.parent().unwrap(), fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(unpack(home.path()), Err(BundleError::NotPrivate { .. })));
}

#[test]
fn an_installed_directory_has_to_hold_what_is_needed() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("new/lib");
    let installed = |needed: &[Library]| {
        cache(needed, |name| (name == "UNBLOAT_LIBRARY_DIR").then(|| directory.display().to_string()))
    };
    let error = installed(&[Library::Runtime]).unwrap_err().to_string();
    assert!(error.contains("libunbloat.so") && error.contains("unbloat install"), "{error}");
    install(&directory).unwrap();
    assert_eq!(installed(&Library::ALL).unwrap(), directory);
    fs::remove_file(directory.join("libunbloat.so")).unwrap();
    assert!(installed(&Library::ALL).is_err());
    assert_eq!(installed(&[Library::Jemalloc]).unwrap(), directory);
}

#[test]
fn an_unusable_cache_names_the_alternatives() {
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    fs::write(&file, "").unwrap();
    let error = unpack(&file).unwrap_err().to_string();
    assert!(error.contains("unbloat install DIR") && error.contains("XDG_CACHE_HOME"), "{error}");
    assert!(matches!(unpack(Path::new("/a b")), Err(BundleError::Unquotable { .. })));
}

/// The versions that a library requires are named in its string table (`DT_VERNEED`).
#[test]
fn the_libraries_need_no_newer_glibc_than_debian_11_has() {
    const START: &[u8] = b"\0GLIBC_2.";
    for library in Library::ALL {
        let bytes = contents(library);
        let starts = (0..bytes.len()).filter(|&at| bytes[at..].starts_with(START));
        let minors = starts.map(|at| {
            let digits = bytes[at + START.len()..].iter().take_while(|byte| byte.is_ascii_digit());
            String::from_utf8(digits.copied().collect()).unwrap().parse::<u32>().unwrap()
        });
        let newest = minors.max().expect("it needs some version of glibc");
        assert!(newest <= 31, "{} needs GLIBC_2.{newest}", library.file_name());
    }
}

const STRANGER: u32 = 65_534;

/// Returns whether this is root, the only user that can give files away.
fn can_give_away() -> bool {
    let is_root = user() == 0;
    if !is_root {
        eprintln!("left out: only root can make a directory of another user's");
    }
    is_root
}

/// The other user could rename entries below that directory, and plant a library in their place.
#[test]
fn a_cache_below_a_directory_of_another_user_is_refused() {
    if !can_give_away() {
        return;
    }
    let home = tempfile::tempdir().unwrap();
    let theirs = home.path().join("theirs");
    let cache = theirs.join("cache");
    fs::create_dir_all(&cache).unwrap();
    let unpacked = unpack(&cache).unwrap();
    chown(&theirs, Some(STRANGER), None).unwrap();
    let refused = |result: Result<PathBuf, BundleError>| match result {
        Err(BundleError::NotPrivate { path }) => assert_eq!(path, theirs),
        other => panic!("{other:?}"),
    };
    refused(unpack(&cache));
    refused(unpack(&cache.join("new")));
    assert!(!cache.join("new").exists(), "nothing is made there");
    let installed = unpacked.display().to_string();
    refused(super::cache(&Library::ALL, |name| (name == "UNBLOAT_LIBRARY_DIR").then(|| installed.clone())));
    // Through a link of one's own it is the same directory.
    let link = home.path().join("link");
    symlink(&cache, &link).unwrap();
    refused(unpack(&link));
}

#[test]
fn a_directory_that_all_can_write_to_is_no_ancestor_unless_it_is_sticky() {
    let home = tempfile::tempdir().unwrap();
    let cache = home.path().join("open/cache");
    fs::create_dir_all(&cache).unwrap();
    let open =
        |mode| fs::set_permissions(home.path().join("open"), fs::Permissions::from_mode(mode)).unwrap();
    open(0o777);
    assert!(matches!(unpack(&cache), Err(BundleError::NotPrivate { .. })));
    open(0o1777);
    unpack(&cache).unwrap();
}

#[test]
fn an_installed_library_has_to_be_the_one_that_is_carried() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("lib");
    install(&directory).unwrap();
    let use_it = || {
        super::cache(&Library::ALL, |name| {
            (name == "UNBLOAT_LIBRARY_DIR").then(|| directory.display().to_string())
        })
    };
    use_it().unwrap();
    let library = directory.join("libunbloat.so");
    let mut changed = contents(Library::Runtime).to_vec();
    changed[1000] ^= 1;
    fs::write(&library, &changed).unwrap();
    let error = use_it().unwrap_err();
    assert!(matches!(&error, BundleError::NotOurs { path } if *path == library), "{error}");
    install(&directory).unwrap();
    fs::set_permissions(&library, fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(use_it(), Err(BundleError::NotOurs { .. })), "others could change it");
}

/// In a directory of another user, with that user's links under every predictable name.
#[test]
fn installing_goes_through_no_link() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path().join("lib");
    fs::create_dir(&directory).unwrap();
    let victim = home.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    for library in Library::ALL {
        symlink(&victim, directory.join(library.file_name())).unwrap();
        symlink(&victim, directory.join(format!(".{}.{}", library.file_name(), std::process::id()))).unwrap();
    }
    install(&directory).unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    for library in Library::ALL {
        let meta = fs::symlink_metadata(directory.join(library.file_name())).unwrap();
        assert!(meta.is_file() && meta.mode() & 0o777 == 0o755, "{meta:?}");
    }
}

/// Under the GVL a panic would end the server or hold it up for ever, so nothing in the library may lead to one. The linker keeps the
/// section of the panic handler (`crates/runtime/src/panic.rs`) only if something does; the names of sections outlive stripping.
#[test]
fn no_path_in_the_runtime_leads_to_a_panic() {
    let library = contents(Library::Runtime);
    let has_section = |name: &[u8]| library.windows(name.len()).any(|window| window == name);
    assert!(has_section(b"\0.text\0"), "the names of sections are to be seen");
    assert!(
        !has_section(b"\0.unbloat.panic\0"),
        "something leads to the panic handler: crates/runtime/src/lib.rs says why it must not"
    );
}
