//! Reading of `.onnx` files into a checked, neutral model, and writing of them; knows no op and no IR.
//!
//! [`load`] maps a file and returns a [`Model`]: names resolved, nodes in topological order,
//! weights as [`tir_data::Array`]s that share the map. What ops mean is the importer's business;
//! it reads attributes through the typed getters of [`Node`], whose errors name node and attribute.
//!
//! ```
//! use tir_onnx::{decode, proto};
//! use prost::Message;
//!
//! let relu = proto::NodeProto {
//!     op_type: "Relu".into(),
//!     input: vec!["x".into()],
//!     output: vec!["y".into()],
//!     ..Default::default()
//! };
//! let value = |name: &str| proto::ValueInfoProto { name: name.into(), ..Default::default() };
//! let model = proto::ModelProto {
//!     ir_version: 8,
//!     opset_import: vec![proto::OperatorSetIdProto { domain: String::new(), version: 17 }],
//!     graph: Some(proto::GraphProto {
//!         node: vec![relu],
//!         input: vec![value("x")],
//!         output: vec![value("y")],
//!         ..Default::default()
//!     }),
//!     ..Default::default()
//! };
//! let model = decode(model.encode_to_vec().into(), None)?;
//! assert_eq!(model.graph.nodes[0].op_type, "Relu");
//! # Ok::<(), tir_data::DataError>(())
//! ```
//!
//! [`mod@write`] has what messages are put together from, and writes them.
//!
//! No input makes it panic or hang. What it allocates is bounded by the file's length: weights are
//! not copied unless the file spells them element by element, and structure takes at most about a
//! hundred bytes per byte (a file of nothing but empty messages).

mod attribute;
mod decode;
mod element;
mod model;
mod order;
pub mod proto;
mod tensor;
pub mod write;

pub use attribute::AttributeValue;
pub use decode::{decode, load, messages};
pub use element::ElementType;
pub use model::{Dim, Function, Graph, Model, Node, TensorType, Value, ValueType};
