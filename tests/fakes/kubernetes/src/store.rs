//! Objects under the API's rules that Burnin depends on: names are unique, every change has a number, owned objects are
//! deleted before their owner, and objects with finalizers are deleted when the last one is removed.

use std::collections::BTreeMap;

use chrono::{SecondsFormat, Utc};
use serde_json::{Value, json};

/// Key of an object: `{group}/{plural}`, namespace, name.
pub type Key = (String, String, String);

/// Maximum number of recorded changes; older changes are dropped.
const REMEMBERED: usize = 2000;
const FOREGROUND: &str = "foregroundDeletion";

/// A change, as a watch reports it.
#[derive(Clone, Debug)]
pub struct StoreChange {
    pub version: u64,
    /// `ADDED`, `MODIFIED`, `DELETED`.
    pub kind: &'static str,
    /// Kind, namespace and name of the object.
    pub key: Key,
    /// The object after the change, or before its deletion.
    pub object: Value,
}

/// A rejection: code, reason, message.
pub type Refused = (u16, &'static str, String);

/// Objects of the API server, with their recorded changes.
#[derive(Debug, Default)]
pub struct Objects {
    version: u64,
    all: BTreeMap<Key, Value>,
    changes: Vec<StoreChange>,
    /// Changes up to this resource version are dropped.
    compacted: u64,
    /// Number of creations by kind and name.
    created: Vec<(String, String)>,
}

/// The current time in the API's format.
pub fn now() -> String {
    Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true)
}

impl Objects {
    /// The number of the last change.
    pub const fn version(&self) -> u64 {
        self.version
    }

    /// Changes after a number; `None` if they were dropped.
    pub fn after(&self, version: u64) -> Option<Vec<StoreChange>> {
        let new = || self.changes.iter().filter(|change| change.version > version).cloned().collect();
        (version >= self.compacted).then(new)
    }

    /// Drops all recorded changes.
    pub fn compact(&mut self) {
        self.compacted = self.version;
        self.changes.clear();
    }

    /// Number of creations of an object of this kind and name.
    pub fn creations(&self, plural: &str, name: &str) -> usize {
        let ours = |made: &&(String, String)| made.0.ends_with(&format!("/{plural}")) && made.1 == name;
        self.created.iter().filter(ours).count()
    }

    /// The object with this key; `None` if absent.
    pub fn get(&self, key: &Key) -> Option<&Value> {
        self.all.get(key)
    }

    pub fn list(&self, kind: &str, namespace: Option<&str>) -> Vec<Value> {
        let ours = |key: &Key| key.0 == kind && namespace.is_none_or(|namespace| key.1 == namespace);
        self.all.iter().filter(|(key, _)| ours(key)).map(|(_, object)| object.clone()).collect()
    }

    fn changed(&mut self, kind: &'static str, key: &Key, mut object: Value) -> Value {
        self.version += 1;
        object["metadata"]["resourceVersion"] = json!(self.version.to_string());
        self.changes.push(StoreChange {
            version: self.version,
            kind,
            key: key.clone(),
            object: object.clone(),
        });
        if self.changes.len() > REMEMBERED {
            self.compacted = self.changes.remove(0).version;
        }
        if kind == "DELETED" {
            self.all.remove(key);
        } else {
            self.all.insert(key.clone(), object.clone());
        }
        object
    }

    /// Creates an object.
    ///
    /// # Errors
    /// Returns an error if the name exists.
    pub fn create(&mut self, key: &Key, mut object: Value) -> Result<Value, Refused> {
        if self.all.contains_key(key) {
            return Err((
                409,
                "AlreadyExists",
                format!("{} \"{}\" already exists", key.0.replace('/', "."), key.2),
            ));
        }
        let meta = &mut object["metadata"];
        (meta["uid"], meta["creationTimestamp"]) = (json!(uuid::Uuid::new_v4().to_string()), json!(now()));
        (meta["namespace"], meta["name"], meta["generation"]) = (json!(key.1), json!(key.2), json!(1));
        self.created.push((key.0.clone(), key.2.clone()));
        Ok(self.changed("ADDED", key, object))
    }

