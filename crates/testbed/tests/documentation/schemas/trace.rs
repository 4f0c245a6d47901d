//! What a type asks of serde. A deserializer without an input answers each question with an example, and keeps the question
//! by its path. A type that refuses an example is asked again with another one, and one that misses a field that it did not
//! ask for, as behind `flatten`, with that field. A field is required if the type is not made without it.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use serde::de::value::{Error, StrDeserializer};
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, EnumAccess, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value, json};

/// Texts of which one is what a type takes for its own.
const TEXTS: [&str; 5] = [
    "10.0.0.0/16",
    "2026-01-01T00:00:00Z",
    "arn:aws:eks:eu-central-1:111122223333:cluster/blue",
    "1",
    "a",
];
/// More than the fields and variants of any type here.
const MOST_TRIES: usize = 10_000;

#[derive(Clone, Copy, PartialEq)]
pub enum Traced {
    /// Other fields are refused.
    Setting,
    /// Other fields may come.
    Answer,
}

#[derive(Clone, Debug)]
enum Node {
    Struct(Vec<&'static str>),
    Map,
    List,
    Optional,
    Variants(Vec<&'static str>),
    Text,
    Integer,
    Number,
    Boolean,
    Anything,
}

#[derive(Default)]
struct State {
    nodes: BTreeMap<String, Node>,
    /// The field of a struct that is left out in this run.
    omitted: Option<(String, &'static str)>,
    /// The variant of an enum that is taken in this run.
    picked: BTreeMap<String, usize>,
    /// The example of a text.
    texts: BTreeMap<String, usize>,
    /// Fields that a type missed without having asked for them.
    missed: BTreeMap<String, Vec<String>>,
    /// The words of such a field.
    words: BTreeMap<String, Vec<String>>,
    last_text: String,
    failed_map: Option<String>,
}

/// The schema of a type.
pub fn trace<T: DeserializeOwned>(kind: Traced) -> Value {
    let state = RefCell::new(State::default());
    for _ in 0..MOST_TRIES {
        state.borrow_mut().failed_map = None;
        let Err(error) = make::<T>(&state) else { break };
        learn(&mut state.borrow_mut(), &error.to_string());
    }
    make::<T>(&state).expect("a type that takes the examples");
    // Each variant may have questions of its own.
    let enums: Vec<(String, usize)> = state.borrow().nodes.iter().filter_map(variants).collect();
    for (path, count) in enums {
        for variant in 0..count {
            state.borrow_mut().picked.insert(path.clone(), variant);
            let _ = make::<T>(&state);
        }
        state.borrow_mut().picked.remove(&path);
    }
    let structs: Vec<(String, Vec<&'static str>)> =
        state.borrow().nodes.iter().filter_map(fields).collect();
    let mut required: BTreeMap<String, BTreeSet<&'static str>> = BTreeMap::new();
    for (path, fields) in structs {
        for field in fields {
            state.borrow_mut().omitted = Some((path.clone(), field));
            if make::<T>(&state).is_err() {
                required.entry(path.clone()).or_default().insert(field);
            }
        }
    }
    schema("", &state.borrow(), &required, kind)
}

fn make<T: DeserializeOwned>(state: &RefCell<State>) -> Result<T, Error> {
    T::deserialize(Tracer { state, path: String::new() })
}

fn variants((path, node): (&String, &Node)) -> Option<(String, usize)> {
    let Node::Variants(names) = node else { return None };
    Some((path.clone(), names.len()))
}

fn fields((path, node): (&String, &Node)) -> Option<(String, Vec<&'static str>)> {
    let Node::Struct(fields) = node else { return None };
    Some((path.clone(), fields.clone()))
}

/// Takes from an error what to answer in the next run.
fn learn(state: &mut State, error: &str) {
    let quoted: Vec<&str> = error.split('`').skip(1).step_by(2).collect();
    match state.failed_map.clone() {
        Some(map) if error.starts_with("missing field") => {
            let missed = state.missed.entry(map).or_default();
            missed.push(quoted[0].to_owned());
        }
        // The keys of a map are of a closed set.
        Some(map) if error.starts_with("unknown variant `*`") => {
            state.words.insert(map, quoted[1..].iter().map(|&word| word.to_owned()).collect());
        }
        Some(map) if error.starts_with("unknown variant") => {
            let missed = state.missed.get(&map).and_then(|fields| fields.last());
            let path = missed.map_or(state.last_text.clone(), |field| format!("{map}/{field}"));
            let words = quoted[1..].iter().map(|&word| word.to_owned()).collect();
            state.words.insert(path, words);
        }
        _ => {
            let path = state.last_text.clone();
            let tries = state.texts.entry(path).or_default();
            *tries += 1;
            assert!(*tries < TEXTS.len(), "{}: {error}", state.last_text);
        }
    }
}

fn schema(
    path: &str,
    state: &State,
    required: &BTreeMap<String, BTreeSet<&'static str>>,
    kind: Traced,
) -> Value {
    let of = |child: &str| schema(&format!("{path}/{child}"), state, required, kind);
    let properties = |names: &mut dyn Iterator<Item = &str>| -> Map<String, Value> {
        names.map(|name| (name.to_owned(), of(name))).collect()
    };
    let Some(node) = state.nodes.get(path) else { return json!({}) };
    match node {
        Node::Struct(fields) => {
            let needed = required.get(path);
            let needed = fields.iter().filter(|it| needed.is_some_and(|all| all.contains(*it)));
            json!({
                "type": "object",
                "properties": properties(&mut fields.iter().copied()),
                "required": needed.collect::<Vec<_>>(),
                "additionalProperties": kind == Traced::Answer,
            })
        }
        Node::Map => match state.missed.get(path) {
            Some(names) => json!({
                "type": "object",
                "properties": properties(&mut names.iter().map(String::as_str)),
                "required": names,
            }),
            None => match state.words.get(path) {
                Some(keys) => json!({
                    "type": "object", "propertyNames": {"enum": keys},
                    "additionalProperties": of(&keys[0]),
                }),
                None => json!({"type": "object", "additionalProperties": of("*")}),
            },
        },
        Node::List => json!({"type": "array", "items": of("*")}),
        Node::Optional => match of("?") {
            Value::Object(mut of_type) if of_type.get("type").is_some_and(Value::is_string) => {
                let named = of_type["type"].take();
                of_type.insert("type".to_owned(), json!([named, "null"]));
                Value::Object(of_type)
            }
            other => json!({"anyOf": [other, {"type": "null"}]}),
        },
        Node::Variants(names) => {
            let is_plain = |name: &&&str| !state.nodes.contains_key(&format!("{path}/{name}"));
            let plain: Vec<_> = names.iter().filter(is_plain).collect();
            let mut kinds = vec![json!({"enum": plain})];
            for name in names.iter().filter(|name| !is_plain(name)) {
                kinds.push(
                    json!({"type": "object", "properties": {*name: of(name)}, "required": [name]}),
                );
            }
            if kinds.len() == 1 { kinds.remove(0) } else { json!({"anyOf": kinds}) }
        }
        Node::Anything | Node::Text if state.words.contains_key(path) => {
            json!({"enum": state.words[path]})
        }
        Node::Anything => json!({}),
        Node::Text => json!({"type": "string"}),
        Node::Integer => json!({"type": "integer"}),
        Node::Number => json!({"type": "number"}),
        Node::Boolean => json!({"type": "boolean"}),
    }
}

#[derive(Clone)]
struct Tracer<'s> {
    state: &'s RefCell<State>,
    path: String,
}

impl Tracer<'_> {
    fn keep(&self, node: Node) {
        self.state.borrow_mut().nodes.insert(self.path.clone(), node);
    }

    fn child(&self, name: &str) -> Self {
        Self { state: self.state, path: format!("{}/{name}", self.path) }
    }

    fn text(&self) -> String {
        let mut state = self.state.borrow_mut();
        state.last_text.clone_from(&self.path);
        let word = state.words.get(&self.path).map(|words| words[0].clone());
        let text = TEXTS[state.texts.get(&self.path).copied().unwrap_or_default()];
        word.unwrap_or_else(|| text.to_owned())
    }

    fn object<'de, V: Visitor<'de>>(
        self,
        names: Vec<String>,
        visitor: V,
    ) -> Result<V::Value, Error> {
        let made = visitor.visit_map(Fields { of: self.clone(), names, next: 0 });
        let mut state = self.state.borrow_mut();
        if made.is_err() && state.failed_map.is_none() {
            state.failed_map = Some(self.path);
        }
        made
    }
}

macro_rules! numbers {
    ($node:ident: $($method:ident $visit:ident $type:ty),*) => {$(
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
            self.keep(Node::$node);
            visitor.$visit(<$type>::from(1u8))
        }
    )*};
}

impl<'de> de::Deserializer<'de> for Tracer<'_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.keep(Node::Anything);
        visitor.visit_string(self.text())
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.keep(Node::Boolean);
        visitor.visit_bool(true)
    }

    numbers!(
        Integer: deserialize_i8 visit_i64 i64, deserialize_i16 visit_i64 i64,
        deserialize_i32 visit_i64 i64, deserialize_i64 visit_i64 i64, deserialize_u8 visit_u64 u64,
        deserialize_u16 visit_u64 u64, deserialize_u32 visit_u64 u64, deserialize_u64 visit_u64 u64
    );
    numbers!(Number: deserialize_f32 visit_f64 f64, deserialize_f64 visit_f64 f64);

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.keep(Node::Text);
        visitor.visit_char('a')
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.keep(Node::Text);
        visitor.visit_string(self.text())
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.keep(Node::Optional);
        visitor.visit_some(self.child("?"))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.keep(Node::List);
        visitor.visit_seq(One(Some(self.child("*"))))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        self.keep(Node::Map);
        let names = match &*self.state.borrow() {
            State { missed, .. } if missed.contains_key(&self.path) => missed[&self.path].clone(),
            State { words, .. } if words.contains_key(&self.path) => {
                vec![words[&self.path][0].clone()]
            }
            _ => vec!["*".to_owned()],
        };
        self.object(names, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.keep(Node::Struct(fields.to_vec()));
        let omitted = self.state.borrow().omitted.clone();
        let is_given = |field: &&&str| {
            omitted
                .as_ref()
                .is_none_or(|(path, name)| (path.as_str(), *name) != (self.path.as_str(), **field))
        };
        let names = fields.iter().filter(is_given).map(|&field| field.to_owned()).collect();
        self.clone().object(names, visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        self.keep(Node::Variants(variants.to_vec()));
        let picked = self.state.borrow().picked.get(&self.path).copied().unwrap_or_default();
        visitor.visit_enum(Variant { of: self.child(variants[picked]), name: variants[picked] })
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        i128 u128 bytes byte_buf unit unit_struct tuple tuple_struct identifier
    }
}

