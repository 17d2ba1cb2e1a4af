//! Interpretation of the JSON values.

use super::tokens::{Nullable, Stop, Tokens};
use crate::banner::library_version;
use crate::budget::{self, BudgetKind};
use crate::open_run::RunPhase;
use crate::phrase::collective;
use crate::printed::Printed;
use crate::tables::Tables;
use crate::value::is_timestamp;
use model::measurement::{
    Column, Device, Half, Iterations, OutOfBounds, PartialHalf, Placement, ProcessTimes, Reading, Row,
};
use std::io::{self, Read};

/// A file of one or several consecutive objects.
#[derive(Default)]
pub(crate) struct JsonDocument {
    tables: Tables,
    /// Number of objects started.
    objects: u64,
    /// Whether the times of a process exceeded the budget. Times of only some processes would identify the wrong process, and a mix of rows
    /// with and without times would be misleading.
    no_times: bool,
    problem: Option<&'static str>,
}

/// A partly parsed half.
#[derive(Default)]
struct Draft {
    half: Half,
    /// Finite values read: time, algbw, busbw.
    seen: [bool; 3],
    /// Whether `nwrong` was invalid: not a count.
    spoilt: bool,
    /// Whether the log contains this half: an object, not `null`.
    printed: bool,
}

impl Draft {
    /// The half, or its readable part; `None` if absent.
    fn printed(self) -> Option<Printed> {
        let columns = [Column::TimeUs, Column::Algbw, Column::Busbw];
        let unread =
            columns.into_iter().zip(self.seen).filter_map(|(column, seen)| (!seen).then_some(column));
        let unread: Vec<_> = unread.chain(self.spoilt.then_some(Column::Wrong)).collect();
        self.printed.then(|| Printed::new(self.half, unread))
    }
}

impl JsonDocument {
    /// Reads to the end of the input or of the valid JSON.
    pub(crate) fn read(&mut self, input: impl Read) -> io::Result<()> {
        let mut tokens = Tokens::new(input);
        let stop = loop {
            match tokens.has_more() {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(stop) => break stop,
            }
            if let Err(stop) = self.run(&mut tokens) {
                break stop;
            }
        };
        match stop {
            Stop::Cut => Ok(()),
            Stop::Input(error) => Err(error),
            Stop::Malformed => {
                self.problem = Some("the JSON output is malformed; its rest was not read");
                Ok(())
            }
        }
    }

    /// Returns the reading of the whole log. `damage` describes a problem of the file itself.
    pub(crate) fn finish(self, damage: Option<String>) -> Reading {
        self.tables.finish(damage.or(self.problem.map(str::to_owned)))
    }

    /// Reads one object: one run.
    fn run<R: Read>(&mut self, tokens: &mut Tokens<R>) -> Result<(), Stop> {
        self.objects += 1;
        let at = self.tables.run_for(RunPhase::Version, self.objects);
        tokens.members(|tokens, name| {
            match name {
                "args" => tokens.elements(|tokens| {
                    let Some(argument) = tokens.string()? else { return Ok(()) };
                    let program = argument.find("_perf").and_then(|end| collective(argument.as_bytes(), end));
                    if let Some(program) = program {
                        let table = &mut self.tables.runs[at].table;
                        table.collective.get_or_insert_with(|| program.to_owned());
                    }
                    Ok(())
                }),
                "nccl_version" => {
                    let version = tokens.number()?.and_then(|number| number.count());
                    self.tables.runs[at].table.nccl_version = version.and_then(library_version);
                    Ok(())
                }
                "start_time" => {
                    let started = tokens.string()?.filter(|text| {
                        let (date, time) = text.split_once(' ').unwrap_or_default();
                        is_timestamp(date.as_bytes(), time.as_bytes())
                    });
                    self.tables.runs[at].table.started_at = started;
                    Ok(())
                }
                "config" => self.config(tokens, at),
                "results" => tokens.elements(|tokens| self.row(tokens, at)),
                "out_of_bounds" => {
                    let (mut count, mut ok) = (None, None);
                    tokens.members(|tokens, name| {
                        match name {
                            "count" => count = tokens.number()?.and_then(|number| number.count()),
                            "okay" => ok = tokens.string()?.map(|okay| okay == "true"),
                            _ => tokens.skip()?,
                        }
                        Ok(())
                    })?;
                    let run = &mut self.tables.runs[at];
                    run.table.out_of_bounds = count.zip(ok).map(|(count, ok)| OutOfBounds { count, ok });
                    run.notes.summary_failed |= ok == Some(false);
                    Ok(())
                }
                // Versions until 2.17.9 misspell the key.
                "average_bus_bandwidth" | "average_bus_bandwidith" => tokens.members(|tokens, name| {
                    match name {
                        "bandwidth" | "bandwidith" => {
                            let average = tokens.number()?.and_then(|number| number.measured(0));
                            self.tables.complete(at, average);
                        }
                        "okay" => {
                            self.tables.runs[at].notes.summary_failed |=
                                tokens.string()?.as_deref() == Some("false")
                        }
                        _ => tokens.skip()?,
                    }
                    Ok(())
                }),
                "errors" => tokens.elements(|tokens| {
                    let error = tokens.string()?.filter(|error| !error.is_empty());
                    if let Some(error) = error {
                        let Tables { runs, budget, .. } = &mut self.tables;
                        runs[at].notes.fail(self.objects, || error, budget);
                    }
                    Ok(())
                }),
                // The environment may contain secrets and is skipped.
                _ => tokens.skip(),
            }
        })
    }

