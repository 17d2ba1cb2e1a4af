//! Buckets and objects, and the rules of their changes.

use std::{
    collections::{BTreeMap, HashMap},
    time::{Duration, Instant},
};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::{Bytes, BytesMut};
use chrono::{DateTime, SecondsFormat, Utc};
use md5::{Digest, Md5};
use serde_json::{Map, Value, json};

/// A rejection: status and reason.
pub type Refusal = (u16, String);

/// Query parameters of a request, by name.
pub type Query = HashMap<String, String>;

/// An object's current state.
#[derive(Clone, Debug)]
pub struct Object {
    pub body: Bytes,
    /// CRC32C in the API's encoding.
    pub crc32c: String,
    /// MD5 in the API's encoding.
    pub md5: String,
    pub generation: u64,
    /// Version of the metadata.
    pub metageneration: u64,
    /// Metadata from its creator.
    pub given: Map<String, Value>,
    pub created: DateTime<Utc>,
}

impl Object {
    /// A field of the creator's metadata, or `default`.
    pub fn field_or(&self, field: &str, default: &str) -> String {
        self.given.get(field).and_then(Value::as_str).unwrap_or(default).to_owned()
    }

    pub fn resource(&self, bucket: &str, name: &str) -> Value {
        let created = self.created.to_rfc3339_opts(SecondsFormat::Millis, true);
        let mut resource = json!({
            "kind": "storage#object", "id": format!("{bucket}/{name}/{}", self.generation),
            "name": name, "bucket": bucket, "size": self.body.len().to_string(),
            "generation": self.generation.to_string(), "metageneration": self.metageneration.to_string(),
            "contentType": self.field_or("contentType", "application/octet-stream"), "storageClass": "STANDARD",
            "crc32c": self.crc32c, "md5Hash": self.md5, "etag": format!("g{}m{}", self.generation, self.metageneration),
            "timeCreated": created, "updated": created, "timeFinalized": created,
        });
        if let Some(metadata) = self.given.get("metadata") {
            resource["metadata"] = metadata.clone();
        }
        resource
    }
}

/// CRC32C in the API's encoding.
pub fn crc32c(bytes: &[u8]) -> String {
    STANDARD.encode(crc32c::crc32c(bytes).to_be_bytes())
}

/// An incomplete upload.
#[derive(Debug)]
pub struct Session {
    pub bucket: String,
    pub name: String,
    /// Preconditions of the object.
    pub query: Query,
    /// Metadata of the object, as stated by the client.
    pub given: Map<String, Value>,
    /// Received bytes.
    pub body: BytesMut,
    /// Metadata of the created object; `None` until the upload is complete.
    pub done: Option<Value>,
    /// Start time of the upload.
    pub began: Instant,
}

/// Objects of a bucket, with their write times and retention.
#[derive(Debug, Default)]
pub struct Bucket {
    pub objects: BTreeMap<String, Object>,
    /// Time of the last write by name.
    pub touched: HashMap<String, Instant>,
    /// Retention period: an object cannot be removed or replaced before its end.
    pub retention: Duration,
    /// Notification settings of buckets.
    pub notifications: Vec<Value>,
}

#[derive(Debug, Default)]
pub struct StorageState {
    pub buckets: BTreeMap<String, Bucket>,
    /// Uploads by id.
    pub sessions: BTreeMap<String, Session>,
    /// Minimum time between two writes of a name.
    pub pause: Duration,
    /// Notifications of objects, oldest first: Pub/Sub messages with their topic.
    pub events: Vec<Value>,
    /// The last assigned number.
    pub last: u64,
    /// Whether the first page of each list is empty.
    pub empty_first_pages: bool,
    /// Duration added to the age of all uploads.
    pub older: Duration,
}

/// Prefixes of page tokens; the suffix is the last name of the previous page.
const EMPTY_PAGE: &str = "empty:";
const NEXT_PAGE: &str = "next:";

impl StorageState {
    /// # Errors
    /// Returns an error if the bucket does not exist.
    pub fn bucket(&mut self, name: &str) -> Result<&mut Bucket, Refusal> {
        self.buckets
            .get_mut(name)
            .ok_or_else(|| (404, format!("The specified bucket {name} does not exist.")))
    }

