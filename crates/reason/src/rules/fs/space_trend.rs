//! fs.space_trend: a file system fills, and at this rate it is full within a day.
//!
//! Of space and of inodes alike. Who fills the space is who has a file open there whose place of writing has moved most since the window
//! before. Must not: name a writer that was not seen to write there. Rejected: who wrote most to the disk (a database that writes in place
//! fills nothing, and may be on another file system of it).

use crate::facts::{Resource, ThreadRef};
use crate::graph::end::End;
use crate::measure::Measures;
use crate::model::object::Object;
use crate::model::words;
use crate::rules::action::{Action, Question};
use crate::rules::trend::{
    LEFT_MAX, PRESSING, SEEN_MIN, SEEN_SHARE, STEADY_MIN, Trend, Words, trends,
};
use crate::rules::wording::{Culprit, Remedy};
use crate::rules::{Finds, Match, Refutation, Rule, culprit};
use crate::threshold::Threshold;

/// Part of the growth.
static WROTE_MIN: Threshold = Threshold::new(
    0.5,
    "1",
    "bytes that one process wrote there to the growth of the window: less does not make it who fills it",
    "chosen: more than all others together",
);

/// The rule.
pub(crate) static RULE: Rule = Rule {
    code: "fs.space_trend",
    title: "A file system fills, and will be full within a day",
    theory: "What is written and not removed takes space and inodes until there are none; then each write and each new file fails \
             (ENOSPC), and databases, logs and whoever needs a temporary file stop at once. The file system's own figures, window after \
             window, say how quickly. Space that is kept for root is not counted as room.",
    needs: &[
        "statfs of the file system in window after window: it grew in each third of a stretch, at rates not far apart",
        "at that rate it is full within a day, and the stretch is a quarter as long as the time that is left, or longer",
    ],
    refuted_by: &[Refutation::new(
        "it was as high before and came down by itself, or one third of the time grew much less than another",
        "a_sawtooth_is_no_trend",
    )],
    remedies: &[
        "see what grows there, and end, rotate or remove it",
        "make the file system larger",
    ],
    stories: &["N2"],
    thresholds: &[&SEEN_MIN, &SEEN_SHARE, &LEFT_MAX, &STEADY_MIN, &WROTE_MIN, &PRESSING],
    finds: Finds::Look(find),
};

fn find<'m>(measures: &'m Measures<'m>, _: &'m [End]) -> Vec<Match<'m>> {
    let all = trends(measures, &[Resource::Space, Resource::Inodes]);
    all.into_iter().map(|trend| matched(measures, trend)).collect()
}

fn matched<'m>(measures: &'m Measures<'m>, trend: Trend<'m>) -> Match<'m> {
    let path = &trend.usage.path;
    let is_space = trend.usage.of == Resource::Space;
    let (ends, is_over, unit) = match is_space {
        true => (format!("{path} is full"), format!("{path} is full"), ""),
        false => {
            let none = format!("{path} has no inode left");
            (none.clone(), none, "inodes")
        }
    };
    let by = filler(measures, &trend);
    let shown = words::shell(path);
    let command = match is_space {
        true => format!("du -xh --max-depth=2 {shown} | sort -h | tail"),
        false => format!("du -x --inodes --max-depth=2 {shown} | sort -n | tail"),
    };
    let mut remedy = Vec::new();
    if let Some(Filler { who, .. }) = &by {
        let files = format!("ls -l /proc/{}/fd", who.pid);
        remedy.push(Remedy::to("see which files it has open there").ask(
            Question::State,
            who,
            files,
        ));
        let stops =
            format!("pause {}: it writes nothing more until it is continued", words::who(who));
        remedy.push(Remedy::to(stops).pause(who));
    }
    remedy.push(Remedy {
        text: "see what is large there, and remove, rotate or move what is not wanted".into(),
        command,
        action: Some(Action::look(Question::State)),
        ..Remedy::default()
    });
    let culprit = by.as_ref().map_or_else(Culprit::default, |it| culprit(measures.model, &it.who));
    let by = by.map_or_else(|| "Who fills it was not seen.".into(), |it| it.said);
    let object = Object::FileSystem(Some(trend.usage.dev));
    trend.found(culprit, object, Words { ends, is_over, unit, source: "statfs", by, remedy })
}

/// Who fills it, and how that is known.
struct Filler {
    who: ThreadRef,
    said: String,
}