    fn config<R: Read>(&mut self, tokens: &mut Tokens<R>, at: usize) -> Result<(), Stop> {
        let (mut threads, mut gpus) = (None, None);
        let mut all_kept = true;
        tokens.members(|tokens, name| {
            match name {
                "nthreads" => threads = tokens.number()?.and_then(|number| number.count()),
                "ngpus" => gpus = tokens.number()?.and_then(|number| number.count()),
                "devices" => tokens.elements(|tokens| {
                    if let Some(device) = device(tokens)? {
                        all_kept &= self.tables.device(at, device);
                    }
                    Ok(())
                })?,
                _ => tokens.skip()?,
            }
            Ok(())
        })?;
        // One device is listed per process, for any number of threads and GPUs of the process.
        let run = &mut self.tables.runs[at];
        let processes = u64::try_from(run.table.devices.len()).ok().filter(|&count| count > 0 && all_kept);
        let ranks = processes.zip(threads.zip(gpus)).and_then(|(processes, (threads, gpus))| {
            u32::try_from(processes.checked_mul(threads)?.checked_mul(gpus)?).ok()
        });
        run.table.ranks = ranks.filter(|&ranks| ranks > 0);
        // The number of listed devices is not the number of ranks.
        run.ranks_missing = true;
        Ok(())
    }

    fn row<R: Read>(&mut self, tokens: &mut Tokens<R>, at: usize) -> Result<(), Stop> {
        let mut row = Row::default();
        let (mut size, mut count, mut kind) = (None, None, None);
        let (mut spread, mut times) = ([None; 2], ProcessTimes::default());
        let end = tokens.members(|tokens, name| {
            match name {
                "size" => size = tokens.number()?.and_then(|number| number.count()),
                "count" => count = tokens.number()?.and_then(|number| number.count()),
                "type" => kind = tokens.string()?.filter(|kind| !kind.is_empty()),
                "redop" => row.redop = tokens.string()?.filter(|redop| !redop.is_empty()),
                // The root is a string with padding, as in the table.
                "root" => row.root = tokens.number()?.and_then(|number| number.integer()),
                "out_of_place" => half(tokens, &mut row, Placement::OutOfPlace)?,
                "in_place" => half(tokens, &mut row, Placement::InPlace)?,
                "out_of_place_per_iter" => spread[0] = self.iterations(tokens, &mut times.out_of_place_us)?,
                "in_place_per_iter" => spread[1] = self.iterations(tokens, &mut times.in_place_us)?,
                _ => tokens.skip()?,
            }
            Ok(())
        });
        let (Some(size), Some(count), Some(kind)) = (size, count, kind) else {
            self.tables.runs[at].table.unmeasured += 1;
            self.tables.budget.release(budget::times(&times));
            return end;
        };
        if end.is_err() {
            // The file ends inside the row: times of only some processes would identify the wrong process.
            self.tables.budget.release(budget::times(&times));
            times = ProcessTimes::default();
            for (half, placement) in
                [(row.out_of_place, Placement::OutOfPlace), (row.in_place, Placement::InPlace)]
            {
                if half.is_none() && row.partial.is_none() {
                    row.partial = Some(Box::new(PartialHalf::unread(placement)));
                }
            }
        }
        (row.size_bytes, row.count, row.dtype) = (size, count, kind);
        for (half, spread) in [&mut row.out_of_place, &mut row.in_place].into_iter().zip(spread) {
            if let Some(half) = half {
                half.iterations = spread;
            }
        }
        let some = !times.out_of_place_us.is_empty() || !times.in_place_us.is_empty();
        row.processes = some.then(|| Box::new(times));
        self.tables.push(at, row);
        end
    }

