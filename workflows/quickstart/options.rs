//! The flags of nccl-tests.

use std::{process, time::Duration};

use crate::collective::Collective;

const HELP: &str = "USAGE: all_reduce_perf, all_gather_perf, reduce_scatter_perf, alltoall_perf, broadcast_perf, sendrecv_perf
  -b SIZE     smallest size (32M); K, M, G are powers of 1024
  -e SIZE     largest size (32M)
  -i SIZE     step between sizes (1M)
  -f N        factor between sizes (off)
  -n N        timed iterations (20)
  -w N        warmup iterations (1)
  -c 0|1      check the results (1)
  -t N, -g N  threads per process, ranks per thread (1, 1)
  -d float    the only supported type
  -o sum      the only supported operation
  -r 0        the only supported root
  -T SECONDS  timeout of a wait for another rank (60)
  -h          this text";

pub struct ProgramOptions {
    pub collective: Collective,
    pub min: usize,
    pub max: usize,
    pub step: usize,
    pub factor: usize,
    pub iters: usize,
    pub warmup: usize,
    pub check: bool,
    pub threads: usize,
    pub gpus: usize,
    pub timeout: Duration,
}

impl ProgramOptions {
    pub fn parse(collective: Collective, arguments: impl Iterator<Item = String>) -> Result<Self, String> {
        #[rustfmt::skip]
        let mut options = Self {
            collective, min: 32 << 20, max: 32 << 20, step: 1 << 20, factor: 1, iters: 20, warmup: 1, check: true,
            threads: 1, gpus: 1, timeout: Duration::from_secs(60),
        };
        let mut words = arguments.flat_map(split_flag);
        while let Some(flag) = words.next() {
            if flag == "-h" {
                println!("{HELP}");
                process::exit(0);
            }
            let value = words.next().ok_or_else(|| format!("{flag} needs a value"))?;
            let wrong = || format!("{flag}: invalid value {value:?}");
            let number = || value.parse::<usize>().map_err(|_| wrong());
            let positive = || number().and_then(|number| if number > 0 { Ok(number) } else { Err(wrong()) });
            match flag.as_str() {
                "-b" => options.min = size(&value).ok_or_else(wrong)?,
                "-e" => options.max = size(&value).ok_or_else(wrong)?,
                "-i" => options.step = size(&value).ok_or_else(wrong)?,
                "-f" => options.factor = positive()?,
                "-n" => options.iters = positive()?,
                "-w" => options.warmup = number()?,
                "-c" => options.check = number()? > 0,
                "-t" => options.threads = positive()?,
                "-g" => options.gpus = positive()?,
                "-T" => options.timeout = Duration::from_secs(positive()? as u64),
                "-d" if value == "float" => {}
                "-o" if value == "sum" => {}
                "-r" if value == "0" => {}
                "-d" | "-o" | "-r" => return Err(wrong()),
                _ => return Err(format!("unknown flag {flag}")),
            }
        }
        if options.min > options.max {
            let (min, max) = (options.min, options.max);
            println!("invalid sizes for 'minbytes' and 'maxbytes': {min} > {max}");
            process::exit(255);
        }
        Ok(options)
    }

    /// The message sizes in bytes, from `-b` to `-e`: multiplied by `-f`, or with `-f 1` increased by `-i`.
    pub fn sizes(&self) -> Vec<usize> {
        let next = |&size: &usize| match self.factor {
            1 => size.checked_add(self.step.max(1)),
            factor => size.max(1).checked_mul(factor),
        };
        std::iter::successors(Some(self.min), next).take_while(|&size| size <= self.max).collect()
    }

    /// A digest of the flags that must be equal on all ranks.
    pub fn fingerprint(&self) -> u64 {
        let check = usize::from(self.check);
        let parts = [
            self.collective as usize,
            self.min,
            self.max,
            self.step,
            self.factor,
            self.iters,
            self.warmup,
            check,
        ];
        parts.iter().fold(17, |hash: u64, &part| hash.wrapping_mul(0x100_0000_01b3) ^ part as u64)
    }
}

/// Splits a flag with an attached value: `-b8` becomes `-b` and `8`.
fn split_flag(word: String) -> Vec<String> {
    match word.get(2..).filter(|value| word.starts_with('-') && !value.is_empty()) {
        Some(value) => vec![word[..2].to_owned(), value.to_owned()],
        None => vec![word],
    }
}

fn size(text: &str) -> Option<usize> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" => 0,
        "K" | "KB" => 10,
        "M" | "MB" => 20,
        "G" | "GB" => 30,
        _ => return None,
    };
    let number: f64 = digits.parse().ok()?;
    (number >= 0.0 && number < 1e9).then_some((number * f64::from(1u32 << shift)) as usize)
}
