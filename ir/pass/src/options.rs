//! Options of passes: plain fields that round-trip as text, and the macro that declares them.

/// A type that an option can have.
pub trait OptionValue: Sized {
    /// What is expected, for messages: `an integer`.
    const WHAT: &'static str;
    /// Reads it.
    fn parse(text: &str) -> Option<Self>;
    /// The text that [`parse`](Self::parse) reads.
    fn print(&self) -> String;
}

macro_rules! numbers {
    ($($ty:ty: $what:literal),*) => {$(
        impl OptionValue for $ty {
            const WHAT: &'static str = $what;
            fn parse(text: &str) -> Option<Self> {
                text.parse().ok()
            }
            fn print(&self) -> String {
                self.to_string()
            }
        }
    )*};
}
numbers! {
    i32: "an integer", i64: "an integer",
    u32: "a non-negative integer", u64: "a non-negative integer", usize: "a non-negative integer",
    f64: "a floating-point number"
}

impl OptionValue for bool {
    const WHAT: &'static str = "true or false";
    fn parse(text: &str) -> Option<Self> {
        text.parse().ok()
    }
    fn print(&self) -> String {
        self.to_string()
    }
}
impl OptionValue for String {
    const WHAT: &'static str = "a string";
    fn parse(text: &str) -> Option<Self> {
        Some(text.to_string())
    }
    fn print(&self) -> String {
        self.clone()
    }
}
/// Absent is `none`.
impl<T: OptionValue> OptionValue for Option<T> {
    const WHAT: &'static str = T::WHAT;
    fn parse(text: &str) -> Option<Self> {
        match text {
            "none" => Some(None),
            text => T::parse(text).map(Some),
        }
    }
    fn print(&self) -> String {
        self.as_ref().map_or("none".to_string(), T::print)
    }
}
/// Separated by commas, in square brackets or not. Items cannot hold commas.
impl<T: OptionValue> OptionValue for Vec<T> {
    const WHAT: &'static str = "a list separated by commas";
    fn parse(text: &str) -> Option<Self> {
        let inner = text.strip_prefix('[').and_then(|t| t.strip_suffix(']'));
        match inner.unwrap_or(text).trim() {
            "" => Some(Vec::new()),
            items => items.split(',').map(|item| T::parse(item.trim())).collect(),
        }
    }
    fn print(&self) -> String {
        let items: Vec<String> = self.iter().map(T::print).collect();
        match items.is_empty() {
            true => "[]".to_string(),
            false => items.join(","),
        }
    }
}

/// Reads the value of an option, or says what was expected.
pub fn read_option<T: OptionValue>(text: &str) -> Result<T, String> {
    let what = T::WHAT;
    T::parse(text).ok_or_else(|| format!("expects {what}, found '{text}'"))
}

/// What is known of an option.
#[derive(Clone, Copy)]
pub struct OptionInfo {
    /// The name of its field; in text `-` stands for `_`.
    pub field: &'static str,
    /// What it does.
    pub doc: &'static str,
    /// What is expected: `an integer`.
    pub what: &'static str,
    /// The text of its default.
    pub default: fn() -> String,
}

impl OptionInfo {
    /// Its name in text.
    pub fn name(&self) -> String {
        self.field.replace('_', "-")
    }
}

/// The name, documentation and options of a pass or alias: what `pass!` implements.
pub trait PassOptions: Default + Clone + Send + Sync + 'static {
    /// Its name, imperative and in kebab-case.
    const NAME: &'static str;
    /// Its reference page; the first line is the sentence that `--help` prints.
    const DOC: &'static str;
    /// The name of the isolated ops it runs on; `None` for any.
    const ANCHOR: Option<&'static str>;
    /// Its options.
    const OPTIONS: &'static [OptionInfo];
    /// Sets an option by the name of its field; `None` if there is no such option.
    fn set(&mut self, field: &str, text: &str) -> Option<Result<(), String>>;
    /// Whether an option, by the name of its field, has a value that means something; else what is expected.
    fn check(&self, field: &str) -> Result<(), String>;
    /// The texts of all options by the names of their fields.
    fn values(&self) -> Vec<(&'static str, String)>;
}

/// Of an option in [`pass!`](crate::pass!): its value is one of these.
pub fn one_of(names: &'static [&'static str]) -> impl Fn(&String) -> Result<(), String> {
    move |value| match names.contains(&value.as_str()) {
        true => Ok(()),
        false => {
            let (last, others) = names.split_last().unwrap_or((&"", &[]));
            match others.is_empty() {
                true => Err(last.to_string()),
                false => Err(format!("{} or {last}", others.join(", "))),
            }
        }
    }
}

