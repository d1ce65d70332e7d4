//! Keys and mouse: which of them asks for what, once, for whoever reads them and for the screen that lists them.
//!
//! As in less and below: letters and arrows both, `q` ends, `?` shows all. Must not: change anything.

use super::rows::View;
use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    /// End; of the list of keys, go back.
    Quit,
    /// End, whatever is shown.
    End,
    /// Go back; where nothing lies over the panes, end.
    Back,
    /// Show the keys.
    Help,
    /// Show the chosen one in full.
    Enter,
    /// Show a view.
    View(View),
    /// Show the next view.
    NextView,
    /// Show the view before.
    PreviousView,
    /// Choose a row so many below.
    Row(isize),
    /// Choose a row by its place.
    Choose(usize),
    /// Move the detail by so many lines.
    Scroll(isize),
    /// Move the detail by so many pages.
    Page(isize),
    /// To the first row.
    First,
    /// To the last row.
    Last,
    /// To a window so many later.
    Window(isize),
    /// To a window by its place.
    GoTo(usize),
    /// To the next window in which something was found, or the one before.
    Found(isize),
    /// Stay at this window, or follow again.
    Pause,
    /// Take the mouse, or leave it to the terminal.
    Mouse,
    /// Draw all of it anew.
    Redraw,
    /// Stop, as ctrl-Z does.
    Suspend,
}

/// All keys, for the screen that lists them.
pub(super) const HELP: [(&str, &str); 14] = [
    ("j k, down up", "choose another of the list"),
    ("g G", "the first, the last of the list"),
    ("space, PgDn PgUp", "read on in the right pane"),
    ("Enter", "the chosen one on the whole screen; again: back"),
    ("left right, h l", "the window before, the window after"),
    ("N n", "the earlier, the later window in which something was found"),
    ("Home End", "the first window, the last"),
    ("p", "stay at this window while the look goes on; again: follow"),
    ("1 2 3, Tab", "answers, blockers, groups"),
    ("mouse", "click chooses, the wheel moves"),
    ("m", "leave the mouse to the terminal, to copy a command"),
    ("ctrl-L", "draw anew"),
    ("? ", "these keys"),
    ("q, Esc, ctrl-C", "back, or end"),
];

/// What a key asks for.
pub(super) fn action(key: KeyEvent) -> Option<Action> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    if key.modifiers.contains(KeyModifiers::CONTROL) {
        return Some(match key.code {
            KeyCode::Char('c' | 'C') => Action::End,
            KeyCode::Char('l' | 'L') => Action::Redraw,
            KeyCode::Char('z' | 'Z') => Action::Suspend,
            KeyCode::Char('n') => Action::Row(1),
            KeyCode::Char('p') => Action::Row(-1),
            KeyCode::Char('f' | 'd') => Action::Page(1),
            KeyCode::Char('b' | 'u') => Action::Page(-1),
            _ => return None,
        });
    }
    Some(match key.code {
        KeyCode::Char('q' | 'Q') => Action::Quit,
        KeyCode::Esc => Action::Back,
        KeyCode::Char('?') | KeyCode::F(1) => Action::Help,
        KeyCode::Enter => Action::Enter,
        KeyCode::Tab => Action::NextView,
        KeyCode::BackTab => Action::PreviousView,
        KeyCode::Char('1') => Action::View(View::Answers),
        KeyCode::Char('2') => Action::View(View::Blockers),
        KeyCode::Char('3') => Action::View(View::Groups),
        KeyCode::Char('j') | KeyCode::Down => Action::Row(1),
        KeyCode::Char('k') | KeyCode::Up => Action::Row(-1),
        KeyCode::Char('g') => Action::First,
        KeyCode::Char('G') => Action::Last,
        KeyCode::Char(' ') | KeyCode::PageDown => Action::Page(1),
        KeyCode::Char('b') | KeyCode::PageUp => Action::Page(-1),
        KeyCode::Char('h') | KeyCode::Left => Action::Window(-1),
        KeyCode::Char('l') | KeyCode::Right => Action::Window(1),
        KeyCode::Char('n') => Action::Found(1),
        KeyCode::Char('N') => Action::Found(-1),
        KeyCode::Home => Action::GoTo(0),
        KeyCode::End => Action::GoTo(usize::MAX),
        KeyCode::Char('p') => Action::Pause,
        KeyCode::Char('m') => Action::Mouse,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_and_arrows_are_the_same() {
        let of = |code| action(KeyEvent::new(code, KeyModifiers::NONE));
        for (letter, other) in [
            ('j', KeyCode::Down),
            ('k', KeyCode::Up),
            ('h', KeyCode::Left),
            ('l', KeyCode::Right),
            (' ', KeyCode::PageDown),
        ] {
            assert!(of(other).is_some());
            assert_eq!(of(KeyCode::Char(letter)), of(other), "{letter}");
        }
        assert_eq!(of(KeyCode::Char('x')), None);
        let interrupt = KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL);
        assert_eq!(action(interrupt), Some(Action::End));
    }
}
