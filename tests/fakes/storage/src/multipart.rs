//! `multipart/related` bodies of uploads: metadata, media, and from some clients trailing checksums. Lines may end with or
//! without a carriage return, and the boundary may be quoted.

use bytes::Bytes;
use serde_json::{Map, Value};

/// The parameter `boundary`, without quotes.
fn boundary(content_type: &str) -> Option<&str> {
    let (_, rest) = content_type.split_once("boundary=")?;
    match rest.strip_prefix(['"', '\'']) {
        Some(quoted) => quoted.split(['"', '\'']).next(),
        None => rest.split(';').next().map(str::trim),
    }
}

fn find(text: &[u8], what: &[u8], from: usize) -> Option<usize> {
    text.get(from..)?.windows(what.len()).position(|window| window == what).map(|at| at + from)
}

/// Bodies of the parts, in order.
fn parts(content_type: &str, body: &Bytes) -> Option<Vec<Bytes>> {
    let delimiter = format!("--{}", boundary(content_type)?).into_bytes();
    let mut parts = Vec::new();
    let mut at = find(body, &delimiter, 0)? + delimiter.len();
    while !body[at..].starts_with(b"--") {
        let start = at;
        at = find(body, &delimiter, start)?;
        while at > 0 && body[at - 1] != b'\n' {
            // The same bytes inside a part are not a delimiter: delimiters are at the start of a line.
            at = find(body, &delimiter, at + 1)?;
        }
        let (crlf, lf) = (find(body, b"\r\n\r\n", start), find(body, b"\n\n", start));
        let head = [crlf.map(|end| end + 4), lf.map(|end| end + 2)].into_iter().flatten().min()?;
        let end = if body[..at].ends_with(b"\r\n") { at - 2 } else { at - 1 };
        parts.push(body.slice(head.min(end)..end));
        at += delimiter.len();
    }
    Some(parts)
}

/// Metadata, with trailing checksums merged in, and media.
///
/// # Errors
/// Returns an error if a part is malformed, with its name.
pub fn read(content_type: &str, body: &Bytes) -> Result<(Map<String, Value>, Bytes), String> {
    let parts = parts(content_type, body).ok_or("the multipart body has no end or no boundary")?;
    let [metadata, media, trailing @ ..] = &parts[..] else {
        return Err(format!("expected metadata and media, found {} parts", parts.len()));
    };
    let object = |part: &Bytes| serde_json::from_slice::<Map<String, Value>>(part);
    let mut metadata = object(metadata).map_err(|error| format!("metadata: {error}"))?;
    for part in trailing {
        metadata.extend(object(part).map_err(|error| format!("trailing metadata: {error}"))?);
    }
    Ok((metadata, media.clone()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn multipart_bodies_are_parsed_with_either_line_end_and_with_a_quoted_boundary() {
        for (end, quote) in [("\r\n", ""), ("\n", "\"")] {
            let part = |body: &str| format!("--b1{end}Content-Type: x{end}{end}{body}{end}");
            let text = [part(r#"{"name":"n"}"#), part("a --b1 b"), part(r#"{"crc32c":"c"}"#)].concat();
            let body = Bytes::from(format!("{text}--b1--{end}"));
            let kind = format!("multipart/related; boundary={quote}b1{quote}");
            let (metadata, media) = read(&kind, &body).unwrap();
            assert_eq!((&metadata["name"], &metadata["crc32c"]), (&"n".into(), &"c".into()));
            assert_eq!(media, "a --b1 b");
        }
        let bare = Bytes::from_static(b"--b\r\n\r\n{}\r\n--b\r\n\r\n\r\n--b--");
        assert_eq!(read("multipart/related; boundary=b", &bare).unwrap().1, "");
        assert!(read("multipart/related; boundary=b", &Bytes::from_static(b"--b\r\n\r\n{}")).is_err());
        assert!(read("multipart/related", &bare).is_err());
    }
}