    /// Replaces an object. A given version must be the current one.
    ///
    /// # Errors
    /// Returns an error if the object is absent or has another version.
    pub fn replace(&mut self, key: &Key, mut object: Value) -> Result<Value, Refused> {
        let there = self.all.get(key).ok_or_else(|| missing(key))?;
        let (expected, now) = (&object["metadata"]["resourceVersion"], &there["metadata"]["resourceVersion"]);
        if expected.is_string() && expected != now {
            let message =
                "the object has been modified; please apply your changes to the latest version".to_owned();
            return Err((409, "Conflict", message));
        }
        for field in ["uid", "creationTimestamp", "deletionTimestamp"] {
            object["metadata"][field] = there["metadata"][field].clone();
        }
        if object["spec"] != there["spec"] {
            let generation = there["metadata"]["generation"].as_u64().unwrap_or(0) + 1;
            object["metadata"]["generation"] = json!(generation);
        }
        let bare = object["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
        if object["metadata"]["deletionTimestamp"].is_string() && bare {
            return Ok(self.changed("DELETED", key, object));
        }
        Ok(self.changed("MODIFIED", key, object))
    }

    /// Applies a merge patch to an object.
    ///
    /// # Errors
    /// Returns an error if the object is absent or has another version.
    pub fn merge(&mut self, key: &Key, patch: &Value) -> Result<Value, Refused> {
        let mut object = self.all.get(key).ok_or_else(|| missing(key))?.clone();
        merge(&mut object, patch);
        self.replace(key, object)
    }

    /// Deletes an object, immediately or after the objects that it owns.
    ///
    /// # Errors
    /// Returns an error if the object is absent or has another uid.
    pub fn delete(&mut self, key: &Key, options: &Value) -> Result<Value, Refused> {
        let mut object = self.all.get(key).ok_or_else(|| missing(key))?.clone();
        let (expected, uid) = (&options["preconditions"]["uid"], &object["metadata"]["uid"]);
        if expected.is_string() && expected != uid {
            return Err((
                409,
                "Conflict",
                format!("the UID in the precondition ({expected}) does not match ({uid})"),
            ));
        }
        let mut finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
        if options["propagationPolicy"] == "Foreground" && !finalizers.contains(&json!(FOREGROUND)) {
            finalizers.push(json!(FOREGROUND));
        }
        // Pods have a grace period.
        if key.0 == "/pods" && options["gracePeriodSeconds"] != 0 {
            finalizers.retain(|finalizer| finalizer != FOREGROUND);
            if !finalizers.contains(&json!("kubelet")) && object["spec"]["nodeName"].is_string() {
                finalizers.push(json!("kubelet"));
            }
        }
        if options["gracePeriodSeconds"] == 0 {
            finalizers.retain(|finalizer| finalizer != "kubelet");
        }
        if finalizers.is_empty() {
            return Ok(self.changed("DELETED", key, object));
        }
        if object["metadata"]["deletionTimestamp"].is_string()
            && object["metadata"]["finalizers"] == json!(finalizers)
        {
            return Ok(object);
        }
        object["metadata"]["deletionTimestamp"] = json!(now());
        object["metadata"]["finalizers"] = json!(finalizers);
        Ok(self.changed("MODIFIED", key, object))
    }

    /// One round of the garbage collector: deletes objects whose owners no longer exist, and owners whose objects are deleted.
    pub fn collect(&mut self) {
        let uids: Vec<Value> = self.all.values().map(|object| object["metadata"]["uid"].clone()).collect();
        for (key, object) in self.all.clone() {
            let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
            let orphan = !owners.is_empty() && owners.iter().all(|owner| !uids.contains(&owner["uid"]));
            let goes = |owner: &Value| {
                self.all.values().any(|other| {
                    other["metadata"]["uid"] == owner["uid"]
                        && other["metadata"]["finalizers"]
                            .as_array()
                            .is_some_and(|all| all.contains(&json!(FOREGROUND)))
                })
            };
            if (orphan || owners.iter().any(goes)) && !object["metadata"]["deletionTimestamp"].is_string() {
                _ = self.delete(&key, &json!({"propagationPolicy": "Foreground"}));
                continue;
            }
            let finalizers = object["metadata"]["finalizers"].as_array().cloned().unwrap_or_default();
            let owns = |other: &Value| {
                other["metadata"]["ownerReferences"].as_array().is_some_and(|owners| {
                    owners.iter().any(|owner| owner["uid"] == object["metadata"]["uid"])
                })
            };
            if finalizers.contains(&json!(FOREGROUND)) && !self.all.values().any(owns) {
                let mut freed = object.clone();
                let rest: Vec<_> =
                    finalizers.into_iter().filter(|finalizer| finalizer != FOREGROUND).collect();
                freed["metadata"]["finalizers"] = json!(rest);
                _ = self.replace(&key, freed);
            }
        }
    }
}

fn missing(key: &Key) -> Refused {
    (404, "NotFound", format!("{} \"{}\" not found", key.0.trim_start_matches('/').replace('/', "."), key.2))
}

/// JSON merge patch.
fn merge(object: &mut Value, patch: &Value) {
    let Some(fields) = patch.as_object() else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = json!({});
    }
    for (name, value) in fields {
        if value.is_null() {
            object.as_object_mut().map(|object| object.remove(name));
        } else {
            merge(&mut object[name], value);
        }
    }
}
