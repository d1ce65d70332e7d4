//! Does a fault count? Pure.
//!
//! It counts if it hurts: the workload's own figure is at least a fifth worse than without the fault, both
//! in the same run before the injection and in the paired run, the healthy twin, over the same look. One
//! that does not hurt is a healthy trial, where silence is right; it is printed as refused. A workload
//! without a figure is admitted by the injector's own check alone, and the table says so. Rejected: a
//! twin of another seed (its numbers differ, so the pair would compare two workloads).
//!
//! Edit together: README.md (the rule as people read it).

use crate::trial::{Outcome, Trial};

/// The least loss that admits a fault.
pub const LEAST_LOSS: f64 = 0.2;

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
        Some(loss) => Some(format!("the workload lost only {:.0} %", loss * 100.0)),
        None => Some("the workload did nothing before the fault either".into()),
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
    fn a_workload_without_a_figure_is_not_refused_by_its_twin() {
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
