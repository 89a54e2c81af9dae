//! Arguments of a function and what they are bound to.

use std::path::{Path, PathBuf};

use tir::{Failure, MemRefType, Name, OpRef, TensorType, Type};
use tir_data::{Array, npy};
use tir_interp::{Data, Env, Kind, OUT_ARGUMENT, tensor_form, type_of};

/// An argument of a function.
#[derive(Clone, Debug)]
pub struct Param {
    /// Its type.
    pub ty: Type,
    /// Whether it is an output.
    pub out: bool,
    /// Its name in the text.
    pub name: Option<Name>,
}

/// Where the value of an input came from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// Random numbers of this seed.
    Random(u64),
}

/// The arguments of a function.
pub fn params(function: OpRef<'_>, inputs: &[Type]) -> Vec<Param> {
    let attrs = function.attr("arg_attrs");
    let attrs = attrs
        .and_then(|a| a.get::<tir::ArrayAttr>())
        .map_or(&[][..], |a| &a.0);
    let out = |k: usize| {
        let dictionary = attrs.get(k).and_then(|a| a.get::<tir::DictAttr>());
        dictionary.is_some_and(|d| d.entries().iter().any(|(key, _)| *key == OUT_ARGUMENT))
    };
    let (ir, root) = function.inner();
    let names = ir.body_block(root, 0).map(|body| {
        let args = ir.args(body);
        args.map(|arg| ir.hint(arg)).collect::<Vec<_>>()
    });
    let names = names.unwrap_or_default();
    inputs
        .iter()
        .enumerate()
        .map(|(k, ty)| Param {
            ty: *ty,
            out: out(k),
            name: names.get(k).copied().flatten(),
        })
        .collect()
}

/// Values for the arguments that are no outputs: files in order, then random numbers.
///
/// # Errors
/// If a file cannot be read or holds a value of another type, if there are more files than
/// arguments, or fewer and no seed.
pub fn inputs(
    params: &[Param],
    files: &[PathBuf],
    seed: Option<u64>,
) -> Result<Vec<(usize, Source, Array)>, Failure> {
    let wanted: Vec<usize> = (0..params.len()).filter(|k| !params[*k].out).collect();
    if files.len() > wanted.len() {
        let (given, count) = (files.len(), wanted.len());
        let s = if count == 1 { "" } else { "s" };
        return Err(
            format!("{given} inputs are given, the function has {count} argument{s}").into(),
        );
    }
    let mut bound = Vec::with_capacity(wanted.len());
    for (at, k) in wanted.iter().copied().enumerate() {
        let ty = params[k].ty;
        let (source, array) = match (files.get(at), seed) {
            (Some(path), _) => (Source::File(path.clone()), from_file(k, ty, path)?),
            (None, Some(seed)) => {
                let seed = seed.wrapping_add(k as u64);
                let random = Data::random(array_type(ty), seed).and_then(|data| data.to_array());
                let array =
                    random.map_err(|e| Box::new(e.context(format_args!("argument {k}: "))))?;
                (Source::Random(seed), array)
            }
            (None, None) => {
                let missing = wanted.len() - files.len();
                let s = if missing == 1 {
                    "argument has"
                } else {
                    "arguments have"
                };
                let error = format!("{missing} {s} no value, first argument {k} of type {ty}");
                let error = tir::Diagnostic::error(error);
                return Err(Box::new(error.note(
                    "--input FILE.npy gives the next one, --random SEED all others",
                )));
            }
        };
        bound.push((k, source, array));
    }
    Ok(bound)
}

fn from_file(k: usize, ty: Type, path: &Path) -> Result<Array, Failure> {
    let array = npy::read(path).map_err(|e| format!("argument {k}: {e}"))?;
    // A scalar is an array of rank 0.
    let (dtype, shape) =
        form(ty).map_err(|e| Box::new(e.context(format_args!("argument {k}: "))))?;
    if array.dtype() != dtype || array.shape() != shape {
        let (path, found) = (path.display(), type_of(&array));
        return Err(format!("argument {k}: {path} holds {found}, expected {ty}").into());
    }
    Ok(array)
}

/// Element type and shape of the arrays that stand for values of a type.
pub fn form(ty: Type) -> Result<(tir_data::DType, Vec<usize>), Failure> {
    match ty.shape() {
        Some(_) => tensor_form(ty),
        None => tensor_form(array_type(ty)),
    }
}

/// The tensor type of the arrays that stand for values of a type.
fn array_type(ty: Type) -> Type {
    let shape = ty.shape().map_or(Vec::new(), <[i64]>::to_vec);
    let elem = if ty.shape().is_some() { ty.elem() } else { ty };
    Type::new(TensorType {
        shape,
        elem,
        encoding: None,
    })
}

/// The run-time value of an array for an argument of this type.
pub fn to_data(env: &mut Env<'_>, ty: Type, array: &Array) -> Result<Data, Failure> {
    if ty.is::<MemRefType>() {
        return env.array_to_view(array, space(ty)).map(Data::from);
    }
    if ty.shape().is_some() {
        return Ok(Data::Tensor(array.clone()));
    }
    let kind = Kind::of(ty).ok_or_else(|| format!("a value of type {ty} cannot be given"))?;
    let bits = kind
        .read(array.bytes())
        .ok_or_else(|| format!("{} bytes for a value of type {ty}", array.bytes().len()))?;
    Ok(Data::Scalar(tir_interp::Scalar { kind, bits }))
}

/// A new buffer for an output of this type.
pub fn new_output(env: &mut Env<'_>, param: &Param) -> Result<Data, Failure> {
    let ty = param.ty;
    let (Some(kind), Some(shape)) = (Kind::of(ty.elem()), ty.shape()) else {
        return Err(format!("an output of type {ty} cannot be allocated").into());
    };
    let name = param.name.map(|name| Name::new(&format!("%{name}")));
    env.alloc_named(kind, shape, 64, space(ty), name)
        .map(Data::from)
}

fn space(ty: Type) -> Option<Name> {
    ty.get::<MemRefType>()?.space_name()
}

/// The array that a value is.
pub fn to_array(env: &mut Env<'_>, ty: Type, data: &Data) -> Result<Array, Failure> {
    let array = match data {
        Data::View(view) => env.view_to_array(view, ty.elem()),
        other => other.to_array(),
    }?;
    tir_interp::fitted(array, ty)
}
