//! Does a fault count? Pure.
//!
//! It counts if it hurts: the load's own figure is at least a fifth worse than without the fault, both
//! in the same run before the injection and in the paired run, the healthy twin, over the same look. One
//! that does not hurt is a healthy trial, where silence is right; it is printed as refused. A load
//! without a figure is admitted by the injector's own check alone, and the table says so. Rejected: a
//! twin of another seed (its numbers differ, so the pair would compare two loads).
//!
//! A trial whose host was held up by its own hypervisor proves nothing, right or wrong: it is not counted. The
//! lab reads that itself, beside holdup. Rejected: to leave out the finding cpu.steal alone (who holds a lock
//! is then slow too, and is named rightly).
//!
//! Edit together: README.md (the rule as people read it).

use crate::trial::{Outcome, Trial};

/// The least loss that admits a fault.
pub const LEAST_LOSS: f64 = 0.2;

/// What the hypervisor may take of all CPUs during a look, 0 to 1. A CPU that is busy half of the time loses
/// a tenth of its work by then, where cpu.steal begins.
pub const STOLEN_MAX: f64 = 0.05;

/// The outcome, if the host was not held up by its hypervisor while holdup was asked.
pub fn undisturbed(outcome: Outcome, stolen: f64) -> Outcome {
    let asked = matches!(
        outcome,
        Outcome::Faulted(_) | Outcome::Healthy(_) | Outcome::Refused { alarms: Some(_), .. }
    );
    if !asked || stolen <= STOLEN_MAX {
        return outcome;
    }
    Outcome::Disturbed(format!("the hypervisor took {:.0} % of all CPUs", stolen * 100.0))
}

/// Relative loss of a rate: 0.3 if three tenths less got done. Nothing done before is no rate to lose.
pub fn loss_of_rate(before: f64, under: f64) -> Option<f64> {
    (before > 0.0).then(|| 1.0 - under / before)
}

/// Relative loss of a wall time: 0.3 if it took three tenths longer.
pub fn loss_of_time(before: f64, under: f64) -> Option<f64> {
    (before > 0.0).then(|| under / before - 1.0)
}

/// The share of a loss that came back: 1 if the figure is as before, 0 if nothing changed.
pub fn recovered(before: f64, under: f64, after: f64) -> Option<f64> {
    let lost = before - under;
    (lost.abs() > 1e-9).then(|| (after - under) / lost)
}

/// Why a loss does not admit a fault; none if it does.
pub fn refuses(loss: Option<f64>) -> Option<String> {
    match loss {
        // A fifth is a fifth, whatever binary fractions make of it.
        Some(loss) if loss >= LEAST_LOSS - 1e-9 => None,
        Some(loss) => Some(format!("the load lost only {:.0} %", loss * 100.0)),
        None => Some("the load did nothing before the fault either".into()),
    }
}

/// Holds a faulted trial against its twin, and turns it into a refused one if the pair differs too little.
/// Says whether it did.
pub fn against_twin(trial: &mut Trial, twin: &Trial) -> bool {
    let (Some(under), Some(healthy)) = (trial.figure, twin.figure) else { return false };
    let loss = if trial.figure_is_time {
        loss_of_time(healthy, under)
    } else {
        loss_of_rate(healthy, under)
    };
    trial.twin_loss = loss;
    let counted = matches!(trial.outcome, Outcome::Faulted(_)) && trial.has_figure;
    match refuses(loss) {
        Some(why) if counted => {
            let why = format!("{why} against its healthy twin");
            trial.outcome = Outcome::Refused { why, alarms: Some(trial.alarms.clone()) };
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_seen_while_the_hypervisor_takes_the_cpus_proves_nothing() {
        let alarm = || Outcome::Healthy(vec!["cpu.steal".into()]);
        assert_eq!(undisturbed(alarm(), 0.01), alarm());
        assert!(matches!(undisturbed(alarm(), 0.4), Outcome::Disturbed(_)));
        let right = Judgement { top1: true, ..Judgement::default() };
        assert!(matches!(undisturbed(Outcome::Faulted(right), 0.4), Outcome::Disturbed(_)));
        let broken = || Outcome::Broken("no disk".into());
        assert_eq!(undisturbed(broken(), 0.4), broken());
    }
    use crate::judgement::Judgement;

    fn pair(under: f64, healthy: f64) -> (Trial, Trial) {
        let mut faulted = Trial::new("s", 1);
        faulted.outcome = Outcome::Faulted(Judgement::default());
        faulted.figure = Some(under);
        faulted.has_figure = true;
        faulted.alarms = vec!["disk.saturated".into()];
        let mut twin = Trial::new("s", 1);
        twin.figure = Some(healthy);
        (faulted, twin)
    }

    #[test]
    fn a_fifth_admits_and_less_does_not() {
        assert_eq!(refuses(loss_of_rate(100.0, 80.0)), None);
        assert!(refuses(loss_of_rate(100.0, 81.0)).unwrap().contains("19 %"));
        assert_eq!(refuses(loss_of_time(10.0, 12.0)), None);
        assert!(refuses(loss_of_time(10.0, 11.0)).is_some());
        assert!(refuses(loss_of_rate(0.0, 0.0)).is_some());
    }

    #[test]
    fn a_pair_that_differs_too_little_is_refused_and_keeps_its_alarms() {
        let (mut faulted, twin) = pair(90.0, 100.0);
        assert!(against_twin(&mut faulted, &twin));
        assert!(
            matches!(&faulted.outcome, Outcome::Refused { alarms: Some(a), .. } if a.len() == 1)
        );
        let (mut faulted, twin) = pair(50.0, 100.0);
        assert!(!against_twin(&mut faulted, &twin));
        assert!((faulted.twin_loss.unwrap() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_load_without_a_figure_is_not_refused_by_its_twin() {
        let (mut faulted, twin) = pair(100.0, 100.0);
        faulted.has_figure = false;
        assert!(!against_twin(&mut faulted, &twin));
    }

    #[test]
    fn recovery_is_a_share_of_the_loss() {
        assert!((recovered(100.0, 20.0, 60.0).unwrap() - 0.5).abs() < 1e-9);
        // Wall times: less is better, the share is the same.
        assert!((recovered(2.0, 10.0, 4.0).unwrap() - 0.75).abs() < 1e-9);
        assert_eq!(recovered(5.0, 5.0, 9.0), None);
    }
}
