//! Renders problems of files like compiler errors: with the source line and a caret.

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use workflow::{Excerpt, FileProblem};

/// Width of a message if standard error is not a terminal, or its width is unknown.
const WIDTH: usize = 120;

/// Severity shown in the title of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemSeverity {
    Error,
    Warning,
}

/// Each problem with its line, separated by empty lines.
pub fn rendered(problems: &[FileProblem], severity: ProblemSeverity, colours: bool) -> String {
    let renderer = if colours { Renderer::styled() } else { Renderer::plain() };
    let renderer = renderer.term_width(WIDTH);
    let all: Vec<_> = problems.iter().map(|problem| one(problem, severity, &renderer)).collect();
    all.join("\n\n")
}

fn one(problem: &FileProblem, severity: ProblemSeverity, renderer: &Renderer) -> String {
    let FileProblem { file, position, field, message, help, excerpt } = problem;
    let level = match severity {
        ProblemSeverity::Error => Level::ERROR,
        ProblemSeverity::Warning => Level::WARNING,
    };
    let field = if field.is_empty() { String::new() } else { format!("{field}: ") };
    // Files may contain any characters; only the renderer writes escape sequences.
    let clean = |text: &str| report::single_line(text);
    let title = clean(&format!("{field}{message}"));
    let (file, help) = (clean(file), clean(help));
    let source = excerpt.as_ref().zip(*position).map(|(excerpt, position)| (Marked::of(excerpt), position));
    // The excerpt shows the position; without an excerpt the title must contain it.
    let title = match (&source, position) {
        (Some(_), _) => title,
        (None, Some(at)) => format!("{file}:{}:{}: {title}", at.line, at.column),
        (None, None) => format!("{file}: {title}"),
    };
    let mut group = Group::with_title(level.primary_title(title));
    if let Some((marked, position)) = &source {
        let marked_range = AnnotationKind::Primary.span(marked.start..marked.end);
        let snippet =
            Snippet::source(&marked.line).line_start(position.line).path(&file).annotation(marked_range);
        group = group.element(snippet);
    }
    if !help.is_empty() {
        group = group.element(Level::HELP.message(help));
    }
    renderer.render(&[group])
}

/// A line without characters that a terminal interprets, and the marked range in bytes.
struct Marked {
    line: String,
    start: usize,
    end: usize,
}

impl Marked {
    fn of(excerpt: &Excerpt) -> Self {
        // Replace each character of the file by exactly one character, so that the columns stay correct.
        let clean = |c: char| {
            if c == '\t' {
                ' '
            } else if report::is_control(c) {
                '\u{fffd}'
            } else {
                c
            }
        };
        let line: String = excerpt.line.chars().map(clean).collect();
        let byte = |column: usize| line.char_indices().nth(column).map_or(line.len(), |(at, _)| at);
        let (start, end) = (byte(excerpt.start), byte(excerpt.start + excerpt.length));
        Self { line, start, end: end.max(start) }
    }
}
