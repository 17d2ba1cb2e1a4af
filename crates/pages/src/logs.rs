//! The page of a log: its lines, page by page or filtered by text.

use std::sync::Arc;

use axum::{
    extract::{Path, Query, State},
    response::Response,
};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};

use crate::{
    Dashboard,
    frame::{self, ErrorPage},
    run::parse_run,
};

/// Lines per page.
const LINES: usize = 1000;
/// Maximum length of a shown line, bytes. The raw log has the rest.
const LONGEST: usize = 2000;
/// Maximum number of bytes searched. The raw log has the rest.
const SEARCHED: u64 = 256 << 20;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct LogQuery {
    /// Show only lines with this text.
    q: String,
    /// First line, starting at 1.
    from: usize,
}

#[derive(Serialize)]
struct LogPage {
    run: String,
    log: String,
    q: String,
    lines: Vec<(usize, String)>,
    /// First line of the next page.
    next: Option<usize>,
    /// First line of this page and of the previous page.
    from: usize,
    previous: Option<usize>,
    raw: Option<String>,
}

/// Handler of `GET /runs/{run}/logs/{log}`.
pub async fn page(
    State(dashboard): State<Arc<Dashboard>>,
    Path((run, log)): Path<(String, String)>,
    Query(LogQuery { q, from }): Query<LogQuery>,
) -> Result<Response, ErrorPage> {
    let run = parse_run(&run)?;
    let logs = dashboard.run_index.logs(&run).await?.ok_or_else(|| ErrorPage::no_run(&run))?;
    let none =
        || ErrorPage::not_found(format!("{run} has no log `{log}` yet; the page of the run lists its logs."));
    // Serve only objects named in a manifest.
    let name = logs.named(&log).map(|log| log.object.clone()).ok_or_else(none)?;
    let unreadable = |error: &dyn std::fmt::Display| {
        ErrorPage::not_found(format!("Log `{log}` of {run} cannot be read: {error}. Reload the page."))
    };
    let body = dashboard.store.open(&name).await.map_err(|error| unreadable(&error))?.ok_or_else(none)?;
    let (lines, next) = read(BufReader::new(body.take(SEARCHED)), &q, from.max(1))
        .await
        .map_err(|error| unreadable(&error))?;
    let raw = dashboard.beside_gateway.then(|| format!("/api/v1/runs/{run}/logs/{log}"));
    let title = format!("{log} of {run}");
    let from = from.max(1);
    // With a search the number of earlier lines is unknown, so the previous page begins at the first match.
    let previous = (from > 1).then(|| if q.is_empty() { from.saturating_sub(LINES).max(1) } else { 1 });
    let data = LogPage { run: run.to_string(), log, q, lines, next, from, previous, raw };
    Ok(frame::page(dashboard.beside_gateway, &title, "log.html", data))
}

/// Percent-encodes a part of a path.
pub fn encoded(part: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    part.bytes().map(byte).collect()
}

/// Matching lines from number `from` on, and the number of the first line of the next page.
async fn read(
    mut body: impl tokio::io::AsyncBufRead + Unpin,
    text: &str,
    from: usize,
) -> std::io::Result<(Vec<(usize, String)>, Option<usize>)> {
    let wanted = text.to_lowercase();
    let mut lines = Vec::new();
    let mut number = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        // Bounds the memory for an endless line.
        let read = (&mut body).take(LONGEST as u64).read_until(b'\n', &mut line).await?;
        if read == 0 {
            return Ok((lines, None));
        }
        if line.last() != Some(&b'\n') && read == LONGEST {
            skip_line(&mut body).await?;
        }
        number += 1;
        let shown: String = String::from_utf8_lossy(&line)
            .trim_end_matches(['\n', '\r'])
            .chars()
            .map(|letter| if letter.is_control() && letter != '\t' { '\u{fffd}' } else { letter })
            .collect();
        if number < from || !(wanted.is_empty() || shown.to_lowercase().contains(&wanted)) {
            continue;
        }
        if lines.len() == LINES {
            return Ok((lines, Some(number)));
        }
        lines.push((number, shown));
    }
}

async fn skip_line(body: &mut (impl tokio::io::AsyncBufRead + Unpin)) -> std::io::Result<()> {
    loop {
        let buffer = body.fill_buf().await?;
        let (used, end) = match buffer.iter().position(|byte| *byte == b'\n') {
            Some(at) => (at + 1, true),
            None => (buffer.len(), buffer.is_empty()),
        };
        body.consume(used);
        if end {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_are_found_by_text_and_page_by_page() {
        let log: String = (1..=2500).map(|line| format!("line {line} Hay{}\r\n", line % 7)).collect();
        let (lines, next) = read(log.as_bytes(), "", 1).await.unwrap();
        assert_eq!((lines.len(), next), (1000, Some(1001)));
        assert_eq!(lines[0], (1, "line 1 Hay1".to_owned()));
        let (lines, next) = read(log.as_bytes(), "hay3", 1000).await.unwrap();
        assert!(lines.iter().all(|(number, line)| *number >= 1000 && line.ends_with("Hay3")));
        assert_eq!((lines.len(), next), (214, None));
    }

    #[tokio::test]
    async fn endless_lines_and_invalid_utf8_are_shown_safely() {
        let mut log = vec![b'x'; 5 << 20];
        log.extend(b"\nnext \x1b[31m\xff\n");
        let (lines, next) = read(&log[..], "", 1).await.unwrap();
        assert_eq!(
            lines.iter().map(|(number, line)| (*number, line.len())).collect::<Vec<_>>(),
            [(1, LONGEST), (2, 15)]
        );
        assert_eq!((lines[1].1.as_str(), next), ("next \u{fffd}[31m\u{fffd}", None));
    }
}
