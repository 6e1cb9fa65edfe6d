//! The JSON Schemas of everything that crosses the waist, composed from the wire types and the table
//! of file systems: the only list of options that there is.
//!
//! Extensions: `x-select` beside `oneOf` names the key that chooses the branch; `x-exactly-one` lists
//! keys of which exactly one must be given; the formats `bytes` and `seconds` mark numbers that people
//! may write with a unit; `x-form` says in words what a `pattern` wants.

use fsdyno_filesystems::FileSystem;
use fsdyno_spec::PROTOCOL;
use fsdyno_spec::align::Advice;
use fsdyno_spec::describe::Describe;
use fsdyno_spec::event::Envelope;
use fsdyno_spec::record::StackRecord;
use fsdyno_spec::request::Request;
use fsdyno_spec::survey::Survey;
use fsdyno_spec::trial::{NAME_FORM, NAME_PATTERN, PHASE_KINDS, TrialSpec};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

/// The answer of `schema`.
pub fn schema() -> Value {
    json!({
        "protocol": PROTOCOL,
        "trial": composed::<TrialSpec>(),
        "request": composed::<Request>(),
        "event": composed::<Envelope>(),
        "survey": composed::<Survey>(),
        "describe": composed::<Describe>(),
        "record": composed::<StackRecord>(),
        "align": composed::<Advice>(),
    })
}

/// The schema of a type, with the tables and rules that its Rust type cannot say.
fn composed<T: JsonSchema>() -> Value {
    let mut schema = SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value();
    let Some(definitions) = schema.get_mut("$defs").and_then(Value::as_object_mut) else { return schema };
    if let Some(filesystem) = definitions.get_mut("FileSystemSpec") {
        *filesystem = filesystems();
    }
    for (name, keys) in [("Phase", &PHASE_KINDS[..]), ("Stack", &["devices", "directory"])] {
        if let Some(definition) = definitions.get_mut(name) {
            definition["x-exactly-one"] = json!(keys);
        }
    }
    if let Some(phase) = schema.pointer_mut("/$defs/Phase/properties/name") {
        phase["pattern"] = json!(NAME_PATTERN);
        phase["x-form"] = json!(NAME_FORM);
    }
    for place in ["/properties/datasets", "/$defs/TrialSpec/properties/datasets"] {
        if let Some(datasets) = schema.pointer_mut(place) {
            datasets["propertyNames"] =
                json!({ "type": "string", "pattern": NAME_PATTERN, "x-form": NAME_FORM });
        }
    }
    schema
}

/// One branch for each file system.
fn filesystems() -> Value {
    json!({
        "description": "A file system by its type, with its options.",
        "oneOf": fsdyno_filesystems::TABLE.iter().map(|fs| branch(fs)).collect::<Vec<_>>(),
        "x-select": "type",
    })
}

