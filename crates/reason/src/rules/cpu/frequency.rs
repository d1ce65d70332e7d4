//! cpu.frequency: the CPUs may not run as quickly as they can, by a setting.
//!
//! The limit and what the hardware can do stand side by side in cpufreq; that the program computed is the other fact. What it
//! would gain is the part of its own running time that the missing hertz are, which is the most: memory does not get quicker.
//! That heat held the CPUs back is said as well; by how much, the kernel does not count. Must not: guess the frequency that
//! a CPU really had, or take a governor that chooses by load for a limit. Rejected: the current frequency, which differs from
//! one millisecond to the next.

use super::cpu_waits::{Bound, by_mask, gathered, running_on_path};
use crate::facts::CpuFrequency;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::Model;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::engine::Loss;
use crate::rules::proof::Proof;
use crate::rules::wording::{Culprit, Evidence, Remedy, Severity, Wording};
use crate::rules::{Finds, Match, Refutation, Rule, Step};
use crate::threshold::Threshold;
use std::collections::BTreeMap;

static OF_HARDWARE_MAX: Threshold = Threshold::new(
    0.8,
    "1",
    "of what the hardware can do, what the CPUs may; from there on it is a margin for boost",
    "chosen: work then takes a quarter longer",
);
static LOST_PER_SECOND_MIN: Threshold = Threshold::new(
    0.05,
    "s/s",
    "who loses less in a second does not feel it",
    "chosen: where a wait becomes a warning",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "cpu.frequency",
    title: "The CPUs are held below what they can do",
    theory: "A CPU runs between the least and the most that its policy allows (scaling_min_freq, scaling_max_freq); a \
             power profile, a battery or an administrator sets them. The governor `powersave` stays at the least, but for \
             intel_pstate and amd-pstate-epp, where it only prefers to. What a program computes takes longer in \
             proportion, and nothing of that is a wait.",
    needs: &[
        "the policy of the CPUs that the program may use allows four fifths or less of what the hardware can do",
        "the program computed: the missing part of its running time is a twentieth of the look or more",
    ],
    refuted_by: &[
        Refutation::new("the policy allows all", "a_cpu_that_may_run_as_it_can_is_not_held"),
        Refutation::new(
            "the governor chooses by load, whatever its name is",
            "a_powersave_that_chooses_by_load_is_no_limit",
        ),
        Refutation::new("the program hardly computes", "who_computes_little_loses_little_by_it"),
    ],
    remedies: &[
        "allow the CPUs what they can: another power profile, scaling_max_freq",
        "the governor schedutil or performance",
    ],
    stories: &["S0.2"],
    thresholds: &[&OF_HARDWARE_MAX, &LOST_PER_SECOND_MIN],
    finds: Finds::Look(find),
};

/// Drivers whose `powersave` chooses by load.
const BY_LOAD: [&str; 2] = ["intel_pstate", "amd-pstate-epp"];

/// What holds a CPU, and at how many hertz.
fn limit(one: &CpuFrequency) -> (&'static str, u64) {
    match one.governor == "powersave" && !BY_LOAD.contains(&one.driver.as_str()) {
        true => ("scaling_governor", one.least_hz),
        false => ("scaling_max_freq", one.most_hz),
    }
}

/// The policies of the CPUs that a program may use, together.
struct Held<'m> {
    of: Bound<'m>,
    /// The one that is held most.
    most: &'m CpuFrequency,
    lost: f64,
}

impl<'m> Held<'m> {
    fn of(model: &'m Model, of: Bound<'m>) -> Option<Self> {
        let part = |one: &CpuFrequency| limit(one).1 as f64 / one.hardware_hz.max(1) as f64;
        let allowed = &of.identity.cpus_allowed;
        let its = || {
            let last = model.cpu.frequencies.values().filter_map(|series| series.last());
            last.filter(|one| allowed.is_empty() || allowed.contains(&one.cpu))
        };
        let most = its().min_by(|a, b| part(a).total_cmp(&part(b)))?;
        let part = its().map(part).sum::<f64>() / its().count() as f64;
        let lost = of.run * (1.0 - part).max(0.0);
        (part <= OF_HARDWARE_MAX.value).then_some(Self { of, most, lost })
    }
}

