//! Description of a cluster, shared by all crates: the name of its kind, and settings that only the kind's own crate reads.

use std::fmt;

use schemars::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeOwned, Error as _, MapAccess, Visitor},
    ser::SerializeMap,
};
use serde_json::Value;

/// Name of the kind of clusters of local processes.
pub const PROCESSES: &str = "processes";
/// Name of the systems that build steps provision.
pub const DEPLOYED: &str = "deployed";

/// A kind of cluster and its settings, `{KIND: SETTINGS}` in JSON. The settings are complete: defaults are filled in when a
/// workflow is resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct System(Tagged);

/// Access of the agent to a cluster that accepts jobs, `{KIND: ACCESS}` in JSON.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterAccess(Tagged);

impl System {
    /// A system with the serialized settings of its kind.
    pub fn new(kind: &str, settings: impl Serialize) -> Self {
        Self(Tagged::new(kind, settings))
    }

    /// A cluster of `nodes` local processes.
    pub fn processes(nodes: u32) -> Self {
        Self::new(PROCESSES, serde_json::json!({"nodes": nodes}))
    }

    /// Name of the kind, as in workflow files.
    pub fn kind(&self) -> &str {
        &self.0.kind
    }

    /// Complete settings in JSON.
    pub const fn settings(&self) -> &Value {
        &self.0.value
    }

    /// Number of requested nodes: the settings of every kind state `nodes`. For a deployed cluster the number is in the settings of the
    /// provisioned kind. 0 if unknown.
    pub fn nodes(&self) -> u32 {
        let settings = self.settings();
        let inner = || settings.as_object()?.values().find_map(|inner| inner.get("nodes"));
        let nodes = settings.get("nodes").or_else(inner).and_then(Value::as_u64);
        nodes.and_then(|nodes| u32::try_from(nodes).ok()).unwrap_or(0)
    }

    /// The settings as the type of their kind.
    ///
    /// # Errors
    /// Returns an error if the settings are invalid for `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(&self.0.value)
    }
}

impl ClusterAccess {
    /// The serialized access to a cluster of this kind.
    pub fn new(kind: &str, access: impl Serialize) -> Self {
        Self(Tagged::new(kind, access))
    }

    /// Name of the kind, as in workflow files.
    pub fn kind(&self) -> &str {
        &self.0.kind
    }

    /// The access as the type of its kind.
    ///
    /// # Errors
    /// Returns an error if the access is invalid for `T`.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        T::deserialize(&self.0.value)
    }

    /// Reads the field `endpoint` of older ledgers: `slurm:{JSON}`, `kubernetes:{JSON}`, or the folder of a cluster of
    /// local processes.
    ///
    /// # Errors
    /// Returns an error if the JSON is invalid.
    pub fn of_endpoint(endpoint: &str) -> Result<Self, serde_json::Error> {
        match endpoint.split_once(':') {
            Some((kind @ ("slurm" | "kubernetes"), settings)) => {
                Ok(Self::new(kind, serde_json::from_str::<Value>(settings)?))
            }
            _ => Ok(Self::processes(endpoint)),
        }
    }

    /// Access to a cluster of local processes, by its folder.
    pub fn processes(folder: &str) -> Self {
        Self::new(PROCESSES, serde_json::json!({"folder": folder}))
    }

    /// The folder of a cluster of local processes; `None` for other kinds.
    pub fn processes_folder(&self) -> Option<&str> {
        let folder = self.0.value.get("folder").and_then(Value::as_str);
        folder.filter(|_| self.kind() == PROCESSES)
    }
}

/// The form of `endpoint` in older ledgers: `KIND:{JSON}`, or the folder of a cluster of local processes.
impl fmt::Display for ClusterAccess {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.processes_folder() {
            Some(folder) => out.write_str(folder),
            None => write!(out, "{}:{}", self.0.kind, self.0.value),
        }
    }
}

/// A value with the name of its kind; in JSON an object with one field.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Tagged {
    kind: String,
    value: Value,
}

impl Tagged {
    fn new(kind: &str, value: impl Serialize) -> Self {
        // Serialization fails only for maps with non-string keys, which no kind has.
        Self { kind: kind.to_owned(), value: serde_json::to_value(value).unwrap_or_default() }
    }
}

impl Serialize for Tagged {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(1))?;
        map.serialize_entry(&self.kind, &self.value)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Tagged {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct OneField;

        impl<'de> Visitor<'de> for OneField {
            type Value = Tagged;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("an object whose one field is the kind of cluster")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tagged, A::Error> {
                let one = map.next_entry()?;
                let (kind, value) = one.ok_or_else(|| A::Error::custom("the kind of cluster is missing"))?;
                let tagged = Tagged { kind, value };
                match map.next_key::<String>()? {
                    None => Ok(tagged),
                    Some(second) => Err(A::Error::custom(format!(
                        "expected one kind of cluster, found `{}` and `{second}`",
                        tagged.kind
                    ))),
                }
            }
        }

        deserializer.deserialize_map(OneField)
    }
}

/// Serialization and schema of a newtype around [`Tagged`].
macro_rules! tagged {
    ($name:ident, $description:literal) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                self.0.serialize(serializer)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Tagged::deserialize(deserializer).map(Self)
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({
                    "description": $description,
                    "type": "object",
                    "minProperties": 1,
                    "maxProperties": 1,
                })
            }
        }
    };
}

tagged!(System, "A kind of cluster and its settings: an object with one field, named after the kind.");
tagged!(ClusterAccess, "Access of the agent to a cluster: an object with one field, named after the kind.");
