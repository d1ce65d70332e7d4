//! How much shorter a command would be without an end or a finding, in the words of the contract.
//!
//! The bound and who sets it come from graph/what_if.rs; here it is cut to what the end has, and said why it is so much. Of
//! anything but a command nothing is said: a window has no end that could come earlier. Must not: compute a path.
//!
//! Edit together: docs/json.md, the report crate's text/finding.rs.

use super::report::WithoutIt;
use crate::graph::end::{End, EndKey};
use crate::graph::what_if::{WhatIf, Without};
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::Claim;
use std::collections::BTreeSet;

/// What is within this part of the whole is all of it: the clocks of two threads differ by as much.
const ALL: f64 = 0.98;

/// What can be saved of a command.
pub struct Saved(Option<WhatIf>);

impl Saved {
    /// Of a look.
    pub fn of(measures: &Measures<'_>) -> Self {
        Self(WhatIf::of(&measures.graph))
    }

    /// Without an end, or the part of it that is meant.
    pub fn end(&self, measures: &Measures<'_>, end: &End) -> WithoutIt {
        let mut without = self.together(&[end.key()], end.seconds);
        let several = matches!(end.object, Object::Processes(_));
        if let (Some(what_if), Some(who), true) = (&self.0, &end.who, several)
            && let Some(alone) = what_if.without_one(&end.key(), measures.model.key(who))
        {
            let seconds_max = alone.seconds_max.min(end.seconds);
            without.who_seconds_max = Some(seconds_max);
            without.why = format!(
                "that is all of {}; {} alone at most {}: {}",
                who.comm,
                words::who(who),
                words::seconds(-seconds_max),
                why(&alone, end.seconds)
            );
        }
        without
    }

    fn together(&self, ends: &[EndKey], seconds: f64) -> WithoutIt {
        let Some(without) = self.0.as_ref().and_then(|what_if| what_if.without(ends)) else {
            return WithoutIt::default();
        };
        let seconds_max = without.seconds_max.min(seconds.max(0.0));
        let why = why(&without, seconds);
        WithoutIt { seconds_max: Some(seconds_max), who_seconds_max: None, why }
    }

    /// Without what a finding claims; nothing is said where it claims a part of an end, or none.
    pub fn by_claims(&self, measures: &Measures<'_>, claims: &[Claim]) -> WithoutIt {
        let at: BTreeSet<usize> = claims.iter().map(|claim| claim.end).collect();
        let whole = claims.iter().all(|claim| {
            let end = &measures.graph.ends[claim.end];
            claim.victims.as_ref().is_none_or(|own| end.victims.keys().all(|pid| own.contains(pid)))
        });
        let ends: Vec<&End> = at.into_iter().map(|at| &measures.graph.ends[at]).collect();
        match ends.as_slice() {
            _ if !whole => WithoutIt::default(),
            [] => WithoutIt::default(),
            [end] => self.end(measures, end),
            _ => {
                let keys: Vec<EndKey> = ends.iter().map(|end| end.key()).collect();
                self.together(&keys, ends.iter().map(|end| end.seconds).sum())
            }
        }
    }
}

fn why(without: &Without, seconds: f64) -> String {
    match &without.beside {
        _ if without.seconds_max >= ALL * seconds => "nothing else needs that time".into(),
        Some((who, took)) => {
            format!("{} needs {} of that time itself", words::who(who), words::seconds(*took))
        }
        None => "the rest of the command needs the time itself".into(),
    }
}