fn find<'m>(measures: &'m Measures<'m>, _: &'m [End]) -> Vec<Match<'m>> {
    let all = by_mask(measures).into_iter().filter_map(|one| Held::of(measures.model, one));
    let least = LOST_PER_SECOND_MIN.value * measures.wall_seconds();
    let mut by_setting: BTreeMap<(&str, u64), Vec<Held<'_>>> = BTreeMap::new();
    for held in all.filter(|held| held.lost >= least) {
        by_setting.entry(limit(held.most)).or_default().push(held);
    }
    by_setting.into_values().filter_map(|held| matched(measures, held)).collect()
}

/// All that one setting holds, with the one that loses most as the example.
fn matched<'m>(measures: &'m Measures<'m>, all: Vec<Held<'m>>) -> Option<Match<'m>> {
    let (losses, chief) = gathered(all, |held| (&held.of.process, held.lost))?;
    let process = chief.of.process.clone();
    let path_seconds = running_on_path(measures, process.pid, chief.lost);
    let step = Step {
        who: process.clone(),
        on: Object::Cpu,
        doing: None,
        seconds: chief.lost,
        when: None,
        because: None,
    };
    let (file, hertz) = limit(chief.most);
    let by = Culprit::setting(format!("{file} {}", gigahertz(hertz)), path(chief.most, file));
    Some(Match {
        object: Some(Object::Cpu),
        path_seconds,
        losses: Some(losses),
        chain: Some(vec![step]),
        // What is lost is the most that it can be, and somebody chose it.
        severity_max: Severity::Warning,
        ..Match::new(by, Proof::TwoWitnesses, move |loss| explain(measures, &chief, loss))
    })
}

fn path(one: &CpuFrequency, file: &str) -> String {
    format!("/sys/devices/system/cpu/cpu{}/cpufreq/{file}", one.cpu)
}

/// `1.20 GHz`.
fn gigahertz(hertz: u64) -> String {
    format!("{:.2} GHz", hertz as f64 / 1e9)
}

fn explain(measures: &Measures<'_>, held: &Held<'_>, loss: &Loss<'_>) -> Wording {
    let most = held.most;
    let (file, hertz) = limit(most);
    let (may, can) = (gigahertz(hertz), gigahertz(most.hardware_hz));
    let hot = heat(measures.model, most.cpu);
    let because = match file {
        "scaling_governor" => "governor powersave keeps it at the least that is allowed".into(),
        _ => format!("{file} allows no more, by governor {}", most.governor),
    };
    let mut text = format!(
        "CPU {} may run at {may} of the {can} that it can: {because}. At most {} of what it computed is that.",
        most.cpu,
        words::of_window(loss.seconds, loss.wall_seconds),
    );
    let mut evidence = vec![
        Evidence::new("what the CPU may run at", hertz as f64, "Hz", path(most, file)),
        Evidence::new(
            "what it can run at",
            most.hardware_hz as f64,
            "Hz",
            path(most, "cpuinfo_max_freq"),
        ),
        Evidence::new("its threads ran", held.of.run, "s", "sched_switch"),
    ];
    if let Some(times) = hot.filter(|times| *times > 0) {
        text.push_str(&format!(" Heat held it back {times} times meanwhile."));
        let source = "thermal_throttle/core_throttle_count";
        evidence.push(Evidence::new("held back by heat", times as f64, "1", source));
    }
    Wording {
        title: format!("{} computes on CPUs that are held at {may} of {can}", loss.victim),
        text,
        evidence,
        remedy: vec![remedy(most, file)],
    }
}

/// How often heat held a CPU back within the look.
fn heat(model: &Model, cpu: u32) -> Option<u64> {
    let series = model.cpu.frequencies.get(&cpu)?;
    Some(series.last()?.throttled?.saturating_sub(series.first()?.throttled?))
}