fn branch(fs: &FileSystem) -> Value {
    let mut properties = Map::new();
    properties.insert("type".to_string(), json!({ "const": fs.name }));
    for option in fs.info().options {
        let mut value = option.value;
        value["description"] = json!(option.help);
        properties.insert(option.name, value);
    }
    json!({
        "type": "object",
        "description": format!("{}: {}.", fs.name, fs.summary),
        "properties": properties,
        "required": ["type"],
        "additionalProperties": false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// Follows the references of a schema down a path of keys.
    fn at<'a>(root: &'a Value, path: &[&str]) -> &'a Value {
        let mut here = root;
        for step in path {
            here = &resolve(root, here)["properties"][step];
        }
        resolve(root, here)
    }

    fn resolve<'a>(root: &'a Value, mut here: &'a Value) -> &'a Value {
        loop {
            let real = here["anyOf"].as_array().and_then(|all| all.iter().find(|b| b["type"] != "null"));
            if let Some(real) = real {
                here = real;
            } else if let Some(name) = here["$ref"].as_str() {
                here = root.pointer(name.trim_start_matches('#')).expect("a definition");
            } else {
                return here;
            }
        }
    }

    #[test]
    fn a_file_system_is_chosen_by_its_type_and_carries_its_own_options() {
        let trial = &schema()["trial"];
        let filesystem = at(trial, &["filesystem"]);
        assert_eq!(filesystem["x-select"], "type");
        let branches = filesystem["oneOf"].as_array().expect("branches");
        assert_eq!(branches.len(), fsdyno_filesystems::TABLE.len());
        for (branch, fs) in branches.iter().zip(fsdyno_filesystems::TABLE) {
            assert_eq!(branch["properties"]["type"]["const"], fs.name);
            assert_eq!(branch["additionalProperties"], false);
            assert_eq!(branch["properties"].as_object().expect("properties").len(), fs.options.len() + 1);
            for option in fs.options {
                let value = &branch["properties"][option.name];
                assert_eq!(value["description"], option.help, "{}: {}", fs.name, option.name);
                assert!(value["type"].is_string(), "{}: {}", fs.name, option.name);
            }
        }
        let ext4 = &branches[2]["properties"];
        assert_eq!(ext4["inode_size"]["format"], "bytes");
        assert_eq!(ext4["commit"]["format"], "seconds");
        assert_eq!(ext4["stride"]["minimum"], 0);
        assert_eq!(ext4["barrier"]["default"], true);
    }

    #[test]
    fn a_request_carries_the_same_composed_trial() {
        let whole = schema();
        let definitions = &whole["request"]["$defs"];
        assert_eq!(definitions["FileSystemSpec"], whole["trial"]["$defs"]["FileSystemSpec"]);
        assert_eq!(definitions["Phase"], whole["trial"]["$defs"]["Phase"]);
    }

    #[test]
    fn what_must_be_given_exactly_once_is_listed() {
        let trial = &schema()["trial"];
        assert_eq!(at(trial, &["stack"])["x-exactly-one"], json!(["devices", "directory"]));
        assert_eq!(trial["$defs"]["Phase"]["x-exactly-one"], json!(PHASE_KINDS));
        for kind in PHASE_KINDS {
            assert!(trial["$defs"]["Phase"]["properties"][kind].is_object(), "{kind}");
        }
    }

    #[test]
    fn defaults_limits_and_units_of_the_wire_types_are_in_the_schema() {
        let trial = &schema()["trial"];
        assert_eq!(at(trial, &["timeout"])["default"], 3600.0);
        assert_eq!(at(trial, &["timeout"])["format"], "seconds");
        let file = &trial["$defs"]["FileDevice"];
        assert_eq!(file["properties"]["size"]["format"], "bytes");
        assert_eq!(file["properties"]["backing"]["default"], "written");
        assert_eq!(file["additionalProperties"], false);
        let tree = &trial["$defs"]["Tree"];
        assert_eq!(tree["properties"]["threads"]["default"], 1);
        assert_eq!(tree["properties"]["threads"]["minimum"], 1);
        assert_eq!(tree["properties"]["threads"]["maximum"], 1024);
        let kinds: Vec<_> = trial["$defs"]["Workload"]["oneOf"]
            .as_array()
            .expect("branches")
            .iter()
            .map(|branch| branch["required"][0].as_str().expect("a kind"))
            .collect();
        assert_eq!(kinds, ["stream", "random", "tree"]);
    }

    #[test]
    fn only_keywords_that_the_plan_reader_knows_are_used() {
        const KNOWN: &str = "$schema $id $ref $defs title description default examples deprecated format type \
             properties additionalProperties required oneOf anyOf enum const minimum maximum items minItems pattern \
             propertyNames x-select x-exactly-one x-form";
        let known: Vec<_> = KNOWN.split_whitespace().collect();
        fn walk(schema: &Value, known: &[&str], strange: &mut BTreeMap<String, Value>) {
            let Value::Object(object) = schema else { return };
            for (key, value) in object {
                match key.as_str() {
                    "properties" | "$defs" => {
                        value.as_object().into_iter().flatten().for_each(|(_, v)| walk(v, known, strange));
                    }
                    "oneOf" | "anyOf" => {
                        value.as_array().into_iter().flatten().for_each(|v| walk(v, known, strange));
                    }
                    "items" | "additionalProperties" => walk(value, known, strange),
                    key if known.contains(&key) => {}
                    key => {
                        strange.insert(key.to_string(), schema.clone());
                    }
                }
            }
        }
        let mut strange = BTreeMap::new();
        walk(&schema()["trial"], &known, &mut strange);
        assert!(strange.is_empty(), "{strange:#?}");
    }
}
