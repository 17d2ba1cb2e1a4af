//! Faults and their rates in one simulation.

use crate::SeededRandom;

/// Builds the enum and its table.
macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $word:literal, $most:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault { $($(#[$doc])* $name,)* }

        impl Fault {
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// Name for display.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// Maximum rate, per thousand.
            const fn most(self) -> u32 {
                match self { $(Self::$name => $most,)* }
            }
        }
    };
}

faults! {
    /// A store call fails and has no effect.
    StoreRefuses = "store refuses", 400;
    /// A write succeeded and is reported as failed, or as a conflict with an existing object.
    StoreLies = "store write took effect, reported as failed", 250;
    /// The bus rejects an event.
    BusRefuses = "bus refuses", 300;
    /// The bus accepted an event and reports a failure.
    BusLies = "publish took effect, reported as failed", 250;
    /// A call to a provider fails and has no effect.
    ProviderRefuses = "provider refuses", 400;
    /// A provider's call succeeded and is reported as failed.
    ProviderLies = "provider's call took effect, reported as failed", 250;
    /// A provider's call is reported as failed and has its effect after a delay.
    LandsLate = "effect occurs late", 200;
    /// A process is killed before a call has its effect.
    CrashBefore = "crash before effect", 12;
    /// A process is killed after the effect of a call, before it receives the result.
    CrashAfter = "crash after effect", 12;
    /// An event is delivered more than once.
    Duplicate = "event duplicated", 400;
    Delay = "event delayed", 300;
    /// An event is never delivered. Requests and cancellations are exempt, because they would not be
    /// repeated.
    Drop = "event dropped", 250;
    /// An acknowledgement is lost, and the event is redelivered.
    AckLost = "acknowledgement lost", 250;
    /// A process does not respond for 10 s to 15 min.
    Silent = "process silent", 1000;
    /// Conductors and provisioner do not respond for hours, longer than any lease.
    Outage = "control plane unavailable for 2 h to 4 h", 1000;
    Slow = "process slow", 1000;
    /// A process ends and is replaced by one without its state.
    Restart = "process restarted", 1000;
    /// A build fails because of the build service.
    BuildFlake = "build broken by its service", 500;
    /// A build fails because of its own steps.
    BuildFails = "build fails", 250;
    /// A build exceeds its timeout.
    BuildHangs = "build hangs", 250;
    StockOut = "cluster does not become ready", 400;
    /// A cluster becomes ready after an additional delay.
    ClusterLate = "cluster late", 400;
    NodeFails = "node fails", 400;
    Preempted = "cluster preempted", 400;
    /// A cluster does not end when its lease ends.
    Outlives = "cluster outlives its lease", 1000;
    /// A deletion returns 200 and has no effect.
    DeleteSwallowed = "delete acknowledged, not executed", 600;
    /// A node is slow while its cluster exists.
    SlowNode = "node slow", 800;
    /// The benchmark itself fails.
    JobFails = "job fails", 300;
    /// The benchmark hangs until its time limit.
    JobHangs = "job hangs", 300;
    /// A job is preempted by another.
    JobTaken = "job preempted", 300;
    /// A job of a run that yields to others is preempted. Only on the existing cluster.
    JobYields = "job yields", 300;
    /// The benchmark's log stops in the middle.
    LogTruncated = "log truncated", 400;
    /// The end of a stage is contradicted by another message.
    Contradiction = "ending contradicted", 400;
    /// Invalid events.
    Poison = "poison event", 1000;
    Cancel = "cancel", 1000;
    /// The run is cancelled while a start command is delayed in delivery.
    Overtaken = "cancel overtakes a command", 400;
    /// A process's clock is wrong by up to an hour.
    Skew = "clock skewed", 1000;
    /// A process's clock jumps by up to an hour.
    Jump = "clock jumps", 1000;
    /// A conductor with other settings replaces a running conductor during the run.
    Rollout = "conductor rolled out", 1000;
    /// Every published event is redelivered after the end.
    Replay = "all events redelivered", 1000;
}

#[derive(Clone, Debug)]
pub struct Faults {
    per_mille: Vec<u32>,
    occurrences: Vec<u64>,
}

impl Faults {
    pub fn none() -> Self {
        Self { per_mille: vec![0; Fault::ALL.len()], occurrences: vec![0; Fault::ALL.len()] }
    }

    /// One simulation in ten has no faults, one in four a single kind of fault, and all others a mixture.
    pub fn choose(random: &mut SeededRandom) -> Self {
        let mut faults = Self::none();
        match random.below(20) {
            0..2 => {}
            2..7 => {
                let fault = Fault::ALL[random.index(Fault::ALL.len())];
                faults.set(fault, fault.most());
            }
            _ => {
                let share = [100, 250, 500][random.index(3)];
                for fault in Fault::ALL {
                    if random.per_mille(share) {
                        let most = fault.most();
                        // Three of four rates are low: if all calls fail, no other violation is found.
                        let most = if random.once_in(4) { most } else { (most / 4).max(1) };
                        let sure = fault.most() == 1000;
                        faults
                            .set(*fault, if sure { 1000 } else { 1 + random.below(u64::from(most)) as u32 });
                    }
                }
            }
        }
        faults
    }

    pub fn set(&mut self, fault: Fault, per_mille: u32) {
        self.per_mille[fault as usize] = per_mille;
    }

    pub fn rate(&self, fault: Fault) -> u32 {
        self.per_mille[fault as usize]
    }

    /// Decides whether the fault occurs now, and counts it if so.
    pub fn occurs(&mut self, fault: Fault, random: &mut SeededRandom) -> bool {
        let occurs = self.rate(fault) > 0 && random.per_mille(self.rate(fault));
        self.occurrences[fault as usize] += u64::from(occurs);
        occurs
    }

    /// Number of occurrences of each fault.
    pub fn occurrences(&self) -> impl Iterator<Item = (Fault, u64)> + '_ {
        Fault::ALL.iter().map(|fault| (*fault, self.occurrences[*fault as usize]))
    }
}
