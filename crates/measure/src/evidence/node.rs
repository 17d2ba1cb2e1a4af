//! The evidence of one node: its lines, and what they mean.

use std::{collections::BTreeMap, sync::Arc};

use model::{GpuEvidence, NodeEvidence, metric::Subject};

use super::{
    changes::Changes,
    kernel,
    links::{self, Links},
    ports::Ports,
    separated::Line,
    smi::{self, Gpus},
};

/// When a line was printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moment {
    Before,
    During,
    After,
}

impl Moment {
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "before" => Some(Self::Before),
            "during" => Some(Self::During),
            "after" => Some(Self::After),
            _ => None,
        }
    }
}

/// Lines of one moment by source.
#[derive(Debug, Default)]
pub(super) struct Sources(BTreeMap<String, Vec<Line>>);

impl Sources {
    pub fn of(&self, source: &str) -> &[Line] {
        self.0.get(source).map_or(&[], Vec::as_slice)
    }

    /// Whether the last line was printed, so that no source is cut.
    fn is_complete(&self) -> bool {
        !self.of("end").is_empty()
    }
}

/// All lines of a node.
#[derive(Debug, Default)]
pub(super) struct NodeLines {
    before: Sources,
    during: Sources,
    after: Sources,
}

impl NodeLines {
    pub fn add(&mut self, moment: Moment, source: &str, line: Line) {
        let sources = match moment {
            Moment::Before => &mut self.before,
            Moment::During => &mut self.during,
            Moment::After => &mut self.after,
        };
        sources.0.entry(source.to_owned()).or_default().push(line);
    }
}

/// Reads the lines of a source; the flag: those after the job. Returns the reason why they could not be read.
type ReadSource<'a> = dyn FnMut(&[Line], bool) -> Result<(), String> + 'a;

/// Compares the lines before and after the job.
pub(super) fn evidence(node: &str, lines: &NodeLines) -> NodeEvidence {
    let NodeLines { before, during, after } = lines;
    let name: Arc<str> = node.into();
    let mut missing = Vec::new();
    for (sources, moment) in [(before, "before"), (after, "after")] {
        if !sources.is_complete() {
            missing.push(format!("evidence {moment} the job, which ended without it"));
        }
    }
    let mut changes = Changes::of(name.clone());
    let mut gpus = Gpus::default();
    let mut both = |source: &str, what: &str, read: &mut ReadSource<'_>| {
        for (sources, moment) in [(before, "before"), (after, "after")] {
            if !sources.is_complete() {
                continue;
            }
            if let Err(why) = read(sources.of(source), moment == "after") {
                missing.push(format!("{what} {moment} the job: {why}"));
            }
        }
    };

    let mut rows = [Gpus::default(), Gpus::default()];
    both("gpus", "GPUs", &mut |lines, is_after| {
        rows[usize::from(is_after)] = Gpus::read(lines)?;
        Ok(())
    });
    let mut states = [Links::default(), Links::default()];
    // Without nvidia-smi the GPUs are missing already.
    if !rows[0].is_empty() && !rows[1].is_empty() {
        both("links", "NVLinks", &mut |lines, is_after| states[usize::from(is_after)].read_states(lines));
        both("link_errors", "NVLink errors", &mut |lines, is_after| {
            states[usize::from(is_after)].read_errors(lines)
        });
        smi::compare(&rows, &mut changes);
        links::compare(&states, &rows[0], &mut changes);
        std::mem::swap(&mut gpus, &mut rows[0]);
    }
    let mut kernel_lines: [&[Line]; 2] = [&[], &[]];
    both("kernel", "kernel log", &mut |lines, is_after| {
        kernel::check(lines)?;
        kernel_lines[usize::from(is_after)] = if is_after { after.of("kernel") } else { before.of("kernel") };
        Ok(())
    });
    if !kernel_lines[0].is_empty() && !kernel_lines[1].is_empty() {
        kernel::compare(kernel_lines, &gpus, &mut changes);
    }
    if before.is_complete() && after.is_complete() {
        Ports::of(before.of("ports")).compare(&Ports::of(after.of("ports")), &mut changes);
    }

    let samples = smi::samples(during.of("samples"), &gpus, &mut changes);
    let gpus = gpus.rows.into_iter().map(|(index, row)| GpuEvidence {
        subject: Subject { node: Some(name.clone()), ..row.subject(index) },
        settings: row.settings(),
        during: samples.get(&index).cloned(),
    });
    let setting = |line: &Line| {
        let (name, value) = line.text.split_once('=')?;
        Some((name.to_owned(), value.to_owned()))
    };
    NodeEvidence {
        node: node.to_owned(),
        missing,
        gpus: gpus.collect(),
        findings: changes.findings,
        settings: before.of("settings").iter().filter_map(setting).collect(),
    }
}