/// Of an option in [`pass!`](crate::pass!): its value is this number or a greater one.
pub fn no_less<T: PartialOrd + std::fmt::Display>(least: T) -> impl Fn(&T) -> Result<(), String> {
    move |value| match *value >= least {
        true => Ok(()),
        false => Err(format!("at least {least}")),
    }
}

/// The options that are not at their default.
pub(crate) fn changed_options<P: PassOptions>(pass: &P) -> Vec<(String, String)> {
    let values = pass.values().into_iter().zip(P::default().values());
    values
        .filter(|(value, default)| value != default)
        .map(|((field, value), _)| (field.replace('_', "-"), value))
        .collect()
}

/// The value of an option as a pipeline has it in its text: in quotes if it needs them.
pub fn option_text(value: &str) -> String {
    match is_plain(value) {
        true => value.to_string(),
        false => format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"")),
    }
}

/// Whether the value of an option needs no quotes: no spaces or quotes, brackets in pairs.
fn is_plain(value: &str) -> bool {
    let mut open = Vec::new();
    for c in value.chars() {
        match c {
            c if c.is_whitespace() || matches!(c, '"' | '\'' | '\\') => return false,
            '(' | '[' | '{' => open.push(c),
            ')' | ']' | '}' if open.pop() != Some(opening(c)) => return false,
            _ => {}
        }
    }
    !value.is_empty() && open.is_empty()
}

pub(crate) fn opening(close: char) -> char {
    match close {
        ')' => '(',
        ']' => '[',
        _ => '{',
    }
}

/// Declares a pass, or an alias of passes: a struct of options with their defaults.
///
/// ```
/// tir_pass::pass! {
///     /// Splits loops so that their data fits.
///     pub struct Tile = "tile" on "func.func" {
///         /// The machine file to ask for sizes.
///         pub machine: Option<String> = None,
///         /// How often to try.
///         pub depth: usize = 2,
///     }
/// }
/// assert_eq!(Tile::default().depth, 2);
/// ```
///
/// A check behind `=>` says which values mean something, as [`no_less`] and [`one_of`] do; others are refused where a
/// pipeline is read: `pub depth: usize = 2 => no_less(1)`.
///
/// Without `on "…"` the pass runs on isolated ops of any name. Then implement
/// [`Pass`](crate::Pass) or [`Alias`](crate::Alias).
#[macro_export]
macro_rules! pass {
    (
        $(#[doc = $doc:literal])*
        $vis:vis struct $name:ident = $text:literal $(on $anchor:literal)? {
            $($(#[doc = $fdoc:literal])* $fvis:vis $field:ident: $ty:ty = $default:expr $(=> $check:expr)?),* $(,)?
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug)]
        $vis struct $name {
            $($(#[doc = $fdoc])* $fvis $field: $ty,)*
        }
        impl ::core::default::Default for $name {
            fn default() -> Self {
                Self { $($field: $default),* }
            }
        }
        impl $crate::PassOptions for $name {
            const NAME: &'static str = $text;
            const DOC: &'static str = concat!($($doc, "\n"),*);
            const ANCHOR: ::core::option::Option<&'static str> = $crate::pass!(@anchor $($anchor)?);
            const OPTIONS: &'static [$crate::OptionInfo] = &[$($crate::OptionInfo {
                field: stringify!($field),
                doc: concat!($($fdoc, "\n"),*),
                what: <$ty as $crate::OptionValue>::WHAT,
                default: || {
                    let value: $ty = $default;
                    $crate::OptionValue::print(&value)
                },
            }),*];
            #[allow(unused_variables)]
            fn set(
                &mut self,
                field: &str,
                text: &str,
            ) -> ::core::option::Option<::core::result::Result<(), ::std::string::String>> {
                match field {
                    $(stringify!($field) => {
                        Some($crate::read_option::<$ty>(text).map(|value| self.$field = value))
                    })*
                    _ => None,
                }
            }
            #[allow(unused_variables)]
            fn check(&self, field: &str) -> ::core::result::Result<(), ::std::string::String> {
                $($(if field == stringify!($field) {
                    return ($check)(&self.$field);
                })?)*
                Ok(())
            }
            fn values(&self) -> ::std::vec::Vec<(&'static str, ::std::string::String)> {
                vec![$((stringify!($field), $crate::OptionValue::print(&self.$field))),*]
            }
        }
    };
    (@anchor) => { None };
    (@anchor $anchor:literal) => { Some($anchor) };
}
