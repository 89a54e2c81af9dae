//! Malformed files: every cut and 10,000 seeded byte flips of small examples give a value or an
//! error with a place, never a panic, and allocate in proportion to the file.

use cap::Cap;
use tir_data::{Array, Bytes, DType, DataError, Random, SafeTensors, npy, write_safetensors};

/// Beyond the limit that a check sets, allocation fails and the test aborts.
#[global_allocator]
static ALLOCATOR: Cap<std::alloc::System> = Cap::new(std::alloc::System, usize::MAX);

/// Feeds `read` every prefix of `file` and 10,000 copies with one to four changed bytes.
fn torment(file: &[u8], read: impl Fn(Bytes) -> Result<(), DataError>) {
    let limit = 64 * file.len() + 65_536;
    let (mut good, mut bad) = (0, 0);
    let mut check = |bytes: Vec<u8>, what: &str| {
        ALLOCATOR.set_limit(ALLOCATOR.allocated() + limit).unwrap();
        match read(bytes.into()) {
            Ok(()) => good += 1,
            Err(e) => {
                bad += 1;
                assert!(e.place.is_some(), "{what}: no place in: {e}");
            }
        }
        ALLOCATOR.set_limit(usize::MAX).unwrap();
    };
    for cut in 0..file.len() {
        check(file[..cut].to_vec(), &format!("cut at {cut}"));
    }
    let mut random = Random::new(1);
    for round in 0..10_000 {
        let mut bytes = file.to_vec();
        for _ in 0..=random.below(4) {
            // Headers decide: half of the flips go there.
            let range = if random.below(2) == 0 {
                bytes.len().min(160)
            } else {
                bytes.len()
            };
            let at = random.below(range);
            bytes[at] = random.next_u64() as u8;
        }
        check(bytes, &format!("flip {round}"));
    }
    assert!(good > 0 && bad > file.len() / 2, "{good} good, {bad} bad");
}

// One test, since the allocator's limit is shared by all threads.
#[test]
fn malformed_files_are_refused_with_a_place() {
    let read_npy = |b: Bytes| npy::decode(b).map(|x| assert_eq!(x.iter_f64().count(), x.len()));
    for dtype in [DType::F32, DType::U8] {
        torment(
            &npy::encode(&Array::random(dtype, &[3, 4], 5).unwrap()),
            read_npy,
        );
    }
    let header = b"{'descr': '>f8', 'fortran_order': True, 'shape': (2, 3), }\n";
    let fortran = [
        b"\x93NUMPY\x02\x00",
        &[header.len() as u8, 0, 0, 0][..],
        header,
        &[7; 48],
    ]
    .concat();
    torment(&fortran, read_npy);

    let path = std::env::temp_dir().join(format!(
        "tir-data-robust-{}.safetensors",
        std::process::id()
    ));
    let (a, b) = (
        Array::random(DType::F32, &[2, 3], 1).unwrap(),
        Array::random(DType::I8, &[5], 2).unwrap(),
    );
    write_safetensors(&path, [("weight", &a), ("bias", &b)]).unwrap();
    let file = std::fs::read(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    torment(&file, |b| {
        let file = SafeTensors::decode(b)?;
        file.names()
            .iter()
            .try_for_each(|name| file.get(name).map(|x| assert!(x.len() < 100)))
    });
}