    /// Reads the statistics over the iterations, and the times of each process.
    fn iterations<R: Read>(
        &mut self,
        tokens: &mut Tokens<R>,
        processes: &mut Vec<Vec<f64>>,
    ) -> Result<Option<Iterations>, Stop> {
        let mut values = [None; 4];
        tokens.members(|tokens, name| {
            let slot = match name {
                "min_us" => 0,
                "max_us" => 1,
                "p99_us" => 2,
                "cv_pct" => 3,
                "per_process_max_times_us" => {
                    return tokens.elements(|tokens| {
                        let mut process = Vec::new();
                        let budget = &mut self.tables.budget;
                        tokens.elements(|tokens| {
                            let time = tokens.number()?.and_then(|number| number.measured(0));
                            self.no_times = self.no_times || !budget.room(&mut process, BudgetKind::Times);
                            process.extend(time.filter(|_| !self.no_times));
                            Ok(())
                        })?;
                        budget.shrink(&mut process);
                        self.no_times = self.no_times || !budget.room(processes, BudgetKind::Times);
                        if self.no_times {
                            budget.forget(process);
                        } else {
                            processes.push(process);
                        }
                        Ok(())
                    });
                }
                _ => return tokens.skip(),
            };
            values[slot] = tokens.number()?.and_then(|number| number.measured(0));
            Ok(())
        })?;
        if self.no_times {
            for process in processes.drain(..) {
                self.tables.budget.forget(process);
            }
        }
        let [Some(min_us), Some(max_us), Some(p99_us), Some(cv_pct)] = values else { return Ok(None) };
        Ok(Some(Iterations { min_us, max_us, p99_us, cv_pct }))
    }
}

fn device<R: Read>(tokens: &mut Tokens<R>) -> Result<Option<Device>, Stop> {
    let mut rank = None;
    let mut device = Device { rank: 0, host: String::new(), device: None, bus_id: None, name: None };
    tokens.members(|tokens, name| {
        match name {
            "rank" => rank = integer(tokens)?,
            "hostname" => device.host = tokens.string()?.unwrap_or_default(),
            "device" => device.device = integer(tokens)?,
            "device_hex" => device.bus_id = tokens.string()?,
            "device_info" => device.name = tokens.string()?.filter(|name| !name.is_empty()),
            _ => tokens.skip()?,
        }
        Ok(())
    })?;
    Ok(rank.map(|rank| Device { rank, ..device }))
}

fn integer<R: Read>(tokens: &mut Tokens<R>) -> Result<Option<u32>, Stop> {
    Ok(tokens.number()?.and_then(|number| number.count()).and_then(|count| u32::try_from(count).ok()))
}

/// Reads a half into its place in the row. `null` means absent.
fn half<R: Read>(tokens: &mut Tokens<R>, row: &mut Row, placement: Placement) -> Result<(), Stop> {
    let mut draft = Draft::default();
    tokens.members(|tokens, name| {
        draft.printed = true;
        let (at, slot) = match name {
            "time" | "cpu_time" => (0, &mut draft.half.time_us),
            "alg_bw" => (1, &mut draft.half.algbw),
            "bus_bw" => (2, &mut draft.half.busbw),
            "nwrong" => {
                (draft.half.wrong, draft.spoilt) = match tokens.nullable()? {
                    // The program did not check the data.
                    Nullable::Null => (None, false),
                    Nullable::Number(number) => (number.count(), number.count().is_none()),
                    Nullable::Unreadable => (None, true),
                };
                return Ok(());
            }
            _ => return tokens.skip(),
        };
        if let Some(value) = tokens.number()?.and_then(|number| number.measured(0)) {
            (*slot, draft.seen[at]) = (value, true);
        }
        Ok(())
    })?;
    if let Some(half) = draft.printed() {
        half.store(row, placement);
    }
    Ok(())
}