    /// An object, if its preconditions hold.
    ///
    /// # Errors
    /// Returns an error if the object is absent, has another generation, or a precondition fails.
    pub fn object(&mut self, bucket: &str, name: &str, query: &Query) -> Result<Object, Refusal> {
        let object = self.bucket(bucket)?.objects.get(name).cloned();
        let wanted = number(query, "generation")?;
        let object = object.filter(|object| wanted.is_none_or(|wanted| wanted == object.generation));
        let object = object.ok_or_else(|| (404, format!("No such object: {bucket}/{name}")))?;
        preconditions(Some(&object), query, 304)?;
        Ok(object)
    }

    /// Checks the write rate, then the preconditions, then the retention.
    fn writable(&mut self, bucket: &str, name: &str, query: &Query) -> Result<(), Refusal> {
        let pause = self.pause;
        let bucket = self.bucket(bucket)?;
        if !is_legal(name) {
            return Err((400, format!("The specified object name {name:?} is not valid.")));
        }
        let touched = bucket.touched.get(name).is_some_and(|last| last.elapsed() < pause);
        if touched {
            return Err((429, format!("The object {name} exceeded the rate limit for object mutations.")));
        }
        let object = bucket.objects.get(name);
        preconditions(object, query, 412)?;
        let age = object.map(|object| (Utc::now() - object.created).to_std().unwrap_or_default());
        if age.is_some_and(|age| age < bucket.retention) {
            return Err((403, format!("Object {name} is subject to the bucket's retention policy.")));
        }
        Ok(())
    }

    /// Whether an object can be written under these preconditions.
    ///
    /// # Errors
    /// Returns an error if a rule forbids the write.
    pub fn may_write(&mut self, bucket: &str, name: &str, query: &Query) -> Result<(), Refusal> {
        let pause = std::mem::take(&mut self.pause);
        let may = self.writable(bucket, name, query);
        self.pause = pause;
        may
    }

    /// Writes an object and returns its resource.
    ///
    /// # Errors
    /// Returns an error if a rule forbids it, or the bytes differ from the stated checksums.
    pub fn write(
        &mut self,
        bucket: &str,
        name: &str,
        query: &Query,
        given: Map<String, Value>,
        body: Bytes,
    ) -> Result<Value, Refusal> {
        self.writable(bucket, name, query)?;
        // Generations are microseconds and increase.
        self.last = (self.last + 1).max(Utc::now().timestamp_micros().unsigned_abs());
        let (crc32c, md5) = (crc32c(&body), STANDARD.encode(Md5::digest(&body)));
        let (generation, created) = (self.last, Utc::now());
        let object = Object { body, crc32c, md5, generation, metageneration: 1, given, created };
        for (field, found) in [("crc32c", &object.crc32c), ("md5Hash", &object.md5)] {
            let announced = object.field_or(field, found);
            if announced != *found {
                let why = format!("Provided {field} {announced} doesn't match calculated {field} {found}.");
                return Err((400, why));
            }
        }
        let resource = object.resource(bucket, name);
        let replaced = {
            let bucket = self.bucket(bucket)?;
            bucket.touched.insert(name.to_owned(), Instant::now());
            bucket.objects.insert(name.to_owned(), object)
        };
        if replaced.is_some() {
            let mut gone = resource.clone();
            gone["generation"] = json!(replaced.map(|object| object.generation.to_string()));
            self.notify(bucket, "OBJECT_DELETE", &gone);
        }
        self.notify(bucket, "OBJECT_FINALIZE", &resource);
        Ok(resource)
    }

    /// Removes an object.
    ///
    /// # Errors
    /// Returns an error if a rule forbids it or the object is absent.
    pub fn remove(&mut self, bucket: &str, name: &str, query: &Query) -> Result<(), Refusal> {
        let object = self.object(bucket, name, query)?;
        self.writable(bucket, name, query)?;
        let there = self.bucket(bucket)?;
        there.touched.insert(name.to_owned(), Instant::now());
        there.objects.remove(name);
        self.notify(bucket, "OBJECT_DELETE", &object.resource(bucket, name));
        Ok(())
    }

