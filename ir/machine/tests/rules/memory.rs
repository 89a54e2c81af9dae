//! Buffers: their bytes, their lifetimes, and their places in a space.

use tir_machine::*;

use crate::bench::{Bench, all, check};

#[test]
fn reading_what_nothing_wrote() {
    let mut t = Bench::new();
    t.call(
        "first",
        "u",
        &[],
        &[StridedBox::contiguous(t.a, 0, 100)],
        &[],
    )
    .unwrap();
    check(
        t.call("sum", "u", &all(t.a), &[], &[]),
        FaultKind::Uninitialised,
        "`sum` reads bytes 100..256 of a, which nothing has written",
    );
}

#[test]
fn buffers_after_and_before_their_release() {
    let mut t = Bench::new();
    let site = t.m.site("memref.dealloc", "");
    let done = t.load("load a", t.a, &[]).unwrap();
    check(
        t.m.dealloc(t.a, site),
        FaultKind::FreedInUse,
        "`memref.dealloc` releases a, which `load a` on @load may still use: nothing waited for it\
         \n  note: `load a` started here",
    );
    t.wait(&[done]).unwrap();
    t.m.dealloc(t.a, site).unwrap();
    check(
        t.call("sum", "u", &all(t.a), &[], &[]),
        FaultKind::UseAfterFree,
        "`sum` uses a after its release\n  note: released by `memref.dealloc`",
    );
    assert_eq!(
        t.m.dealloc(t.a, site).unwrap_err().kind,
        FaultKind::UseAfterFree
    );
    assert!(t.m.memory().bytes(t.a).is_err());
    // The next buffer takes the place, without the old data.
    let spm = t.m.space("spm").unwrap();
    let c = t.m.alloc(spm, Alloc::new("c", 256, site)).unwrap();
    assert_eq!(
        t.m.thread_read(site, &all(c)[0]).unwrap_err().kind,
        FaultKind::Uninitialised
    );
}

#[test]
fn a_full_space_says_who_holds_it() {
    let mut t = Bench::new();
    let (site, spm) = (
        t.m.site("memref.alloc", "f.tir:9:2"),
        t.m.space("spm").unwrap(),
    );
    check(
        t.m.alloc(spm, Alloc::new("c", 600, site)),
        FaultKind::OutOfSpace,
        "`memref.alloc` (f.tir:9:2) asks for 600 bytes in @spm for c: 512 of 1024 are held, 88 too many to have it beside them\
         \n  note: a holds 256 bytes at 0\n  note: b holds 256 bytes at 256",
    );
    t.m.dealloc(t.a, site).unwrap();
    t.m.alloc(spm, Alloc::new("c", 300, site)).unwrap();
    let d = t.m.alloc(spm, Alloc::new("d", 10, site)).unwrap();
    assert_eq!(t.m.report().spaces[1].peak_extent, 256 + 256 + 300);
    t.m.thread_write(site, &StridedBox::contiguous(d, 0, 10))
        .unwrap();
    let beyond = t.m.thread_write(site, &StridedBox::contiguous(d, 0, 11));
    check(
        beyond,
        FaultKind::OutOfBounds,
        "`memref.alloc` (f.tir:9:2) uses bytes 0..11 of d, which has 10",
    );
}

#[test]
fn placements_are_checked() {
    let mut t = Bench::new();
    let (site, spm) = (t.m.site("alloc", ""), t.m.space("spm").unwrap());
    let mut at = |placement, bytes| {
        let want = Alloc {
            placement,
            align: 64,
            ..Alloc::new("c", bytes, site)
        };
        t.m.alloc(spm, want).map_err(|f| f.to_string())
    };
    assert_eq!(
        at(Placement::At(960), 128).unwrap_err(),
        "`alloc` places c in spm: offset 960 and 128 bytes end beyond its 1024"
    );
    assert_eq!(
        at(Placement::At(32), 128).unwrap_err(),
        "`alloc` places c in spm: offset 32 is not a multiple of 64"
    );
    let outer = at(Placement::At(512), 512).unwrap();
    at(Placement::Within(outer, 384), 128).unwrap();
    assert!(at(Placement::Within(outer, 448), 128).is_err());
    assert!(at(Placement::Within(outer, 16), 128).is_err());
    assert!(at(Placement::At(u64::MAX - 63), 128).is_err());
}

/// Two buffers over each other, by offset or as views of one allocation.
fn overlapping(views: bool) -> (Bench, BufferId, BufferId) {
    let mut t = Bench::new();
    let (site, spm) = (t.m.site("alloc", ""), t.m.space("spm").unwrap());
    let outer = t.m.alloc(spm, Alloc::new("arena", 512, site)).unwrap();
    let mut place = |name, offset| {
        let placement = if views {
            Placement::Within(outer, offset)
        } else {
            Placement::At(512 + offset)
        };
        t.m.alloc(
            spm,
            Alloc {
                placement,
                ..Alloc::new(name, 256, site)
            },
        )
        .unwrap()
    };
    let (p, q) = (place("p", 0), place("q", 192));
    (t, p, q)
}

#[test]
fn clobbered_bytes_are_found_where_they_are_used() {
    for views in [false, true] {
        let (mut t, p, q) = overlapping(views);
        let first = t.load("load p", p, &[]).unwrap();
        let second = t.load("load q", q, &[first]).unwrap();
        t.call(
            "head",
            "u",
            &[StridedBox::contiguous(p, 0, 192)],
            &[],
            &[second],
        )
        .unwrap();
        let fault = t.call("sum", "u", &all(p), &[], &[second]).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Overlap);
        assert_eq!(
            fault.message,
            "`sum` reads bytes 192..256 of p, which hold data of q: `load q` wrote them"
        );
        assert_eq!(fault.notes[0].text, "`load q` wrote q over p");
        assert!(
            fault.notes[1]
                .text
                .ends_with("p and q lie at addresses 704..768 of @spm"),
            "{fault}"
        );
    }
}

#[test]
fn sharing_addresses_in_turn_is_allowed() {
    for views in [false, true] {
        let (mut t, p, q) = overlapping(views);
        let mut last = t.m.ready();
        for _ in 0..3 {
            for buffer in [p, q] {
                let loaded = t.load("load", buffer, &[last]).unwrap();
                last = t.call("sum", "u", &all(buffer), &[], &[loaded]).unwrap();
            }
        }
        // Without the token the second load is a race even though the buffers differ.
        t.load("load", p, &[last]).unwrap();
        t.call(
            "sum",
            "u",
            &[StridedBox::contiguous(p, 200, 4)],
            &[],
            &[t.m.mark(t.m.queue("load").unwrap())],
        )
        .unwrap();
        let fault = t.load("load", q, &[]).unwrap_err();
        assert_eq!(fault.kind, FaultKind::Race);
        assert!(fault.message.contains("writes bytes 8..12 of q"), "{fault}");
    }
}
