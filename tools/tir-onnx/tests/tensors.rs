//! Tensors: every field that can hold data, external files, and what broken ones are told.

mod common;

use common::{model, read, refused, with_tensor};
use prost::Message;
use tir_data::{Array, Bytes, DType};
use tir_onnx::{ElementType, decode, load, proto};

#[test]
fn tensors_are_read_from_every_field() {
    let ok = |t: proto::TensorProto| read(with_tensor(t)).unwrap().graph.initializers["t"].clone();
    let t = |data_type, dims: &[i64]| proto::TensorProto {
        data_type,
        dims: dims.to_vec(),
        ..Default::default()
    };
    let array = ok(proto::TensorProto {
        float_data: vec![1.0, 2.0],
        ..t(1, &[1, 2])
    });
    assert_eq!(array, Array::from_vec(&[1, 2], vec![1f32, 2.0]).unwrap());
    let raw = Some(Bytes::from(vec![0, 0, 128, 63]));
    assert_eq!(
        ok(proto::TensorProto {
            raw_data: raw,
            ..t(1, &[])
        }),
        Array::scalar(1f32)
    );
    for (code, dtype, values) in [
        (2, DType::U8, [0, 255]),
        (3, DType::I8, [-128, 127]),
        (4, DType::U16, [0, 65535]),
        (5, DType::I16, [-32768, 32767]),
        (6, DType::I32, [i32::MIN, i32::MAX]),
        (9, DType::Bool, [0, 1]),
    ] {
        let array = ok(proto::TensorProto {
            int32_data: values.to_vec(),
            ..t(code, &[2])
        });
        assert_eq!(array.dtype(), dtype);
        assert_eq!(array.to_i64s().unwrap(), values.map(i64::from));
    }
    assert_eq!(
        ok(proto::TensorProto {
            int32_data: vec![0x3c00],
            ..t(10, &[])
        })
        .get_f64(0),
        Some(1.0)
    );
    assert_eq!(
        ok(proto::TensorProto {
            int32_data: vec![0x3f80],
            ..t(16, &[])
        })
        .get_f64(0),
        Some(1.0)
    );
    assert_eq!(
        ok(proto::TensorProto {
            int64_data: vec![-5],
            ..t(7, &[])
        }),
        Array::scalar(-5i64)
    );
    assert_eq!(
        ok(proto::TensorProto {
            double_data: vec![0.1],
            ..t(11, &[])
        }),
        Array::scalar(0.1f64)
    );
    assert_eq!(
        ok(proto::TensorProto {
            uint64_data: vec![5],
            ..t(12, &[])
        }),
        Array::scalar(5u32)
    );
    assert_eq!(
        ok(proto::TensorProto {
            uint64_data: vec![u64::MAX],
            ..t(13, &[])
        }),
        Array::scalar(u64::MAX)
    );
    assert!(ok(t(1, &[3, 0])).is_empty());

    let bad = |t: proto::TensorProto, expected: &str| {
        refused(with_tensor(t), &format!("initializer 't': {expected}"))
    };
    bad(t(1, &[2]), "0 bytes of data, expected 8 for 2xf32");
    bad(
        proto::TensorProto {
            float_data: vec![1.0],
            ..t(1, &[2])
        },
        "4 bytes of data, expected 8 for 2xf32",
    );
    bad(t(1, &[2, -1]), "dimension -1 is negative");
    bad(t(1, &[i64::MAX, i64::MAX]), "its size in bytes overflows");
    bad(
        t(1, &[1 << 40]),
        "0 bytes of data, expected 4398046511104 for 1099511627776xf32",
    );
    bad(t(8, &[]), "element type string cannot be read");
    bad(t(99, &[]), "element type 99 cannot be read");
    bad(
        proto::TensorProto {
            int32_data: vec![300],
            ..t(2, &[])
        },
        "value 300 is out of the range of u8",
    );
    bad(
        proto::TensorProto {
            float_data: vec![1.0],
            ..t(7, &[])
        },
        "has its data in float_data, expected int64_data or raw_data for i64",
    );
    let both = proto::TensorProto {
        float_data: vec![1.0],
        raw_data: Some(Bytes::from_static(b"1234")),
        ..t(1, &[])
    };
    bad(both, "has data in several places: raw_data, float_data");
    bad(
        proto::TensorProto {
            data_location: 7,
            ..t(1, &[])
        },
        "data_location is 7, expected 0 or 1",
    );
    bad(
        proto::TensorProto {
            segment: Some(Bytes::new()),
            ..t(1, &[])
        },
        "is split into segments, which cannot be read",
    );
    assert_eq!(ElementType(22).to_string(), "int4");
}

