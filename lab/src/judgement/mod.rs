//! Was the answer right? Pure: a truth, a report, a judgement.
//!
//! Here a truth of a scenario, of which strict means code and object and culprit of one finding; a case of the field is judged by
//! `ends.rs`, and when a name is the true one stands in `marks.rs`, for both. Rejected: edit distance or any other kindness (a
//! near miss sends the reader to the wrong disk).
//!
//! Edit together: README.md (the rules as people read them).

pub mod ends;
mod marks;

use self::marks::is_or_holds;
use crate::scenario::{LinkSpec, Named, Size, TruthSpec, Variables, fill, fill_all};
use anyhow::Result;
use holdup_reason::answer::{Culprit, Finding, ObjectName, Report, Severity};
use serde::{Deserialize, Serialize};

/// How an answer compares with the truth.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Judgement {
    /// Code, object and culprit of the first finding are right.
    pub top1: bool,
    /// The same for one of the first three.
    pub top3: bool,
    /// Relative error of the size in the right finding; absent if there is no such figure.
    pub quantity_error: Option<f64>,
    /// The scenario asks for a size.
    pub asks_quantity: bool,
    /// True links found, and asked for.
    pub chain: (usize, usize),
    /// Findings above note that the scenario forbids.
    pub forbidden: Vec<String>,
    /// What is wrong with the first finding, in words.
    pub wrong: Vec<String>,
}

/// A truth with its variables filled in.
#[derive(Debug, Clone)]
pub struct Truth {
    spec: TruthSpec,
    variables: Variables,
}

impl Truth {
    /// Binds a truth to the names as really made.
    pub fn new(spec: &TruthSpec, variables: &Variables) -> Self {
        Self { spec: spec.clone(), variables: variables.clone() }
    }

    /// The code by which the trial is averaged.
    pub fn code(&self) -> String {
        self.spec.code.clone()
    }

    /// The truth in one line.
    pub fn line(&self) -> Result<String> {
        let of = |n: &Named| -> Result<String> {
            let (names, pids) =
                (fill_all(n.name.all(), &self.variables)?, fill_all(n.pid.all(), &self.variables)?);
            Ok(format!("{} {} {}", n.kind.all().join("|"), names.join("|"), pids.join("|"))
                .trim_end()
                .into())
        };
        let code = &self.spec.code;
        Ok(format!("{code} on {} by {}", of(&self.spec.object)?, of(&self.spec.culprit)?))
    }

    /// The processes of which any is the culprit; empty if the truth names none.
    pub fn culprit_pids(&self) -> Result<Vec<String>> {
        fill_all(self.spec.culprit.pid.all(), &self.variables)
    }

    /// Judges a report.
    pub fn judge(&self, report: &Report) -> Result<Judgement> {
        let mut judgement = Judgement::default();
        let mut right = None;
        for (rank, finding) in report.findings.iter().take(3).enumerate() {
            let wrong = self.wrong_with(finding)?;
            if wrong.is_empty() {
                right = right.or(Some(finding));
                judgement.top1 |= rank == 0;
                judgement.top3 = true;
            } else if rank == 0 {
                judgement.wrong = wrong;
            }
        }
        if report.findings.is_empty() {
            judgement.wrong.push("nothing was said".into());
        }
        let same_code = report.findings.iter().find(|f| f.code == self.spec.code);
        if let (Some(size), Some(finding)) = (&self.spec.size, right.or(same_code)) {
            judgement.quantity_error = self.quantity_error(size, finding)?;
        }
        judgement.asks_quantity = self.spec.size.is_some();
        judgement.chain = self.chain(right.or(same_code))?;
        judgement.forbidden = alarms(report)
            .into_iter()
            .filter(|f| self.spec.forbidden.contains(&f.code))
            .map(|f| f.code.clone())
            .collect();
        Ok(judgement)
    }

    /// Whether a finding names it: code, object and culprit are right.
    pub fn is_named_by(&self, finding: &Finding) -> Result<bool> {
        Ok(self.wrong_with(finding)?.is_empty())
    }

    fn wrong_with(&self, finding: &Finding) -> Result<Vec<String>> {
        let mut wrong = Vec::new();
        if finding.code != self.spec.code {
            wrong.push(format!("code {}", finding.code));
        }
        if !self.object_is(&finding.object)? {
            wrong.push(format!(
                "object {} {} {}",
                finding.object.kind, finding.object.name, finding.object.id
            ));
        }
        if !self.culprit_is(&finding.culprit)? {
            wrong.push(format!("culprit {}", culprit_line(&finding.culprit)));
        }
        Ok(wrong)
    }

