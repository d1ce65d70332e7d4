//! The JSON Schema of the answer: what is checked in is what the types say, and every recording's answer is as it says.
//!
//! docs/holdup.schema.json is generated: `HOLDUP_WRITE_SCHEMA=1 cargo test -p holdup --bin holdup schema` writes it. Readers must skip what
//! they do not know, so the schema allows more fields than it names; the test does not, or a field without a place in it would pass.

use holdup_reason::answer::Report;
use schemars::generate::SchemaSettings;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn schema() -> Value {
    let generator = SchemaSettings::draft2020_12().for_serialize().into_generator();
    let mut schema = generator.into_root_schema_for::<Report>().to_value();
    schema["title"] = json!("The answer of holdup, version 1");
    schema["$comment"] =
        json!("Generated from the types (docs/json.md says what each field means).");
    schema
}

/// The same, and no field that it does not name.
fn strict(mut schema: Value) -> Value {
    fn close(value: &mut Value) {
        match value {
            Value::Object(all) => {
                if all.get("properties").is_some_and(Value::is_object)
                    && all.get("type").is_some_and(|it| it == "object")
                {
                    all.insert("unevaluatedProperties".into(), Value::Bool(false));
                }
                all.values_mut().for_each(close);
            }
            Value::Array(all) => all.iter_mut().for_each(close),
            _ => {}
        }
    }
    close(&mut schema);
    schema
}

fn answer(recorded: &super::Recorded) -> Value {
    serde_json::to_value(&recorded.explained.report).expect("JSON")
}

#[test]
fn the_schema_is_that_of_the_types() {
    let path = root().join("docs/holdup.schema.json");
    let text = serde_json::to_string_pretty(&schema()).expect("JSON") + "\n";
    if std::env::var_os("HOLDUP_WRITE_SCHEMA").is_some() {
        std::fs::write(&path, &text).expect("written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == text,
        "docs/holdup.schema.json is stale: `HOLDUP_WRITE_SCHEMA=1 cargo test -p holdup --bin holdup schema` writes it"
    );
}

/// Where a schema has a list of any length.
fn unbounded(of: &Value, at: &str, all: &mut Vec<String>) {
    match of {
        Value::Object(fields) => {
            let is_list = match &fields.get("type") {
                Some(Value::Array(types)) => types.contains(&json!("array")),
                Some(one) => **one == json!("array"),
                None => false,
            };
            if is_list && !fields.contains_key("maxItems") {
                all.push(at.into());
            }
            fields.iter().for_each(|(name, value)| unbounded(value, &format!("{at}/{name}"), all));
        }
        Value::Array(list) => list.iter().for_each(|value| unbounded(value, at, all)),
        _ => {}
    }
}

/// That each is cut to its bound, and the cut counted, is tested where it is done (answer/bounded.rs).
#[test]
fn every_list_of_the_answer_has_a_bound() {
    let mut all = Vec::new();
    unbounded(&schema(), "", &mut all);
    assert!(all.is_empty(), "no bound: {}", all.join(", "));
}

#[test]
fn every_recordings_answer_is_as_the_schema_says() {
    let validator = jsonschema::validator_for(&strict(schema())).expect("a schema");
    for recorded in super::all() {
        let answer = answer(recorded);
        let errors: Vec<String> = validator
            .iter_errors(&answer)
            .take(5)
            .map(|error| format!("{}: {error}", error.instance_path()))
            .collect();
        assert!(errors.is_empty(), "{}:\n{}", recorded.path.display(), errors.join("\n"));
    }
}

/// A schema that lets everything pass would make the test above true of anything.
#[test]
fn what_is_not_an_answer_is_refused() {
    let validator = jsonschema::validator_for(&strict(schema())).expect("a schema");
    let right = answer(super::named("lock-directory-7.rec"));
    assert!(validator.is_valid(&right));
    let wrong = |change: &dyn Fn(&mut Value)| {
        let mut value = right.clone();
        change(&mut value);
        !validator.is_valid(&value)
    };
    assert!(wrong(&|it| it["answer"]["verdict"] = json!("perhaps")));
    assert!(wrong(&|it| it["answer"]["ends"][0]["seconds"] = json!("1 s")));
    assert!(wrong(&|it| it["answer"]["ends"][0]["unheard_of"] = json!(1)));
    assert!(wrong(&|it| {
        it.as_object_mut().expect("an object").remove("findings");
    }));
    let victim = right["answer"]["ends"][0]["victims"][0].clone();
    assert!(wrong(&|it| it["answer"]["ends"][0]["victims"] = json!(vec![victim.clone(); 65])));
}