fn filler(measures: &Measures<'_>, trend: &Trend<'_>) -> Option<Filler> {
    let usage = trend.usage;
    // Bytes that were written say nothing of who makes files.
    if usage.of != Resource::Space {
        return None;
    }
    let enough = WROTE_MIN.value * trend.end.per_second * measures.wall_seconds();
    let most = (0..usage.moved.len()).max_by_key(|at| usage.moved[*at])?;
    let moved = usage.moved[most];
    if moved == 0 || (moved as f64) < enough {
        return None;
    }
    let (who, path) = (usage.writers.get(most)?, usage.files.get(most)?);
    // Whoever inherits a descriptor shares its place with whom it has it from, and of a file that is open twice each place is compared with
    // either's: which of them wrote is not seen.
    let same =
        usage.files.iter().zip(&usage.moved).filter(|(file, moved)| *file == path && **moved > 0);
    let twice = usage
        .files
        .iter()
        .zip(&usage.writers)
        .filter(|(file, by)| *file == path && by.pid == who.pid);
    if same.count() > 1 || twice.count() > 1 {
        return None;
    }
    let said = format!(
        "{} wrote {} to {path} since the window before.",
        words::who(who),
        words::bytes(moved as f64),
    );
    Some(Filler { who: who.clone(), said })
}

#[cfg(test)]
mod tests {
    use crate::facts::*;
    use crate::rules::scenes::*;
    use crate::rules::trend::tests::{found, of_sawtooth};
    use crate::rules::wording::Severity;

    const DEV: DeviceNumber = DeviceNumber { major: 0, minor: 40 };

    fn usage(of: Resource, moved: u64) -> Usage {
        Usage {
            of,
            dev: DEV,
            path: "/scratch".into(),
            writers: vec![thread(7, "idler"), thread(9, "filler")],
            files: vec!["/scratch/idler".into(), "/scratch/filler".into()],
            positions: vec![1, 1],
            moved: vec![0, moved],
            ..Usage::default()
        }
    }

    fn mounted() -> Vec<Fact> {
        let mount =
            Mount { dev: DEV, path: "/scratch".into(), root: "/".into(), ..Mount::default() };
        vec![fact(Body::Mount(mount))]
    }

    #[test]
    fn who_fills_it_is_who_writes_there() {
        let found = found(usage(Resource::Space, 9 << 20), 9, mounted());
        assert_eq!((found.len(), &*found[0].code), (1, "fs.space_trend"));
        let title = "/scratch is full in 1 min 48 s to 2 min 12 s: 117 MiB of 195 MiB are left";
        assert_eq!(found[0].title, title);
        assert_eq!((&*found[0].culprit.name, found[0].severity), ("filler", Severity::Critical));
        assert_eq!(found[0].key, "fs.space_trend on file system /scratch by filler");
        assert!(
            found[0].text.contains("filler 9 wrote 9 MiB to /scratch/filler"),
            "{}",
            found[0].text
        );
    }

    #[test]
    fn who_was_not_seen_to_write_is_not_named() {
        for moved in [0, 1 << 10] {
            let found = found(usage(Resource::Space, moved), 9, mounted());
            assert_eq!(found[0].key, "fs.space_trend on file system /scratch", "{moved}");
            assert!(found[0].text.ends_with("Who fills it was not seen."));
        }
    }

    #[test]
    fn a_place_that_several_share_names_none_of_them() {
        let mut usage = usage(Resource::Space, 9 << 20);
        usage.files[0] = "/scratch/filler".into();
        usage.moved[0] = 9 << 20;
        let found = found(usage, 9, mounted());
        assert_eq!(found[0].key, "fs.space_trend on file system /scratch");
    }

    #[test]
    fn inodes_end_as_space_does() {
        let found = found(usage(Resource::Inodes, 9 << 20), 9, mounted());
        assert_eq!(found[0].key, "fs.space_trend on file system /scratch", "bytes make no files");
        assert!(found[0].title.starts_with("/scratch has no inode left in"), "{}", found[0].title);
        assert!(
            found[0].title.ends_with("120,000 of 200,000 inodes are left"),
            "{}",
            found[0].title
        );
    }

    #[test]
    fn what_became_full_is_said_to_be_full() {
        let found = found(usage(Resource::Space, 0), 21, mounted());
        assert_eq!(found[0].title, "/scratch is full: 195 MiB of 195 MiB are used");
    }

    #[test]
    fn a_sawtooth_is_no_trend() {
        assert!(of_sawtooth(usage(Resource::Space, 0), mounted()).is_empty());
    }
}