    fn object_is(&self, object: &ObjectName) -> Result<bool> {
        let named = &self.spec.object;
        let marks = fill_all(named.name.all(), &self.variables)?;
        Ok(kind_is(named, &object.kind)
            && (marks.is_empty()
                || marks.iter().any(|m| *m == object.id || is_or_holds(&object.name, m))))
    }

    fn culprit_is(&self, culprit: &Culprit) -> Result<bool> {
        let named = &self.spec.culprit;
        let marks = fill_all(named.name.all(), &self.variables)?;
        let pids = fill_all(named.pid.all(), &self.variables)?;
        let kind = serde_json::to_value(culprit.kind)?;
        let texts = [
            Some(&culprit.name),
            culprit.container.as_ref(),
            culprit.setting.as_ref(),
            culprit.address.as_ref(),
        ];
        let by_name = marks.iter().any(|m| texts.iter().flatten().any(|t| is_or_holds(t, m)));
        let by_pid = pids.iter().any(|p| {
            [culprit.pid, culprit.tid].iter().flatten().any(|have| have.to_string() == *p)
        });
        Ok(kind_is(named, kind.as_str().unwrap_or_default())
            && ((marks.is_empty() && pids.is_empty()) || by_name || by_pid))
    }

    fn quantity_error(&self, size: &Size, finding: &Finding) -> Result<Option<f64>> {
        let expect: f64 = fill(&size.expect, &self.variables)?.parse()?;
        let said = match size.figure.as_str() {
            "impact" => Some(finding.impact.wait_seconds_per_second),
            "share" => Some(finding.impact.share),
            _ => finding
                .evidence
                .iter()
                .find(|e| {
                    (size.unit.is_empty() || e.unit == size.unit)
                        && (size.fact.all().is_empty()
                            || size.fact.all().iter().any(|w| e.fact.contains(w.as_str())))
                })
                .map(|e| e.value),
        };
        Ok(said.map(|said| (said - expect).abs() / expect.abs().max(1e-9)))
    }

    fn chain(&self, finding: Option<&Finding>) -> Result<(usize, usize)> {
        let mut found = 0;
        for link in &self.spec.chain {
            found += usize::from(match finding {
                Some(finding) => self.has_link(finding, link)?,
                None => false,
            });
        }
        Ok((found, self.spec.chain.len()))
    }

    fn has_link(&self, finding: &Finding, link: &LinkSpec) -> Result<bool> {
        let who = fill(&link.who, &self.variables)?;
        Ok(finding.chain.iter().any(|have| {
            let pid = have.who.pid.map(|p| p.to_string());
            let by = who.is_empty() || have.who.name == who || pid.as_deref() == Some(who.as_str());
            let on = link.on.all();
            by && (on.is_empty() || on.contains(&have.waits_on.kind))
        }))
    }
}

fn kind_is(named: &Named, kind: &str) -> bool {
    named.kind.all().is_empty() || named.kind.all().iter().any(|k| k == kind)
}

/// Findings above note.
pub fn alarms(report: &Report) -> Vec<&Finding> {
    report.findings.iter().filter(|f| f.severity > Severity::Note).collect()
}

