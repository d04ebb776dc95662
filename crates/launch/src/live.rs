//! Whether what a policy asks for is what a process has: by its mappings, not by its word.

use crate::bundle::Library;
use crate::policy::{Allocator, Policy};
use std::path::Path;

/// What of a policy is not live in a process, by the files that it has mapped; each a sentence. Empty: all is.
pub fn missing<'a>(policy: &Policy, mapped: impl Iterator<Item = &'a Path> + Clone) -> Vec<String> {
    let has = |name: &str| mapped.clone().any(|path| path.file_name().is_some_and(|file| file == name));
    let mut missing = Vec::new();
    if policy.needs_runtime() && !has(Library::Runtime.file_name()) {
        missing.push(format!(
            "{} is not mapped: the policy's trimming is not live",
            Library::Runtime.file_name()
        ));
    }
    match &policy.allocator {
        Allocator::Own => {}
        Allocator::Jemalloc if has(Library::Jemalloc.file_name()) => {}
        Allocator::Jemalloc => {
            missing.push(format!(
                "{} is not mapped: malloc is served by another",
                Library::Jemalloc.file_name()
            ));
        }
        Allocator::System(path) => {
            // A bare name is searched by the dynamic linker, and either may be a link to the file that is mapped.
            let real = path.canonicalize().unwrap_or_else(|_| path.clone());
            let name = real.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if !mapped.clone().any(|path| path.to_string_lossy().contains(&*name)) {
                missing.push(format!("{} is not mapped: malloc is served by another", path.display()));
            }
        }
    }
    missing
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn check(policy: &str, mapped: &[&str]) -> usize {
        missing(&policy.parse().unwrap(), mapped.iter().map(Path::new)).len()
    }

    #[test]
    fn what_is_mapped_is_live_and_the_rest_is_named() {
        let all = ["/c/libunbloat.so", "/c/libunbloat-jemalloc.so", "/usr/lib/libmimalloc.so.2.0"];
        assert_eq!(check("allocator=jemalloc,trim=adaptive", &all), 0);
        assert_eq!(check("allocator=jemalloc,trim=adaptive", &[]), 2);
        assert_eq!(check("trim=major", &["/c/libunbloat.so"]), 0);
        assert_eq!(check("allocator=system:libmimalloc.so", &all), 0);
        assert_eq!(check("allocator=system:libtcmalloc.so", &all), 1);
        assert_eq!(check("off", &[]), 0);
    }
}
