//! What group tests let one believe: who is the first bad member in line, and who is bad for certain.
//!
//! The bad members are found one after the other. The members stand in a line, each with a chance of being bad; the
//! belief is a probability for each of them to be the *first* bad one, and for there being none. A test of everybody up
//! to some place cuts that belief in two, whatever comes after: so it is exact, costs one pass over the line, and
//! bears wrong outcomes (Horstein 1963; Burnashev and Zigangirov 1974). Once one is found it leaves the line, the
//! cleared ones before it go to the end with the little doubt that remains, and the search goes on behind it. Without
//! noise this is the generalised binary splitting of Hwang (1972).

/// One outcome over member numbers.
#[derive(Debug)]
pub(super) struct Outcome {
    /// `[member]`: took part.
    pub took_part: Vec<bool>,
    /// Slower than it should be.
    pub degraded: bool,
}

/// The state of the search.
#[derive(Debug)]
pub(super) struct Belief {
    /// Members still in line, first first.
    pub line: Vec<usize>,
    /// `[place in line]`: the member there is the first bad one.
    pub first: Vec<f64>,
    /// Nobody in line is bad.
    pub none: f64,
    /// Found bad, with the odds for it, in the order found.
    pub found: Vec<(usize, f64)>,
    /// `[place in line]`: chance of being bad, whoever else is.
    chance: Vec<f64>,
    members: usize,
    noise: f64,
    doubt: f64,
    expected: f64,
    outcomes: Vec<Outcome>,
}

/// A cleared member is believed this bad at least: the outcomes that cleared it may all have been wrong.
const CLEARED: f64 = 1e-6;

impl Belief {
    /// Before any test. `noise` is the part of wrong outcomes, `doubt` what may remain when a member is held bad,
    /// `expected` how many bad ones to expect.
    pub fn new(members: usize, noise: f64, doubt: f64, expected: f64) -> Self {
        let mut belief = Self {
            line: (0..members).collect(),
            first: Vec::new(),
            none: 1.0,
            found: Vec::new(),
            chance: vec![(expected / members.max(1) as f64).min(0.5); members],
            members,
            noise,
            doubt,
            expected,
            outcomes: Vec::new(),
        };
        belief.expect();
        belief
    }

    /// Takes one more outcome into account.
    pub fn hear(&mut self, outcome: Outcome) {
        self.learn(&outcome);
        self.outcomes.push(outcome);
        while self.settle() {}
    }

    /// `[member]`: made a pair with this one in some test.
    pub fn partners(&self, member: usize) -> Vec<bool> {
        let mut met = vec![false; self.members];
        for outcome in self.outcomes.iter().filter(|outcome| outcome.took_part[member]) {
            let took_part = || outcome.took_part.iter().enumerate().filter(|(_, took)| **took);
            if took_part().count() == 2 {
                took_part().for_each(|(partner, _)| met[partner] = true);
            }
        }
        met
    }

    /// `[place in line]`: how likely the member is bad, first or not.
    pub fn bad(&self) -> Vec<f64> {
        let mut another_first = 0.0;
        let both = self.first.iter().zip(&self.chance);
        both.map(|(first, chance)| {
            let bad = first + another_first * chance;
            another_first += first;
            bad
        })
        .collect()
    }

    /// First-bad probabilities from the chances alone.
    fn expect(&mut self) {
        let mut clean = 1.0;
        self.first.clear();
        for chance in &self.chance {
            self.first.push(clean * chance);
            clean *= 1.0 - chance;
        }
        self.none = clean;
    }