    /// Records a message for every matching notification setting, in Pub/Sub's form.
    fn notify(&mut self, bucket: &str, what: &str, resource: &Value) {
        let name = resource["name"].as_str().unwrap_or_default();
        let notifications = self.buckets.get(bucket).map(|bucket| bucket.notifications.clone());
        for notification in notifications.unwrap_or_default() {
            let types = notification["event_types"].as_array();
            let wanted = types.is_none_or(|types| types.is_empty() || types.iter().any(|kind| kind == what));
            let prefix = notification["object_name_prefix"].as_str().unwrap_or_default();
            if !wanted || !name.starts_with(prefix) {
                continue;
            }
            let with_body = notification["payload_format"] != "NONE";
            let mut attributes = json!({
                "bucketId": bucket, "objectId": name, "objectGeneration": resource["generation"],
                "eventType": what, "eventTime": resource["updated"],
                "payloadFormat": if with_body { "JSON_API_V1" } else { "NONE" },
                "notificationConfig": notification["selfLink"],
            });
            for (name, value) in notification["custom_attributes"].as_object().into_iter().flatten() {
                attributes[name] = value.clone();
            }
            let data = if with_body { STANDARD.encode(resource.to_string()) } else { String::new() };
            let id = (self.events.len() + 1).to_string();
            self.events.push(json!({
                "topic": notification["topic"],
                "message": {"attributes": attributes, "data": data, "messageId": id, "publishTime": resource["updated"]},
            }));
        }
    }

    /// Names with `prefix` that are not less than `startOffset`, in pages; with a delimiter, names are folded at the first delimiter
    /// after the prefix. Each page that is not the last is followed by an empty one, which Cloud Storage permits.
    ///
    /// # Errors
    /// Returns an error if the bucket is absent or a number is invalid.
    pub fn list(&mut self, bucket: &str, query: &Query) -> Result<Value, Refusal> {
        let text = |field: &str| query.get(field).map(String::as_str).unwrap_or_default();
        let (prefix, delimiter, token) = (text("prefix"), text("delimiter"), text("pageToken"));
        if let Some(after) = token.strip_prefix(EMPTY_PAGE) {
            self.bucket(bucket)?;
            return Ok(json!({"kind": "storage#objects", "nextPageToken": format!("{NEXT_PAGE}{after}")}));
        }
        if token.is_empty() && self.empty_first_pages {
            self.bucket(bucket)?;
            return Ok(json!({"kind": "storage#objects", "nextPageToken": NEXT_PAGE}));
        }
        let after = token.strip_prefix(NEXT_PAGE).unwrap_or(token);
        let offset = text("startOffset");
        let most = number(query, "maxResults")?.unwrap_or(1000).clamp(1, 1000) as usize;
        let (mut items, mut prefixes): (Vec<Value>, Vec<String>) = Default::default();
        let mut next = None;
        let mut last = String::new();
        for (name, object) in &self.bucket(bucket)?.objects {
            let Some(rest) = name.strip_prefix(prefix).filter(|_| name.as_str() >= offset) else { continue };
            let fold = (!delimiter.is_empty()).then(|| rest.find(delimiter)).flatten();
            let entry = fold.map_or(name.clone(), |at| format!("{prefix}{}{delimiter}", &rest[..at]));
            if entry.as_str() <= after || entry == last {
                continue;
            }
            if items.len() + prefixes.len() == most {
                next = Some(format!("{EMPTY_PAGE}{last}"));
                break;
            }
            match fold {
                Some(_) => prefixes.push(entry.clone()),
                None => items.push(object.resource(bucket, name)),
            }
            last = entry;
        }
        let mut page = json!({"kind": "storage#objects", "items": items, "prefixes": prefixes});
        if let Some(next) = next {
            page["nextPageToken"] = json!(next);
        }
        Ok(page)
    }
}

/// Whether an object may have this name (the page "About Cloud Storage objects").
fn is_legal(name: &str) -> bool {
    (1..=1024).contains(&name.len())
        && !name.contains(['\r', '\n'])
        && !matches!(name, "." | "..")
        && !name.starts_with(".well-known/acme-challenge/")
}

/// A numeric parameter.
///
/// # Errors
/// Returns an error if it is invalid.
pub fn number(query: &Query, field: &str) -> Result<Option<u64>, Refusal> {
    let number = query.get(field).map(|text| text.parse());
    number.transpose().map_err(|_| (400, format!("{field} is not a number")))
}

fn preconditions(object: Option<&Object>, query: &Query, unchanged: u16) -> Result<(), Refusal> {
    let generation = object.map_or(0, |object| object.generation);
    let metageneration = object.map_or(0, |object| object.metageneration);
    for (field, found) in [("ifGenerationMatch", generation), ("ifMetagenerationMatch", metageneration)] {
        if number(query, field)?.is_some_and(|wanted| wanted != found) {
            return Err((
                412,
                format!("At least one of the pre-conditions you specified did not hold: {field}"),
            ));
        }
    }
    for (field, found) in [("ifGenerationNotMatch", generation), ("ifMetagenerationNotMatch", metageneration)]
    {
        if number(query, field)? == Some(found) {
            return Err((unchanged, format!("{field} did not hold")));
        }
    }
    Ok(())
}