fn remedy(most: &CpuFrequency, file: &str) -> Remedy {
    let (text, value, was) = match file {
        "scaling_governor" => {
            ("let the governor choose by load", "schedutil".to_string(), most.governor.clone())
        }
        _ => (
            "allow the CPUs what they can; if the file still says less then, heat or the firmware holds them (bios_limit)",
            (most.hardware_hz / 1000).to_string(),
            (most.most_hz / 1000).to_string(),
        ),
    };
    // Other CPUs may be set otherwise: those alone are changed that are set so, and all are put back as they were. One action for all of
    // them could not say that.
    // What is there already was kept before an earlier change, and is what is to come back.
    let saved = format!("/run/holdup-{file}");
    let all = format!("/sys/devices/system/cpu/cpu*/cpufreq/{file}");
    let command = format!(
        "[ -e {saved} ] || grep -H . {all} > {saved}; for file in {all}; do [ \"$(cat $file)\" = {} ] && echo {value} > $file; done",
        words::shell(&was)
    );
    let undo =
        format!("while IFS=: read -r file was; do echo $was > $file; done < {saved}; rm {saved}");
    Remedy { text: text.into(), command, undo, ..Remedy::default() }
}

#[cfg(test)]
mod tests {
    use crate::answer::explain;
    use crate::answer::report::Finding;
    use crate::facts::*;
    use crate::measure::cpu_users::tests::time;
    use crate::rules::scenes::*;

    const GHZ: u64 = 1_000_000_000;

    fn found(of: CpuFrequency, run: f64) -> Vec<Finding> {
        found_of_each(of, &[run])
    }

    /// Of several encoders that computed for so long each.
    fn found_of_each(of: CpuFrequency, runs: &[f64]) -> Vec<Finding> {
        let mut facts = host();
        for (at_ns, throttled) in [(0, 4), (LOOK_NS, 9)] {
            let hardware_hz = 4 * GHZ;
            let one = CpuFrequency { hardware_hz, throttled: Some(throttled), ..of.clone() };
            facts.push(Fact { at_ns, body: Body::CpuFrequency(one) });
        }
        for (pid, run) in (10..).zip(runs) {
            facts.push(time(pid, "encoder", *run, 0.0));
            let thread = ThreadRef { tid: pid, pid, start_ns: 0, comm: "encoder".into() };
            facts.push(identity(Thread { thread, ..Thread::default() }));
        }
        let mut found = explain(facts).findings;
        found.retain(|finding| finding.code == "cpu.frequency");
        found
    }

    fn capped(most_hz: u64) -> CpuFrequency {
        CpuFrequency {
            most_hz,
            least_hz: GHZ,
            governor: "schedutil".into(),
            ..CpuFrequency::default()
        }
    }

    #[test]
    fn a_cap_is_named_with_what_it_costs_at_most() {
        let found = found(capped(GHZ), 4.0);
        assert_eq!(found.len(), 1);
        let says = "encoder computes on CPUs that are held at 1.00 GHz of 4.00 GHz";
        assert_eq!(found[0].title, says);
        assert!(found[0].text.contains("At most 3 s of 5 s"), "{}", found[0].text);
        assert!(found[0].text.contains("Heat held it back 5 times"), "{}", found[0].text);
        let way = &found[0].remedy[0];
        assert!(way.command.contains("= 1000000 ] && echo 4000000 > $file"), "{}", way.command);
        assert!(way.undo.contains("echo $was > $file"), "each as it was: {}", way.undo);
    }

    #[test]
    fn the_governor_that_stays_at_the_least_is_a_limit() {
        let of = CpuFrequency { governor: "powersave".into(), ..capped(4 * GHZ) };
        let found = found(CpuFrequency { driver: "acpi-cpufreq".into(), ..of }, 4.0);
        assert!(
            found[0].culprit.setting.as_deref().is_some_and(|it| it.ends_with("scaling_governor"))
        );
    }

    #[test]
    fn a_cpu_that_may_run_as_it_can_is_not_held() {
        assert_eq!(found(capped(4 * GHZ), 4.0), []);
    }

    #[test]
    fn a_powersave_that_chooses_by_load_is_no_limit() {
        let of = CpuFrequency { governor: "powersave".into(), ..capped(4 * GHZ) };
        assert_eq!(found(CpuFrequency { driver: "intel_pstate".into(), ..of }, 4.0), []);
    }

    #[test]
    fn who_computes_little_loses_little_by_it() {
        assert_eq!(found(capped(GHZ), 0.2), []);
    }

    #[test]
    fn many_that_each_lose_what_nobody_feels_are_no_loss_together() {
        assert_eq!(found_of_each(capped(GHZ), &[0.2; 5]), []);
        assert_eq!(found_of_each(capped(GHZ), &[0.2, 0.4, 0.4])[0].victims.len(), 2);
    }
}