    /// Bayes' rule for one outcome.
    fn learn(&mut self, outcome: &Outcome) {
        if self.confirm(outcome) {
            return;
        }
        let of_degraded = |bad: f64| bad * (1.0 - self.noise) + (1.0 - bad) * self.noise;
        let likelihood = |bad: f64| if outcome.degraded { of_degraded(bad) } else { 1.0 - of_degraded(bad) };
        // From the end of the line: `clean` is that of those behind who took part, none is bad.
        let (mut clean, mut sum) = (1.0, 0.0);
        for place in (0..self.line.len()).rev() {
            let took_part = outcome.took_part[self.line[place]];
            self.first[place] *= likelihood(if took_part { 1.0 } else { 1.0 - clean });
            sum += self.first[place];
            if took_part {
                clean *= 1.0 - self.chance[place];
            }
        }
        self.none *= likelihood(0.0);
        sum += self.none;
        if sum > 0.0 {
            self.first.iter_mut().for_each(|first| *first /= sum);
            self.none /= sum;
        } else {
            // Outcomes that contradict each other although none may be wrong: start again from the chances.
            self.expect();
        }
    }

    /// Whether this outcome is about somebody found already: then it tells of nobody else.
    ///
    /// With one of the found alone among others who are cleared it bears on that one; it may even put it back in line.
    fn confirm(&mut self, outcome: &Outcome) -> bool {
        let mut taking_part = (0..self.found.len()).filter(|at| outcome.took_part[self.found[*at].0]);
        let Some(only) = taking_part.next() else { return false };
        if taking_part.next().is_some() {
            return true;
        }
        let in_line = self.line.iter().zip(&self.chance).filter(|(member, _)| outcome.took_part[**member]);
        let clean: f64 = in_line.map(|(_, chance)| 1.0 - chance).product();
        let if_good = clean * self.noise + (1.0 - clean) * (1.0 - self.noise);
        let if_bad = 1.0 - self.noise;
        let odds = &mut self.found[only].1;
        *odds *= if outcome.degraded { if_bad / if_good } else { (1.0 - if_bad) / (1.0 - if_good) };
        *odds = odds.min(1e9);
        if *odds < 1.0 {
            let (member, odds) = self.found.remove(only);
            self.line.push(member);
            self.chance.push((odds / (1.0 + odds)).max(CLEARED));
            self.first.push(0.0);
            // The newcomer stands last, so it takes its part of "none".
            let newcomer = self.none * self.chance[self.chance.len() - 1];
            if let Some(last) = self.first.last_mut() {
                *last = newcomer;
            }
            self.none -= newcomer;
        }
        true
    }

    /// Takes the first bad one out of the line when it is certain enough who that is.
    fn settle(&mut self) -> bool {
        let place = (0..self.first.len()).max_by(|a, b| self.first[*a].total_cmp(&self.first[*b]));
        let Some(place) = place.filter(|place| self.first[*place] > 1.0 - self.doubt) else { return false };
        let sure = self.first[place];
        self.found.push((self.line[place], (sure / (1.0 - sure).max(1e-9)).min(1e9)));
        let (before, behind) = (self.line[..place].to_vec(), self.line[place + 1..].to_vec());
        let doubts: Vec<f64> = self.first[..place].iter().map(|first| first.clamp(CLEARED, 0.5)).collect();
        let cleared_behind = self.chance[place + 1..].to_vec();
        // How many more to expect: as densely as they were met so far, with the first guess counted as one finding.
        let walked = self.members as f64 / self.expected + (self.members - behind.len()) as f64;
        let rate = (1.0 + self.found.len() as f64) / walked;
        let fresh = cleared_behind.iter().map(|chance| if *chance > 1e-3 { rate.min(0.5) } else { *chance });
        self.chance = fresh.chain(doubts).collect();
        self.line = behind.iter().copied().chain(before).collect();
        self.expect();
        // What was seen without any of the found says something of those behind; of those before it is in the doubts.
        let mut is_behind = vec![false; self.members];
        behind.iter().for_each(|member| is_behind[*member] = true);
        for outcome in std::mem::take(&mut self.outcomes) {
            let found = self.found.iter().any(|(member, _)| outcome.took_part[*member]);
            if !found && outcome.took_part.iter().zip(&is_behind).any(|(took, behind)| *took && *behind) {
                self.learn(&outcome);
            }
            self.outcomes.push(outcome);
        }
        true
    }
}
