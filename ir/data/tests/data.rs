//! Arrays, comparison, `.npy` and `.safetensors`: values, laws and messages.

use std::path::PathBuf;

use tir_data::{
    Array, Bytes, DType, DataError, SafeTensors, Staged, compare, npy, stage_safetensors,
    write_safetensors,
};

/// A fresh folder for one test.
fn folder(test: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("tir-data-{}-{test}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

fn f32s(shape: &[usize], values: &[f32]) -> Array {
    Array::from_vec(shape, values.to_vec()).unwrap()
}

#[test]
fn element_types_round_trip_their_names() {
    for d in DType::ALL {
        assert_eq!(d.to_string().parse(), Ok(d));
        assert_eq!(d.byte_len(&[2, 3]), Some(6 * d.size()));
    }
    assert_eq!("f31".parse::<DType>(), Err(()));
    assert_eq!(DType::F64.byte_len(&[usize::MAX, 2]), None);
    assert_eq!(DType::F64.byte_len(&[usize::MAX, 2, 0]), Some(0));
}

#[test]
fn views_are_typed_and_share_bytes() {
    let x = f32s(&[2, 2], &[1.0, -2.0, 0.5, 4.0]);
    assert!(matches!(
        x.as_f32(),
        Some(std::borrow::Cow::Borrowed([1.0, -2.0, 0.5, 4.0]))
    ));
    assert!(x.as_i64().is_none());
    assert_eq!(x.clone().bytes().as_ptr(), x.bytes().as_ptr());
    assert_eq!(x.iter_f64().collect::<Vec<_>>(), [1.0, -2.0, 0.5, 4.0]);
    assert_eq!(x.get_f64(4), None);
    assert_eq!(x.unravel(3), [1, 1]);
    // Unaligned bytes are copied, not refused.
    let odd = Bytes::from([&[0u8], x.bytes()].concat()).slice(1..);
    assert_eq!(
        Array::new(DType::F32, &[2, 2], odd).unwrap().as_f32(),
        x.as_f32()
    );
    let short = Array::new(DType::F32, &[3], Bytes::from_static(&[0; 8])).unwrap_err();
    assert_eq!(short.to_string(), "8 bytes of data, expected 12 for 3xf32");
    assert!(Array::zeros(DType::F64, &[usize::MAX, 3]).is_err());
}

#[test]
fn integers_are_exact() {
    let x = Array::from_vec(&[2], vec![i64::MAX, i64::MIN]).unwrap();
    assert_eq!(x.to_i64s(), Some(vec![i64::MAX, i64::MIN]));
    let y = Array::from_vec(&[2], vec![i64::MAX - 1, i64::MIN]).unwrap();
    assert!(!compare(&x, &y, 0.0, 0.0).ok);
    assert_eq!(compare(&x, &y, 0.0, 1.0).max_abs_error, 1.0);
    assert_eq!(Array::scalar(u64::MAX).to_i64s(), None);
    assert_eq!(
        Array::from_bools(&[2], &[true, false]).unwrap().to_i64s(),
        Some(vec![1, 0])
    );
}

#[test]
fn random_bytes_are_fixed_for_ever() {
    // Made once with this code; a change of any of them breaks stored expectations.
    let hash = |d| Array::random(d, &[3, 5], 42).unwrap().sha256()[..16].to_string();
    let all: Vec<String> = DType::ALL
        .into_iter()
        .map(|d| format!("{d} {}", hash(d)))
        .collect();
    assert_eq!(all, EXPECTED_RANDOM);
    for d in DType::ALL {
        let x = Array::random(d, &[1000], 1).unwrap();
        let (low, high) = x
            .iter_f64()
            .fold((0f64, 0f64), |(l, h), v| (l.min(v), h.max(v)));
        let (min, max) = match d {
            DType::Bool => (0.0, 1.0),
            d if d.is_float() => (-1.0, 0.999_999_999_9),
            DType::U8 | DType::U16 | DType::U32 | DType::U64 => (0.0, 15.0),
            _ => (-8.0, 7.0),
        };
        assert!(
            low >= min && high <= max && high > 0.9 * max,
            "{d}: {low} {high}"
        );
    }
}

#[rustfmt::skip]
const EXPECTED_RANDOM: [&str; 13] = [
    "bool a5dc8353ece25316", "i8 92dcf71cd153ee2c", "i16 25beb5d406a0c1cd", "i32 10cabf7eddeadef2",
    "i64 9111119344825704", "u8 86acc37aa3c77d97", "u16 c0beec53e169eaf6", "u32 ff26101bba52bb5f",
    "u64 cb1689b6daeebe20", "f16 0e8068e6032c3752", "bf16 e470b8cca25903de", "f32 7c8b2ddae6e69133",
    "f64 56aa7b237a2acdcb",
];

#[test]
fn compare_follows_allclose() {
    let nan = f32::NAN;
    let inf = f32::INFINITY;
    let e = f32s(&[2, 2], &[1.0, 100.0, nan, inf]);
    let same = compare(&e, &e, 0.0, 0.0);
    assert!(same.ok && same.worst.is_none());
    assert_eq!(same.to_string(), "equal");
    let c = compare(&e, &f32s(&[2, 2], &[1.25, 100.5, nan, inf]), 1e-2, 0.0);
    assert_eq!(
        (c.ok, c.mismatches, c.max_abs_error, c.max_rel_error),
        (false, 1, 0.5, 0.25)
    );
    assert_eq!(c.worst.as_ref().unwrap().index, [0, 0]);
    assert_eq!(
        c.to_string(),
        "max error 5.00e-1 (relative 2.50e-1), worst at [0, 0]: 1.25, expected 1; 1 of 4 beyond tolerance"
    );
    assert!(compare(&e, &f32s(&[2, 2], &[1.25, 100.5, nan, inf]), 0.0, 0.5).ok);
    for (k, wrong) in [(2, 0.0), (3, -inf), (3, 1e30), (0, nan), (1, inf)] {
        let mut v = vec![1.0, 100.0, nan, inf];
        v[k] = wrong;
        let c = compare(&e, &f32s(&[2, 2], &v), 1e3, 1e3);
        assert_eq!(
            (c.mismatches, c.max_abs_error),
            (1, f64::INFINITY),
            "{k} {wrong}"
        );
    }
    let c = compare(&e, &f32s(&[4], &[0.0; 4]), 1.0, 1.0);
    assert_eq!(c.to_string(), "type is 4xf32, expected 2x2xf32");
    assert!(!c.ok);
}

#[test]
fn npy_round_trips_every_type_and_rank() {
    let dir = folder("npy");
    for d in DType::ALL {
        for shape in [&[][..], &[0], &[7], &[2, 3], &[1, 0, 4], &[2, 1, 3, 2]] {
            let x = Array::random(d, shape, 3).unwrap();
            let path = dir.join(format!("{d}.npy"));
            npy::write(&path, &x).unwrap();
            assert_eq!(npy::read(&path).unwrap(), x);
            let bytes = std::fs::read(&path).unwrap();
            assert_eq!((bytes.len() - x.bytes().len()) % 64, 0);
        }
    }
    // A header that needs version 2.
    let x = Array::zeros(DType::U8, &[1; 30_000]).unwrap();
    assert_eq!(npy::decode(npy::encode(&x).into()).unwrap(), x);
}

fn npy_with(version: &[u8], header: &str, data: &[u8]) -> Result<Array, DataError> {
    let len = header.len() as u32;
    let len = len.to_le_bytes();
    let len = if version[0] == 1 { &len[..2] } else { &len[..] };
    npy::decode(
        [b"\x93NUMPY", version, len, header.as_bytes(), data]
            .concat()
            .into(),
    )
}

#[test]
fn npy_reads_what_others_write() {
    let data: Vec<u8> = (1..=6).flat_map(|v: i16| v.to_be_bytes()).collect();
    let header = r#"{"shape": (2L, 3), 'fortran_order': True, 'descr': '>i2'}"#;
    for version in [[1, 0], [2, 0], [3, 0]] {
        let x = npy_with(&version, header, &data).unwrap();
        assert_eq!((x.dtype(), x.shape()), (DType::I16, &[2, 3][..]));
        assert_eq!(x.to_i64s().unwrap(), [1, 3, 5, 2, 4, 6]);
    }
    let x = npy_with(
        &[1, 0],
        "{'descr': '<f4', 'fortran_order': True, 'shape': (0, 3), }",
        b"",
    )
    .unwrap();
    assert_eq!(x.shape(), [0, 3]);
}

#[test]
fn npy_errors_name_the_place() {
    let check = |header: &str, data: &[u8], expected: &str| {
        assert_eq!(
            npy_with(&[1, 0], header, data).unwrap_err().to_string(),
            expected
        );
    };
    let ok = "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)}";
    check(
        ok,
        &[0; 7],
        "byte 65: 7 bytes of data, expected 8 for 2xf32",
    );
    check(
        &ok.replace("f4", "O"),
        b"",
        "byte 20: header field 'descr' is '<O', no element type that can be read",
    );
    check(
        &ok.replace("'<f4'", "[('a', '<f4')]"),
        b"",
        "byte 20: header field 'descr' is a structured type; only plain ones can be read",
    );
    check(
        &ok.replace("False", "0"),
        b"",
        "byte 44: header has '0', expected True or False",
    );
    check(
        &ok.replace("2,", "-2"),
        b"",
        "byte 61: header has '-', expected a dimension",
    );
    check(
        &ok.replace("2,", "99999999999999999999"),
        b"",
        "byte 61: header field 'shape' has a dimension beyond 64 bits",
    );
    check(
        &ok.replace("2,", "9999999999,9999999999"),
        b"",
        "header field 'shape': the size in bytes of 9999999999x9999999999xf32 overflows",
    );
    check(
        &ok.replace("2,", "999999999999"),
        b"",
        "byte 75: 0 bytes of data, expected 3999999999996 for 999999999999xf32",
    );
    check(
        &ok.replace("shape", "shap"),
        b"",
        "byte 51: header has the unknown field \"shap\"",
    );
    check(
        &ok.replace("'shape'", "'descr': '<f4', 'descr'"),
        b"",
        "byte 51: header has this field twice",
    );
    check(
        "{'descr': '<f4'}",
        b"",
        "header field 'fortran_order': is missing",
    );
    check(
        "{'descr': '<f4",
        b"",
        "byte 20: header has a string that does not end",
    );
    check(
        &format!("{ok} x"),
        b"",
        "byte 66: header goes on after its closing brace",
    );
    let error = npy_with(&[4, 0], ok, b"").unwrap_err();
    assert_eq!(
        error.to_string(),
        "byte 6: version is 4.0, expected 1.0, 2.0 or 3.0"
    );
    let error =
        npy::decode(Bytes::from_static(b"\x93NUMPY\x02\x00\xff\xff\xff\xffabc")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "byte 8: header length is 4294967295, but only 3 bytes follow"
    );
    let path = folder("missing").join("none.npy");
    let error = npy::read(&path).unwrap_err().to_string();
    assert!(
        error.starts_with(&format!("{}: cannot open: ", path.display())),
        "{error}"
    );
    assert!(
        npy::read(&folder("missing"))
            .unwrap_err()
            .to_string()
            .ends_with("is not a regular file")
    );
}

#[test]
fn safetensors_round_trips_and_keeps_the_file() {
    let dir = folder("safetensors");
    let path = dir.join("w.safetensors");
    let arrays: Vec<(String, Array)> = DType::ALL
        .into_iter()
        .map(|d| (format!("{d} \"ä\""), Array::random(d, &[3, 5], 9).unwrap()))
        .collect();
    let list = || arrays.iter().map(|(n, a)| (n.as_str(), a));
    write_safetensors(&path, list()).unwrap();
    let first = std::fs::read(&path).unwrap();
    write_safetensors(&path, list().collect::<Vec<_>>().into_iter().rev()).unwrap();
    assert_eq!(
        std::fs::read(&path).unwrap(),
        first,
        "order of arrays must not matter"
    );
    let file = SafeTensors::open(&path).unwrap();
    assert_eq!(file.names().len(), 13);
    for (name, array) in &arrays {
        let x = file.get(name).unwrap();
        assert_eq!(&x, array);
        assert_eq!(
            x.bytes().as_ptr() as usize % x.dtype().size(),
            0,
            "{name} is aligned"
        );
    }
    let x = file.get("f32 \"ä\"").unwrap();
    drop(file);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(x, arrays[11].1, "an array keeps its bytes");
    let error = SafeTensors::decode(first.into())
        .unwrap()
        .get("nope")
        .unwrap_err();
    assert_eq!(error.to_string(), "tensor 'nope': is not in the file");
    let x = Array::scalar(1f32);
    let error = write_safetensors(&path, [("a", &x), ("b", &x), ("a", &x)]).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("{}: tensor 'a' is given twice", path.display())
    );
    write_safetensors(&path, []).unwrap();
    assert!(SafeTensors::open(&path).unwrap().names().is_empty());
}

#[test]
fn safetensors_errors_name_the_place() {
    let check = |header: &str, data: usize, expected: &str| {
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend(header.bytes());
        file.resize(file.len() + data, 0);
        let error = SafeTensors::decode(file.into()).unwrap_err();
        assert_eq!(error.to_string(), expected);
    };
    check("{\n x", 0, "byte 11: header: key must be a string");
    check(
        r#"{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}"#,
        1,
        "byte 61: 1 bytes of data, but the header describes 2",
    );
    let huge = r#"{"a":{"dtype":"U8","shape":[2305843009213693951],"data_offsets":[0,2305843009213693951]}}"#;
    check(
        huge,
        0,
        "byte 97: 0 bytes of data, but the header describes 2305843009213693951",
    );
    let error =
        SafeTensors::decode(Bytes::from_static(b"\xff\xff\xff\xff\xff\xff\xff\xff{}")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "byte 0: header length is 18446744073709551615, but only 2 bytes follow"
    );
    let error = SafeTensors::decode(Bytes::from_static(b"\x01")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "byte 0: header length is cut off: the file has 1 bytes, at least 8 expected"
    );
}

#[test]
fn staged_files_appear_whole_or_not_at_all() {
    let dir = folder("staged");
    let path = dir.join("x.bin");
    std::fs::write(&path, b"old").unwrap();
    let staged = Staged::write(&path, &[b"ne", b"w"]).unwrap();
    assert_eq!(staged.target(), path);
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    drop(staged);
    assert_eq!(std::fs::read(&path).unwrap(), b"old");
    assert_eq!(
        std::fs::read_dir(&dir).unwrap().count(),
        1,
        "nothing is left behind"
    );
    Staged::write(&path, &[b"ne", b"w"])
        .unwrap()
        .commit()
        .unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"new");
    let x = Array::scalar(1f32);
    assert!(stage_safetensors(&dir.join("no/such/folder.safetensors"), [("a", &x)]).is_err());
    assert!(npy::write(&dir.join(".."), &x).is_err());
}

#[test]
fn sha256_is_of_the_bytes() {
    let x = Array::from_vec(&[3], b"abc".to_vec()).unwrap();
    assert_eq!(
        x.sha256(),
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
}

/// A device is written to; renaming over it would replace it.
#[cfg(unix)]
#[test]
fn staged_never_replaces_a_device() {
    use std::os::unix::fs::FileTypeExt;
    let null = std::path::Path::new("/dev/null");
    let staged = tir_data::Staged::write(null, &[b"nothing"]).unwrap();
    staged.commit().unwrap();
    assert!(
        std::fs::metadata(null)
            .unwrap()
            .file_type()
            .is_char_device()
    );
}
