//! net.port_trend: connections from this host to one address become more and more, and there is no port for another within a day.
//!
//! Connections that stand and those that have ended and hold their port for a minute. Must not: take the minute in which a steady load
//! fills TIME-WAIT for a trend (the stretch is longer than that).

use crate::facts::Resource;
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::net::ways_out::command_in;
use crate::rules::trend::{
    LEFT_MAX, PRESSING, SEEN_LONG_MIN, SEEN_SHARE, STEADY_MIN, Trend, Words, trends,
};
use crate::rules::wording::{Culprit, Remedy};
use crate::rules::{Finds, Match, Refutation, Rule};

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "net.port_trend",
    title: "Connections to one address become more, and will have no port left within a day",
    theory: "A connection to one address and port takes a port of this host that no other connection there has (net.ipv4.ip_local_port_range, \
             28,232 by default), and holds it for a minute after its end. Once all are taken connect fails with EADDRNOTAVAIL. Connections \
             that are never closed, or a load that grows, come there steadily.",
    needs: &[
        "connections to the address in window after window: they grew in each third of a stretch of three minutes or more, at rates not far \
         apart",
        "at that rate the ports of the range are taken within a day, and the stretch is a quarter as long as the time that is left, or longer",
    ],
    refuted_by: &[Refutation::new(
        "it was as high before and came down by itself, or one third of the time grew much less than another",
        "a_sawtooth_is_no_trend",
    )],
    remedies: &[
        "use connections again (keep-alive, a pool), and close those that are not used",
        "more ports (ip_local_port_range)",
    ],
    stories: &["N2"],
    thresholds: &[&SEEN_LONG_MIN, &SEEN_SHARE, &LEFT_MAX, &STEADY_MIN, &PRESSING],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, _: &'m [End]) -> Vec<Match<'m>> {
    let all = trends(measures, &[Resource::Ports]);
    all.into_iter().filter_map(|trend| matched(measures, trend)).collect()
}

fn matched<'m>(measures: &'m Measures<'m>, trend: Trend<'m>) -> Option<Match<'m>> {
    let remote = &trend.usage.path;
    let address = remote.parse().ok()?;
    let ss = command_in(measures.model, trend.usage.netns, "ss");
    let remedy = vec![Remedy {
        text: "see whose they are; a program that uses its connections again (keep-alive, a pool) needs few".into(),
        command: format!("{ss} -tanp dst {}", words::shell(remote)),
        action: Some(Action::look(Question::State).through(ss.through.as_ref())),
        ..Remedy::default()
    }];
    let words = Words {
        ends: format!("connections to {remote} have no port left"),
        is_over: format!("connections to {remote} have no port left"),
        unit: "ports",
        source: "sock_diag, net.ipv4.ip_local_port_range",
        by: String::new(),
        remedy,
    };
    let by = Culprit::setting("ip_local_port_range", "net.ipv4.ip_local_port_range");
    Some(trend.found(by, Object::Address(address), words))
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::trend::tests::{found, of_sawtooth};

    fn usage() -> Usage {
        Usage { of: Resource::Ports, path: "10.0.0.7:80".into(), ..Usage::default() }
    }

    #[test]
    fn connections_that_become_more_are_said_after_minutes() {
        assert!(found(usage(), 18, Vec::new()).is_empty());
        let found = found(usage(), 20, Vec::new());
        assert_eq!((found.len(), &*found[0].code), (1, "net.port_trend"));
        assert!(found[0].title.starts_with("connections to 10.0.0.7:80 have no port left in 9 s"));
        assert_eq!(found[0].remedy[0].command, "ss -tanp dst 10.0.0.7:80");
    }

    #[test]
    fn a_sawtooth_is_no_trend() {
        assert!(of_sawtooth(usage(), Vec::new()).is_empty());
    }
}
