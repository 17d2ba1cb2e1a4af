//! What may go wrong, and how often, in one run of the simulator.

use crate::Dice;

/// Builds the enum and its table.
macro_rules! faults {
    ($($(#[$doc:meta])* $name:ident = $word:literal, $most:literal;)*) => {
        /// A kind of fault.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Fault { $($(#[$doc])* $name,)* }

        impl Fault {
            /// Every kind.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// For people.
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$name => $word,)* }
            }

            /// The most it may be, times in a thousand chances.
            const fn most(self) -> u32 {
                match self { $(Self::$name => $most,)* }
            }
        }
    };
}

faults! {
    /// A store call fails and has no effect.
    StoreRefuses = "store refuses", 400;
    /// A write landed and is reported as failed, or as taken.
    StoreLies = "store write landed, reported as failed", 250;
    /// The bus does not take an event.
    BusRefuses = "bus refuses", 300;
    /// The bus took an event and reports that it did not.
    BusLies = "bus took it, reported as failed", 250;
    /// A provider's call fails and has no effect.
    ProviderRefuses = "provider refuses", 400;
    /// A provider's call had its effect and is reported as failed.
    ProviderLies = "provider did it, reported as failed", 250;
    /// A provider's call is reported as failed and has its effect much later.
    LandsLate = "effect lands late", 200;
    /// A process dies before a call has its effect.
    CrashBefore = "crash before effect", 12;
    /// A process dies after a call had its effect, before it hears of it.
    CrashAfter = "crash after effect", 12;
    /// An event is delivered more than once.
    Duplicate = "event duplicated", 400;
    /// An event is delivered long after it was published.
    Delay = "event delayed", 300;
    /// An event is never delivered. Requests and cancels are exempt: nobody would say them again.
    Drop = "event dropped", 250;
    /// An acknowledgement does not arrive, and the event is delivered again.
    AckLost = "acknowledgement lost", 250;
    /// A process answers nothing for a while.
    Silent = "process silent", 1000;
    /// Conductors and provisioner answer nothing for hours, longer than any lease.
    Outage = "control plane out for hours", 1000;
    /// A process takes long over every call.
    Slow = "process slow", 1000;
    /// A process ends and a new one takes over, knowing nothing.
    Restart = "process restarted", 1000;
    /// A build is broken by the build service.
    BuildFlake = "build broken by its service", 500;
    /// A build fails by its own fault.
    BuildFails = "build fails", 250;
    /// A build takes longer than its limit.
    BuildHangs = "build hangs", 250;
    /// A cluster does not come up.
    StockOut = "cluster does not come up", 400;
    /// A cluster comes up late.
    ClusterLate = "cluster late", 400;
    /// A node dies.
    NodeFails = "node fails", 400;
    /// A cluster is taken away.
    Preempted = "cluster preempted", 400;
    /// A cluster does not end by itself when its lease ends.
    Outlives = "cluster outlives its lease", 1000;
    /// A deletion is answered with 200 and nothing is deleted.
    DeleteSwallowed = "delete answered, nothing deleted", 600;
    /// A node is slow as long as its cluster lives.
    SickNode = "node slow", 800;
    /// The benchmark fails by its own fault.
    JobFails = "job fails", 300;
    /// The benchmark hangs until its time limit.
    JobHangs = "job hangs", 300;
    /// A job is taken away for somebody else's.
    JobTaken = "job preempted", 300;
    /// The benchmark's log stops in the middle.
    LogTruncated = "log truncated", 400;
    /// A stage's ending is contradicted by another message.
    Contradiction = "ending contradicted", 400;
    /// Events that are none of ours.
    Poison = "poison event", 1000;
    /// Somebody cancels the run.
    Cancel = "cancel", 1000;
    /// Somebody cancels the run when a command to begin something is on its way, and the command takes its time.
    Overtaken = "cancel overtakes a command", 400;
    /// A process's clock is wrong by up to an hour.
    Skew = "clock skewed", 1000;
    /// A process's clock jumps by up to an hour.
    Jump = "clock jumps", 1000;
    /// A conductor of other settings takes over in the middle.
    Rollout = "conductor rolled out", 1000;
    /// Every event ever published comes again after the end.
    Replay = "everything delivered again", 1000;
}

/// How often each fault strikes.
#[derive(Clone, Debug)]
pub struct Faults {
    per_mille: Vec<u32>,
    struck: Vec<u64>,
}

impl Faults {
    /// Nothing goes wrong.
    pub fn none() -> Self {
        Self { per_mille: vec![0; Fault::ALL.len()], struck: vec![0; Fault::ALL.len()] }
    }

    /// One run in ten without faults, one in four with one kind of fault, the others with a mixture.
    pub fn choose(dice: &mut Dice) -> Self {
        let mut faults = Self::none();
        match dice.below(20) {
            0..2 => {}
            2..7 => {
                let fault = Fault::ALL[dice.index(Fault::ALL.len())];
                faults.set(fault, fault.most());
            }
            _ => {
                let share = [100, 250, 500][dice.index(3)];
                for fault in Fault::ALL {
                    if dice.per_mille(share) {
                        let most = fault.most();
                        // Mostly mild, sometimes as bad as it gets: where everything fails nothing else is found.
                        let most = if dice.once_in(4) { most } else { (most / 4).max(1) };
                        let sure = fault.most() == 1000;
                        faults.set(*fault, if sure { 1000 } else { 1 + dice.below(u64::from(most)) as u32 });
                    }
                }
            }
        }
        faults
    }

    /// Makes a fault strike this often.
    pub fn set(&mut self, fault: Fault, per_mille: u32) {
        self.per_mille[fault as usize] = per_mille;
    }

    /// How often it strikes.
    pub fn rate(&self, fault: Fault) -> u32 {
        self.per_mille[fault as usize]
    }

    /// Whether it strikes now.
    pub fn strike(&mut self, fault: Fault, dice: &mut Dice) -> bool {
        let strikes = self.rate(fault) > 0 && dice.per_mille(self.rate(fault));
        self.struck[fault as usize] += u64::from(strikes);
        strikes
    }

    /// How often each has struck.
    pub fn struck(&self) -> impl Iterator<Item = (Fault, u64)> + '_ {
        Fault::ALL.iter().map(|fault| (*fault, self.struck[*fault as usize]))
    }
}