#[test]
fn external_data_stays_beside_the_model() {
    let root = std::env::temp_dir().join(format!("tir-onnx-{}", std::process::id()));
    let dir = root.join("model");
    std::fs::create_dir_all(dir.join("sub")).unwrap();
    let weights = Array::random(DType::F32, &[4], 1).unwrap();
    std::fs::write(dir.join("sub/w.bin"), [&[9; 8], weights.bytes()].concat()).unwrap();
    std::fs::write(root.join("secret"), [0; 64]).unwrap();
    let path = dir.join("m.onnx");
    let entry = |key: &str, value: &str| proto::StringStringEntryProto {
        key: key.into(),
        value: value.into(),
    };
    let attempt = |entries: &[(&str, &str)]| {
        let tensor = proto::TensorProto {
            data_type: 1,
            dims: vec![4],
            data_location: 1,
            external_data: entries.iter().map(|(k, v)| entry(k, v)).collect(),
            ..Default::default()
        };
        std::fs::write(&path, model(with_tensor(tensor)).encode_to_vec()).unwrap();
        load(&path).map(|m| m.graph.initializers["t"].clone())
    };
    let all = [
        ("location", "sub/w.bin"),
        ("offset", "8"),
        ("length", "16"),
        ("checksum", "?"),
    ];
    assert_eq!(attempt(&all).unwrap(), weights);
    assert_eq!(attempt(&all[..2]).unwrap(), weights);
    let bad = |entries: &[(&str, &str)], expected: &str| {
        let error = attempt(entries).unwrap_err().to_string();
        let expected = format!("{}: initializer 't': {expected}", path.display());
        assert!(error.starts_with(&expected), "{error}\nexpected {expected}");
    };
    bad(&[], "external_data has no location");
    bad(
        &[("location", "sub/w.bin"), ("offset", "9")],
        "needs 16 bytes from offset 9 of 'sub/w.bin', which has 24",
    );
    bad(
        &[
            ("location", "sub/w.bin"),
            ("offset", "18446744073709551615"),
        ],
        "needs 16 bytes from offset 18446744073709551615",
    );
    bad(
        &[("location", "sub/w.bin"), ("offset", "-1")],
        "external_data has offset '-1', expected a number",
    );
    bad(
        &[("location", "sub/w.bin"), ("length", "12")],
        "external_data has length 12, but type and shape need 16",
    );
    bad(
        &[("location", "none.bin")],
        "external file 'none.bin' cannot be opened",
    );
    bad(
        &[("location", "sub")],
        "external file 'sub' is not a regular file",
    );
    let secret = root.join("secret");
    for location in [
        "../secret",
        "sub/../../secret",
        "./../secret",
        "..\\secret",
        "",
        secret.to_str().unwrap(),
    ] {
        bad(
            &[("location", location)],
            &format!("external file '{location}' is not a plain path below the model's folder"),
        );
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("../secret", dir.join("link")).unwrap();
        bad(
            &[("location", "link")],
            "external file 'link' lies outside the model's folder",
        );
    }
    let bytes = std::fs::read(&path).unwrap();
    let error = decode(bytes.into(), None).unwrap_err();
    assert!(
        error
            .message
            .ends_with("cannot be found: the model is not read from a file"),
        "{error}"
    );
    std::fs::remove_dir_all(&root).unwrap();
}
