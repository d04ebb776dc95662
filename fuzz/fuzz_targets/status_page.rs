//! The status page of a process that writes anything there, and the names of such pages.
#![no_main]

use libfuzzer_sys::fuzz_target;
use unbloat_contract::{FileName, MAGIC, PAGE_BYTES, Snapshot, Text, Word};

fuzz_target!(|data: &[u8]| {
    if let Some(name) = std::str::from_utf8(data).ok().and_then(FileName::parse) {
        assert_eq!(FileName::parse(&name.to_string()), Some(name));
    }
    let mut page = [0; PAGE_BYTES];
    page[..8].copy_from_slice(&MAGIC.to_ne_bytes());
    let given = &data[..data.len().min(PAGE_BYTES - 8)];
    page[8..8 + given.len()].copy_from_slice(given);
    assert!(Snapshot::parse(data).is_err() || data.len() >= PAGE_BYTES);
    let Ok(snapshot) = Snapshot::parse(&page) else { unreachable!("it begins like a page") };
    let mut room = [0; 256];
    for place in [Text::Policy, Text::Allocator, Text::Library, Text::Ruby, Text::Notice] {
        assert!(snapshot.text(place, &mut room).len() <= place.bytes());
    }
    let _ = (snapshot.word(Word::TrimMaxNs), snapshot.last_reason(), snapshot.returning(), snapshot.trim_histogram());
});