struct One<'s>(Option<Tracer<'s>>);

impl<'de> SeqAccess<'de> for One<'_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        self.0.take().map(|tracer| seed.deserialize(tracer)).transpose()
    }
}

struct Fields<'s> {
    of: Tracer<'s>,
    names: Vec<String>,
    next: usize,
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let name = self.names.get(self.next);
        name.map(|name| seed.deserialize(StrDeserializer::new(name))).transpose()
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Error> {
        self.next += 1;
        seed.deserialize(self.of.child(&self.names[self.next - 1]))
    }
}

struct Variant<'s> {
    of: Tracer<'s>,
    name: &'static str,
}

impl<'de> EnumAccess<'de> for Variant<'_> {
    type Error = Error;
    type Variant = Self;

    fn variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<(T::Value, Self), Error> {
        Ok((seed.deserialize(StrDeserializer::new(self.name))?, self))
    }
}

impl<'de> VariantAccess<'de> for Variant<'_> {
    type Error = Error;

    fn unit_variant(self) -> Result<(), Error> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Error> {
        seed.deserialize(self.of)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, Error> {
        self.of.deserialize_tuple(visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        de::Deserializer::deserialize_struct(self.of, "", fields, visitor)
    }
}

impl Tracer<'_> {
    fn deserialize_tuple<'de, V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        de::Deserializer::deserialize_seq(self, visitor)
    }
}