/// A culprit in one line.
pub fn culprit_line(culprit: &Culprit) -> String {
    let kind = serde_json::to_value(culprit.kind).unwrap_or_default();
    let mut line = format!("{} {}", kind.as_str().unwrap_or_default(), culprit.name);
    if let Some(pid) = culprit.pid {
        line += &format!("[{pid}]");
    }
    for extra in [&culprit.container, &culprit.setting, &culprit.address].into_iter().flatten() {
        line += &format!(" {extra}");
    }
    line.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// A finding in one line.
pub fn finding_line(finding: &Finding) -> String {
    let text = format!(
        "{} on {} {} by {} ({:.2} s/s)",
        finding.code,
        finding.object.kind,
        finding.object.name,
        culprit_line(&finding.culprit),
        finding.impact.wait_seconds_per_second
    );
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::Words;
    use holdup_reason::answer::{Evidence, Impact, Link, Who, WithoutIt};

    fn finding(code: &str, disk: &str, culprit: Culprit) -> Finding {
        Finding {
            code: code.into(),
            key: String::new(),
            title: String::new(),
            text: String::new(),
            severity: Severity::Warning,
            confidence: 0.9,
            object: ObjectName::new("disk", disk).with_id("7:3"),
            culprit,
            victims: vec![],
            impact: Impact { wait_seconds_per_second: 0.8, share: 0.8, moment: None },
            without_it: WithoutIt::default(),
            chain: vec![Link {
                who: Who {
                    kind: "process".into(),
                    name: "app".into(),
                    pid: Some(9),
                    ..Who::default()
                },
                waits_on: ObjectName::new("disk", disk),
                seconds: 1.0,
                lock_kind: None,
                stack: vec![],
                because: None,
            }],
            evidence: vec![Evidence::new("limit of writes", 55.0, "1/s", "blkio")],
            kernel_log: vec![],
            remedy: vec![],
            stories: vec![],
        }
    }

    fn report(findings: Vec<Finding>) -> Report {
        let value = serde_json::json!({
            "schema": 1, "tool": {"name": "holdup", "version": "0"}, "target": {"kind": "host", "name": "h"},
            "window": {"begin_unix_ns": 0, "seconds": 5.0},
            "accounting": {"wall_seconds": 0.0, "parts": [], "residual_seconds": 0.0},
            "findings": [], "caveats": [],
            "cost": {"cpu_seconds": 0.0, "bpf_seconds": null, "rss_bytes": 0, "events": 0, "events_lost": 0}});
        let mut report: Report = serde_json::from_value(value).unwrap();
        report.findings = findings;
        report
    }

    fn truth() -> Truth {
        let spec = TruthSpec {
            code: "disk.own_throttle".into(),
            object: Named {
                kind: Words::One("disk".into()),
                name: Words::One("{disk}".into()),
                pid: Words::None,
            },
            culprit: Named {
                kind: Words::One("setting".into()),
                name: Words::One("{group}".into()),
                pid: Words::None,
            },
            size: Some(Size {
                figure: "evidence".into(),
                fact: Words::One("limit".into()),
                unit: "1/s".into(),
                expect: "{iops}".into(),
                tolerance: 0.1,
            }),
            chain: vec![
                LinkSpec { who: "9".into(), on: Words::One("disk".into()) },
                LinkSpec { who: "other".into(), on: Words::None },
            ],
            forbidden: vec!["disk.saturated".into()],
        };
        let pairs = [("disk", "loop3"), ("group", "grp7"), ("iops", "50")];
        Truth::new(&spec, &pairs.map(|(k, v)| (k.into(), v.into())).into())
    }

    fn limit() -> Culprit {
        Culprit::setting(
            "write operations",
            "/sys/fs/cgroup/blkio/grp7/blkio.throttle.write_iops_device",
        )
    }

    #[test]
    fn right_in_code_object_and_culprit_is_top_one() {
        let judgement =
            truth().judge(&report(vec![finding("disk.own_throttle", "loop3", limit())])).unwrap();
        assert!(judgement.top1 && judgement.top3 && judgement.wrong.is_empty());
        assert!((judgement.quantity_error.unwrap() - 0.1).abs() < 1e-9);
        assert_eq!(judgement.chain, (1, 2));
    }

    #[test]
    fn another_disk_of_a_like_name_is_wrong() {
        let mut wrong = finding("disk.own_throttle", "loop30", limit());
        wrong.object.id = "7:30".into();
        let judgement = truth().judge(&report(vec![wrong])).unwrap();
        assert!(!judgement.top1 && !judgement.top3);
    }

    #[test]
    fn second_place_counts_for_top_three_only_and_forbidden_is_seen() {
        let first = finding("disk.saturated", "loop3", Culprit::device("loop3"));
        let second = finding("disk.own_throttle", "loop3", limit());
        let judgement = truth().judge(&report(vec![first, second])).unwrap();
        assert!(!judgement.top1 && judgement.top3);
        assert_eq!(judgement.forbidden, vec!["disk.saturated"]);
    }

    #[test]
    fn silence_is_wrong() {
        let judgement = truth().judge(&report(vec![])).unwrap();
        assert!(!judgement.top1 && !judgement.top3 && !judgement.wrong.is_empty());
    }
}
