//! Attribute values, and typed access to those of a node.

use tir_data::{Array, Bytes, DataError};

use crate::{Graph, Node};

/// The value of an attribute.
#[derive(Clone, PartialEq, Debug)]
pub enum AttributeValue {
    /// A float.
    Float(f32),
    /// An integer.
    Int(i64),
    /// A string.
    String(String),
    /// A string that is not UTF-8.
    Bytes(Bytes),
    /// A constant tensor.
    Tensor(Array),
    /// A graph that may use values of the graphs around it.
    Graph(Box<Graph>),
    /// Floats; an empty list of no stated kind is `Ints`.
    Floats(Vec<f32>),
    /// Integers.
    Ints(Vec<i64>),
    /// Strings.
    Strings(Vec<String>),
    /// In the body of a function: the attribute of this name of the node that stands for it.
    Reference(String),
    /// A value that cannot be held, and what it is: `a tensor of element type string`.
    Other(String),
}

impl AttributeValue {
    /// What it is, as errors say it: `a float`, `ints`.
    pub fn kind(&self) -> &str {
        match self {
            AttributeValue::Float(_) => "a float",
            AttributeValue::Int(_) => "an int",
            AttributeValue::String(_) => "a string",
            AttributeValue::Bytes(_) => "a string that is not UTF-8",
            AttributeValue::Tensor(_) => "a tensor",
            AttributeValue::Graph(_) => "a graph",
            AttributeValue::Floats(_) => "floats",
            AttributeValue::Ints(_) => "ints",
            AttributeValue::Strings(_) => "strings",
            AttributeValue::Reference(_) => "a reference to an attribute of a function",
            AttributeValue::Other(what) => what,
        }
    }
}

macro_rules! getters {
    ($($(#[$doc:meta])* $get:ident: $variant:ident as $expected:literal -> $t:ty = $take:expr;)*) => {
        $(
            $(#[$doc])*
            ///
            /// # Errors
            /// If the attribute has another kind; the error names node, attribute and both kinds.
            pub fn $get(&self, name: &str) -> Result<Option<$t>, DataError> {
                match self.attributes.get(name) {
                    None => Ok(None),
                    Some(AttributeValue::$variant(value)) => Ok(Some($take(value))),
                    Some(other) => Err(self.wrong_kind(name, other, $expected)),
                }
            }
        )*
    };
}

/// Typed access to attributes; `None` is an absent one.
impl Node {
    getters! {
        /// The integer attribute `name`.
        int: Int as "an int" -> i64 = |v: &i64| *v;
        /// The float attribute `name`.
        float: Float as "a float" -> f32 = |v: &f32| *v;
        /// The string attribute `name`.
        string: String as "a string" -> &str = String::as_str;
        /// The list of integers `name`.
        ints: Ints as "ints" -> &[i64] = Vec::as_slice;
        /// The list of strings `name`.
        strings: Strings as "strings" -> &[String] = Vec::as_slice;
        /// The tensor attribute `name`.
        tensor: Tensor as "a tensor" -> &Array = |v| v;
        /// The graph attribute `name`.
        graph: Graph as "a graph" -> &Graph = Box::as_ref;
    }

    /// The list of floats `name`.
    ///
    /// # Errors
    /// If the attribute has another kind; the error names node, attribute and both kinds.
    pub fn floats(&self, name: &str) -> Result<Option<&[f32]>, DataError> {
        match self.attributes.get(name) {
            None => Ok(None),
            Some(AttributeValue::Floats(v)) => Ok(Some(v)),
            Some(AttributeValue::Ints(v)) if v.is_empty() => Ok(Some(&[])),
            Some(other) => Err(self.wrong_kind(name, other, "floats")),
        }
    }

    /// The error for a required attribute that is absent.
    pub fn missing(&self, name: &str) -> DataError {
        self.error(format!("attribute '{name}' is missing"))
    }

    /// Checks that the node has no attribute besides `known`, so that none is silently ignored.
    ///
    /// # Errors
    /// If it has; the error names the first in alphabetical order.
    pub fn only_attributes(&self, known: &[&str]) -> Result<(), DataError> {
        match self
            .attributes
            .keys()
            .find(|name| !known.contains(&name.as_str()))
        {
            Some(name) => Err(self.error(format!("attribute '{name}' is not known for this op"))),
            None => Ok(()),
        }
    }

    fn wrong_kind(&self, name: &str, value: &AttributeValue, expected: &str) -> DataError {
        self.error(format!(
            "attribute '{name}' is {}, expected {expected}",
            value.kind()
        ))
    }
}
